"""The reads of the ports over a SQL database: one snapshot each, shared by every SQL adapter."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Protocol

from yielded_core.errors import RecordNotFound, StorageCorrupt
from yielded_core.log import reads
from yielded_core.log.offsets import offset_prefix
from yielded_core.ports.values import StoredBatch, ThreadIdentity, ThreadTail
from yielded_core.records.bounds import (
    EVIDENCE_RECORDS,
    HYDRATION_BYTES,
    PAGE_RECORDS,
    TRANSFER_FACTS,
)
from yielded_core.records.identifiers import BatchId, ProducerId, RecordId, check_identifier
from yielded_core.sql import tables
from yielded_core.sql.snapshot import hex_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from yielded_core.log.append import ThreadState
    from yielded_core.ports.values import OperationEvidence
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import RunId, ThreadId, ToolCallId
    from yielded_core.records.prompt_record import PromptRecord
    from yielded_core.sql.snapshot import BatchRow, Snapshot

_BATCHES_AT_A_TIME = 1_024
_RECORDS_AT_A_TIME = 4_096
"""Records that a page of batches may hold, so that finding its size does not look at more."""


class SnapshotSource(Protocol):
    """Opens the snapshots that reads run in: of live threads, or of a staged import."""

    @property
    def incarnation(self) -> str:
        """Identity of the store's timeline."""
        ...

    def snapshot(self, thread: ThreadId) -> AbstractAsyncContextManager[Snapshot]:
        """Open one snapshot of a thread, or raise as the ports say."""
        ...


