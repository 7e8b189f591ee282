"""The recovery classifier is total: every combination of its evidence gives one decision."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from itertools import combinations, product
from random import Random
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recovery_samples import (
    HOST,
    SEQUENCE,
    SUBMISSION,
    TURN,
    A,
    B,
    at_stage,
    child_of,
    decided,
    key_of,
    reserved,
    resolved,
    snapshot,
)

from yielded_core.errors import StorageCorrupt
from yielded_core.ledger import recovery_decisions as decisions
from yielded_core.ledger.recovery import RECOVERY, blocked, classify, deciding_row
from yielded_core.ledger.recovery_decisions import RecoveryDecision
from yielded_core.ledger.recovery_evidence import CanonicalFacts, DeclaredBatch, Delegation, Stage
from yielded_core.ports.work import (
    AwaitedChild,
    Decision,
    Owner,
    RecoverySnapshot,
    ReservationStatus,
    Resolution,
    State,
    Suspension,
)
from yielded_core.records.identifiers import AttemptId, SubmissionId, ThreadId, ToolCallId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ledger.recovery import RecoveryRow
    from yielded_core.ledger.recovery_evidence import ChildAdmission
    from yielded_core.ports.work import Reservation
T = TypeVar("T")

CALLS: Final = (A, B)
CHILDREN: Final = (child_of(A), child_of(B))
OTHER: Final = AwaitedChild(ThreadId("thread-9"), SubmissionId("submission-9"))
"""A child that the log names where the reservation names another."""
OWNER: Final = Owner(SUBMISSION, AttemptId("attempt-1"), 9_000, live=True)
FLAGS: Final = (False, True)
ACTIVE: Final[tuple[State, ...]] = ("admitted", "running", "input-applied", "suspended", "unknown")
DECISIONS: Final[tuple[type[RecoveryDecision], ...]] = get_args(RecoveryDecision)
SAMPLES: Final = 20_000


class Choose(Protocol):
    """Takes one of several values: by Hypothesis, or by a seeded generator."""

    def __call__(self, options: Sequence[T], /) -> T: ...


def mostly(choose: Choose, usual: Sequence[T], every: Sequence[T]) -> T:
    """Take what lets the later rules be reached three times out of four, else anything."""
    return choose(every if choose((0, 1, 2, 3)) == 3 else usual)


def subsets(*values: T) -> list[tuple[T, ...]]:
    """Return every choice of some of the values, in order."""
    sizes = range(len(values) + 1)
    return [chosen for size in sizes for chosen in combinations(values, size)]


def delegations_of(call: ToolCallId) -> list[Delegation]:
    """Return everything that the log and the ledger can say about the delegation of a call."""
    answers: list[ChildAdmission] = ["not-asked", "not-admitted", "indeterminate", child_of(call)]
    started = (None, child_of(call), OTHER)
    return [
        Delegation(call, TURN, *one)
        for one in product(FLAGS, (None, key_of(call)), answers, started, FLAGS)
    ]


def reservations_of(call: ToolCallId) -> list[Reservation]:
    """Return everything that the ledger can hold for a call."""
    return [
        replace(reserved(call, status), child=child)
        for status in get_args(ReservationStatus)
        for child in (None, child_of(call))
    ]


WAITS: Final = [Suspension(*one) for one in product(subsets(*CALLS), subsets(*CHILDREN, OTHER))]
APPROVALS: Final = subsets(*(decided(*one) for one in product(CALLS, get_args(Decision))))
RESOLUTIONS: Final = subsets(*(resolved(*one) for one in product(CALLS, get_args(Resolution))))
STAGES: Final = {call: [at_stage(stage, call) for stage in get_args(Stage)] for call in CALLS}
OBLIGATIONS: Final = {
    call: list(product([None, *delegations_of(call)], [None, *reservations_of(call)]))
    for call in CALLS
}
"""What the log and the ledger can say about the child of a call, together or apart."""


def evidence(choose: Choose) -> tuple[RecoverySnapshot, CanonicalFacts]:
    """Choose every combination of the evidence about one submission, of at most two children."""
    owed = [mostly(choose, STAGES[call], OBLIGATIONS[call]) for call in choose(((), (A,), (B, A)))]
    seen = snapshot(
        mostly(choose, ACTIVE, get_args(State)),
        epoch=choose((0, 1)),
        owner=choose((None, OWNER)),
        canonical_input=choose((None, SEQUENCE)),
        marker=choose((None, SEQUENCE, SEQUENCE + 1)),
        host=choose((None, HOST)),
        aborted=mostly(choose, (False,), FLAGS),
        waits_for=mostly(choose, (None,), WAITS),
        approvals=mostly(choose, ((),), APPROVALS),
        unknown=mostly(choose, ((),), subsets(*CALLS)),
        resolutions=mostly(choose, ((),), RESOLUTIONS),
        reservations=[reservation for _, reservation in owed if reservation is not None],
        published=choose(subsets(*CHILDREN, OTHER)),
        settlement=mostly(choose, (False,), FLAGS),
        host_settlement=choose(FLAGS),
    )
    facts = CanonicalFacts(
        open_calls=mostly(choose, ((),), subsets(*CALLS)),
        closed_calls=frozenset(choose(subsets(*CALLS))),
        retriable_calls=frozenset(choose(subsets(*CALLS))),
        approvals=mostly(choose, ((),), subsets(*CALLS)),
        decisions=mostly(choose, ((),), APPROVALS),
        delegations=tuple(delegation for delegation, _ in owed if delegation is not None),
        batch=choose((None, DeclaredBatch(TURN, CALLS))),
        awaits_lineage=choose(FLAGS),
    )
    return seen, facts


def check_safe(seen: RecoverySnapshot, facts: CanonicalFacts, decision: RecoveryDecision) -> None:
    """Check what no decision may ever break, from the words of the contract alone."""
    state, aborted = seen.submission.state, seen.submission.abort is not None
    resolved_calls = {one.tool_call_id for one in seen.resolutions}
    in_doubt = set(facts.open_calls) - resolved_calls
    if decision.kind == "resume" and not aborted:
        assert not in_doubt  # a call that may have happened is never simply run again
    if decision.kind == "settle":
        assert seen.settlement_published or state == "joined" or aborted
    if isinstance(decision, decisions.CompleteChildAdmission):
        for one in facts.delegations:
            if one.tool_call_id in decision.calls:
                assert (one.admission, one.started) == ("not-admitted", None)
    if isinstance(decision, decisions.SettleAborted):
        for one in facts.delegations:
            absent = one.request is None or one.admission == "not-admitted"
            assert one.joined or (one.started is None and absent)
        assert all(one.status == "released" for one in seen.reservations)
    if state == "settled":
        assert decision.kind == "nothing"


def check(seen: RecoverySnapshot, facts: CanonicalFacts) -> RecoveryRow:
    """Check that there is one decision, the same at every time and whoever owns the lane."""
    decision = classify(seen, facts)
    assert type(decision) in DECISIONS
    assert classify(seen, facts) == decision
    assert classify(replace(seen, lane=replace(seen.lane, owner=None)), facts) == decision
    check_safe(seen, facts, decision)
    row = deciding_row(seen, facts)
    assert row.decision is type(decision)
    return row


@pytest.mark.rule(*(f"RCV-{number}" for number in range(1, 12)))
@settings(max_examples=500, deadline=None)  # a busy machine is no fault
@given(st.data())
def test_every_combination_gives_one_decision(data: st.DataObject) -> None:
    def choose(options: Sequence[T], /) -> T:
        return data.draw(st.sampled_from(options))

    check(*evidence(choose))


@pytest.mark.rule(*(f"RCV-{number}" for number in range(1, 12)))
def test_every_row_and_every_decision_is_reached() -> None:
    seeded = Random(1)
    rows = Counter(id(check(*evidence(seeded.choice))) for _ in range(SAMPLES))
    assert [row.situation for row in RECOVERY if rows[id(row)] < 10] == []
    assert {row.decision for row in RECOVERY} == {*DECISIONS} - {decisions.Blocked}


@pytest.mark.rule("RCV-4", "RCV-8")
def test_every_combination_of_one_delegation_is_decided_with_and_without_an_abort() -> None:
    reached: Counter[type[RecoveryDecision]] = Counter()
    held = [(), *((one,) for one in reservations_of(A))]
    for delegation, reserved_for, aborted, published in product(
        delegations_of(A), held, FLAGS, ((), CHILDREN)
    ):
        facts = CanonicalFacts(delegations=(delegation,))
        seen = snapshot(aborted=aborted, reservations=reserved_for, published=published)
        decision = classify(seen, facts)
        check_safe(seen, facts, decision)
        reached[type(decision)] += 1
    assert set(reached) == {
        decisions.ApplyJoinAccounting,
        decisions.AwaitChildAdmission,
        decisions.CompleteChildAdmission,
        decisions.EnsureSuspension,
        decisions.PropagateAbort,
        decisions.ReleaseOrphanReservation,
        decisions.RepairStartLink,
        decisions.ResumeBatch,
        decisions.ResumeFromBoundary,
        decisions.ResumeToJoinChildren,
        decisions.SettleAborted,
    }


@pytest.mark.rule("RCV-12")
def test_only_a_fault_blocks_and_what_is_blocked_authorizes_nothing() -> None:
    assert decisions.Blocked not in {row.decision for row in RECOVERY}
    given_up = blocked(ThreadId("thread-1"), StorageCorrupt("a damaged page"))
    assert type(given_up) in DECISIONS
    assert given_up.kind == "blocked"
    assert {one.name for one in fields(given_up)} == {"thread_id", "code", "message", "retryable"}


@pytest.mark.rule(*(f"RCV-{number}" for number in range(1, 13)))
def test_what_the_decisions_ask_for() -> None:
    kinds = {one.__name__: one.kind for one in DECISIONS}
    assert {name for name, kind in kinds.items() if kind == "settle"} == {
        "FinalizeFromHistory",
        "SettleAborted",
        "SettleWithHost",
    }
    assert {name for name, kind in kinds.items() if kind == "resume"} == {
        "ApplyResolutions",
        "ResumeBatch",
        "ResumeFromBoundary",
        "ResumeSuspended",
        "ResumeToJoinChildren",
    }
    waiting = {name for name, kind in kinds.items() if kind == "wait"}
    assert waiting == {name for name in kinds if name.startswith("Await")}
