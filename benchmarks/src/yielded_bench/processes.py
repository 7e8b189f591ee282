"""Several processes that append to one SQLite file, against one process with as many tasks."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yielded_bench.children import child
from yielded_bench.figures import Figure, Results, at_least, at_most, median, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from yielded_bench.effort import Effort

TASKS: Final = 64
"""Tasks of all processes together."""
_LATE: Final = 0.99
_PART: Final = 3
"""A round here lasts as long as several of the other comparisons: processes need time to mix."""


@dataclass
class _Side:
    """One arrangement, with a value a round."""

    processes: int
    rates: list[float] = field(default_factory=list[float])
    late: list[float] = field(default_factory=list[float])
    """The 99th percentile of the seconds that an append takes."""
    fairness: list[float] = field(default_factory=list[float])
    """The slowest process to the fastest."""


async def measure(effort: Effort, folder: Path) -> Results:
    """Give both arrangements their turn in each round, every time on a fresh file."""
    alone, several = _Side(1), _Side(effort.processes)
    for turn in range(effort.rounds // _PART + 1):
        sides = (alone, several) if turn % 2 else (several, alone)
        for side in sides:
            name = f"file-{turn}-{side.processes}.db"
            await _run(side, f"sqlite:///{folder / name}", effort.seconds * _PART)
    throughput = median([s / a for s, a in zip(several.rates, alone.rates, strict=True)])
    late = median([s / a for s, a in zip(several.late, alone.late, strict=True)])
    work = f"{effort.processes} processes x {TASKS // effort.processes} tasks"
    rows = (
        at_least(
            f"{work} on one file, to one process with {TASKS}",
            throughput,
            0.8,
            detail=f"{median(several.rates):,.0f}/s to {median(alone.rates):,.0f}/s",
        ),
        at_most(
            f"{work}, 99th percentile, to the one process",
            late,
            3,
            "x",
            detail=f"{median(several.late) * 1e3:.1f} ms to {median(alone.late) * 1e3:.1f} ms",
        ),
        at_least(f"{work}, slowest process to the fastest", median(several.fairness), 0.8),
    )
    figures = tuple(
        Figure(f"SQLite, {side.processes} x {TASKS // side.processes} tasks", _text(side))
        for side in (alone, several)
    )
    return Results(rows, figures)


async def _run(side: _Side, url: str, seconds: float) -> None:
    tasks = str(TASKS // side.processes)
    async with AsyncExitStack() as stack:
        children = [
            await stack.enter_async_context(child("append", url, f"p{number}", tasks, str(seconds)))
            for number in range(side.processes)
        ]
        for each in children:
            await each.ready()
        for each in children:
            await each.go()
        answers = [await each.figures() for each in children]
    counts = [len(answer["latencies"]) for answer in answers]
    latencies = _flat([answer["latencies"] for answer in answers])
    side.rates.append(sum(counts) / max(answer["elapsed"] for answer in answers))
    side.late.append(quantile(latencies, _LATE))
    side.fairness.append(min(counts) / max(counts))


def _flat(parts: Sequence[Sequence[float]]) -> list[float]:
    return [each for part in parts for each in part]


def _text(side: _Side) -> str:
    return f"{median(side.rates):,.0f} records/s, 99th percentile {median(side.late) * 1e3:.1f} ms"
