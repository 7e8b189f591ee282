"""What the records of a run say about its calls, its batch and its children."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

import pytest
from recovery_samples import RUN, SUBMISSION, THREAD, A, B, child_of, key_of, reserved, snapshot

from yielded_core.errors import EvidenceFault
from yielded_core.ledger import recovery_decisions as decisions
from yielded_core.ledger.canonical_facts import canonical_facts
from yielded_core.ledger.recovery import classify
from yielded_core.ledger.recovery_evidence import CanonicalFacts, DeclaredBatch, Delegation
from yielded_core.ports.work import AdmittedWork, ApprovalDecision, NotAdmitted
from yielded_core.records import payloads as p
from yielded_core.records.envelope import StoredRecord, encode_record
from yielded_core.records.identifiers import BatchId, Offset, RunId, ToolCallId, TurnId
from yielded_testing.sample_parts import Subject, sample_digest
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import INSTANT, record

if TYPE_CHECKING:
    from yielded_core.ports.work import Decision
    from yielded_core.records.payloads import Payload

Class = Literal["readonly", "idempotent", "uncertain"]
Kind = Literal["ordinary", "durable", "delegation"]
Declared = tuple[ToolCallId, Class, Kind]

ORDINARY: Final[Declared] = (A, "uncertain", "ordinary")
OTHER: Final[Declared] = (B, "uncertain", "ordinary")
READING: Final[Declared] = (B, "readonly", "ordinary")
DELEGATING: Final[Declared] = (A, "uncertain", "delegation")
ALSO_DELEGATING: Final[Declared] = (B, "uncertain", "delegation")


def response(*declared: Declared, turn: int = 1, run: RunId = RUN) -> p.ModelResponseRecorded:
    """Return a response that declares calls."""
    parts: list[dict[str, object]] = [
        {"type": "tool-call", "id": call, "name": "tool", "params": {}, "providerExecuted": False}
        for call, _, _ in declared
    ]
    operations = [
        {
            "toolCallId": call,
            "toolName": "tool",
            "executionClass": execution_class,
            "executionKind": kind,
            "replay": sample_digest("tool"),
        }
        for call, execution_class, kind in declared
    ]
    return p.ModelResponseRecorded.model_validate(
        {
            "_tag": "ModelResponseRecorded",
            "runId": run,
            "turnId": f"turn-{turn}",
            "turn": turn,
            "messages": {"content": [{"role": "assistant", "content": parts}]},
            "messagesDigest": sample_digest("messages"),
            "toolResultMaxBytes": 256,
            "toolSelectionMaxBytes": 0,
            "toolOperations": operations,
        },
        by_alias=True,
    )


def told(tag: str, call: ToolCallId = A, *, run: RunId = RUN) -> Payload:
    """Return a payload of a family about a call."""
    return sample_payload(tag, Subject(SUBMISSION, run, call=call))


def asked(call: ToolCallId, *, blocks: bool = False, turn: int = 1) -> Payload:
    """Return a request for approval."""
    return p.ToolApprovalRequested(
        run_id=RUN,
        turn_id=TurnId("turn-1"),
        turn=turn,
        tool_call_id=call,
        tool_name="tool",
        parameters_digest=sample_digest("parameters"),
        blocks_initial_dispatch=blocks,
    )


def answered(call: ToolCallId, decision: Decision = "approved") -> Payload:
    """Return a decision about a call."""
    return p.ToolApprovalDecided(
        run_id=RUN, turn=1, tool_call_id=call, decision=decision, resolver="someone", reason="why"
    )


def requested(call: ToolCallId = A) -> Payload:
    """Return the request for the child of a call."""
    key = key_of(call)
    given = told("SubagentRequested", call)
    return given.model_copy(
        update={
            "turn": 1,
            "child_thread_id": key.thread_id,
            "child_principal": key.principal,
            "child_idempotency_key": key.idempotency_key,
        }
    )


def started(call: ToolCallId = A) -> Payload:
    """Return the start link of the child of a call."""
    child = child_of(call)
    return told("SubagentStarted", call).model_copy(
        update={"child_thread_id": child.thread_id, "child_submission_id": child.submission_id}
    )


def facts_of(*payloads: Payload, child: bool = False) -> CanonicalFacts:
    """Return what records with these payloads say, one after the other."""
    numbers = count(1)
    stored = (
        StoredRecord(
            THREAD,
            number := next(numbers),
            BatchId(f"batch-{number}"),
            Offset(str(number)),
            (encoded := encode_record(record(f"record-{number}", payload))).record,
            encoded.wire,
        )
        for payload in payloads
    )
    return canonical_facts(snapshot().submission, stored, child=child)


def test_without_records_nothing_is_known() -> None:
    assert facts_of() == CanonicalFacts()
    assert facts_of(told("UserInputRecorded"), told("RunStarted")) == CanonicalFacts()


@pytest.mark.rule("RCV-5", "RCV-9")
def test_a_declared_call_without_a_result_may_have_happened() -> None:
    facts = facts_of(response(ORDINARY))
    assert facts == CanonicalFacts(open_calls=(A,), batch=DeclaredBatch(1, (A,)))


@pytest.mark.rule("RCV-5", "RCV-9")
def test_a_result_closes_a_call_and_the_last_one_its_batch() -> None:
    first = facts_of(response(ORDINARY, OTHER), told("ToolCallSettled", B))
    assert first == CanonicalFacts(
        open_calls=(A,), closed_calls=frozenset((B,)), batch=DeclaredBatch(1, (A,))
    )
    both = facts_of(
        response(ORDINARY, OTHER), told("ToolCallSettled", B), told("ToolCallSettled", A)
    )
    assert both == CanonicalFacts(closed_calls=frozenset((A, B)))


@pytest.mark.rule("RCV-5")
@pytest.mark.parametrize("execution_class", ["readonly", "idempotent", "uncertain"])
@pytest.mark.parametrize("kind", ["ordinary", "durable", "delegation"])
def test_only_ordinary_uncertain_calls_are_in_doubt(execution_class: Class, kind: Kind) -> None:
    facts = facts_of(response((A, execution_class, kind)))
    in_doubt = (execution_class, kind) == ("uncertain", "ordinary")
    assert facts.open_calls == ((A,) if in_doubt else ())
    assert facts.batch == DeclaredBatch(1, (A,))


@pytest.mark.rule("RCV-5", "RCV-8")
def test_a_delegation_is_never_in_doubt() -> None:
    facts = facts_of(response(DELEGATING), told("ToolCallUnknown"))
    assert (facts.open_calls, facts.delegations) == ((), (Delegation(A, 1),))


@pytest.mark.rule("RCV-5", "RCV-6")
def test_what_was_told_last_of_an_unknown_outcome_counts() -> None:
    story: list[Payload] = [response(READING)]
    for tag, in_doubt in (
        ("ToolCallUnknown", True),
        ("ToolCallResolved", False),
        ("ToolCallUnknown", True),
        ("ToolCallSettled", False),
    ):
        story.append(told(tag, B))
        facts = facts_of(*story)
        assert facts.open_calls == ((B,) if in_doubt else ())
        assert facts.closed_calls == (frozenset() if in_doubt else frozenset((B,)))
    assert facts_of(told("ToolCallUnknown", B)).open_calls == (B,)


@pytest.mark.rule("RCV-6", "RCV-9")
@pytest.mark.parametrize("resolution", ["safe-retry", "never-started", "failed-with-error"])
def test_a_resolved_call_is_not_in_doubt_but_its_batch_is_unfinished(resolution: str) -> None:
    resolved = told("ToolCallResolved").model_copy(update={"resolution": resolution})
    facts = facts_of(response(ORDINARY), told("ToolCallUnknown"), resolved)
    assert facts == CanonicalFacts(
        closed_calls=frozenset((A,)),
        retriable_calls=frozenset((A,) if resolution == "safe-retry" else ()),
        batch=DeclaredBatch(1, (A,)),
    )
    settled = facts_of(response(ORDINARY), resolved, told("ToolCallSettled"))
    assert settled == CanonicalFacts(closed_calls=frozenset((A,)))


@pytest.mark.rule("RCV-5", "RCV-7")
def test_a_call_that_waits_for_its_approval_has_not_begun() -> None:
    facts = facts_of(response(ORDINARY, OTHER), asked(A))
    assert (facts.open_calls, facts.approvals) == ((B,), (A,))
    approved = facts_of(response(ORDINARY, OTHER), asked(A), answered(A))
    assert approved.open_calls == (A, B)
    denied = facts_of(response(ORDINARY, OTHER), asked(A), answered(A, "denied"))
    assert denied.open_calls == (B,)


@pytest.mark.rule("RCV-5", "RCV-7")
def test_a_request_before_any_dispatch_keeps_its_whole_turn_back_until_it_is_decided() -> None:
    declared = response(ORDINARY, OTHER), asked(A, blocks=True)
    assert facts_of(*declared).open_calls == ()
    assert facts_of(*declared, answered(A)).open_calls == (A, B)
    assert facts_of(*declared, answered(A, "denied")).open_calls == (B,)
    assert facts_of(*declared, told("ToolCallSettled")).open_calls == (B,)
    later = response((ToolCallId("call-c"), "uncertain", "ordinary"), turn=2)
    assert facts_of(*declared, later).open_calls == ("call-c",)


@pytest.mark.rule("RCV-7")
def test_decisions_are_those_about_the_unfinished_batch() -> None:
    instant = int(INSTANT.timestamp() * 1_000)
    expected = ApprovalDecision(A, "approved", "someone", "why", instant)
    declared = response(ORDINARY, OTHER), asked(A), asked(B), answered(A)
    facts = facts_of(*declared)
    assert (facts.approvals, facts.decisions) == ((A, B), (expected,))
    done = facts_of(*declared, told("ToolCallSettled", A), told("ToolCallSettled", B))
    assert (done.approvals, done.decisions) == ((), ())


@pytest.mark.rule("RCV-9")
def test_the_oldest_batch_without_all_results_is_the_one_to_resume() -> None:
    later = response(OTHER, turn=2)
    assert facts_of(response(ORDINARY), later).batch == DeclaredBatch(1, (A,))
    settled = facts_of(response(ORDINARY), told("ToolCallSettled"), later)
    assert settled.batch == DeclaredBatch(2, (B,))


@pytest.mark.rule("RCV-9")
def test_a_call_that_is_declared_again_begins_afresh() -> None:
    again = facts_of(response(ORDINARY), told("ToolCallSettled"), response(ORDINARY, turn=2))
    assert again == CanonicalFacts(open_calls=(A,), batch=DeclaredBatch(2, (A,)))


@pytest.mark.rule("RCV-5", "RCV-9")
@pytest.mark.parametrize("end", ["RunCompleted", "RunFailed"])
def test_the_end_of_a_run_leaves_nothing_to_be_called(end: str) -> None:
    facts = facts_of(response(ORDINARY, ALSO_DELEGATING), asked(A), told(end))
    assert facts == CanonicalFacts(
        closed_calls=frozenset((A, B)), delegations=(Delegation(B, 1, open=False),)
    )
    assert classify(snapshot(), facts) == decisions.ResumeFromBoundary()


@pytest.mark.rule("RCV-5", "LOG-15")
def test_other_runs_are_passed_over() -> None:
    other = RunId("run:another")
    assert facts_of(response(ORDINARY, run=other)) == CanonicalFacts()
    mixed = facts_of(
        response(ORDINARY),
        told("ToolCallSettled", run=other),
        told("RunCompleted", run=other),
    )
    assert mixed.open_calls == (A,)


@pytest.mark.rule("RCV-8")
def test_a_delegation_is_followed_from_its_declaration_to_its_join() -> None:
    story: list[Payload] = [response(DELEGATING)]
    known = Delegation(A, 1)
    assert facts_of(*story) == CanonicalFacts(delegations=(known,), batch=DeclaredBatch(1, (A,)))
    story.append(requested())
    known = replace(known, request=key_of(A))
    assert facts_of(*story).delegations == (known,)
    story.append(started())
    known = replace(known, started=child_of(A))
    assert facts_of(*story).delegations == (known,)
    story += [told("SubagentJoined"), told("ToolCallSettled")]
    known = replace(known, joined=True, open=False)
    assert facts_of(*story) == CanonicalFacts(closed_calls=frozenset((A,)), delegations=(known,))


@pytest.mark.rule("RCV-8", "RCV-12")
@pytest.mark.parametrize("tag", ["SubagentStarted", "SubagentJoined"])
def test_a_child_that_nobody_requested_is_missing_evidence(tag: str) -> None:
    with pytest.raises(EvidenceFault) as caught:
        facts_of(response(DELEGATING), told(tag))
    assert caught.value.reason == "evidence-missing"


@pytest.mark.rule("RCV-5", "RCV-8")
def test_a_request_makes_no_delegation_of_a_call_that_was_declared_as_ordinary() -> None:
    facts = facts_of(response(ORDINARY), requested())
    assert facts.open_calls == (A,)
    assert facts.delegations == (Delegation(A, 1, open=False, request=key_of(A)),)


@pytest.mark.rule("RCV-8")
def test_a_request_that_no_response_declares_stands_for_itself() -> None:
    facts = facts_of(requested())
    assert facts.delegations == (Delegation(A, 1, request=key_of(A)),)
    assert (facts.open_calls, facts.batch) == ((), None)


@pytest.mark.rule("RCV-10")
def test_a_child_awaits_its_lineage_until_the_log_holds_it() -> None:
    lineage = sample_payload("SubagentLineageRecorded")
    assert facts_of(child=True).awaits_lineage
    assert not facts_of(lineage, child=True).awaits_lineage
    assert not facts_of().awaits_lineage


@pytest.mark.rule("RCV-4", "RCV-8", "LED-3")
def test_recovery_follows_a_delegation_through_every_crash() -> None:
    ready, work = snapshot(), AdmittedWork(snapshot().submission, None, None, None)
    child = replace(
        work.submission,
        thread_id=child_of(A).thread_id,
        submission_id=child_of(A).submission_id,
    )
    story: list[Payload] = [response(DELEGATING)]
    assert classify(ready, facts_of(*story)) == decisions.ResumeBatch(1)
    story.append(requested())
    held = snapshot(reservations=(reserved(A),))
    facts = facts_of(*story)
    assert classify(held, facts) == decisions.AwaitChildAdmission((A,))
    absent = facts.answered({A: NotAdmitted()})
    assert classify(held, absent) == decisions.CompleteChildAdmission((A,))
    admitted = facts.answered({A: replace(work, submission=child)})
    link = decisions.MissingLink(A, child_of(A), record=True, attachment=True)
    assert classify(held, admitted) == decisions.RepairStartLink((link,))
    story.append(started())
    attached = (reserved(A, "attached"),)
    running = snapshot(reservations=attached)
    assert classify(running, facts_of(*story)) == decisions.EnsureSuspension((child_of(A),))
    aborting = snapshot(reservations=attached, aborted=True)
    assert classify(aborting, facts_of(*story)) == decisions.PropagateAbort((child_of(A),))
    finished = snapshot(reservations=attached, published=(child_of(A),))
    assert classify(finished, facts_of(*story)) == decisions.ResumeToJoinChildren((child_of(A),))
    story += [told("SubagentJoined"), told("ToolCallSettled")]
    assert classify(finished, facts_of(*story)) == decisions.ApplyJoinAccounting(attached)
    released = snapshot(reservations=(reserved(A, "released"),))
    assert classify(released, facts_of(*story)) == decisions.ResumeFromBoundary()
