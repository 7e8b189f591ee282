"""Rows of the ledger's tables as the values that they stand for, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from yielded_core.ledger.lane import LaneState, Ownership
from yielded_core.ports.work import (
    AbortIntent,
    AwaitedChild,
    Reservation,
    Settled,
    Submission,
    Suspension,
    UnknownResolution,
)
from yielded_core.records.canonical import canonical_json
from yielded_core.records.identifiers import Digest

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.session import Row


def lane_of(thread: ThreadId, row: Row) -> LaneState:
    """Return the lane of a row of LANE."""
    generation, epoch, version, last, revision, submission, *owner = row
    ownership = None if submission is None else Ownership(submission, *owner)
    return LaneState(thread, generation, epoch, version, last, revision, ownership)


def owner_columns(lane: LaneState) -> tuple[object, ...]:
    """Return the columns of a lane's ownership, in the order of SET_LANE."""
    return (None,) * 5 if lane.ownership is None else tuple(lane.ownership)


def submission_of(row: Row) -> Submission:
    """Return the submission of a row of control columns."""
    author, reason, asked, settlement, outcome, settled, deferred = row[14:]
    return Submission(
        thread_id=row[0],
        submission_id=row[1],
        receipt_id=row[2],
        queue_sequence=row[3],
        principal=row[4],
        idempotency_key=row[5],
        group=row[6],
        input_digest=Digest(row[7].hex()),
        admission_digest=Digest(row[8].hex()),
        admitted_at=row[9],
        state=row[10],
        input_sequence=row[11],
        host=row[12],
        suspension=None if row[13] is None else _suspension_of(row[13]),
        abort=None if asked is None else AbortIntent(author, reason, asked),
        settled=None if settled is None else Settled(settlement, outcome, settled),
        deferred_at=deferred,
    )


def changing_columns(submission: Submission) -> tuple[object, ...]:
    """Return the columns of a submission that can change, in the order of SET_SUBMISSION."""
    abort, settled, waiting = submission.abort, submission.settled, submission.suspension
    return (
        submission.state,
        submission.input_sequence,
        submission.host,
        None if waiting is None else _suspension_text(waiting),
        *((None,) * 3 if abort is None else (abort.author, abort.reason, abort.requested_at)),
        *(
            (None,) * 3
            if settled is None
            else (settled.settlement_id, settled.outcome, settled.settled_at)
        ),
        submission.deferred_at,
    )


def resolution_of(row: Row) -> UnknownResolution:
    """Return the resolution of a row of RESOLUTIONS."""
    call, resolution, author, reason, result, resolved = row
    return UnknownResolution(call, resolution, author, reason, json_of(result), resolved)


def reservation_of(row: Row) -> Reservation:
    """Return the reservation of a row of RESERVATIONS."""
    call, name, digest, status, thread, submission, accounting = row
    child = None if thread is None else AwaitedChild(thread, submission)
    return Reservation(call, name, Digest(digest.hex()), status, child, json_of(accounting))


def reservation_columns(reservation: Reservation) -> tuple[object, ...]:
    """Return the columns of a reservation after its submission, as they are inserted."""
    child = reservation.child
    return (
        reservation.tool_call_id,
        reservation.reservation_id,
        bytes.fromhex(reservation.digest),
        reservation.status,
        *((None, None) if child is None else (child.thread_id, child.submission_id)),
        json_text(reservation.accounting),
    )


def json_of(text: bytes | None) -> JsonValue:
    """Return a JSON value from its canonical text; a missing one is null."""
    value: JsonValue = None if text is None else orjson.loads(text)
    return value


def json_text(value: JsonValue) -> bytes | None:
    """Return the canonical text of a JSON value; null is missing."""
    return None if value is None else canonical_json(value)


def _suspension_of(text: bytes) -> Suspension:
    calls, children = orjson.loads(text)
    return Suspension(tuple(calls), tuple(AwaitedChild(*child) for child in children))


def _suspension_text(waiting: Suspension) -> bytes:
    children = [[child.thread_id, child.submission_id] for child in waiting.children]
    return orjson.dumps([list(waiting.approvals), children])
