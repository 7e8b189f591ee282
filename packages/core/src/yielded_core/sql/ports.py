"""The ports of the thread log over one store of a SQL engine."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import select

from yielded_core.ledger.operations.reading import lane_facts
from yielded_core.log import reads
from yielded_core.log.checkpoints import check_binding, decode_state, encode_checkpoint
from yielded_core.log.offsets import offset_prefix, sequence_of
from yielded_core.log.prepared import prepare_batch
from yielded_core.log.retention import require_staged
from yielded_core.observing import follow
from yielded_core.ports.values import (
    Appended,
    ArchiveRange,
    CapturedThread,
    Checkpoint,
    ImportState,
    IndexState,
    ThreadTail,
    Tombstone,
)
from yielded_core.records.bounds import PAGE_RECORDS, TRANSFER_FACTS
from yielded_core.records.identifiers import ThreadId, check_epoch, check_identifier
from yielded_core.sql import import_writes, log_writes, maintenance_writes, tables
from yielded_core.sql.reader import SqlReader, tail_of
from yielded_core.sql.snapshot import hex_digest, live_snapshot, staged_snapshot, thread_state

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager

    from yielded_core.log.progress import RunProgress
    from yielded_core.ports.threads import ThreadReader
    from yielded_core.ports.values import Batch, PreparedBatch, Tail
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import Digest, Offset, RunId
    from yielded_core.sql.session import Clock, SqlStore
    from yielded_core.sql.snapshot import Snapshot
    from yielded_core.sql.transactions import SqlTransactions


class _LiveSnapshots:
    """Snapshots of live threads."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    @property
    def incarnation(self) -> str:
        """Identity of the store's timeline."""
        return self._store.incarnation

    def snapshot(self, thread: ThreadId) -> AbstractAsyncContextManager[Snapshot]:
        """Open a snapshot of a live thread."""
        return self._store.reading(partial(live_snapshot, thread=thread))


class _StagedSnapshots(_LiveSnapshots):
    """Snapshots of one staged import (ARC-8)."""

    def __init__(self, store: SqlStore, thread: ThreadId) -> None:
        super().__init__(store)
        self._thread = thread

    def snapshot(self, thread: ThreadId) -> AbstractAsyncContextManager[Snapshot]:
        """Open a snapshot of the staged import; another thread's is refused."""
        if thread != self._thread:
            require_staged(thread, None)
        return self._store.reading(partial(staged_snapshot, thread=thread))


