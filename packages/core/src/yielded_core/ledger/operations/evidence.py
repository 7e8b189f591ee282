"""What almost every operation reads first: the lane and one submission of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_core.errors import (
    EvidenceFault,
    OwnershipLost,
    SubmissionNotFound,
    ThreadNotMaterialized,
)
from yielded_core.records.identifiers import input_record_id

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerEvidence
    from yielded_core.ports.work import Submission
    from yielded_core.records.identifiers import RecordId, SubmissionId, ThreadId


def lane_and_submission(
    unit: LedgerEvidence, thread: ThreadId, submission: SubmissionId
) -> tuple[LaneState, Submission]:
    """Return a submission and its lane. Raises SubmissionNotFound, ThreadDeleted."""
    lane = unit.lane(thread)
    found = None if lane is None else unit.submission(lane, submission)
    if lane is None or found is None:
        raise SubmissionNotFound(thread, submission)
    return lane, found


def owned_lane(unit: LedgerEvidence, thread: ThreadId) -> LaneState:
    """Return the lane that a token claims to own. Raises OwnershipLost where there is none."""
    lane = unit.lane(thread)
    if lane is None:
        raise OwnershipLost(thread, 0)
    return lane


def require_materialized(lane: LaneState) -> None:
    """Refuse a thread that is not in the log yet (LED-3)."""
    if lane.epoch == 0:
        raise ThreadNotMaterialized(lane.thread_id)


def sequence_of(unit: LedgerEvidence, lane: LaneState, record: RecordId) -> int | None:
    """Return where the log holds a record; None where it does not, or is not there yet."""
    return None if lane.epoch == 0 else unit.sequence_of(lane, record)


def require_input_at(
    unit: LedgerEvidence, lane: LaneState, submission: SubmissionId, sequence: int
) -> None:
    """Refuse a marker that the log does not bear out: where they disagree the log wins."""
    if sequence_of(unit, lane, input_record_id(submission)) != sequence:
        detail = f"the input of {submission} is not at sequence {sequence}"
        raise EvidenceFault(lane.thread_id, "evidence-missing", detail)
