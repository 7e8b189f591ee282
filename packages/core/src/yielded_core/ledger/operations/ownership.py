"""Owning a lane: claim, renew, release, and the marker of the input (LED-4 to LED-7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from yielded_core.errors import MarkerConflict, OwnershipLost
from yielded_core.ledger.lane import (
    claim_target,
    claimed,
    owns,
    owns_submission,
    renewed,
    replayed_claim,
)
from yielded_core.ledger.operations.evidence import (
    lane_and_submission,
    owned_lane,
    require_input_at,
)
from yielded_core.ledger.transitions import Facts, advance, moved
from yielded_core.ports.work import Grant

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import ClaimHandoff, Submission
    from yielded_core.records.identifiers import (
        AttemptId,
        OwnershipToken,
        SubmissionId,
        ThreadId,
    )


def claim(
    unit: LedgerUnit,
    thread: ThreadId,
    attempt: AttemptId,
    token: OwnershipToken,
    lease: int,
    handoff: ClaimHandoff | None,
) -> Grant | None:
    """Own the lane and its head at the next epoch (LED-4, LED-5)."""
    lane = unit.lane(thread)
    if lane is None:
        return None
    held = replayed_claim(lane, attempt, token)
    if held is not None:
        owned = unit.submission(lane, held.submission_id)
        return None if owned is None else _grant(unit, lane, owned, replayed=True)
    now = unit.moment.store
    if lane.is_owned(now):
        return None
    deferred = 0 if handoff is None else len(handoff.deferred)
    target = claim_target(lane, unit.heads(lane, 1 + deferred), handoff)
    if target is None:
        return None
    facts = Facts(aborted=target.abort is not None)
    running = moved(advance("claim", lane, target, facts), target)
    lane = claimed(lane, target.submission_id, attempt, token, now + lease)
    if handoff is not None:
        lane = _defer(unit, lane, handoff)
    if running is not target:
        unit.save_submission(lane, running)
    unit.save_lane(lane)
    return _grant(unit, lane, running, replayed=False)


def _defer(unit: LedgerUnit, lane: LaneState, handoff: ClaimHandoff) -> LaneState:
    """Keep which submissions were passed: whoever verifies the order has to know (CRT-6)."""
    passed = (unit.submission(lane, name) for name in handoff.deferred)
    newly = [one for one in passed if one is not None and one.deferred_at is None]
    for one in newly:
        unit.save_submission(lane, replace(one, deferred_at=unit.moment.wall))
    return lane._replace(fact_revision=lane.fact_revision + len(newly))


def _grant(unit: LedgerUnit, lane: LaneState, owned: Submission, *, replayed: bool) -> Grant:
    held = lane.ownership
    if held is None:
        raise OwnershipLost(lane.thread_id, lane.epoch)
    return Grant(owned, held.attempt_id, held.epoch, held.expires_at, unit.tail(lane), replayed)


def renew(unit: LedgerUnit, thread: ThreadId, token: OwnershipToken, lease: int) -> int:
    """Extend the ownership and return when it expires (LED-6)."""
    lane = owned_lane(unit, thread)
    longer = renewed(lane, token, unit.moment.store + lease)
    unit.save_lane(longer)
    return longer.ownership.expires_at if longer.ownership is not None else 0


def release(unit: LedgerUnit, thread: ThreadId, token: OwnershipToken) -> None:
    """End the ownership without settling (LED-6)."""
    lane = owned_lane(unit, thread)
    if owns(lane, token) is None:
        raise OwnershipLost(thread, lane.epoch)
    unit.save_lane(lane.released())


def mark_input_applied(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    sequence: int,
) -> Submission:
    """Record where the input stands in the log (LED-7)."""
    lane, found = lane_and_submission(unit, thread, submission)
    facts = Facts(
        owned=owns_submission(lane, submission, token),
        marked=found.input_sequence == sequence,
        conflict=other_marker(found, sequence),
    )
    row = advance("mark-input-applied", lane, found, facts)
    if row.then == "same":
        return found
    require_input_at(unit, lane, submission, sequence)
    applied = replace(moved(row, found), input_sequence=sequence)
    unit.save_submission(lane, applied)
    unit.save_lane(lane.changed())
    return applied


def other_marker(submission: Submission, sequence: int) -> MarkerConflict | None:
    """Return what speaks against marking the input at a sequence."""
    marked = submission.input_sequence
    if marked is None or marked == sequence:
        return None
    return MarkerConflict(submission.thread_id, submission.submission_id, marked)
