"""The model of what recovery decides, as far as no call of a run has to be read (RCV-1 to RCV-11).

What the records of calls decide is left open: the rows that they reach are counted, and the cases
of recovery say what each of them decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.ledger.recovery_decisions import (
    ApplyInput,
    ApplyResolutions,
    AwaitApproval,
    AwaitChildren,
    AwaitHost,
    AwaitParentLineage,
    AwaitResolutions,
    CompleteMaterialization,
    FinalizeFromHistory,
    NothingToDo,
    RepairInputMarker,
    RepairJoinMarker,
    RepairReadiness,
    ResumeFromBoundary,
    ResumeToJoinChildren,
    RevertJoining,
    SettleAborted,
    SettleWithHost,
)
from yielded_core.records.payloads import (
    ModelResponseRecorded,
    SubagentRequested,
    SubagentStarted,
    ToolApprovalDecided,
    ToolApprovalRequested,
    ToolCallSettled,
)
from yielded_testing.model.reference.world import ANYTHING

if TYPE_CHECKING:
    from yielded_core.ledger.recovery_decisions import RecoveryDecision
    from yielded_core.ports.work import UnknownResolution
    from yielded_core.records.identifiers import ToolCallId
    from yielded_testing.model.reference.world import Queue, Work, World

_OF_CALLS: Final = (
    ModelResponseRecorded,
    SubagentRequested,
    SubagentStarted,
    ToolApprovalDecided,
    ToolApprovalRequested,
    ToolCallSettled,
)


def decision(world: World, queue: Queue, work: Work) -> RecoveryDecision:
    """Return what is to be done next for some work; equal to everything where calls decide."""
    if work.settled is not None:
        return NothingToDo()
    if world.is_published(work.thread, work.name):
        return FinalizeFromHistory()
    place = queue.at(f"input:{work.name}")
    if work.state == "joining":
        return RevertJoining(work.host) if place is None else RepairJoinMarker(place)
    if work.state == "joined":
        published = work.host is not None and world.is_published(work.thread, work.host)
        return SettleWithHost(work.host) if published else AwaitHost(work.host)
    if work.reservations or any(
        isinstance(record.payload, _OF_CALLS) and record.payload.run_id == f"run:{work.name}"
        for _, record in queue.records.values()
    ):
        return ANYTHING
    return _without_calls(world, queue, work, place)


def _without_calls(world: World, queue: Queue, work: Work, place: int | None) -> RecoveryDecision:
    if work.abort is not None:
        if not queue.epoch:
            return CompleteMaterialization()
        return SettleAborted("queued-abort" if work.state in {"admitted", "ready"} else "owned")
    if work.state == "unknown" or work.resolutions:
        return _unknown(work)
    if work.waits is not None:
        return _waiting(world, work)
    return _before_the_run(queue, work, place)


def _before_the_run(queue: Queue, work: Work, place: int | None) -> RecoveryDecision:
    if work.state == "admitted":
        if work.linkage is not None and queue.at("lineage") is None:
            return AwaitParentLineage()
        return RepairReadiness() if queue.epoch else CompleteMaterialization()
    if place is None:
        return ApplyInput()
    return ResumeFromBoundary() if work.marked == place else RepairInputMarker(place)


def _unknown(work: Work) -> RecoveryDecision:
    """Of two resolutions of a call, the one that says what happened counts."""
    if work.unresolved:
        return AwaitResolutions(tuple(sorted(work.unresolved)))
    counting: dict[ToolCallId, UnknownResolution] = {}
    for call, kind in sorted(work.resolutions):  # execution before factual
        counting[call] = work.resolutions[call, kind]
    return ApplyResolutions(tuple(counting.values()), ())


def _waiting(world: World, work: Work) -> RecoveryDecision:
    waits = work.waits
    if waits is None or not waits.children:
        pending = () if waits is None else waits.approvals
        return AwaitApproval(tuple(call for call in pending if call not in work.approvals))
    unpublished = tuple(
        child
        for child in waits.children
        if not world.is_published(child.thread_id, child.submission_id)
    )
    return AwaitChildren(unpublished) if unpublished else ResumeToJoinChildren(waits.children)
