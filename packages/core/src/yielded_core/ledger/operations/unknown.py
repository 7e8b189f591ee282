"""Calls whose outcome nobody knows, and what people decide about them (LED-13)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from yielded_core.errors import UnknownCallNotFound, UnknownResolutionConflict
from yielded_core.ledger.operations.evidence import lane_and_submission
from yielded_core.ledger.transitions import Facts, advance, moved
from yielded_core.ports.work import (
    RESOLUTION_KINDS,
    ResolutionRecorded,
    UnknownCall,
    UnknownResolution,
)
from yielded_core.records.canonical import canonical_json, json_digest
from yielded_core.records.payloads import ToolCallSettled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_core.errors import SubmissionError
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import Resolution, ResolutionKind, Submission
    from yielded_core.records.identifiers import RunId, SubmissionId, ThreadId, ToolCallId


def kind_of(resolution: Resolution) -> ResolutionKind:
    """Say whether a resolution decides what to do, or tells what happened."""
    return RESOLUTION_KINDS[resolution]


def open_calls(
    calls: Iterable[UnknownCall], resolutions: Iterable[UnknownResolution]
) -> tuple[ToolCallId, ...]:
    """Return the calls of unknown outcome that nobody resolved."""
    resolved = {resolution.tool_call_id for resolution in resolutions}
    return tuple(call.tool_call_id for call in calls if call.tool_call_id not in resolved)


def mark_unknown(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    run: RunId,
    calls: Sequence[tuple[ToolCallId, str]],
) -> Submission:
    """Park a submission until its calls are resolved (LED-13).

    A repeat adds nothing; one that comes after every call was resolved does not park it again.
    """
    lane, found = lane_and_submission(unit, thread, submission)
    known = unit.unknown_calls(lane, found)
    names = {call.tool_call_id for call in known}
    added = [
        UnknownCall(call, run, reason, unit.moment.wall)
        for call, reason in dict(calls).items()
        if call not in names
    ]
    unresolved = open_calls((*known, *added), unit.resolutions(lane, found))
    row = advance("mark-unknown", lane, found, Facts(open_calls=bool(unresolved)))
    parked = moved(row, found)
    for call in added:
        unit.add_unknown_call(lane, found, call)
    if parked is not found:
        unit.save_submission(lane, parked)
    if added or parked is not found:
        unit.save_lane(lane.changed())
    return parked


def record_unknown_resolution(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    wanted: UnknownResolution,
) -> ResolutionRecorded:
    """Record what a person decided; covering every open call wakes the lane (LED-13).

    The instant is the store's, whatever `wanted` says.
    """
    lane, found = lane_and_submission(unit, thread, submission)
    made = replace(wanted, resolved_at=unit.moment.wall)
    call, kind = made.tool_call_id, kind_of(made.resolution)
    known = unit.resolutions(lane, found)
    calls = unit.unknown_calls(lane, found)
    facts = Facts(
        factual=kind == "factual",
        open_calls=bool(open_calls(calls, (*known, made))),
        conflict=_conflict(unit, lane, found, calls, known, made),
    )
    row = advance("record-unknown-resolution", lane, found, facts)
    for one in known:
        if one.tool_call_id == call and kind_of(one.resolution) == kind:
            return ResolutionRecorded(one, woken=False, replayed=True)
    unit.add_resolution(lane, found, made, kind)
    woken = moved(row, found)
    if woken is not found:
        unit.save_submission(lane, woken)
    unit.save_lane(lane.changed(facts=True))
    return ResolutionRecorded(made, woken=woken is not found, replayed=False)


def _conflict(
    unit: LedgerUnit,
    lane: LaneState,
    submission: Submission,
    calls: Sequence[UnknownCall],
    known: Sequence[UnknownResolution],
    made: UnknownResolution,
) -> SubmissionError | None:
    """Return what speaks against a resolution, or None."""
    thread, name, call = submission.thread_id, submission.submission_id, made.tool_call_id
    marked = next((one for one in calls if one.tool_call_id == call), None)
    if marked is None:
        return UnknownCallNotFound(thread, name, call)
    kind = kind_of(made.resolution)
    for one in known:
        if one.tool_call_id != call:
            continue
        if kind_of(one.resolution) == kind:
            if _content(one) == _content(made):
                return None
            reason = "other-resolution"
        elif kind == "execution":
            reason = "factual-first"
        else:
            continue
        return UnknownResolutionConflict(thread, name, call, reason, one.resolution)
    if kind == "factual" and not _agrees_with_log(unit, lane, marked, made):
        reason, existing = "committed-result", "the result in the log"
        return UnknownResolutionConflict(thread, name, call, reason, existing)
    return None


def _content(resolution: UnknownResolution) -> tuple[str, bytes]:
    return resolution.resolution, canonical_json(resolution.result)


def _agrees_with_log(
    unit: LedgerUnit, lane: LaneState, call: UnknownCall, made: UnknownResolution
) -> bool:
    """Say whether what is told agrees with the committed result, if there is one."""
    committed = unit.tool_result(lane, call.run_id, call.tool_call_id)
    if committed is None:
        return True
    payload = committed.record.payload
    return (
        made.resolution == "completed-with-result"
        and isinstance(payload, ToolCallSettled)
        and json_digest(payload.result) == json_digest(made.result)
    )
