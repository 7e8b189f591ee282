"""One flipped bit in any byte of any stored record or batch is found by verifying the thread."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from yielded_core import ThreadId
from yielded_core.errors import YieldedError
from yielded_core.transfer.verify import verify_thread
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import THREAD, Writer, note
from yielded_testing.suites.runs import RunScript

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from yielded_storage_sqlite import SqliteStorage

STEP: Final = 41
"""The short form flips each 41st byte, and one in every column of every row."""
INTEGER_BYTES: Final = 8
KEYS: Final = {"yielded_batches": ("thread_id", "generation", "last_sequence")}
"""Tables without rowids, and what finds their rows instead."""


class Cell(NamedTuple):
    """One column of one row."""

    table: str
    row: int
    """Number of the row among those of its table."""
    address: dict[str, Any]
    """The columns that find the row: its `rowid`, or its key in a table without rowids."""
    column: str
    value: Any

    @property
    def size(self) -> int:
        """How many bytes it has."""
        if isinstance(self.value, int):
            return INTEGER_BYTES
        return len(self.value.encode()) if isinstance(self.value, str) else len(self.value)

    def flipped(self, at: int) -> object:
        """Return the value with one bit of one byte flipped; text may stop being text."""
        bit = 1 << (at + self.row) % 8
        if isinstance(self.value, int):
            return int.from_bytes(
                self._changed(self.value.to_bytes(8, signed=True), at, bit), signed=True
            )
        raw = self.value.encode() if isinstance(self.value, str) else self.value
        return self._changed(raw, at, bit)

    @staticmethod
    def _changed(raw: bytes, at: int, bit: int) -> bytes:
        changed = bytearray(raw)
        changed[at] ^= bit
        return bytes(changed)


async def make_log(storage: SqliteStorage) -> None:
    """Write a run with a continuation, notes among it, and a takeover."""
    run = RunScript()
    writer = await Writer.begin(storage)
    await writer.append(*run.begin(), run.continuation())
    await writer.append(note("between"))
    writer = await Writer.begin(storage, epoch=3)
    await writer.append(run.response(1), run.usage(), batch_id="second")
    writer = await Writer.begin(storage, epoch=9)
    await writer.append(note("last"), note("of all"), batch_id="third")


def cells(connection: sqlite3.Connection, *tables: str) -> Iterator[Cell]:
    """Return every column of every row of some tables."""
    for table in tables:
        address = KEYS.get(table, ("rowid",))
        found = connection.execute(f"SELECT {', '.join(address)}, * FROM {table}")
        names = [column for column, *_ in found.description][len(address) :]
        for row, values in enumerate(found.fetchall(), 1):
            at = dict(zip(address, values, strict=False))
            for column, value in zip(names, values[len(address) :], strict=True):
                yield Cell(table, row, at, column, value)


async def is_found(storage: SqliteStorage, thread: ThreadId = THREAD) -> bool:
    """Whether verifying says that something is wrong, in its findings or as a typed error."""
    try:
        return not (await verify_thread(storage, thread)).ok
    except YieldedError:
        return True


async def unnoticed(path: Path, step: int) -> tuple[int, list[str]]:
    """Flip bytes one at a time; return how many, and those that verifying did not find."""
    count, missed = 0, list[str]()
    async with open_storage(f"sqlite:///{path}") as storage:
        await make_log(storage)
        assert not await is_found(storage)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            found = list(cells(connection, "yielded_records", "yielded_batches"))
            for number, cell in enumerate(found):
                for at in range(number % min(step, cell.size), cell.size, step):
                    flipped = cell.flipped(at)
                    if write(connection, cell, flipped):
                        count += 1
                        if not await is_found(storage):
                            missed.append(f"{cell.table} {cell.row} {cell.column} {at}")
                        assert write(connection, cell, cell.value, held=flipped)
        assert not await is_found(storage)
    return count, missed


def write(
    connection: sqlite3.Connection, cell: Cell, value: object, *, held: object = None
) -> bool:
    """Change a cell; False where SQLite itself refuses, because another row has that key.

    `held` is what the cell holds if that is not its own value.
    """
    address = dict(cell.address)
    if held is not None and cell.column in address:
        address[cell.column] = held
    kept = "CAST(? AS TEXT)" if isinstance(cell.value, str) else "?"
    found = " AND ".join(
        f"{column} = {kept if column == cell.column else '?'}" for column in address
    )
    try:
        changed = connection.execute(
            f"UPDATE {cell.table} SET {cell.column} = {kept} WHERE {found}",
            (value, *address.values()),
        )
    except sqlite3.IntegrityError:
        return False
    assert changed.rowcount == 1
    return True


@pytest.mark.rule("ARC-3", "REC-7", "LOG-8")
async def test_a_flipped_bit_is_found(path: Path) -> None:
    count, missed = await unnoticed(path, STEP)
    assert count >= 150
    assert missed == []


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.rule("ARC-3", "REC-7", "LOG-8")
async def test_a_flipped_bit_in_every_byte_is_found(path: Path) -> None:
    count, missed = await unnoticed(path, 1)
    assert count >= 4_000
    assert missed == []


@pytest.mark.rule("ARC-3", "ARC-6")
async def test_a_flipped_bit_of_an_archived_range_is_found_or_changes_nothing(path: Path) -> None:
    """A compressed chunk has bits that mean nothing; every other one is found."""
    async with open_storage(f"sqlite:///{path}") as storage:
        await make_log(storage)
        whole = [record.wire for record in await storage.threads.read(THREAD)]
        await storage.archives.seal_range(THREAD, through=4)
        await storage.archives.archive_range(THREAD, first=1)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            found = [
                cell
                for cell in cells(connection, "yielded_archived_chunks")
                if cell.column == "content"
            ]
            assert found
            for cell in found:
                for at in range(0, cell.size, 11):
                    assert write(connection, cell, cell.flipped(at))
                    if not await is_found(storage):
                        read = await storage.threads.read(THREAD)
                        assert [record.wire for record in read] == whole
                    assert write(connection, cell, cell.value)


@pytest.mark.rule("ARC-3")
@pytest.mark.parametrize("column", ["tail_sequence", "tail_digest", "generation"])
async def test_a_flipped_bit_of_the_tail_is_found(path: Path, column: str) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        await make_log(storage)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            (cell,) = (
                each for each in cells(connection, "yielded_threads") if each.column == column
            )
            for at in range(cell.size):
                assert write(connection, cell, cell.flipped(at))
                assert await is_found(storage), at
                assert write(connection, cell, cell.value)


PAGE_BYTES: Final = 8_192
ROOTS: Final = (
    "SELECT rootpage FROM sqlite_master WHERE name IN ('yielded_records', 'yielded_batches')"
)
"""Where the rows of a small log are: each table still fits its first page."""


@pytest.mark.rule("ARC-3")
async def test_a_flipped_byte_of_a_key_in_the_row_itself_is_found(path: Path) -> None:
    """SQLite would answer the columns of a key from the index, where they are still right."""
    thread = ThreadId("unmistakable-thread")
    async with open_storage(f"sqlite:///{path}") as storage:
        writer = await Writer.begin(storage, thread, epoch=2)
        await writer.append(note("unmistakable-one"))
        await writer.append(note("unmistakable-two"), note("unmistakable-three"))
        assert not await is_found(storage, thread)
    with closing(sqlite3.connect(path)) as connection:
        roots = [number for (number,) in connection.execute(ROOTS)]
    whole = path.read_bytes()
    places = [
        at
        for name in (b"unmistakable-", b"batch-2")
        for number in roots
        for at in range((number - 1) * PAGE_BYTES, number * PAGE_BYTES)
        if whole.startswith(name, at)
    ]
    # Three records by thread, id, text's id and text; two batches by thread, one by its id.
    assert len(places) >= 3 * 3 + 2 + 1
    for place in places:
        changed = bytearray(whole)
        changed[place + 3] ^= 1
        path.write_bytes(changed)
        async with open_storage(f"sqlite:///{path}") as storage:
            assert await is_found(storage, thread), place
