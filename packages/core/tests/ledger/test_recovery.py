"""What each rule of recovery looks at, and that an earlier rule comes before a later one."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pytest
from recovery_samples import (
    BATCH,
    HOST,
    SEQUENCE,
    THREAD,
    TURN,
    A,
    B,
    child_of,
    decided,
    delegating,
    key_of,
    reserved,
    resolved,
    snapshot,
)

from yielded_core.errors import EvidenceFault, StorageUnavailable
from yielded_core.ledger import recovery_decisions as decisions
from yielded_core.ledger.recovery import RECOVERY, blocked, classify, deciding_row
from yielded_core.ledger.recovery_evidence import CanonicalFacts, Delegation, weigh
from yielded_core.ports.work import AwaitedChild, Indeterminate, NotAdmitted, Owner, Suspension
from yielded_core.records.identifiers import AttemptId, SubmissionId, ThreadId

if TYPE_CHECKING:
    from yielded_core.ledger.recovery_decisions import RecoveryDecision
    from yielded_core.ledger.recovery_evidence import ChildAdmission, ChildKey, Stage
    from yielded_core.ports.work import RecoverySnapshot, ReservationStatus, State

NO_FACTS: Final = CanonicalFacts()
OPEN: Final = CanonicalFacts(open_calls=(A,), batch=BATCH)
PENDING: Final = CanonicalFacts(approvals=(A,), batch=BATCH)
DELEGATED: Final = CanonicalFacts(delegations=(Delegation(A, TURN),), batch=BATCH)
FOR_A: Final = Suspension(approvals=(A,))
FOR_CHILD: Final = Suspension(children=(child_of(A),))

PAIRS: Final[list[tuple[str, str, RecoverySnapshot, CanonicalFacts]]] = [
    ("RCV-1", "RCV-2", snapshot("settled", settlement=True), NO_FACTS),
    ("RCV-1", "RCV-4", snapshot("settled", aborted=True), NO_FACTS),
    ("RCV-1", "RCV-5", snapshot("settled"), OPEN),
    ("RCV-2", "RCV-3", snapshot("joining", settlement=True, host=HOST), NO_FACTS),
    ("RCV-2", "RCV-3", snapshot("joined", settlement=True, host_settlement=True), NO_FACTS),
    ("RCV-2", "RCV-4", snapshot(settlement=True, aborted=True), DELEGATED),
    ("RCV-2", "RCV-5", snapshot(settlement=True), OPEN),
    ("RCV-2", "RCV-6", snapshot("unknown", settlement=True, unknown=(A,)), OPEN),
    ("RCV-3", "RCV-4", snapshot("joining", aborted=True, host=HOST), NO_FACTS),
    ("RCV-3", "RCV-4", snapshot("joining", aborted=True, host=HOST, new=True), NO_FACTS),
    ("RCV-3", "RCV-4", snapshot("joined", aborted=True, host=HOST), NO_FACTS),
    ("RCV-3", "RCV-11", snapshot("joining", host=HOST, new=True), NO_FACTS),
    ("RCV-4", "RCV-5", snapshot(aborted=True), OPEN),
    ("RCV-4", "RCV-6", snapshot("unknown", aborted=True, unknown=(A,)), OPEN),
    ("RCV-4", "RCV-7", snapshot("suspended", aborted=True, waits_for=FOR_A), PENDING),
    ("RCV-4", "RCV-8", snapshot(aborted=True), DELEGATED),
    ("RCV-4", "RCV-10", snapshot("admitted", aborted=True, epoch=0, new=True), NO_FACTS),
    ("RCV-4", "RCV-11", snapshot("ready", aborted=True, new=True), NO_FACTS),
    ("RCV-5", "RCV-6", snapshot("unknown", unknown=(B,)), OPEN),
    ("RCV-5", "RCV-7", snapshot("suspended", waits_for=FOR_A), replace(OPEN, approvals=(A,))),
    ("RCV-5", "RCV-8", snapshot(), replace(DELEGATED, open_calls=(B,))),
    ("RCV-5", "RCV-9", snapshot(), OPEN),
    ("RCV-6", "RCV-7", snapshot("unknown", unknown=(B,), waits_for=FOR_A), PENDING),
    ("RCV-6", "RCV-8", snapshot("unknown", unknown=(B,)), DELEGATED),
    ("RCV-6", "RCV-9", snapshot("unknown", unknown=(A,)), OPEN),
    ("RCV-7", "RCV-8", snapshot("suspended", waits_for=FOR_CHILD), DELEGATED),
    ("RCV-7", "RCV-8", snapshot("suspended", waits_for=FOR_A), replace(DELEGATED, approvals=(A,))),
    ("RCV-7", "RCV-8", snapshot("suspended"), DELEGATED),
    ("RCV-7", "RCV-8", snapshot(), replace(DELEGATED, approvals=(A,))),
    ("RCV-7", "RCV-9", snapshot(), PENDING),
    ("RCV-8", "RCV-9", *delegating("running")),
    ("RCV-9", "RCV-10", snapshot("admitted", new=True), CanonicalFacts(batch=BATCH)),
    ("RCV-9", "RCV-11", snapshot(marker=None), CanonicalFacts(batch=BATCH)),
    ("RCV-10", "RCV-11", snapshot("admitted", new=True), NO_FACTS),
]


@pytest.mark.parametrize(
    ("earlier", "later", "seen", "facts"),
    [
        pytest.param(*pair, marks=pytest.mark.rule(*pair[:2]), id=f"{number} {pair[0]}-{pair[1]}")
        for number, pair in enumerate(PAIRS)
    ],
)
def test_an_earlier_rule_comes_before_a_later_one(
    earlier: str, later: str, seen: RecoverySnapshot, facts: CanonicalFacts
) -> None:
    fitting = {row.rule for row in RECOVERY if row.holds(weigh(seen, facts))}
    assert {earlier, later} <= fitting
    assert deciding_row(seen, facts).rule == earlier


IN_RCV_4: Final[list[tuple[Stage, type[RecoveryDecision]]]] = [
    ("unanswered", decisions.AwaitChildAdmission),
    ("unlinked", decisions.RepairStartLink),
    ("running", decisions.PropagateAbort),
    ("finished", decisions.ResumeToJoinChildren),
    ("accounting", decisions.ApplyJoinAccounting),
    ("orphaned", decisions.ReleaseOrphanReservation),
    ("closed", decisions.SettleAborted),
]
IN_RCV_8: Final[list[tuple[Stage, type[RecoveryDecision]]]] = [
    ("accounting", decisions.ApplyJoinAccounting),
    ("admissible", decisions.CompleteChildAdmission),
    ("unlinked", decisions.RepairStartLink),
    ("unanswered", decisions.AwaitChildAdmission),
    ("declared", decisions.ResumeBatch),
    ("running", decisions.EnsureSuspension),
    ("finished", decisions.ResumeToJoinChildren),
    ("orphaned", decisions.ReleaseOrphanReservation),
    ("closed", decisions.ResumeBatch),
]


@pytest.mark.rule("RCV-4")
@pytest.mark.parametrize(("earlier", "later"), list(combinations(IN_RCV_4, 2)))
def test_under_an_abort_the_first_need_of_any_child_decides(
    earlier: tuple[Stage, type[RecoveryDecision]], later: tuple[Stage, type[RecoveryDecision]]
) -> None:
    assert type(classify(*delegating(earlier[0], later[0], aborted=True))) is earlier[1]
    assert type(classify(*delegating(later[0], earlier[0], aborted=True))) is earlier[1]


@pytest.mark.rule("RCV-8")
@pytest.mark.parametrize(("earlier", "later"), list(combinations(IN_RCV_8, 2)))
def test_without_an_abort_the_first_need_of_any_child_decides(
    earlier: tuple[Stage, type[RecoveryDecision]], later: tuple[Stage, type[RecoveryDecision]]
) -> None:
    assert type(classify(*delegating(earlier[0], later[0]))) is earlier[1]
    assert type(classify(*delegating(later[0], earlier[0]))) is earlier[1]


@pytest.mark.rule("RCV-3")
@pytest.mark.parametrize("host", [HOST, None])
def test_joined_work_waits_for_its_host_however_little_is_known_of_it(
    host: SubmissionId | None,
) -> None:
    assert classify(snapshot("joined", host=host, new=True), NO_FACTS) == decisions.AwaitHost(host)


@pytest.mark.rule("RCV-4", "LED-8")
@pytest.mark.parametrize("state", ["admitted", "ready"])
def test_work_that_never_ran_is_settled_wherever_it_stands_in_the_queue(state: State) -> None:
    seen = snapshot(state, aborted=True, new=True)
    assert classify(seen, NO_FACTS) == decisions.SettleAborted("queued-abort")


@pytest.mark.rule("RCV-4", "LED-8")
@pytest.mark.parametrize("state", ["running", "input-applied", "suspended", "unknown"])
def test_work_that_ran_is_settled_by_its_owner(state: State) -> None:
    assert classify(snapshot(state, aborted=True), OPEN) == decisions.SettleAborted("owned")


@pytest.mark.rule("RCV-4")
@pytest.mark.parametrize("stage", ["declared", "admissible"])
def test_an_abort_admits_no_child_only_to_abort_it(stage: Stage) -> None:
    seen, facts = delegating(stage, aborted=True)
    assert classify(seen, facts) == decisions.ReleaseOrphanReservation((reserved(A),))
    without = replace(seen, reservations=())
    assert classify(without, facts) == decisions.SettleAborted("owned")


@pytest.mark.rule("RCV-5", "LED-13")
def test_a_mark_that_nobody_resolved_parks_the_submission_again() -> None:
    seen = snapshot(unknown=(A, B), resolutions=(resolved(B),))
    facts = CanonicalFacts(open_calls=(A, B), batch=BATCH)
    assert classify(seen, facts) == decisions.MarkCallsUnknown((A,))


@pytest.mark.rule("RCV-6", "LED-13")
def test_resolutions_are_applied_after_they_woke_the_lane() -> None:
    seen = snapshot("input-applied", unknown=(A,), resolutions=(resolved(A),))
    assert classify(seen, OPEN) == decisions.ApplyResolutions((resolved(A),), ())
    applied = CanonicalFacts(closed_calls=frozenset((A,)), batch=BATCH)
    assert classify(seen, applied) == decisions.ResumeBatch(TURN)


@pytest.mark.rule("RCV-6", "LED-13")
@pytest.mark.parametrize("turned", [False, True])
def test_what_happened_counts_before_what_to_do(*, turned: bool) -> None:
    both = (resolved(A, "safe-to-retry"), resolved(A, "never-happened"))
    seen = snapshot("unknown", unknown=(A,), resolutions=both[::-1] if turned else both)
    assert classify(seen, OPEN) == decisions.ApplyResolutions((both[1],), ())


@pytest.mark.rule("RCV-6", "LED-13")
def test_what_happened_is_applied_even_to_a_call_that_may_be_run_again() -> None:
    fact = resolved(A, "never-happened")
    seen = snapshot(unknown=(A,), resolutions=(resolved(A), fact))
    closed = CanonicalFacts(closed_calls=frozenset((A,)), batch=BATCH)
    retriable = replace(closed, retriable_calls=frozenset((A,)))
    assert classify(seen, retriable) == decisions.ApplyResolutions((fact,), ())
    assert classify(seen, closed) == decisions.ResumeBatch(TURN)
    only = snapshot(unknown=(A,), resolutions=(resolved(A),))
    assert classify(only, retriable) == decisions.ResumeBatch(TURN)


@pytest.mark.rule("RCV-6")
def test_a_call_that_the_log_closed_awaits_nobody() -> None:
    closed = CanonicalFacts(closed_calls=frozenset((A,)))
    seen = snapshot("unknown", unknown=(A,))
    assert classify(seen, closed) == decisions.ApplyResolutions((), (A,))
    more = snapshot("unknown", unknown=(A, B))
    assert classify(more, closed) == decisions.AwaitResolutions((B,))


@pytest.mark.rule("RCV-7", "LED-11")
@pytest.mark.parametrize("state", ["running", "input-applied", "suspended"])
def test_a_pending_approval_is_awaited_suspended_or_not(state: State) -> None:
    waits_for = FOR_A if state == "suspended" else None
    seen = snapshot(state, waits_for=waits_for, approvals=(decided(B),))
    facts = replace(PENDING, approvals=(A, B))
    assert classify(seen, facts) == decisions.AwaitApproval((A,))


@pytest.mark.rule("RCV-7", "LED-11")
def test_a_denial_in_the_batch_leaves_nothing_pending() -> None:
    facts = replace(PENDING, approvals=(A, B))
    denied = (decided(B, "denied"),)
    assert classify(snapshot(approvals=denied), facts) == decisions.ResumeBatch(TURN)
    assert classify(snapshot(), replace(facts, decisions=denied)) == decisions.ResumeBatch(TURN)


@pytest.mark.rule("RCV-7")
def test_the_decision_in_the_log_counts_where_the_ledger_says_otherwise() -> None:
    seen = snapshot(approvals=(decided(A, "denied"),))
    facts = replace(PENDING, approvals=(A, B), decisions=(decided(A, "approved"),))
    assert classify(seen, facts) == decisions.AwaitApproval((B,))


@pytest.mark.rule("RCV-7")
def test_a_suspended_submission_waits_for_what_the_ledger_alone_names() -> None:
    seen = snapshot("suspended", waits_for=FOR_A)
    assert classify(seen, NO_FACTS) == decisions.AwaitApproval((A,))
    closed = CanonicalFacts(closed_calls=frozenset((A,)))
    assert classify(seen, closed) == decisions.ResumeSuspended(())


@pytest.mark.rule("RCV-7", "LED-12")
def test_resuming_names_the_decisions_that_the_ledger_lacks() -> None:
    waits_for = Suspension(approvals=(A, B))
    facts = replace(PENDING, approvals=(A, B), decisions=(decided(A), decided(B)))
    seen = snapshot("suspended", waits_for=waits_for, approvals=(decided(A),))
    assert classify(seen, facts) == decisions.ResumeSuspended((decided(B),))
    other = snapshot("suspended", waits_for=FOR_A)
    assert classify(other, facts) == decisions.ResumeSuspended((decided(A),))


@pytest.mark.rule("RCV-7")
@pytest.mark.parametrize("waits_for", [FOR_A, FOR_CHILD])
def test_what_a_submission_waited_for_does_not_count_once_it_runs(waits_for: Suspension) -> None:
    seen = snapshot("running", waits_for=waits_for)
    assert classify(seen, NO_FACTS) == decisions.ResumeFromBoundary()


@pytest.mark.rule("RCV-8", "LED-3")
@pytest.mark.parametrize("answer", ["not-asked", "indeterminate"])
def test_an_unasked_or_indeterminate_answer_is_never_absence(answer: ChildAdmission) -> None:
    one = Delegation(A, TURN, request=key_of(A), admission=answer)
    facts = CanonicalFacts(delegations=(one,), batch=BATCH)
    for status in ("reserved", "releasing", "released"):
        for aborted in (False, True):
            seen = snapshot(aborted=aborted, reservations=(reserved(A, status),))
            assert classify(seen, facts) == decisions.AwaitChildAdmission((A,))


@pytest.mark.rule("RCV-8", "LED-14")
@pytest.mark.parametrize("status", ["releasing", "released"])
@pytest.mark.parametrize("asked_for", [key_of(A), None])
def test_no_child_is_admitted_once_the_release_of_its_reservation_began(
    status: ReservationStatus, asked_for: ChildKey | None
) -> None:
    one = Delegation(A, TURN, request=asked_for, admission="not-admitted")
    seen = snapshot(reservations=(reserved(A, status),))
    decision = classify(seen, CanonicalFacts(delegations=(one,), batch=BATCH))
    if status == "releasing":
        assert decision == decisions.ReleaseOrphanReservation((reserved(A, status),))
    else:
        assert decision == decisions.ResumeBatch(TURN)


@pytest.mark.rule("RCV-8", "LED-14")
def test_a_link_is_repaired_in_its_record_its_attachment_or_both() -> None:
    requested = Delegation(A, TURN, request=key_of(A))
    started = replace(requested, started=child_of(A))
    admitted = replace(requested, admission=child_of(A))
    for delegation, held, record, attachment in (
        (admitted, reserved(A), True, True),
        (admitted, reserved(A, "attached"), True, False),
        (requested, reserved(A, "attached"), True, False),
        (started, reserved(A), False, True),
    ):
        seen = snapshot(reservations=(held,))
        link = decisions.MissingLink(A, child_of(A), record, attachment)
        facts = CanonicalFacts(delegations=(delegation,), batch=BATCH)
        assert classify(seen, facts) == decisions.RepairStartLink((link,))
    bare = CanonicalFacts(delegations=(started,), batch=BATCH)
    assert classify(snapshot(), bare) == decisions.EnsureSuspension((child_of(A),))


@pytest.mark.rule("RCV-8")
def test_the_child_that_the_log_names_counts() -> None:
    other = AwaitedChild(ThreadId("thread-9"), SubmissionId("submission-9"))
    one = Delegation(A, TURN, request=key_of(A), started=other)
    seen = snapshot(reservations=(reserved(A, "attached"),), published=(child_of(A),))
    facts = CanonicalFacts(delegations=(one,), batch=BATCH)
    assert classify(seen, facts) == decisions.EnsureSuspension((other,))


@pytest.mark.rule("RCV-8", "LED-14")
def test_a_reservation_that_the_log_does_not_know_is_an_orphan_unless_it_has_a_child() -> None:
    orphan = snapshot(reservations=(reserved(A), reserved(B, "released")))
    assert classify(orphan, NO_FACTS) == decisions.ReleaseOrphanReservation((reserved(A),))
    attached = snapshot(reservations=(reserved(A, "attached"),))
    link = decisions.MissingLink(A, child_of(A), record=True, attachment=False)
    assert classify(attached, NO_FACTS) == decisions.RepairStartLink((link,))


@pytest.mark.rule("RCV-8")
def test_only_the_oldest_unfinished_batch_is_resumed() -> None:
    facts = CanonicalFacts(delegations=(Delegation(A, 5), Delegation(B, 4)), batch=BATCH)
    assert classify(snapshot(), facts) == decisions.ResumeBatch(TURN)
    assert classify(snapshot(), replace(facts, batch=None)) == decisions.ResumeBatch(4)


@pytest.mark.rule("RCV-8", "LED-3")
def test_the_children_to_ask_about_are_those_that_may_exist_unseen() -> None:
    asked = Delegation(A, TURN, request=key_of(A))
    rest = (
        Delegation(B, TURN),
        replace(asked, tool_call_id=B, started=child_of(B)),
        replace(asked, tool_call_id=B, joined=True),
    )
    facts = CanonicalFacts(delegations=(asked, *rest))
    assert facts.to_ask == (asked,)
    for answer, admission in (
        (NotAdmitted(), "not-admitted"),
        (Indeterminate("no answer"), "indeterminate"),
    ):
        told = facts.answered({A: answer})
        assert told.delegations == (replace(asked, admission=admission), *rest)


@pytest.mark.rule("RCV-11", "LED-7")
def test_a_marker_that_the_log_does_not_bear_out_is_repaired() -> None:
    seen = snapshot(marker=SEQUENCE + 1)
    assert classify(seen, NO_FACTS) == decisions.RepairInputMarker(SEQUENCE)


@pytest.mark.rule("RCV-11")
@pytest.mark.parametrize("state", ["ready", "running", "input-applied"])
def test_input_that_the_log_does_not_hold_is_applied_whatever_the_marker_says(
    state: State,
) -> None:
    seen = snapshot(state, canonical_input=None)
    assert classify(seen, NO_FACTS) == decisions.ApplyInput()


@pytest.mark.rule("RCV-11")
def test_a_lease_changes_no_decision() -> None:
    for live in (False, True):
        owner = Owner(SubmissionId("submission-1"), AttemptId("attempt-1"), 9_000, live)
        assert classify(snapshot(owner=owner), NO_FACTS) == classify(snapshot(), NO_FACTS)


@pytest.mark.rule("RCV-12")
def test_a_fault_in_the_evidence_blocks_its_thread_and_nothing_else() -> None:
    fault = EvidenceFault(THREAD, "evidence-missing", "no declaration of call-a")
    decision = blocked(THREAD, fault)
    assert decision == decisions.Blocked(THREAD, "evidence-fault", str(fault), retryable=False)
    assert decision.kind == "blocked"
    assert blocked(THREAD, StorageUnavailable("no answer")).retryable
