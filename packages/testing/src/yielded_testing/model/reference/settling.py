"""The model of children's reservations and of settlement (LED-8, LED-14)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from yielded_core.errors import (
    AuthorityRefused,
    ChildReservationConflict,
    EvidenceFault,
    InvalidRecord,
    OwnershipLost,
    SettlementConflict,
    ThreadNotMaterialized,
)
from yielded_core.ports.values import Batch
from yielded_core.ports.work import Reservation, Settled
from yielded_core.records.identifiers import BatchId
from yielded_testing.model.reference import journal
from yielded_testing.model.reference.world import ANYTHING

if TYPE_CHECKING:
    from yielded_core.ports.values import Tail
    from yielded_core.ports.work import Authority, AwaitedChild, Submission
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import (
        OwnershipToken,
        ProducerId,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )
    from yielded_core.records.payloads import SubmissionSettled
    from yielded_testing.model.reference.world import Queue, Work, World


class PublishedView(NamedTuple):
    """What a publication answers, without the opaque offset of its record."""

    sequence: int
    wire: bytes
    tail: Tail
    replayed: bool


# --- reservations ---


def reserve(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    wanted: Reservation,
) -> Reservation:
    """Reserve for the one child of a call."""
    call = wanted.tool_call_id
    work, known = _owned(world, thread, submission, token, call)
    if known is None:
        work.reservations[call] = wanted
        return wanted
    if (known.reservation_id, known.digest) != (wanted.reservation_id, wanted.digest):
        raise _conflict(work, call)
    return known


def attach(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    call: ToolCallId,
    child: AwaitedChild,
) -> Reservation:
    """Name the child of a reservation, once and before its release begins."""
    work, known = _owned(world, thread, submission, token, call)
    if known is not None and known.child == child:
        return known
    if known is None or known.status != "reserved":
        raise _conflict(work, call)
    work.reservations[call] = replace(known, child=child, status="attached")
    return work.reservations[call]


def begin_release(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    call: ToolCallId,
    accounting: JsonValue,
) -> Reservation:
    """Freeze the accounting of a reservation, once."""
    work, known = _owned(world, thread, submission, token, call, freeing=True)
    if known is None:
        raise _conflict(work, call)
    if known.status in {"releasing", "released"}:
        if known.accounting != accounting:
            raise _conflict(work, call)
        return known
    work.reservations[call] = replace(known, accounting=accounting, status="releasing")
    return work.reservations[call]


def release_child(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    call: ToolCallId,
) -> Reservation:
    """Free a reservation whose release began."""
    work, known = _owned(world, thread, submission, token, call, freeing=True)
    if known is None or known.status not in {"releasing", "released"}:
        raise _conflict(work, call)
    work.reservations[call] = replace(known, status="released")
    return work.reservations[call]


def _owned(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    call: ToolCallId,
    *,
    freeing: bool = False,
) -> tuple[Work, Reservation | None]:
    """Return what a call holds; what is given back after settlement needs no owner."""
    queue, work = world.find(thread, submission)
    if not queue.holds(token, submission) and (work.open or not freeing):
        raise OwnershipLost(thread, queue.epoch)
    return work, work.reservations.get(call)


def _conflict(work: Work, call: ToolCallId) -> ChildReservationConflict:
    known = work.reservations.get(call)
    status = "none" if known is None else known.status
    return ChildReservationConflict(work.thread, work.name, call, status, ANYTHING)


# --- settlement ---


def publish(
    world: World,
    thread: ThreadId,
    record: Record,
    producer: ProducerId,
    token: OwnershipToken,
    authority: Authority,
    *,
    finalize: bool,
) -> PublishedView:
    """Append the one settlement record; whoever published it gets it back for ever."""
    content = cast("SubmissionSettled", record.payload)
    queue, work = world.find(thread, content.submission_id)
    if queue.epoch == 0:
        raise ThreadNotMaterialized(thread)
    name = record.record_id
    replayed = name in queue.records
    if replayed:
        if work.publisher != token:
            raise OwnershipLost(thread, queue.epoch)
    else:
        _check_authority(queue, work, content, token, authority)
        if content.receipt_id != work.receipt:
            raise InvalidRecord(name, "receiptId", ANYTHING)
        batch = Batch(BatchId(f"submission-settlement:{work.name}"), producer, (record,))
        journal.append(world, thread, batch, queue.tail, queue.epoch)
        work.publisher = token
    if finalize:
        _project(world, queue, work)
    sequence = queue.records[name][0]
    return PublishedView(sequence, journal.wire_at(queue, sequence), queue.tail, replayed)


def _check_authority(
    queue: Queue,
    work: Work,
    content: SubmissionSettled,
    token: OwnershipToken,
    authority: Authority,
) -> None:
    if authority == "owned":
        if not queue.holds(token, work.name):
            raise OwnershipLost(queue.thread, queue.epoch)
        return
    if authority == "joined":
        host = None if work.host is None else settlement_of(queue, work.host)
        allowed = work.state == "joined" and host is not None and _is_as(host, content)
    else:
        never_ran = work.state in {"admitted", "ready"}
        allowed = never_ran and work.abort is not None and content.outcome == "aborted"
    if not allowed:
        raise AuthorityRefused(queue.thread, work.name, authority, ANYTHING)


def _is_as(host: SubmissionSettled, content: SubmissionSettled) -> bool:
    """Say whether a settlement has the outcome and the diagnostic of the host's."""
    if host.outcome == "failed":
        return content.outcome == "failed" and content.result == host.result
    return content.outcome == host.outcome


def settlement_of(queue: Queue, submission: SubmissionId) -> SubmissionSettled | None:
    """Return the canonical settlement of a submission."""
    for _, record in queue.records.values():
        if record.record_id == f"settlement:{submission}":
            return cast("SubmissionSettled", record.payload)
    return None


def finalize_settlement(
    world: World, thread: ThreadId, submission: SubmissionId, settlement: str
) -> Submission:
    """Project the canonical record; frees the lane and the group."""
    queue, work = world.find(thread, submission)
    content = settlement_of(queue, submission)
    if content is None:
        raise EvidenceFault(thread, "evidence-missing", ANYTHING)
    if content.settlement_id != settlement:
        raise SettlementConflict(thread, submission, content.outcome)
    return _project(world, queue, work)


def _project(world: World, queue: Queue, work: Work) -> Submission:
    content = settlement_of(queue, work.name)
    if work.settled is None and content is not None:
        work.settled = Settled(content.settlement_id, content.outcome, world.now)
        work.state, work.waits = "settled", None
        if queue.owned is work:
            queue.end_ownership(world.now)
    return work.view()