class SqlReader:
    """ThreadReader over snapshots of a SQL database."""

    def __init__(self, source: SnapshotSource) -> None:
        self._source = source

    def _open(self, thread: ThreadId) -> AbstractAsyncContextManager[Snapshot]:
        return self._source.snapshot(check_identifier(thread, "thread id"))

    async def tail(self, thread: ThreadId) -> ThreadTail:
        """Return sequence, digest and epoch (LOG-10)."""
        async with self._open(thread) as snapshot:
            return tail_of(snapshot.state)

    async def identity(self, thread: ThreadId) -> ThreadIdentity:
        """Return the tail, the first and the lineage record in one consistent read (LOG-10)."""
        async with self._open(thread) as snapshot:
            found = await self._range(snapshot, 1, min(2, snapshot.state.sequence))
            first, second = (*found, None, None)[:2]
            return ThreadIdentity(tail_of(snapshot.state), first, reads.lineage_of(second))

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = PAGE_RECORDS
    ) -> tuple[StoredRecord, ...]:
        """Return records after a sequence, ascending (LOG-8)."""
        reads.check_after(after)
        reads.check_limit(limit, PAGE_RECORDS)
        async with self._open(thread) as snapshot:
            last = min(after + limit, snapshot.state.sequence)
            return await self._range(snapshot, after + 1, last)

    async def get_record(self, thread: ThreadId, record_id: RecordId) -> StoredRecord:
        """Return one record by its id, or raise RecordNotFound (LOG-11)."""
        check_identifier(record_id, "record id")
        async with self._open(thread) as snapshot:
            sequence = await snapshot.sequence_of(record_id)
            if sequence is None:
                raise RecordNotFound(thread, record_id)
            return (await self._at(snapshot, (sequence,)))[0]

    async def get_run_input(self, thread: ThreadId, run: RunId) -> StoredRecord:
        """Return the original user input of a run, joined inputs excluded (LOG-11)."""
        check_identifier(run, "run id")
        async with self._open(thread) as snapshot:
            reads.require_indexed(snapshot.state, snapshot.state.sequence)
            found = await snapshot.run_input_sequences(run)
            at = reads.single_run_input(thread, run, found)
            return reads.check_run_input(thread, run, (await self._at(snapshot, (at,)))[0])

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        """Return the records that a prompt is rebuilt from, in a range (LOG-12).

        Raw text is held in groups of at most 4 MiB (one record may be as long); the groups never
        shorten the page.
        """
        reads.check_after(after)
        reads.check_limit(limit, PAGE_RECORDS)
        async with self._open(thread) as snapshot:
            reads.check_through(snapshot.state, through)
            reads.require_indexed(snapshot.state, through)
            listed = await snapshot.lengths_between(tables.prompt_facts, after, through, limit)
            found: list[PromptRecord] = []
            for group in _groups(listed):
                wires = await snapshot.wires_at(group)
                for sequence in group:
                    if sequence not in wires:
                        raise reads.missing_record(thread, sequence)
                    found.append(reads.prompt_record(thread, sequence, wires[sequence]))
            return tuple(found)

    async def read_continuation(
        self, thread: ThreadId, run: RunId, *, through: int
    ) -> StoredRecord | None:
        """Return the newest RunContinuation of a run at or before a sequence (LOG-14)."""
        check_identifier(run, "run id")
        async with self._open(thread) as snapshot:
            reads.check_through(snapshot.state, through)
            reads.require_indexed(snapshot.state, through)
            sequences = await snapshot.newest_continuation(run, through)
            found = next(iter(await self._at(snapshot, sequences)), None)
            progress = await snapshot.progress(run)
            return reads.check_continuation(snapshot.state, run, through, found, progress)

    async def read_run_evidence(
        self,
        thread: ThreadId,
        run: RunId,
        *,
        after: int,
        through: int,
        limit: int = EVIDENCE_RECORDS,
    ) -> tuple[StoredRecord, ...]:
        """Return facts of one run in a range, ascending (LOG-15)."""
        check_identifier(run, "run id")
        reads.check_after(after)
        reads.check_limit(limit, EVIDENCE_RECORDS)
        async with self._open(thread) as snapshot:
            state = snapshot.state
            reads.check_through(state, through)
            reads.require_indexed(state, through)
            sequences = await snapshot.run_fact_sequences(run, after, through, limit)
            ends = len(sequences) < limit and through == state.sequence
            return reads.check_run_evidence(
                state,
                run,
                await self._at(snapshot, sequences),
                indexed=await snapshot.run_fact_count(run) if ends else None,
                progress=await snapshot.progress(run),
            )

    async def read_operation_evidence(
        self, thread: ThreadId, run: RunId, call: ToolCallId, *, through: int
    ) -> OperationEvidence:
        """Return one declared tool call with all that was recorded about it (LOG-15)."""
        check_identifier(run, "run id")
        check_identifier(call, "tool call id")
        async with self._open(thread) as snapshot:
            reads.check_through(snapshot.state, through)
            reads.require_indexed(snapshot.state, through)
            sequences = await snapshot.operation_sequences(run, call, through)
            found = await self._at(snapshot, sequences)
            return reads.operation_evidence(thread, run, call, found)

    async def work_handoffs(
        self, thread: ThreadId, *, after: int = 0, limit: int = TRANSFER_FACTS
    ) -> tuple[StoredRecord, ...]:
        """Return open preparations after a sequence, ascending (LOG-15)."""
        reads.check_after(after)
        reads.check_limit(limit, TRANSFER_FACTS)
        async with self._open(thread) as snapshot:
            reads.require_indexed(snapshot.state, snapshot.state.sequence)
            return await self._at(snapshot, await snapshot.handoff_sequences(after, limit))

    async def read_batches(
        self, thread: ThreadId, *, after: int, through: int, byte_limit: int
    ) -> tuple[StoredBatch, ...]:
        """Return whole batches after a sequence, undecoded."""
        async with self._open(thread) as snapshot:
            reads.check_batch_end(snapshot.state, after)
            reads.check_through(snapshot.state, through)
            rows = await snapshot.batches_between(after + 1, through, _BATCHES_AT_A_TIME)
            if rows and rows[0].first_sequence <= after:
                raise reads.not_a_batch_end()
            whole = _first_batches([row for row in rows if row.last_sequence <= through])
            return await self._batches(snapshot, whole, byte_limit)

    async def _batches(
        self, snapshot: Snapshot, rows: Sequence[BatchRow], byte_limit: int
    ) -> tuple[StoredBatch, ...]:
        """Read the records of batches until the byte limit is passed, at least of one batch."""
        if not rows:
            return ()
        first = rows[0].first_sequence
        sizes = dict(await snapshot.stored_lengths(first, rows[-1].last_sequence))
        taken: list[BatchRow] = []
        total = 0
        for row in rows:
            total += sum(map(sizes.get, _span(row), repeat(0)))
            if taken and total > byte_limit:
                break
            taken.append(row)
        records = await snapshot.named_wires(first, taken[-1].last_sequence)
        return tuple(_stored_batch(row, records) for row in taken)

    async def _range(self, snapshot: Snapshot, first: int, last: int) -> tuple[StoredRecord, ...]:
        if first > last:
            return ()
        wires = await snapshot.wires_between(first, last)
        if len(wires) != last - first + 1:
            present = {sequence for sequence, _ in wires}
            gap = next(at for at in range(first, last + 1) if at not in present)
            raise reads.missing_record(snapshot.state.thread_id, gap)
        batches = await snapshot.batch_ids([sequence for sequence, _ in wires])
        return tuple(self._stored(snapshot.state, wires, batches))

    async def _at(self, snapshot: Snapshot, sequences: Sequence[int]) -> tuple[StoredRecord, ...]:
        """Read records where an index says that they are; one that is not there is a fault."""
        wires = await snapshot.wires_at(sequences)
        for sequence in sequences:
            if sequence not in wires:
                raise reads.missing_record(snapshot.state.thread_id, sequence)
        batches = await snapshot.batch_ids(sequences)
        placed = [(sequence, wires[sequence]) for sequence in sequences]
        return tuple(self._stored(snapshot.state, placed, batches))

    def _stored(
        self,
        state: ThreadState,
        wires: Sequence[tuple[int, bytes]],
        batches: dict[int, BatchId],
    ) -> Iterator[StoredRecord]:
        prefix = offset_prefix(self._source.incarnation, state.thread_id)
        for sequence, wire in wires:
            batch = batches.get(sequence)
            if batch is None:
                raise StorageCorrupt(f"record {sequence} belongs to no batch")
            yield reads.stored_record(state.thread_id, prefix, sequence, batch, wire)


