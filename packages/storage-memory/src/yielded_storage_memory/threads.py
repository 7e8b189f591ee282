"""The thread store over dictionaries: every decision is a pure rule, made without an await."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from yielded_core.log import reads
from yielded_core.log.append import decide_materialize
from yielded_core.log.offsets import offset_prefix, sequence_of
from yielded_core.log.prepared import prepare_batch
from yielded_core.log.retention import check_deletable, first_epoch
from yielded_core.ports.values import (
    CapturedThread,
    IndexState,
    ThreadTail,
    Tombstone,
)
from yielded_core.records.bounds import PAGE_RECORDS
from yielded_core.records.identifiers import check_epoch, check_identifier
from yielded_storage_memory.reads import MemoryReader
from yielded_storage_memory.state import Indexes, Thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from yielded_core.log.progress import RunProgress
    from yielded_core.ports.values import Appended, Batch, PreparedBatch, Tail
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import Offset, RunId, ThreadId
    from yielded_storage_memory.store import Store


class MemoryThreads(MemoryReader):
    """ThreadStore of one process and its lifetime."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._store = store

    async def materialize(self, thread: ThreadId, *, epoch: int) -> ThreadTail:
        """Register a thread, or take it over at a higher epoch (LOG-1)."""
        with self._store.operation():
            check_identifier(thread, "thread id")
            check_epoch(epoch)
            found = self._store.find(thread)
            if found is None:
                decide_materialize(thread, None, epoch)
                begins = first_epoch(epoch, self._store.epoch_floor)
                found = self._store.threads[thread] = Thread(begins)
                lane = self._store.lanes.rows.get(thread)
                found.fact_revision = 0 if lane is None else lane.fact_revision
            elif decide_materialize(thread, found.epoch, epoch):
                found.epoch = epoch
                self._store.lanes.end_ownership(thread, self._store.clock.moment().store)
            tail = found.log.tail
            return ThreadTail(thread, tail.sequence, tail.digest, found.epoch)

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        """Commit a whole batch at the expected tail (LOG-2 to LOG-7)."""
        with self._store.operation():
            check_identifier(thread, "thread id")
            check_epoch(epoch)
            prepared = prepare_batch(batch)
            appended = self._store.live(thread).append(thread, prepared, expected, epoch)
            if not appended.replayed:
                self._store.wake(thread)
            return appended

    async def observe(
        self, thread: ThreadId, *, after: Offset | None = None
    ) -> AsyncGenerator[StoredRecord]:
        """Deliver every record after an offset, stored and new, until cancelled (LOG-9)."""
        self._store.check()
        check_identifier(thread, "thread id")
        prefix = offset_prefix(self._store.incarnation, thread)
        position = 0 if after is None else sequence_of(after, prefix, thread)
        reads.check_offset(self._resolve(thread)[0], position)
        with self._store.observer(thread) as news:
            while True:
                news.clear()
                for record in await self.read(thread, after=position):
                    position = record.sequence
                    yield record
                if self._resolve(thread)[0].sequence == position:
                    await news.wait()
                self._store.check()

    async def threads(
        self, *, after: ThreadId | None = None, limit: int = 256
    ) -> tuple[ThreadTail, ...]:
        """Return threads by id (LOG-19)."""
        with self._store.operation():
            reads.check_limit(limit, PAGE_RECORDS)
            first = "" if after is None else check_identifier(after, "thread id")
            later = (name for name in self._store.threads if name > first)
            page: list[ThreadTail] = []
            for name in heapq.nsmallest(limit, later):
                found = self._store.threads[name]
                tail = found.log.tail
                page.append(ThreadTail(name, tail.sequence, tail.digest, found.epoch))
            return tuple(page)

    async def capture(self, thread: ThreadId) -> CapturedThread:
        """Return the tail and the fact revision that an export binds to (ARC-2)."""
        with self._store.operation():
            state = self._resolve(thread)[0]
            tail = ThreadTail(thread, state.sequence, state.digest, state.epoch)
            return CapturedThread(tail, state.fact_revision)

    async def run_progress(self, thread: ThreadId, run: RunId) -> RunProgress | None:
        """Return the counters that the next continuation of a run builds on (LOG-16)."""
        with self._store.operation():
            check_identifier(run, "run id")
            state, log = self._resolve(thread)
            reads.require_indexed(state, state.sequence)
            return log.indexes.progress.get(run)

    async def index_state(self, thread: ThreadId) -> IndexState:
        """Return how far the indexes reach (LOG-17)."""
        with self._store.operation():
            state = self._resolve(thread)[0]
            return IndexState(state.indexed_through, state.sequence)

    async def rebuild_indexes(
        self, thread: ThreadId, *, restart: bool = False, limit: int = PAGE_RECORDS
    ) -> IndexState:
        """Index the next whole batches (LOG-17)."""
        with self._store.operation():
            reads.check_limit(limit, PAGE_RECORDS)
            state, log = self._resolve(thread)
            if restart:
                log.indexes = Indexes()
            log.reindex(thread, limit)
            return IndexState(log.indexes.through, state.sequence)

    async def delete_thread(self, thread: ThreadId) -> Tombstone:
        """Remove a thread and leave a tombstone (ARC-7)."""
        with self._store.operation():
            check_identifier(thread, "thread id")
            buried = self._store.tombstones.get(thread)
            if buried is not None:
                return buried
            found = self._store.live(thread)
            state = found.state(thread)
            reads.require_indexed(state, state.sequence)
            lane = self._store.lanes.rows.get(thread)
            owes_work = lane is not None and bool(lane.unsettled)
            check_deletable(thread, len(found.log.indexes.handoffs), owes_work=owes_work)
            tombstone = Tombstone(thread, found.log.tail, found.epoch)
            self._store.tombstones[thread] = tombstone
            del self._store.threads[thread]
            self._store.lanes.remove(thread)
            self._store.wake(thread)
            return tombstone
