"""The model of the thread log, as far as accepted work needs it (LOG-2 to LOG-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.errors import (
    AppendConflict,
    FenceRejected,
    ProgressRefused,
    ThreadNotMaterialized,
)
from yielded_core.ports.values import Appended, Tail
from yielded_testing.model.reference.world import ANYTHING, Written
from yielded_testing.suites.builders import next_digest, record_bytes

if TYPE_CHECKING:
    from yielded_core.ports.values import Batch
    from yielded_core.records.identifiers import ThreadId
    from yielded_testing.model.reference.world import Queue, World

_PLACES: Final = {"ThreadCreated": 1, "SubagentLineageRecorded": 2}


def append(world: World, thread: ThreadId, batch: Batch, expected: Tail, epoch: int) -> Appended:
    """Commit a batch: not materialized, fence, batch, record, tail, place, in this order."""
    queue = world.queue(thread)
    if queue.epoch == 0:
        raise ThreadNotMaterialized(thread)
    if epoch != queue.epoch:
        raise FenceRejected(thread, queue.epoch, epoch)
    tail = queue.tail
    records = tuple((each.record_id, record_bytes(each)) for each in batch.records)
    for known in queue.log:
        if known.batch == batch.batch_id:
            if (known.producer, known.records) != (batch.producer_id, records):
                raise AppendConflict(thread, "batch-digest", tail.sequence, tail.digest)
            return Appended(known.first, known.tail, replayed=True)
    if any(name in queue.records for name, _ in records):
        raise AppendConflict(thread, "record-identity", tail.sequence, tail.digest)
    if expected != tail:
        raise AppendConflict(thread, "tail", tail.sequence, tail.digest)
    _require_places(thread, batch, tail.sequence + 1)
    digest = next_digest(
        tail.digest, batch.batch_id, [wire for _, wire in records], batch.producer_id
    )
    first = tail.sequence + 1
    after = Tail(tail.sequence + len(records), digest)
    queue.log.append(Written(batch.batch_id, batch.producer_id, epoch, first, records, after))
    for sequence, record in enumerate(batch.records, start=first):
        queue.records[record.record_id] = (sequence, record)
    return Appended(first, after, replayed=False)


def _require_places(thread: ThreadId, batch: Batch, first: int) -> None:
    """Refuse what a thread is but as its first record, for whom it works but as its second."""
    for sequence, record in enumerate(batch.records, start=first):
        place = _PLACES.get(record.payload.tag, sequence)
        if sequence != place:
            raise ProgressRefused(thread, ANYTHING, "placement", ANYTHING)


def wire_at(queue: Queue, sequence: int) -> bytes:
    """Return the bytes of the record at a sequence."""
    for written in queue.log:
        if written.first <= sequence <= written.tail.sequence:
            return written.records[sequence - written.first][1]
    raise KeyError(sequence)