def tail_of(state: ThreadState) -> ThreadTail:
    """Return the tail of a thread's row."""
    return ThreadTail(state.thread_id, state.sequence, state.digest, state.epoch)


def _groups(listed: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Split sequences with their sizes into groups of at most 4 MiB, at least one each."""
    group: list[int] = []
    size = 0
    for sequence, length in listed:
        if group and size + length > HYDRATION_BYTES:
            yield group
            group, size = [], 0
        group.append(sequence)
        size += length
    if group:
        yield group


def _first_batches(rows: Sequence[BatchRow]) -> Sequence[BatchRow]:
    """Return the first batches, at least one, that hold no more records than one page may."""
    most = rows[0].first_sequence + _RECORDS_AT_A_TIME if rows else 0
    return [row for row in rows if row is rows[0] or row.last_sequence < most]


def _span(row: BatchRow) -> range:
    return range(row.first_sequence, row.last_sequence + 1)


def _stored_batch(row: BatchRow, records: dict[int, tuple[RecordId, bytes]]) -> StoredBatch:
    return StoredBatch(
        BatchId(row.batch_id),
        ProducerId(row.producer_id),
        row.epoch,
        row.first_sequence,
        row.last_sequence,
        hex_digest(row.content_digest),
        hex_digest(row.tail_digest),
        tuple([records[sequence] for sequence in _span(row) if sequence in records]),
        row.epoch_seal.hex(),
    )
