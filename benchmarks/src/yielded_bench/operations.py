"""Every operation of the ports once, for the tables of what each asks of an engine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from yielded_bench.ledger_operations import every_ledger_operation
from yielded_bench.long_thread import BATCH_RECORDS, LongThread
from yielded_bench.records import PRODUCER, annotation, batches, record, tool_result
from yielded_core.errors import AppendConflict, FenceRejected
from yielded_core.log.prepared import prepare_stored
from yielded_core.ports.values import Batch, Checkpoint, ThreadTail
from yielded_core.records.identifiers import BatchId, Digest, Principal, RecordId, ThreadId
from yielded_core.records.payloads import PeerMessagePrepared, WorkHandoffCompleted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yielded_core.ports.values import PreparedBatch, StoredBatch, Tail
    from yielded_core.storage import Storage

Count = TypeVar("Count")

_INSTANT: Final = "2030-01-02T03:04:05.678Z"
_SIZE: Final = 10
_PAGE: Final = 100


class Line(NamedTuple, Generic[Count]):
    """One operation, and what was counted before and after it."""

    operation: str
    before: Count
    after: Count


@dataclass
class Bill(Generic[Count]):
    """Runs operations and keeps what was counted around each of them."""

    count: Callable[[], Count]
    lines: list[Line[Count]] = field(default_factory=list[Line[Count]])

    async def add(self, operation: str, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it returns
        """Await an operation, a refused one too, and note what was counted."""
        before = self.count()
        found: Any = None
        with suppress(AppendConflict, FenceRejected):
            found = await work
        self.lines.append(Line(operation, before, self.count()))
        return found


async def every_operation(bill: Bill[Any], storage: Storage, prefix: str = "") -> None:
    """Run every operation once, on threads whose ids begin with a prefix."""
    long = await LongThread.begin(storage, f"{prefix}long")
    await long.grow(storage, 4 * BATCH_RECORDS)
    await storage.threads.tail(long.thread)
    await _appends(bill, storage, ThreadId(f"{prefix}appended"))
    await _reads(bill, storage, long)
    await _evidence(bill, storage, long)
    await _upkeep(bill, storage, long)
    await _imports(bill, storage, long, ThreadId(f"{prefix}imported"))
    await every_ledger_operation(bill.add, storage, ThreadId(f"{prefix}lane"))


async def _appends(bill: Bill[Any], storage: Storage, name: ThreadId) -> None:
    threads = storage.threads
    found = await bill.add("materialize, a new thread", threads.materialize(name, epoch=1))
    await bill.add("materialize, again", threads.materialize(name, epoch=1))
    await bill.add("materialize, a higher epoch", threads.materialize(name, epoch=2))
    empty: Tail = found.tail
    noted, first, second, ten, moved = (
        *batches(annotation, 0, 1),
        *batches(tool_result, 1, 2),
        *batches(tool_result, 10, 1, _SIZE),
        *batches(tool_result, 100, 1),
    )

    async def append(
        operation: str, batch: Batch | PreparedBatch, expected: Tail, epoch: int = 2
    ) -> Tail:
        work = threads.append(name, batch, expected=expected, epoch=epoch)
        done = await bill.add(operation, work)
        return expected if done is None else done.tail

    tail = await append("append, 1 record that no index lists", noted, empty)
    tail = await append("append, the first record of a run", first, tail)
    tail = await append("append, the next record of a run", second, tail)
    tail = await append(f"append, {_SIZE} records of a run", ten, tail)
    await append("append, replayed", ten, empty)
    await append("append, refused: a stale epoch", moved, tail, epoch=1)
    await append("append, refused: another tail", moved, empty)
    opened, closed = record("prepared", _PREPARED), record("completed", _COMPLETED)
    handoff = Batch(BatchId("handoff"), PRODUCER, (opened,))
    tail = await append("append, a handoff that opens", handoff, tail)
    await bill.add("work_handoffs, one open", threads.work_handoffs(name))
    await append("append, a handoff that closes", Batch(BatchId("done"), PRODUCER, (closed,)), tail)


_PREPARED: Final = PeerMessagePrepared(
    message_id="message",
    source={},
    source_principal=Principal("agent"),
    operation="send",
    deadline_at_millis=1,
    encoded_envelope={},
)
_COMPLETED: Final = WorkHandoffCompleted(preparation_id=RecordId("prepared"), owner_id="thread")


async def _reads(bill: Bill[Any], storage: Storage, long: LongThread) -> None:
    threads, name = storage.threads, long.thread
    through = long.tail.sequence
    await bill.add("tail", threads.tail(name))
    await bill.add("identity", threads.identity(name))
    await bill.add(f"read, {_PAGE} records", threads.read(name, after=_PAGE, limit=_PAGE))
    await bill.add("get_record", threads.get_record(name, long.record_ids[0]))
    prompt = threads.read_prompt(name, after=0, through=through, limit=_PAGE)
    await bill.add(f"read_prompt, {_PAGE} records", prompt)
    found = threads.read_batches(name, after=0, through=through, byte_limit=1)
    await bill.add("read_batches, 1 batch", found)
    await bill.add("threads, 2 of them", threads.threads())
    await bill.add("capture", threads.capture(name))


async def _evidence(bill: Bill[Any], storage: Storage, long: LongThread) -> None:
    threads, name = storage.threads, long.thread
    run, call = next(iter(long.calls.items()))
    through = long.tail.sequence
    await bill.add("get_run_input", threads.get_run_input(name, run))
    await bill.add("run_progress", threads.run_progress(name, run))
    continuation = threads.read_continuation(name, run, through=through)
    await bill.add("read_continuation", continuation)
    page = threads.read_run_evidence(name, run, after=0, through=through)
    await bill.add("read_run_evidence, 8 facts", page)
    page = threads.read_run_evidence(name, run, after=through - 25, through=through)
    await bill.add("read_run_evidence, the last page", page)
    operation = threads.read_operation_evidence(name, run, call, through=through)
    await bill.add("read_operation_evidence, 2 facts", operation)


async def _upkeep(bill: Bill[Any], storage: Storage, long: LongThread) -> None:
    threads, name = storage.threads, long.thread
    await bill.add("index_state", threads.index_state(name))
    rebuilt = threads.rebuild_indexes(name, restart=True, limit=1)
    await bill.add(f"rebuild_indexes, from the start, {BATCH_RECORDS} records", rebuilt)
    while not (await threads.rebuild_indexes(name)).complete:
        continue
    checkpoints = storage.checkpoints
    assert checkpoints is not None, "every adapter offers checkpoints"
    checkpoint = Checkpoint(name, long.tail.sequence, long.tail.digest, {}, _INSTANT)
    await bill.add("checkpoint, save", checkpoints.save(checkpoint))
    await bill.add("checkpoint, load", checkpoints.load(name))


async def _imports(bill: Bill[Any], storage: Storage, long: LongThread, imported: ThreadId) -> None:
    archives = storage.archives
    stored = await storage.threads.read_batches(
        long.thread, after=0, through=2 * BATCH_RECORDS, byte_limit=16 * 1_048_576
    )
    await bill.add(
        f"seal_range, {2 * BATCH_RECORDS} records",
        archives.seal_range(long.thread, through=2 * BATCH_RECORDS),
    )
    moved = archives.archive_range(long.thread, first=1)
    await bill.add(f"archive_range, {2 * BATCH_RECORDS} records", moved)
    await bill.add("ranges, 1", archives.ranges(long.thread))
    first = storage.threads.get_record(long.thread, long.record_ids[0])
    await bill.add("get_record, archived", first)
    archive = ThreadTail(imported, BATCH_RECORDS, Digest(stored[0].tail_digest), 1)
    await bill.add("import_state", archives.import_state(archive.thread_id))
    await bill.add("begin_import", archives.begin_import(archive))
    staged = archives.stage_batches(archive.thread_id, [(_prepared(stored[0]), 1)])
    await bill.add(f"stage_batches, {BATCH_RECORDS} records", staged)
    await bill.add("stage_work, nothing", archives.stage_work(archive.thread_id, ()))
    await bill.add("staged_work, nothing", archives.staged_work(archive.thread_id))
    await bill.add("publish_import", archives.publish_import(archive.thread_id))
    deleted = storage.threads.delete_thread(archive.thread_id)
    await bill.add(f"delete_thread, {BATCH_RECORDS} records", deleted)


def _prepared(stored: StoredBatch) -> PreparedBatch:
    wires = [wire for _, wire in stored.records]
    return prepare_stored(stored.batch_id, stored.producer_id, wires)
