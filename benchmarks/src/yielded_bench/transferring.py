"""Verifying and exporting a long thread: wire a second of one core, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yielded_bench.children import measured_by
from yielded_bench.figures import Figure, Results, Row, at_least, at_most, median
from yielded_bench.long_thread import LongThread
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_bench.effort import Effort

THREAD: Final = "long"
MIB: Final = 1_048_576
_TIMES: Final = 3


async def measure(effort: Effort, folder: Path) -> Results:
    """Build the thread, then verify and export it in processes of their own."""
    url = f"sqlite:///{folder / 'long.db'}"
    async with open_storage(url) as storage:
        long = await LongThread.begin(storage, THREAD)
        await long.grow(storage, effort.long_records)
    verified: list[dict[str, Any]] = []
    exported: list[dict[str, Any]] = []
    for _ in range(min(_TIMES, effort.rounds)):
        verified.append(await measured_by("verify", url, THREAD))
        exported.append(await measured_by("export", url, THREAD))
    wire = int(verified[0]["wire"])
    rows = (
        *_rows("verify", verified, wire),
        *_rows("export", exported, wire),
    )
    figure = Figure(
        "the thread that is verified and exported",
        f"{wire / 1e6:,.0f} MB in {effort.long_records:,} records",
    )
    return Results(rows, (figure,))


def _rows(work: str, answers: list[dict[str, Any]], wire: int) -> tuple[Row, Row]:
    rate = median([wire / 1e6 / answer["processor"] for answer in answers])
    elapsed = median([wire / 1e6 / answer["elapsed"] for answer in answers])
    peak = max(answer["peak"] for answer in answers) / MIB
    before = median([answer["before"] for answer in answers]) / MIB
    return (
        at_least(
            f"{work}, record wire a second of one core",
            rate,
            100,
            "MB/s",
            detail=f"{elapsed:,.0f} MB/s of elapsed time",
        ),
        at_most(
            f"{work}, peak memory of the process",
            peak,
            128,
            "MiB",
            detail=f"{before:,.0f} MiB when it began",
        ),
    )
