"""Staging the work of an import, and giving it to the thread that it is published as (ARC-4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from yielded_core.errors import InvalidArgument
from yielded_core.ledger.operations.unknown import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.identifiers import ThreadId


def stage(unit: LedgerUnit, lane: LaneState, entries: Iterable[SubmissionFacts]) -> None:
    """Write submissions after those of a lane, in a generation that no reader sees.

    An adapter undoes all of it where it raises.
    """
    last = lane.last_queue_sequence
    for entry in entries:
        found = entry.submission
        if found.queue_sequence != last + 1 or found.thread_id != lane.thread_id:
            raise InvalidArgument("entries", f"place {found.queue_sequence} does not follow {last}")
        taken = unit.submission(lane, found.submission_id) or unit.by_key(
            lane, found.principal, found.idempotency_key
        )
        if taken is not None:
            reason = f"the id or the key at place {found.queue_sequence} is taken"
            raise InvalidArgument("entries", reason)
        _write(unit, lane, entry)
        last += 1


def _write(unit: LedgerUnit, lane: LaneState, entry: SubmissionFacts) -> None:
    found = entry.submission
    admitted = replace(found, state="admitted", settled=None)
    unit.add_submission(lane, admitted, entry.input, entry.linkage, entry.message)
    unit.save_submission(lane, found)
    for approval in entry.approvals:
        unit.add_approval(lane, found, approval)
    for call in entry.unknown_calls:
        unit.add_unknown_call(lane, found, call)
    for resolution in entry.resolutions:
        unit.add_resolution(lane, found, resolution, kind_of(resolution.resolution))


def install(unit: LedgerUnit, thread: ThreadId, last: int, facts: int) -> None:
    """Make staged work the lane of a thread that was just published, without an owner.

    `last` is the place of its last submission, `facts` how many facts it consists of: as many as
    raised the revision where it was accepted.
    """
    lane = unit.lane(thread)
    if lane is not None and last:
        unit.save_lane(lane.changed()._replace(last_queue_sequence=last, fact_revision=facts))
