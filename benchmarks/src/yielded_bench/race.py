"""Measuring ways to append side by side: each round gives every one its turn."""

from __future__ import annotations

import gc
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yielded_bench.figures import Figure, median

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from yielded_bench.effort import Effort
    from yielded_bench.subjects import Subject

_WARM_UP_STEPS: Final = 8


@dataclass
class Lane:
    """One subject with what was measured of it, a value a round."""

    subject: Subject
    rates: list[float] = field(default_factory=list[float])
    """Steps a second, those of all tasks together."""
    processor: list[float] = field(default_factory=list[float])
    """Processor seconds a step, of all threads of this process."""

    @property
    def records(self) -> list[float]:
        """Records a second."""
        return [rate * self.subject.size for rate in self.rates]

    def figure(self, unit: str = "records/s") -> Figure:
        """Return the medians as text; the unit is that of a record or of what else is done."""
        rate, cost = median(self.records), median(self.processor) * 1e6 / self.subject.size
        return Figure(self.subject.name, f"{rate:,.0f} {unit}, {cost:,.0f} us of processor each")


async def race(subjects: Sequence[Subject], effort: Effort, folder: Path) -> list[Lane]:
    """Measure every subject in every round, each round in another order."""
    lanes = [Lane(subject) for subject in subjects]
    async with AsyncExitStack() as stack:
        for number, lane in enumerate(lanes):
            place = folder / f"subject-{number}"
            place.mkdir()
            stack.push_async_callback(lane.subject.close)
            await lane.subject.open(place)
            await _measure(lane, _WARM_UP_STEPS)
        for turn in range(effort.rounds):
            start = turn % len(lanes)
            for lane in lanes[start:] + lanes[:start]:
                await lane.subject.renew()
                expected = lane.rates[-1] * effort.seconds / lane.subject.tasks
                await _measure(lane, max(_WARM_UP_STEPS, int(expected)))
    for lane in lanes:
        del lane.rates[0], lane.processor[0]  # the warm-up
    return lanes


def ratio(lane: Lane, base: Lane) -> float:
    """Return the median over the rounds of one lane's records a second to another's."""
    pairs = zip(lane.records, base.records, strict=True)
    return median([ours / theirs for ours, theirs in pairs])


async def timed(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Run work and return the seconds and the processor seconds that it took.

    What was built before is set aside, so that the collector does not look at it while time runs.
    """
    gc.collect()
    gc.freeze()
    try:
        processor, start = time.process_time(), time.perf_counter()
        await work()
        return time.perf_counter() - start, time.process_time() - processor
    finally:
        gc.unfreeze()


async def _measure(lane: Lane, steps: int) -> None:
    elapsed, processor = await timed(await lane.subject.prepare(steps))
    done = steps * lane.subject.tasks
    lane.rates.append(done / elapsed)
    lane.processor.append(processor / done)
