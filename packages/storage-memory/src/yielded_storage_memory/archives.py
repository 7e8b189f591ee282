"""Archive ranges and imports over dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from yielded_core.errors import AppendConflict
from yielded_core.ledger.lane import LaneState
from yielded_core.ledger.operations.installing import install, stage
from yielded_core.ledger.operations.reading import lane_facts
from yielded_core.log import reads
from yielded_core.log.append import Accepted, ThreadState, decide_append
from yielded_core.log.prepared import prepare_stored
from yielded_core.log.retention import (
    BatchExtent,
    decide_import,
    decide_publish,
    open_begins_at,
    plan_range,
    require_staged,
    sealed_range,
)
from yielded_core.ports.values import ArchiveRange, ImportState, PreparedBatch
from yielded_core.records.bounds import TRANSFER_FACTS
from yielded_core.records.identifiers import check_identifier
from yielded_storage_memory.lanes import LaneRows, Lanes
from yielded_storage_memory.reads import MemoryReader
from yielded_storage_memory.state import Log, Thread
from yielded_storage_memory.unit import MemoryUnit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from yielded_core.ports.threads import ThreadReader
    from yielded_core.ports.values import StoredBatch, Tail, ThreadTail
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_memory.store import Store


@dataclass
class StagedImport:
    """An import that no reader sees yet."""

    archive: ThreadTail
    log: Log = field(default_factory=Log)
    lanes: Lanes = field(default_factory=Lanes)
    """Its lane, where no reader of lanes looks."""

    @property
    def work(self) -> LaneRows:
        """The lane that was staged so far."""
        return self.lanes.rows.get(self.archive.thread_id) or LaneRows()

    def lane(self) -> LaneState:
        """Return the lane as operations see it."""
        return LaneState(self.archive.thread_id, 0, 0, 0, len(self.work.places), 0)

    def state(self) -> ImportState:
        """Return how far it was staged."""
        tail = self.log.tail
        complete = tail == self.archive.tail
        work = len(self.work.places)
        return ImportState(self.archive.thread_id, self.archive.tail, tail, complete, work)

    def thread_state(self) -> ThreadState:
        """Return the row that decisions about the staged batches read."""
        tail = self.log.tail
        return ThreadState(
            self.archive.thread_id,
            1,
            self.archive.epoch,
            tail.sequence,
            tail.digest,
            tail.sequence,
            0,
        )


class MemoryArchives:
    """ArchiveStore of one process and its lifetime."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def seal_range(self, thread: ThreadId, *, through: int) -> ArchiveRange:
        """Close the oldest open batches (ARC-6)."""
        with self._store.operation():
            log = self._store.resolve(check_identifier(thread, "thread id"))[1]
            first = open_begins_at(log.ranges)
            sealed = plan_range(
                thread,
                first,
                through,
                map(_extent, log.batches_after(first - 1, log.tail.sequence)),
            )
            log.ranges.append(sealed)
            return sealed

    async def archive_range(self, thread: ThreadId, *, first: int) -> ArchiveRange:
        """Mark a sealed range archived; memory has no colder place to move it to (ARC-6)."""
        with self._store.operation():
            log = self._store.resolve(check_identifier(thread, "thread id"))[1]
            found = sealed_range(thread, first, log.ranges)
            archived = replace(found, state="archived")
            log.ranges[log.ranges.index(found)] = archived
            return archived

    async def ranges(self, thread: ThreadId) -> tuple[ArchiveRange, ...]:
        """Return the sealed and archived ranges."""
        with self._store.operation():
            return tuple(self._store.resolve(check_identifier(thread, "thread id"))[1].ranges)

    async def import_state(self, thread: ThreadId) -> ImportState | None:
        """Return the import that is staged for a thread."""
        with self._store.operation():
            staged = self._store.imports.get(check_identifier(thread, "thread id"))
            return None if staged is None else staged.state()

    async def begin_import(self, archive: ThreadTail) -> ImportState:
        """Begin to stage an archive, or resume it (ARC-4)."""
        with self._store.operation():
            thread = check_identifier(archive.thread_id, "thread id")
            staged = self._store.imports.get(thread)
            destination, tombstone = self._destination(thread)
            before = None if staged is None else staged.archive
            work = self._accepted_work(thread)
            begins = decide_import(archive, destination, tombstone, before, accepted_work=work)
            if begins or staged is None:
                staged = self._store.imports[thread] = StagedImport(archive)
            return staged.state()

    async def stage_batches(
        self, thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        """Stage batches after those staged before, all or none."""
        with self._store.operation():
            staged = self._staged(thread)
            before = len(staged.log.batches)
            try:
                for batch, epoch in batches:
                    _stage(staged, batch, epoch)
            except Exception:
                _roll_back(staged, staged.log.batches[:before])
                raise
            return staged.state()

    async def stage_work(self, thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        """Stage submissions after those staged before, all or none."""
        with self._store.operation():
            staged = self._staged(thread)
            before = len(staged.work.places)
            try:
                stage(self._unit(staged), staged.lane(), entries)
            except Exception:
                staged.work.cut(before)
                raise
            return staged.state()

    async def staged_work(
        self, thread: ThreadId, *, after: int = 0, limit: int = TRANSFER_FACTS
    ) -> tuple[SubmissionFacts, ...]:
        """Return the work that is staged, as it would be published."""
        with self._store.operation():
            staged = self._staged(thread)
            reads.check_sequence(after, "after")
            reads.check_limit(limit, TRANSFER_FACTS)
            return lane_facts(self._unit(staged), staged.lane(), after, limit)

    def import_reader(self, thread: ThreadId) -> ThreadReader:
        """Return reads of exactly what would be published (ARC-8)."""
        return MemoryReader(_ImportResolver(self._store, thread))

    async def publish_import(self, thread: ThreadId) -> ThreadTail:
        """Make a completely staged import visible (ARC-4)."""
        with self._store.operation():
            staged = self._staged(thread)
            destination, tombstone = self._destination(thread)
            work = self._accepted_work(thread)
            tail = decide_publish(
                staged.archive,
                staged.log.tail,
                destination,
                tombstone,
                accepted_work=work,
                floor=self._store.epoch_floor,
            )
            self._store.threads[thread] = Thread(tail.epoch, staged.log)
            if staged.work.places:
                self._store.lanes.adopt(thread, staged.lanes)
                unit = MemoryUnit(self._store, self._store.clock.moment())
                install(unit, thread, len(staged.work.places), staged.work.facts)
            del self._store.imports[thread]
            self._store.wake(thread)
            return tail

    async def discard_import(self, thread: ThreadId) -> None:
        """Forget a staged import."""
        with self._store.operation():
            self._store.imports.pop(check_identifier(thread, "thread id"), None)

    def _staged(self, thread: ThreadId) -> StagedImport:
        return require_staged(
            thread, self._store.imports.get(check_identifier(thread, "thread id"))
        )

    def _unit(self, staged: StagedImport) -> MemoryUnit:
        return MemoryUnit(self._store, self._store.clock.moment(), staged.lanes)

    def _accepted_work(self, thread: ThreadId) -> bool:
        rows = self._store.lanes.rows.get(thread)
        return rows is not None and bool(rows.last_queue_sequence)

    def _destination(self, thread: ThreadId) -> tuple[ThreadState | None, Tail | None]:
        found = self._store.threads.get(thread)
        buried = self._store.tombstones.get(thread)
        state = None if found is None else found.state(thread)
        return state, None if buried is None else buried.tail


class _ImportResolver:
    """Resolves reads to a staged import."""

    def __init__(self, store: Store, thread: ThreadId) -> None:
        self._store = store
        self._thread = thread

    @property
    def incarnation(self) -> str:
        """Identity of the store's timeline."""
        return self._store.incarnation

    def operation(self) -> AbstractContextManager[object]:
        """Hold closing back while an operation runs."""
        return self._store.operation()

    def resolve(self, thread: ThreadId) -> tuple[ThreadState, Log]:
        """Return the staged log, or raise ImportRefused."""
        own = thread == self._thread
        staged = require_staged(thread, self._store.imports.get(thread) if own else None)
        return staged.thread_state(), staged.log


def _stage(staged: StagedImport, batch: PreparedBatch, epoch: int) -> None:
    log = staged.log
    state = staged.thread_state()
    decision = decide_append(
        state, batch, log.tail, known=log.known(batch.batch_id), taken=log.taken(batch)
    )
    if not isinstance(decision, Accepted):
        raise AppendConflict(state.thread_id, "batch-digest", state.sequence, state.digest)
    log.commit(state.thread_id, batch, decision, epoch)


def _roll_back(staged: StagedImport, batches: Sequence[StoredBatch]) -> None:
    staged.log = Log()
    for batch in batches:
        wires = [wire for _, wire in batch.records]
        _stage(staged, prepare_stored(batch.batch_id, batch.producer_id, wires), batch.epoch)


def _extent(batch: StoredBatch) -> BatchExtent:
    size = sum(len(wire) for _, wire in batch.records)
    return BatchExtent(batch.first_sequence, batch.last_sequence, size)
