"""Accepted work on SQLite: claiming and settling, listing what is runnable, scanning it all."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from yielded_bench.figures import Figure, Results, at_least, at_most, median
from yielded_bench.work import queued, work_off
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_bench.effort import Effort
    from yielded_core.storage import Storage

_OWED: Final = 100_000
_LANES: Final = 1_000
_PAGE: Final = 1_024
_ASKED: Final = 50
_WORKERS: Final = 16
_SHARE: Final = 20
"""One submission is settled for so many records that the same effort verifies."""
_FILL: Final = (
    """
    INSERT INTO yielded_threads
      (thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,
       lane_version, last_queue_sequence)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :count)
    SELECT printf('idle-%06d', i), 1, 1, 0, zeroblob(32), 0, 0, 0, 0 FROM n
    """,
    """
    INSERT INTO yielded_submissions
      (thread_id, generation, queue_sequence, submission_id, receipt_id, principal,
       idempotency_key, input_digest, admission_digest, admitted_at, state)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :count)
    SELECT printf('idle-%06d', i % :lanes), 1, 1 + i / :lanes, printf('submission-%06d', i),
           printf('receipt-%06d', i), 'principal', printf('key-%06d', i), zeroblob(32),
           zeroblob(32), 1, 'unknown'
      FROM n
    """,
)
"""So many idle lanes, and so much parked work in some of them, for which nothing can be claimed."""


async def measure(effort: Effort, folder: Path) -> Results:
    """Measure in one store, first with little else in it, then with a hundred thousand of each."""
    path = folder / "work.db"
    async with open_storage(f"sqlite:///{path}") as storage:
        count = effort.long_records // _SHARE
        alone = await _settled_a_second(storage, count, 1)
        many = await _settled_a_second(storage, count, _WORKERS)
        for number in range(_PAGE // 16):
            lane = ThreadId(f"runnable-{number:03d}")
            await storage.threads.materialize(lane, epoch=1)
            await queued(storage, lane, "key")
    _fill(path)
    async with open_storage(f"sqlite:///{path}") as storage:
        listed = await _listed(storage)
        scanned = await _scanned(storage)
    return Results(
        (
            at_most("runnable with 100,000 idle lanes, SQLite", listed * 1e3, 5, "ms"),
            at_least("scan of 100,000 unsettled submissions, SQLite", scanned, 50_000, "entries/s"),
        ),
        (
            Figure("claim, settle and finalize, SQLite, 1 worker", f"{alone:,.0f} a second"),
            Figure(f"the same, {_WORKERS} workers on lanes of their own", f"{many:,.0f} a second"),
        ),
    )


async def _settled_a_second(storage: Storage, count: int, workers: int) -> float:
    """Return how many submissions are claimed and settled in a second, each in two commits."""
    lanes = [ThreadId(f"lane-{workers}-{number}") for number in range(workers)]
    share = max(1, count // workers)
    for lane in lanes:
        await storage.threads.materialize(lane, epoch=1)
    for lane in lanes:
        for number in range(share):
            await queued(storage, lane, f"key-{number}")
    start = time.perf_counter()
    await asyncio.gather(*(work_off(storage, lane, share) for lane in lanes))
    return share * workers / (time.perf_counter() - start)


def _fill(path: Path) -> None:
    """Add what is idle and parked, past the adapter: it would take minutes through it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in _FILL:
            values = {"count": _OWED, "lanes": _LANES}
            named = {name: value for name, value in values.items() if f":{name}" in statement}
            connection.execute(statement, named)


async def _listed(storage: Storage) -> float:
    """Return the median seconds of listing the runnable lanes."""
    taken: list[float] = []
    for _ in range(_ASKED):
        start = time.perf_counter()
        found = await storage.ledger.runnable(limit=64)
        taken.append(time.perf_counter() - start)
        assert len(found) == _PAGE // 16, "the idle lanes are not runnable"
    return median(taken)


async def _scanned(storage: Storage) -> float:
    """Return how many entries a second a whole scan gives."""
    start, count, after = time.perf_counter(), 0, None
    while page := await storage.ledger.scan_nonterminal(after=after, limit=_PAGE):
        count += len(page)
        after = (page[-1].thread_id, page[-1].queue_sequence)
    assert count >= _OWED, "everything unsettled was listed"
    return count / (time.perf_counter() - start)
