"""One snapshot of one thread: the statements of every read, in one transaction each."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, cast

import orjson
from sqlalchemy import exists, func, literal_column, select

from yielded_core.errors import StorageCorrupt
from yielded_core.log.append import ThreadState, require_live
from yielded_core.log.progress import RunProgress
from yielded_core.log.retention import require_staged
from yielded_core.ports.values import ImportState, Tail
from yielded_core.records.identifiers import BatchId, Digest, RecordId, RunId, ThreadId, ToolCallId
from yielded_core.sql import tables
from yielded_core.sql.chunks import CHUNK_BYTES, chunk_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement, Executable, Result, Select, Table

StoredRow: TypeAlias = Any
"""A row of a result; the statement that it comes from names its columns."""

_by_last_sequence: Final = attrgetter("last_sequence")
_KEYS_AT_A_TIME: Final = 1_024
"""Values bound to one IN list: far below what either engine takes."""


class ReadingConnection(Protocol):
    """What a snapshot needs of a connection."""

    def row_address(self, table: Table, /) -> str | None:
        """Return what the engine calls the place of a row in a table, such as `rowid`.

        None for a table that is the tree of its own key: its rows have no other place.
        """
        ...

    async def execute(self, statement: Executable, /) -> Result[Any]:
        """Run a statement and hold its rows."""
        ...


class BatchRow(NamedTuple):
    """A row of yielded_batches, in the order of its columns."""

    thread_id: str
    generation: int
    last_sequence: int
    first_sequence: int
    batch_id: str
    producer_id: str
    epoch: int
    content_digest: bytes
    tail_digest: bytes
    epoch_seal: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A thread's row and a connection whose transaction sees nothing else change."""

    connection: ReadingConnection
    state: ThreadState
    archived: bool
    """Whether any range left the hot rows."""

    def _of(self, table: Table) -> ColumnElement[bool]:
        return (table.c.thread_id == self.state.thread_id) & (
            table.c.generation == self.state.generation
        )

    def _holding(self, table: Table, first: int, last: int) -> ColumnElement[bool]:
        """Select the rows that hold records of a range, by the ends of what they hold.

        Without the end of the last one, every later row of the thread would be looked at, at a
        cost that grows with the thread (LOG-18).
        """
        later = table.alias()
        end = (
            select(func.min(later.c.last_sequence))
            .where(later.c.thread_id == self.state.thread_id)
            .where(later.c.generation == self.state.generation)
            .where(later.c.last_sequence >= last)
            .scalar_subquery()
        )
        ends = table.c.last_sequence
        return ends.between(first, func.coalesce(end, last)) & (table.c.first_sequence <= last)

    async def _whole_rows(self, table: Table, found: Select[Any]) -> list[StoredRow]:
        """Return rows as they stand in their table, for those that an index finds.

        An engine answers the columns of a key from its index, so that verifying would not see them
        changed in the row itself. A row that is not this thread's is left out.
        """
        named = self.connection.row_address(table)
        if named is None:
            rows = await self._rows(found.with_only_columns(*table.c))
        else:
            address: ColumnElement[Any] = literal_column(named)
            keys = found.with_only_columns(address, maintain_column_froms=True)
            rows = await self._rows(select(table).where(address.in_(keys)))
        own_thread, own_generation = self.state.thread_id, self.state.generation
        # By position: by name each value costs as much as reading it from the file.
        return [row for row in rows if row[0] == own_thread and row[1] == own_generation]

    async def _rows(self, statement: Executable) -> Sequence[StoredRow]:
        return (await self.connection.execute(statement)).all()

    # --- records by their place ------------------------------------------------------------------

    async def wires_between(self, first: int, last: int) -> list[tuple[int, bytes]]:
        """Return the records of a range with their sequences, archived ones included."""
        found: list[tuple[int, bytes]] = []
        if self.archived:
            chunks = tables.archived_chunks.c
            for row in await self._rows(
                select(chunks.first_sequence, chunks.last_sequence, chunks.content)
                .where(self._of(tables.archived_chunks))
                .where(self._holding(tables.archived_chunks, first, last))
                .order_by(chunks.last_sequence)
            ):
                found += _lines_between(row, first, last)
        records = tables.records.c
        hot = await self._rows(
            select(records.sequence, records.wire)
            .where(self._of(tables.records))
            .where(records.sequence.between(first, last))
            .order_by(records.sequence)
        )
        if not found:
            return [(sequence, wire) for sequence, wire in hot]
        return sorted(found + [(sequence, wire) for sequence, wire in hot])

    async def wires_at(self, sequences: Sequence[int]) -> dict[int, bytes]:
        """Return the records at some sequences, those that are there."""
        found: dict[int, bytes] = {}
        records = tables.records.c
        for start in range(0, len(sequences), _KEYS_AT_A_TIME):
            keys = sequences[start : start + _KEYS_AT_A_TIME]
            found.update(
                (sequence, wire)
                for sequence, wire in await self._rows(
                    select(records.sequence, records.wire)
                    .where(self._of(tables.records))
                    .where(records.sequence.in_(keys))
                )
            )
        if self.archived and len(found) < len(sequences):
            await self._add_archived(found, set(sequences) - found.keys())
        return found

    async def _add_archived(self, found: dict[int, bytes], missing: set[int]) -> None:
        chunks = tables.archived_chunks.c
        while missing:
            row = (
                await self.connection.execute(
                    select(chunks.first_sequence, chunks.last_sequence, chunks.content)
                    .where(self._of(tables.archived_chunks))
                    .where(chunks.last_sequence >= min(missing))
                    .order_by(chunks.last_sequence)
                    .limit(1)
                )
            ).first()
            if row is None:
                return
            lines = dict(_lines_between(row, row.first_sequence, row.last_sequence))
            found.update((sequence, lines[sequence]) for sequence in missing & lines.keys())
            missing = {sequence for sequence in missing if sequence > row.last_sequence}

    async def stored_lengths(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the size of each hot record of a range; a chunk counts at its first record."""
        sizes: list[tuple[int, int]] = []
        if self.archived:
            chunks = tables.archived_chunks.c
            sizes += [
                (max(first, begins), CHUNK_BYTES)
                for (begins,) in await self._rows(
                    select(chunks.first_sequence)
                    .where(self._of(tables.archived_chunks))
                    .where(self._holding(tables.archived_chunks, first, last))
                )
            ]
        records = tables.records.c
        hot = await self._rows(
            select(records.sequence, func.length(records.wire))
            .where(self._of(tables.records))
            .where(records.sequence.between(first, last))
        )
        return sizes + [(sequence, size) for sequence, size in hot]

    async def named_wires(self, first: int, last: int) -> dict[int, tuple[RecordId, bytes]]:
        """Return the records of a range, each with the id under which it is found."""
        sequences = tables.records.c.sequence
        rows = await self._whole_rows(
            tables.records,
            select(sequences).where(self._of(tables.records)).where(sequences.between(first, last)),
        )
        found = {
            sequence: (RecordId(record_id), wire)
            for _, _, sequence, record_id, wire in rows
            if first <= sequence <= last
        }
        if not self.archived or len(found) == last - first + 1:
            return found
        wires = {
            sequence: wire
            for sequence, wire in await self.wires_between(first, last)
            if sequence not in found
        }
        named = await self._archived_ids([record_id_in(wire) for wire in wires.values()])
        found.update(
            (sequence, (named.get(sequence, RecordId("")), wire))
            for sequence, wire in wires.items()
        )
        return found

    async def lengths_between(
        self, table: Table, after: int, through: int, limit: int
    ) -> list[tuple[int, int]]:
        """Return the sequences that an index lists in a range, with the size of each hot record.

        The size of an archived or missing record is 0.
        """
        records = tables.records.c
        listed = (
            select(table.c.sequence, func.coalesce(func.length(records.wire), 0))
            .select_from(
                table.outerjoin(
                    tables.records,
                    (records.thread_id == table.c.thread_id)
                    & (records.generation == table.c.generation)
                    & (records.sequence == table.c.sequence),
                )
            )
            .where(self._of(table))
            .where(table.c.sequence > after, table.c.sequence <= through)
            .order_by(table.c.sequence)
            .limit(limit)
        )
        return [(sequence, size) for sequence, size in await self._rows(listed)]

    async def sequence_of(self, record_id: RecordId) -> int | None:
        """Return where a record is, by its id."""
        for table in (tables.records, tables.archived_records):
            row = (
                await self.connection.execute(
                    select(table.c.sequence)
                    .where(self._of(table))
                    .where(table.c.record_id == record_id)
                )
            ).first()
            if row is not None:
                return int(row[0])
            if not self.archived:
                return None
        return None

    async def _archived_ids(self, names: Sequence[RecordId]) -> dict[int, RecordId]:
        """Return the ids under which archived records are found, by sequence."""
        archived = tables.archived_records.c
        return {
            sequence: RecordId(record_id)
            for start in range(0, len(names), _KEYS_AT_A_TIME)
            for record_id, sequence in await self._rows(
                select(archived.record_id, archived.sequence)
                .where(self._of(tables.archived_records))
                .where(archived.record_id.in_(names[start : start + _KEYS_AT_A_TIME]))
            )
        }

    # --- batches ---------------------------------------------------------------------------------

    async def batches_between(self, first: int, last: int, limit: int) -> list[BatchRow]:
        """Return the rows of the batches that hold records of a range, ascending."""
        ends = tables.batches.c.last_sequence
        rows = await self._whole_rows(
            tables.batches,
            select(ends)
            .where(self._of(tables.batches))
            .where(self._holding(tables.batches, first, last))
            .order_by(ends)
            .limit(limit),
        )
        return sorted((BatchRow(*row) for row in rows), key=_by_last_sequence)

    async def batch_ids(self, sequences: Sequence[int]) -> dict[int, BatchId]:
        """Return the batch of each of some sequences, ascending."""
        if not sequences:
            return {}
        if sequences[-1] - sequences[0] < 2 * len(sequences):
            return await self._names_between(sequences)
        found: dict[int, BatchId] = {}
        for sequence in sequences:
            found.update(await self._names_between((sequence,)))
        return found

    async def _names_between(self, sequences: Sequence[int]) -> dict[int, BatchId]:
        columns = tables.batches.c
        spans = await self._rows(
            select(columns.first_sequence, columns.last_sequence, columns.batch_id)
            .where(self._of(tables.batches))
            .where(self._holding(tables.batches, sequences[0], sequences[-1]))
            .order_by(columns.last_sequence)
        )
        return _match_batches(sequences, spans)

    # --- indexes ---------------------------------------------------------------------------------

    async def run_input_sequences(self, run: RunId) -> list[int]:
        """Return the original inputs of a run that the index lists."""
        columns = tables.run_inputs.c
        return await self._sequences(
            select(columns.sequence)
            .where(self._of(tables.run_inputs))
            .where(columns.run_id == run)
            .order_by(columns.sequence)
        )

    async def newest_continuation(self, run: RunId, through: int) -> list[int]:
        """Return the newest continuation of a run at or before a sequence."""
        columns = tables.continuations.c
        return await self._sequences(
            select(columns.sequence)
            .where(self._of(tables.continuations))
            .where(columns.run_id == run, columns.sequence <= through)
            .order_by(columns.sequence.desc())
            .limit(1)
        )

    async def run_fact_sequences(
        self, run: RunId, after: int, through: int, limit: int
    ) -> list[int]:
        """Return facts of a run in a range."""
        columns = tables.run_facts.c
        return await self._sequences(
            select(columns.sequence)
            .where(self._of(tables.run_facts))
            .where(columns.run_id == run)
            .where(columns.sequence > after, columns.sequence <= through)
            .order_by(columns.sequence)
            .limit(limit)
        )

    async def run_fact_count(self, run: RunId) -> int:
        """Return how many facts of a run the index lists."""
        counted = (
            select(func.count())
            .select_from(tables.run_facts)
            .where(self._of(tables.run_facts))
            .where(tables.run_facts.c.run_id == run)
        )
        return int((await self.connection.execute(counted)).scalar_one())

    async def operation_sequences(self, run: RunId, call: ToolCallId, through: int) -> list[int]:
        """Return what the index lists about one tool call."""
        columns = tables.operation_facts.c
        return await self._sequences(
            select(columns.sequence)
            .where(self._of(tables.operation_facts))
            .where(columns.run_id == run, columns.tool_call_id == call)
            .where(columns.sequence <= through)
            .order_by(columns.sequence)
        )

    async def handoff_sequences(self, after: int, limit: int) -> list[int]:
        """Return open preparations."""
        columns = tables.handoffs.c
        return await self._sequences(
            select(columns.sequence)
            .where(self._of(tables.handoffs))
            .where(columns.sequence > after)
            .order_by(columns.sequence)
            .limit(limit)
        )

    async def progress(self, run: RunId) -> RunProgress | None:
        """Return the counters of a run."""
        columns = tables.run_progress.c
        row = (
            await self.connection.execute(
                select(columns.state)
                .where(self._of(tables.run_progress))
                .where(columns.run_id == run)
            )
        ).first()
        return None if row is None else RunProgress.decode(row[0])

    async def _sequences(self, statement: Executable) -> list[int]:
        return [int(row[0]) for row in await self._rows(statement)]


async def live_snapshot(connection: ReadingConnection, thread: ThreadId) -> Snapshot:
    """Read the row of a live thread; else ThreadNotMaterialized or ThreadDeleted."""
    columns = tables.threads.c
    ranges = tables.ranges.c
    moved = exists().where(
        ranges.thread_id == columns.thread_id,
        ranges.generation == columns.generation,
        ranges.state == "archived",
    )
    materialized = (columns.thread_id == thread, columns.epoch > 0)
    found = select(tables.threads, moved.label("moved")).where(*materialized)
    row = (await connection.execute(found)).first()
    if row is None:
        require_live(thread, None, await _tombstone(connection, thread))
        raise StorageCorrupt("a thread is neither live, deleted nor missing")
    return Snapshot(connection, thread_state(row), bool(row.moved))


async def staged_snapshot(connection: ReadingConnection, thread: ThreadId) -> Snapshot:
    """Read the row of a staged import; else ImportRefused."""
    found = select(tables.imports).where(tables.imports.c.thread_id == thread)
    row = (await connection.execute(found)).first()
    require_staged(thread, None if row is None else import_state(row))
    if row is None:
        raise StorageCorrupt("an import is neither staged nor missing")
    staged = ThreadState(
        thread,
        row.generation,
        row.epoch,
        row.staged_through,
        hex_digest(row.staged_digest),
        row.staged_through,
        0,
    )
    return Snapshot(connection, staged, archived=False)


def thread_state(row: StoredRow) -> ThreadState:
    """Read a row of yielded_threads."""
    return ThreadState(
        ThreadId(row.thread_id),
        row.generation,
        row.epoch,
        row.tail_sequence,
        hex_digest(row.tail_digest),
        row.indexed_through,
        row.fact_revision,
    )


def import_state(row: StoredRow) -> ImportState:
    """Read a row of yielded_imports."""
    archive = Tail(row.tail_sequence, hex_digest(row.tail_digest))
    staged = Tail(row.staged_through, hex_digest(row.staged_digest))
    return ImportState(ThreadId(row.thread_id), archive, staged, archive == staged)


def hex_digest(raw: bytes) -> Digest:
    """Return a stored digest as text."""
    return Digest(raw.hex())


async def _tombstone(connection: ReadingConnection, thread: ThreadId) -> Tail | None:
    found = select(tables.tombstones).where(tables.tombstones.c.thread_id == thread)
    row = (await connection.execute(found)).first()
    return None if row is None else Tail(row.tail_sequence, hex_digest(row.tail_digest))


def _lines_between(row: StoredRow, first: int, last: int) -> list[tuple[int, bytes]]:
    try:
        lines = chunk_lines(row.content)
    except ValueError as error:
        detail = f"the archived records from {row.first_sequence} cannot be read"
        raise StorageCorrupt(detail) from error
    if len(lines) != row.last_sequence - row.first_sequence + 1:
        raise StorageCorrupt(f"archived records are missing after {row.first_sequence}")
    return [
        (sequence, wire)
        for sequence, wire in enumerate(lines, row.first_sequence)
        if first <= sequence <= last
    ]


def _match_batches(sequences: Sequence[int], rows: Iterable[StoredRow]) -> dict[int, BatchId]:
    """Assign ascending sequences to ascending batches (first, last, id) in one pass."""
    found: dict[int, BatchId] = {}
    pending = iter(rows)
    first, last, batch_id = 0, 0, ""
    for sequence in sequences:
        while last < sequence:
            span = next(pending, None)
            if span is None:
                return found
            first, last, batch_id = span
        if first <= sequence:
            found[sequence] = BatchId(batch_id)
    return found


def record_id_in(wire: bytes) -> RecordId:
    """Return the id that a record's own text carries, or an empty one where there is none."""
    try:
        value: object = orjson.loads(wire)
    except orjson.JSONDecodeError:
        return RecordId("")
    found = cast("dict[str, object]", value).get("recordId") if isinstance(value, dict) else None
    return RecordId(found if isinstance(found, str) else "")
