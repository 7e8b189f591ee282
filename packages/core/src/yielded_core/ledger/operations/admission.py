"""Accepting work, making it claimable, asking for its abort (LED-1 to LED-3, LED-9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from yielded_core.errors import AdmissionConflict, AdmissionRefused, InvalidArgument, InvalidJson
from yielded_core.ledger.operations.evidence import lane_and_submission, require_materialized
from yielded_core.ledger.transitions import Facts, advance, moved
from yielded_core.ports.work import (
    AbortAccepted,
    AbortIntent,
    Admission,
    Admitted,
    Submission,
)
from yielded_core.records.bounds import SHORT_TEXT_UNITS
from yielded_core.records.canonical import canonical_json, sha256_hex
from yielded_core.records.identifiers import check_identifier, identifier_fault

if TYPE_CHECKING:
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.identifiers import Digest, ReceiptId, SubmissionId, ThreadId


@dataclass(frozen=True, slots=True)
class PreparedAdmission:
    """An admission checked, encoded and digested once, before the first await."""

    thread_id: ThreadId
    admission: Admission
    input: bytes
    linkage: bytes
    message: bytes
    input_digest: Digest
    admission_digest: Digest
    submission_id: SubmissionId
    receipt_id: ReceiptId


def prepare_admission(
    admission: Admission, submission: SubmissionId, receipt: ReceiptId
) -> PreparedAdmission:
    """Check an admission and digest it; the ids are used if it is not a replay.

    Raises InvalidIdentifier, InvalidArgument for the group, InvalidJson.
    """
    check_identifier(admission.thread_id, "thread id")
    check_identifier(admission.principal, "principal")
    check_identifier(admission.idempotency_key, "idempotency key")
    if admission.group is not None:
        fault = identifier_fault(admission.group, SHORT_TEXT_UNITS)
        if fault is not None:
            raise InvalidArgument("group", fault)
    given, linkage, message = (
        _encoded(value, name)
        for name, value in (
            ("input", admission.input),
            ("linkage", admission.linkage),
            ("message", admission.message),
        )
    )
    input_digest = sha256_hex(given)
    return PreparedAdmission(
        admission.thread_id,
        admission,
        given,
        linkage,
        message,
        input_digest,
        content_digest(admission.group, input_digest, linkage, message),
        submission,
        receipt,
    )


def content_digest(group: str | None, given: Digest, linkage: bytes, message: bytes) -> Digest:
    """Return the digest of all that an exact replay repeats (LED-1); `given` is the input's."""
    return sha256_hex(
        b'{"group":%b,"input":"%b","linkage":%b,"message":%b}'
        % (canonical_json(group), given.encode(), linkage, message)
    )


def _encoded(value: JsonValue, name: str) -> bytes:
    try:
        return canonical_json(value)
    except InvalidJson as error:
        raise InvalidArgument(name, error.reason) from None


def admit(unit: LedgerUnit, work: PreparedAdmission) -> Admitted:
    """Accept work once per (thread, principal, key) (LED-1, LED-2)."""
    admission = work.admission
    lane = unit.lane(work.thread_id) or unit.create_lane(work.thread_id)
    known = unit.by_key(lane, admission.principal, admission.idempotency_key)
    if known is not None:
        return replayed(work, known)
    if admission.group is not None:
        occupant = unit.occupant(lane, admission.group)
        if occupant is not None:
            raise AdmissionRefused(work.thread_id, occupant, "occupied")
    lane = lane.changed(facts=True)._replace(last_queue_sequence=lane.last_queue_sequence + 1)
    submission = Submission(
        work.thread_id,
        work.submission_id,
        work.receipt_id,
        lane.last_queue_sequence,
        admission.principal,
        admission.idempotency_key,
        admission.group,
        work.input_digest,
        work.admission_digest,
        unit.moment.wall,
    )
    unit.add_submission(lane, submission, work.input, work.linkage, work.message)
    unit.save_lane(lane)
    return _receipt(submission, replayed=False)


def replayed(work: PreparedAdmission, known: Submission) -> Admitted:
    """Return the first receipt again for what was admitted under the key (LED-1).

    Raises AdmissionConflict where the content is another.
    """
    if known.admission_digest != work.admission_digest:
        raise AdmissionConflict(
            work.thread_id, known.submission_id, known.admission_digest, work.admission_digest
        )
    return _receipt(known, replayed=True)


def mark_ready(unit: LedgerUnit, thread: ThreadId, submission: SubmissionId) -> Submission:
    """Let admitted work be claimed (LED-3)."""
    lane, found = lane_and_submission(unit, thread, submission)
    require_materialized(lane)
    ready = moved(advance("mark-ready", lane, found, Facts()), found)
    if ready is not found:
        unit.save_submission(lane, ready)
        unit.save_lane(lane.changed())
    return ready


def request_abort(
    unit: LedgerUnit, thread: ThreadId, submission: SubmissionId, author: str, reason: str
) -> AbortAccepted:
    """Keep the first author, reason and instant; a suspended submission is woken (LED-9)."""
    lane, found = lane_and_submission(unit, thread, submission)
    row = advance("request-abort", lane, found, Facts(aborted=found.abort is not None))
    if found.abort is not None:
        return AbortAccepted(found.abort, replayed=True)
    intent = AbortIntent(author, reason, unit.moment.wall)
    unit.save_submission(lane, replace(moved(row, found), abort=intent))
    unit.save_lane(lane.changed(facts=True))
    return AbortAccepted(intent, replayed=False)


def _receipt(submission: Submission, *, replayed: bool) -> Admitted:
    return Admitted(
        submission.thread_id,
        submission.submission_id,
        submission.receipt_id,
        submission.queue_sequence,
        submission.admitted_at,
        replayed,
    )
