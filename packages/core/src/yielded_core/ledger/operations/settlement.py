"""The one settlement of a submission: published in the log, finalized on the ledger (LED-8)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.errors import EvidenceFault, InvalidRecord, OwnershipLost
from yielded_core.ledger.lane import owns_submission, token_digest
from yielded_core.ledger.operations.evidence import lane_and_submission, require_materialized
from yielded_core.ledger.transitions import Facts, Operation, advance, moved
from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Batch
from yielded_core.ports.work import Published, Settled
from yielded_core.records.canonical import json_digest
from yielded_core.records.identifiers import (
    settlement_batch_id,
    settlement_id,
    settlement_record_id,
)
from yielded_core.records.payloads import SubmissionSettled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.values import PreparedBatch
    from yielded_core.ports.work import Authority, Submission
    from yielded_core.records.envelope import Record, StoredRecord
    from yielded_core.records.identifiers import (
        OwnershipToken,
        ProducerId,
        SettlementId,
        SubmissionId,
        ThreadId,
    )

_OPERATIONS: Final[Mapping[Authority, Operation]] = {
    "owned": "publish-owned",
    "joined": "publish-joined",
    "queued-abort": "publish-queued-abort",
}


def prepare_settlement(record: Record, producer: ProducerId) -> PreparedBatch:
    """Return the batch of a settlement record, checked and encoded before the first await.

    Raises InvalidRecord for one that is not named as its submission's settlement is (REC-2).
    """
    payload = record.payload
    if not isinstance(payload, SubmissionSettled):
        raise InvalidRecord(record.record_id, "payload", "it is not a SubmissionSettled")
    submission = payload.submission_id
    if record.record_id != settlement_record_id(submission):
        raise InvalidRecord(record.record_id, "recordId", f"it is not settlement:{submission}")
    if payload.settlement_id != settlement_id(submission):
        raise InvalidRecord(record.record_id, "settlementId", f"it is not settlement:{submission}")
    return prepare_batch(Batch(settlement_batch_id(submission), producer, (record,)))


def publish(
    unit: LedgerUnit,
    thread: ThreadId,
    batch: PreparedBatch,
    token: OwnershipToken,
    authority: Authority,
    *,
    finalize: bool,
) -> Published:
    """Append the one settlement record if the authority allows it (LED-8).

    The first record wins for ever: whoever published it gets it back, everybody else is refused.
    """
    (encoded,) = batch.records
    content = _content(encoded.record)
    lane, found = lane_and_submission(unit, thread, content.submission_id)
    require_materialized(lane)
    record = unit.record(lane, encoded.record.record_id)
    if record is not None:
        if unit.publisher(lane, found) != token_digest(token):
            raise OwnershipLost(thread, lane.epoch)
    else:
        _check_authority(unit, lane, found, content, token, authority)
        unit.append(lane, batch)
        unit.save_publisher(lane, found, token_digest(token))
    published = record or _published(unit, lane, content.submission_id)
    if finalize:
        _finalize(unit, lane, found, published, content.settlement_id)
    elif record is None:
        unit.save_lane(lane.changed())
    return Published(published, unit.tail(lane), replayed=record is not None)


def finalize_settlement(
    unit: LedgerUnit, thread: ThreadId, submission: SubmissionId, settlement: SettlementId
) -> Submission:
    """Project the canonical settlement record onto the ledger (LED-8)."""
    lane, found = lane_and_submission(unit, thread, submission)
    record = None if lane.epoch == 0 else unit.record(lane, settlement_record_id(submission))
    return _finalize(unit, lane, found, record, settlement)


def _check_authority(
    unit: LedgerUnit,
    lane: LaneState,
    submission: Submission,
    content: SubmissionSettled,
    token: OwnershipToken,
    authority: Authority,
) -> None:
    facts = Facts(
        owned=owns_submission(lane, submission.submission_id, token),
        aborted=submission.abort is not None and content.outcome == "aborted",
        agrees=authority == "joined" and _as_host(unit, lane, submission, content),
    )
    advance(_OPERATIONS[authority], lane, submission, facts)
    if content.receipt_id != submission.receipt_id:
        name = settlement_record_id(submission.submission_id)
        raise InvalidRecord(name, "receiptId", "it is not the receipt of the submission")


def _as_host(
    unit: LedgerUnit, lane: LaneState, guest: Submission, content: SubmissionSettled
) -> bool:
    """Say whether a settlement equals the host's published one in outcome and diagnostic."""
    record = None if guest.host is None else unit.record(lane, settlement_record_id(guest.host))
    if record is None:
        return False
    host = _content(record.record)
    if host.outcome != content.outcome:
        return False
    return host.outcome != "failed" or json_digest(host.result) == json_digest(content.result)


def _finalize(
    unit: LedgerUnit,
    lane: LaneState,
    submission: Submission,
    record: StoredRecord | None,
    settlement: SettlementId,
) -> Submission:
    content = None if record is None else _content(record.record)
    facts = Facts(
        published=content is not None,
        agrees=content is not None and content.settlement_id == settlement,
    )
    outcome = None if content is None else content.outcome
    row = advance("finalize-settlement", lane, submission, facts, outcome)
    if row.then == "same" or content is None:
        return submission
    settled = Settled(settlement, content.outcome, unit.moment.wall)
    final = replace(moved(row, submission), suspension=None, settled=settled)
    unit.save_submission(lane, final)
    owner = lane.owner
    ends = owner is not None and owner.submission_id == submission.submission_id
    unit.save_lane(lane.released() if ends else lane.changed())
    return final


def _published(unit: LedgerUnit, lane: LaneState, submission: SubmissionId) -> StoredRecord:
    record = unit.record(lane, settlement_record_id(submission))
    if record is None:
        detail = f"the settlement record of {submission} is not there after its append"
        raise EvidenceFault(lane.thread_id, "evidence-missing", detail)
    return record


def _content(record: Record) -> SubmissionSettled:
    payload = record.payload
    if not isinstance(payload, SubmissionSettled):
        raise InvalidRecord(record.record_id, "payload", "it is not a SubmissionSettled")
    return payload
