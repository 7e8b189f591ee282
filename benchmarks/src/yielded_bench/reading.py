"""Reading pages of a thread against raw rows, and what the thread takes on disk."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import orjson

from yielded_bench.figures import Figure, Results, at_most, median
from yielded_bench.race import timed
from yielded_bench.records import WIRE_BYTES, batches, tool_result
from yielded_bench.subjects import open_raw, raw_rows
from yielded_core.records.bounds import PAGE_RECORDS
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from yielded_bench.effort import Effort
    from yielded_core.storage import Storage

_THREAD: Final = ThreadId("thread-0")
_PAGE: Final = (
    "SELECT sequence, wire FROM records WHERE thread_id = ? AND sequence > ?"
    " ORDER BY sequence LIMIT ?"
)
_BLOCK: Final = 256
"""Rows of the raw table in one transaction while it is filled."""


async def measure(effort: Effort, folder: Path) -> Results:
    """Fill a thread with batches of one record, read its pages, and look at its file."""
    path = folder / "read.db"
    ours: list[float] = []
    raw: list[float] = []
    with closing(open_raw(folder)) as connection:
        _fill_raw(connection, effort.page_records)
        async with open_storage(f"sqlite:///{path}") as storage:
            await _fill(storage, effort.page_records)
            await _read(storage, effort.page_records)
            for turn in range(effort.rounds):
                sides = (False, True) if turn % 2 else (True, False)
                for raw_side in sides:
                    if raw_side:
                        raw.append(await _timed_raw(connection, effort.page_records))
                    else:
                        ours.append(await _timed_ours(storage, effort.page_records))
    size = path.stat().st_size / (effort.page_records * WIRE_BYTES)
    pages = effort.page_records / PAGE_RECORDS
    detail = f"{median(ours) / pages * 1e3:.1f} ms to {median(raw) / pages * 1e3:.1f} ms"
    rows = (
        at_most(
            f"page of {PAGE_RECORDS:,} read and decoded, to raw select and orjson.loads",
            median([mine / theirs for mine, theirs in zip(ours, raw, strict=True)]),
            2.5,
            "x",
            detail=detail,
        ),
        at_most("bytes on disk per record, to its wire", size, 1.6, "x"),
    )
    rate = effort.page_records / median(ours)
    return Results(rows, (Figure("SQLite, pages read and decoded", f"{rate:,.0f} records/s"),))


async def _fill(storage: Storage, records: int) -> None:
    tail = (await storage.threads.materialize(_THREAD, epoch=1)).tail
    for batch in batches(tool_result, 0, records):
        done = await storage.threads.append(_THREAD, batch, expected=tail, epoch=1)
        tail = done.tail


def _fill_raw(connection: sqlite3.Connection, records: int) -> None:
    for first in range(0, records, _BLOCK):
        connection.execute("BEGIN")
        rows = raw_rows(tool_result, first, _BLOCK)
        connection.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")


async def _timed_ours(storage: Storage, records: int) -> float:
    elapsed, _ = await timed(lambda: _read(storage, records))
    return elapsed


async def _read(storage: Storage, records: int) -> None:
    for after in range(0, records, PAGE_RECORDS):
        page = await storage.threads.read(_THREAD, after=after, limit=PAGE_RECORDS)
        assert len(page) == PAGE_RECORDS, "the page is full"


async def _timed_raw(connection: sqlite3.Connection, records: int) -> float:
    async def work() -> None:
        for after in range(0, records, PAGE_RECORDS):
            arguments = (_THREAD, after - 1, PAGE_RECORDS)
            rows = connection.execute(_PAGE, arguments).fetchall()
            page = [(sequence, orjson.loads(wire)) for sequence, wire in rows]
            assert len(page) == PAGE_RECORDS, "the page is full"

    elapsed, _ = await timed(work)
    return elapsed