class SqlThreads(SqlReader):
    """ThreadStore over one store of a SQL engine."""

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        super().__init__(_LiveSnapshots(store))
        self._store = store
        self._clock = clock

    async def materialize(self, thread: ThreadId, *, epoch: int) -> ThreadTail:
        """Register a thread, or take it over at a higher epoch (LOG-1)."""
        check_identifier(thread, "thread id")
        check_epoch(epoch)
        return await self._store.write(
            partial(log_writes.materialize, thread=thread, epoch=epoch, clock=self._clock)
        )

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        """Commit a whole batch at the expected tail (LOG-2 to LOG-7)."""
        check_identifier(thread, "thread id")
        check_epoch(epoch)
        return await self._append(thread, prepare_batch(batch), expected, epoch)

    async def _append(
        self, thread: ThreadId, batch: PreparedBatch, expected: Tail, epoch: int
    ) -> Appended:
        """Commit a batch whose place and content were checked."""
        return await self._store.write(
            lambda connection: log_writes.append(connection, thread, batch, expected, epoch),
            touches=thread,
        )

    async def observe(
        self, thread: ThreadId, *, after: Offset | None = None
    ) -> AsyncGenerator[StoredRecord]:
        """Deliver every record after an offset, stored and new, until cancelled (LOG-9)."""
        check_identifier(thread, "thread id")
        prefix = offset_prefix(self._store.incarnation, thread)
        position = 0 if after is None else sequence_of(after, prefix, thread)
        async with self._open(thread) as snapshot:
            reads.check_offset(snapshot.state, position)
        with self._store.observing(thread) as news:
            async for record in follow(self, thread, position, news):
                yield record

    async def threads(
        self, *, after: ThreadId | None = None, limit: int = 256
    ) -> tuple[ThreadTail, ...]:
        """Return threads by id (LOG-19)."""
        reads.check_limit(limit, PAGE_RECORDS)
        columns = tables.threads.c
        materialized = select(tables.threads).where(columns.epoch > 0)
        listed = materialized.order_by(columns.thread_id).limit(limit)
        if after is not None:
            listed = listed.where(columns.thread_id > check_identifier(after, "thread id"))
        async with self._store.connection() as connection:
            rows = (await connection.execute(listed)).all()
            return tuple(tail_of(thread_state(row)) for row in rows)

    async def capture(self, thread: ThreadId) -> CapturedThread:
        """Return the tail and the fact revision that an export binds to (ARC-2)."""
        async with self._open(thread) as snapshot:
            return CapturedThread(tail_of(snapshot.state), snapshot.state.fact_revision)

    async def run_progress(self, thread: ThreadId, run: RunId) -> RunProgress | None:
        """Return the counters that the next continuation of a run builds on (LOG-16)."""
        check_identifier(run, "run id")
        async with self._open(thread) as snapshot:
            reads.require_indexed(snapshot.state, snapshot.state.sequence)
            return await snapshot.progress(run)

    async def index_state(self, thread: ThreadId) -> IndexState:
        """Return how far the indexes reach (LOG-17)."""
        async with self._open(thread) as snapshot:
            return IndexState(snapshot.state.indexed_through, snapshot.state.sequence)

    async def rebuild_indexes(
        self, thread: ThreadId, *, restart: bool = False, limit: int = PAGE_RECORDS
    ) -> IndexState:
        """Index the next whole batches (LOG-17)."""
        check_identifier(thread, "thread id")
        reads.check_limit(limit, PAGE_RECORDS)
        if restart:
            await self._store.write(partial(maintenance_writes.drop_indexes, thread=thread))
        return await self._store.write(
            partial(maintenance_writes.rebuild_indexes, thread=thread, limit=limit)
        )

    async def delete_thread(self, thread: ThreadId) -> Tombstone:
        """Remove a thread and leave a tombstone; the rows go in bounded transactions (ARC-7)."""
        check_identifier(thread, "thread id")
        instant = time.time_ns() // 1_000_000
        tombstone = await self._store.write(
            partial(maintenance_writes.delete_thread, thread=thread, instant=instant),
            touches=thread,
        )
        await self._store.purge()
        return tombstone


