"""Appending: SQLite and memory against raw SQLite, and batches against single records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_bench.figures import Results, at_least, median
from yielded_bench.race import race, ratio
from yielded_bench.records import annotation
from yielded_bench.subjects import RawSqlite, Yielded

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_bench.effort import Effort

SQLITE: Final = "sqlite:///{folder}/store.db"
_BATCH: Final = 100


async def measure(effort: Effort, folder: Path) -> Results:
    """Measure every way to append in the same rounds."""
    raw = RawSqlite()
    one = Yielded("SQLite, 1 task", SQLITE)
    light = Yielded("SQLite, 1 task, a record that no index lists", SQLITE, make=annotation)
    sixteen = Yielded("SQLite, 16 tasks", SQLITE, tasks=16)
    many = Yielded("SQLite, 64 tasks", SQLITE, tasks=64)
    hundred = Yielded(f"SQLite, batches of {_BATCH}, 1 task", SQLITE, size=_BATCH)
    memory = Yielded("memory, 1 task", "memory://")
    lanes = await race((raw, one, light, sixteen, many, hundred, memory), effort, folder)
    base, alone, bare, few, crowd, batched, kept = lanes

    def to_raw(rate: float) -> str:
        return f"{rate:,.0f}/s to {median(base.records):,.0f}/s"

    rows = (
        at_least(
            "SQLite append, 1 task, to raw one-row autocommit",
            ratio(alone, base),
            0.45,
            detail=f"{to_raw(median(alone.records))}; {ratio(bare, base):.2f} x for a record that "
            "no index lists",
        ),
        at_least(
            "SQLite append, 16 tasks on 16 threads, to raw",
            ratio(few, base),
            1.6,
            detail=to_raw(median(few.records)),
        ),
        at_least(
            "SQLite append, 64 tasks on 64 threads, to raw",
            ratio(crowd, base),
            1.9,
            detail=to_raw(median(crowd.records)),
        ),
        at_least(
            f"SQLite batches of {_BATCH}, records/s to batches of one",
            ratio(batched, alone),
            10,
            detail=f"{median(batched.records):,.0f}/s",
        ),
        at_least(
            "memory append, 1 task, to raw SQLite",
            ratio(kept, base),
            8,
            detail=to_raw(median(kept.records)),
        ),
    )
    return Results(rows, tuple(lane.figure() for lane in lanes))
