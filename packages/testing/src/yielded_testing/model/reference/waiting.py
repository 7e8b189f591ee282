"""The model of waiting: for approvals, for children, for what nobody knows (LED-11 to LED-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.errors import (
    ApprovalConflict,
    EvidenceFault,
    OwnershipLost,
    SettlementConflict,
    TransitionRefused,
    UnknownCallNotFound,
    UnknownResolutionConflict,
)
from yielded_core.ports.work import (
    ApprovalDecision,
    ApprovalRecorded,
    ResolutionRecorded,
    UnknownCall,
    UnknownResolution,
)
from yielded_core.records.payloads import ToolCallSettled
from yielded_testing.model.reference.world import ANYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yielded_core.ports.work import (
        AwaitedChild,
        ChildWake,
        Decision,
        Resolution,
        ResolutionKind,
        Submission,
        SuspendAnswer,
        Suspension,
    )
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.identifiers import (
        OwnershipToken,
        RunId,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )
    from yielded_testing.model.reference.world import Queue, Work, World

KINDS: Final[Mapping[Resolution, ResolutionKind]] = {
    "safe-to-retry": "execution",
    "abort-submission": "execution",
    "completed-with-result": "factual",
    "never-happened": "factual",
}


def is_covered(world: World, work: Work, waits: Suspension) -> bool:
    """Say whether nothing is left to wait for."""
    decided = [work.approvals.get(call) for call in waits.approvals]
    denied = any(one is not None and one.decision == "denied" for one in decided)
    published = [
        world.is_published(child.thread_id, child.submission_id) for child in waits.children
    ]
    return (denied or None not in decided) and all(published)


def suspend(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    waits: Suspension,
    *,
    despite_abort: bool,
) -> SuspendAnswer:
    """End the ownership until what is waited for is there.

    An abort waits for nothing, unless the caller says that it knows of it.
    """
    queue, work = world.find(thread, submission)
    if not queue.holds(token, submission):
        raise OwnershipLost(thread, queue.epoch)
    if not work.active and (work.state != "unknown" or work.abort is None):
        raise TransitionRefused(thread, submission, "suspend", work.state)
    if (work.abort is not None and not despite_abort) or is_covered(world, work, waits):
        return "resume-immediately"
    work.state, work.waits = "suspended", waits
    queue.end_ownership(world.now)
    return "suspended"


def decide(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    call: ToolCallId,
    decision: Decision,
    resolver: str,
    reason: str,
) -> ApprovalRecorded:
    """Record a decision; the covering one wakes the lane."""
    _, work = world.find(thread, submission)
    if work.settled is not None:
        raise SettlementConflict(thread, submission, work.settled.outcome)
    known = work.approvals.get(call)
    if known is not None:
        if known.decision != decision:
            raise ApprovalConflict(thread, submission, call, known.decision)
        return ApprovalRecorded(known, woken=False, replayed=True)
    made = ApprovalDecision(call, decision, resolver, reason, world.now)
    work.approvals[call] = made
    waits = work.waits
    woken = (
        work.state == "suspended"
        and waits is not None
        and call in waits.approvals
        and is_covered(world, work, waits)
    )
    if woken:
        work.resume()
    return ApprovalRecorded(made, woken=woken, replayed=False)


def record_child_settled(
    world: World, thread: ThreadId, submission: SubmissionId, child: AwaitedChild
) -> ChildWake:
    """Tell a parent that a child's settlement is published."""
    _, work = world.find(thread, submission)
    if not world.is_published(child.thread_id, child.submission_id):
        raise EvidenceFault(child.thread_id, "evidence-missing", ANYTHING)
    waits = work.waits
    if work.state != "suspended" or waits is None or child not in waits.children:
        return "not-waiting"
    if not is_covered(world, work, waits):
        return "still-waiting"
    work.resume()
    return "woken"


def mark_unknown(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    run: RunId,
    calls: Sequence[tuple[ToolCallId, str]],
) -> Submission:
    """Park a submission until its calls are resolved; additive and idempotent."""
    _, work = world.find(thread, submission)
    if work.settled is not None:
        raise SettlementConflict(thread, submission, work.settled.outcome)
    if work.state in {"admitted", "ready", "joining", "joined"}:
        raise TransitionRefused(thread, submission, "mark-unknown", work.state)
    for call, reason in calls:
        work.calls.setdefault(call, UnknownCall(call, run, reason, world.now))
    if work.unresolved:
        work.state = "unknown"
    return work.view()


def resolve(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    call: ToolCallId,
    resolution: Resolution,
    said: tuple[str, str],
    result: JsonValue,
) -> ResolutionRecorded:
    """Record what a person decided; covering every open call wakes the lane.

    `said` is the author and the reason.
    """
    queue, work = world.find(thread, submission)
    kind = KINDS[resolution]
    if work.settled is not None and kind == "execution":
        raise SettlementConflict(thread, submission, work.settled.outcome)
    if call not in work.calls:
        raise UnknownCallNotFound(thread, submission, call)
    known = work.resolutions.get((call, kind))
    factual = work.resolutions.get((call, "factual"))
    if known is not None:
        if (known.resolution, known.result) != (resolution, result):
            raise UnknownResolutionConflict(
                thread, submission, call, "other-resolution", known.resolution
            )
        return ResolutionRecorded(known, woken=False, replayed=True)
    if kind == "execution" and factual is not None:
        raise UnknownResolutionConflict(
            thread, submission, call, "factual-first", factual.resolution
        )
    if kind == "factual" and not _agrees(queue, work.calls[call], resolution, result):
        raise UnknownResolutionConflict(thread, submission, call, "committed-result", ANYTHING)
    made = UnknownResolution(call, resolution, *said, result, world.now)
    work.resolutions[call, kind] = made
    woken = work.state == "unknown" and not work.unresolved
    if woken:
        work.resume()
    return ResolutionRecorded(made, woken=woken, replayed=False)


def _agrees(queue: Queue, call: UnknownCall, resolution: Resolution, result: JsonValue) -> bool:
    """Say whether what is told agrees with the newest result that the log holds for the call."""
    committed = [
        record.payload
        for _, record in queue.records.values()
        if isinstance(record.payload, ToolCallSettled)
        and (record.payload.run_id, record.payload.tool_call_id) == (call.run_id, call.tool_call_id)
    ]
    if not committed:
        return True
    return resolution == "completed-with-result" and committed[-1].result == result