class SqlArchives:
    """ArchiveStore over one store of a SQL engine."""

    def __init__(self, store: SqlStore, ledger: SqlTransactions) -> None:
        self._store = store
        self._ledger = ledger

    async def seal_range(self, thread: ThreadId, *, through: int) -> ArchiveRange:
        """Close the oldest open batches (ARC-6)."""
        check_identifier(thread, "thread id")
        return await self._store.write(
            partial(maintenance_writes.seal_range, thread=thread, through=through)
        )

    async def archive_range(self, thread: ThreadId, *, first: int) -> ArchiveRange:
        """Copy a sealed range, verify the copy, free the hot rows (ARC-6)."""
        check_identifier(thread, "thread id")
        return await self._store.write(
            partial(maintenance_writes.archive_range, thread=thread, first=first)
        )

    async def ranges(self, thread: ThreadId) -> tuple[ArchiveRange, ...]:
        """Return the sealed and archived ranges."""
        check_identifier(thread, "thread id")
        columns = tables.ranges.c
        async with self._store.reading(partial(live_snapshot, thread=thread)) as snapshot:
            listed = (
                select(
                    columns.first_sequence,
                    columns.last_sequence,
                    columns.state,
                    columns.record_count,
                    columns.byte_count,
                )
                .where(columns.thread_id == thread)
                .where(columns.generation == snapshot.state.generation)
                .order_by(columns.first_sequence)
            )
            rows = (await snapshot.connection.execute(listed)).all()
            return tuple(ArchiveRange(*row) for row in rows)

    async def import_state(self, thread: ThreadId) -> ImportState | None:
        """Return the import that is staged for a thread."""
        check_identifier(thread, "thread id")
        return await self._store.write(partial(import_writes.find_import_state, thread=thread))

    async def begin_import(self, archive: ThreadTail) -> ImportState:
        """Begin to stage an archive, or resume it (ARC-4)."""
        check_identifier(archive.thread_id, "thread id")
        return await self._store.write(partial(import_writes.begin_import, archive=archive))

    async def stage_batches(
        self, thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        """Stage batches after those staged before, in one transaction."""
        check_identifier(thread, "thread id")
        staged = tuple(batches)
        return await self._store.write(
            partial(import_writes.stage_batches, thread=thread, batches=staged)
        )

    async def stage_work(self, thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        """Stage submissions after those staged before, in one transaction."""
        check_identifier(thread, "thread id")
        staged = tuple(entries)
        return await self._store.write(
            lambda connection: import_writes.stage_work(
                connection, self._ledger.unit(connection), thread, staged
            )
        )

    async def staged_work(
        self, thread: ThreadId, *, after: int = 0, limit: int = TRANSFER_FACTS
    ) -> tuple[SubmissionFacts, ...]:
        """Return the work that is staged, as it would be published."""
        check_identifier(thread, "thread id")
        reads.check_sequence(after, "after")
        reads.check_limit(limit, TRANSFER_FACTS)
        return await self._ledger.read(
            lambda unit, execute: lane_facts(
                unit, import_writes.staged_lane(execute, thread), after, limit
            )
        )

    def import_reader(self, thread: ThreadId) -> ThreadReader:
        """Return reads of exactly what would be published (ARC-8)."""
        check_identifier(thread, "thread id")
        return SqlReader(_StagedSnapshots(self._store, thread))

    async def publish_import(self, thread: ThreadId) -> ThreadTail:
        """Make a completely staged import visible in one transaction (ARC-4)."""
        check_identifier(thread, "thread id")
        tail = await self._store.write(
            lambda connection: import_writes.publish_import(connection, self._ledger.unit, thread),
            touches=thread,
        )
        await self._store.purge()
        return tail

    async def discard_import(self, thread: ThreadId) -> None:
        """Forget a staged import and free its rows."""
        check_identifier(thread, "thread id")
        await self._store.write(partial(import_writes.discard_import, thread=thread))
        await self._store.purge()


class SqlCheckpoints:
    """CheckpointStore over one store of a SQL engine."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def save(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint bound to a batch tail (LOG-13)."""
        check_identifier(checkpoint.thread_id, "thread id")
        text = encode_checkpoint(checkpoint)
        await self._store.write(
            partial(maintenance_writes.save_checkpoint, checkpoint=checkpoint, text=text)
        )

    async def load(self, thread: ThreadId, *, at_or_before: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint at or before a sequence (LOG-13)."""
        check_identifier(thread, "thread id")
        if at_or_before is not None:
            reads.check_sequence(at_or_before, "at_or_before")
        columns = tables.checkpoints.c
        async with self._store.reading(partial(live_snapshot, thread=thread)) as snapshot:
            newest = (
                select(tables.checkpoints)
                .where(columns.thread_id == thread)
                .where(columns.generation == snapshot.state.generation)
                .order_by(columns.through_sequence.desc())
                .limit(1)
            )
            if at_or_before is not None:
                newest = newest.where(columns.through_sequence <= at_or_before)
            row = (await snapshot.connection.execute(newest)).first()
            if row is None:
                return None
            sequence: int = row.through_sequence
            state = decode_state(thread, sequence, row.schema_version, row.state)
            digest = hex_digest(row.tail_digest)
            checkpoint = Checkpoint(thread, sequence, digest, state, row.created_at)
            check_binding(checkpoint, snapshot.state.sequence, await _digest_at(snapshot, sequence))
            return checkpoint


async def _digest_at(snapshot: Snapshot, sequence: int) -> Digest | None:
    rows = await snapshot.batches_between(sequence, sequence, 1)
    ends = rows and rows[0].last_sequence == sequence
    return hex_digest(rows[0].tail_digest) if ends else None
