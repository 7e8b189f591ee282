"""Whether a long thread costs what a short one costs (LOG-18): the same work, side by side."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from yielded_bench.figures import median
from yielded_bench.long_thread import BATCH_RECORDS, LongThread
from yielded_bench.records import batches, tool_result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yielded_bench.meter import Cost, Meter
    from yielded_core.ports.values import Batch, Tail
    from yielded_core.storage import Storage

OPERATIONS: Final = (
    "append",
    "tail",
    "exact read",
    "prompt page",
    "continuation",
    "run evidence",
    "operation evidence",
)
_PROMPT_RECORDS: Final = 100


@dataclass
class Age:
    """A store with one thread of some length, and the operations that are asked of it."""

    storage: Storage
    long: LongThread
    through: int
    """The tail when the thread was built; appends of the measurement come after it."""
    chance: random.Random
    _tail: Tail
    _appended: int = 0

    @staticmethod
    async def build(storage: Storage, records: int) -> Age:
        """Build a thread of this length, a multiple of 250, through `append`."""
        long = await LongThread.begin(storage, "long")
        await long.grow(storage, records)
        return Age(storage, long, records, random.Random(records), long.tail)

    async def run(self, operation: str) -> None:
        """Do an operation once, somewhere in the thread."""
        await self.prepare(operation)()

    def prepare(self, operation: str) -> Callable[[], Awaitable[Any]]:
        """Return an operation on a place in the thread that is chosen here and now."""
        threads, name, through = self.storage.threads, self.long.thread, self.through
        run, call = self.chance.choice(list(self.long.calls.items()))
        if operation == "append":
            (batch,) = batches(tool_result, self._appended, 1)
            return lambda: self._append(batch)
        if operation == "tail":
            return lambda: threads.tail(name)
        if operation == "exact read":
            record = self.chance.choice(self.long.record_ids)
            return lambda: threads.get_record(name, record)
        if operation == "prompt page":
            after = self.chance.randrange(through - 2 * _PROMPT_RECORDS)
            return lambda: threads.read_prompt(
                name, after=after, through=through, limit=_PROMPT_RECORDS
            )
        if operation == "continuation":
            return lambda: threads.read_continuation(name, run, through=through)
        after = through - BATCH_RECORDS
        if operation == "run evidence":
            return lambda: threads.read_run_evidence(name, run, after=after, through=through)
        return lambda: threads.read_operation_evidence(name, run, call, through=through)

    async def _append(self, batch: Batch) -> None:
        done = await self.storage.threads.append(
            self.long.thread, batch, expected=self._tail, epoch=1
        )
        self._tail = done.tail
        self._appended += 1


@dataclass
class Comparison:
    """Seconds of each operation on a short and on a long thread."""

    short: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    long: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def ratios(self) -> dict[str, float]:
        """Return, by operation, the median of the long thread to that of the short one."""
        return {name: median(self.long[name]) / median(self.short[name]) for name in OPERATIONS}


async def compare(short: Age, long: Age, repetitions: int) -> Comparison:
    """Time every operation on both, one right after the other, in changing order."""
    found = Comparison()
    for turn in range(repetitions):
        sides = [(short, found.short), (long, found.long)]
        if turn % 2:
            sides.reverse()
        for operation in OPERATIONS:
            for age, times in sides:
                work = age.prepare(operation)
                start = time.perf_counter()
                await work()
                times.setdefault(operation, []).append(time.perf_counter() - start)
    return found


async def costs(age: Age, meter: Meter) -> dict[str, Cost]:
    """Return what each operation asks of the engine."""
    found: dict[str, Cost] = {}
    for operation in OPERATIONS:
        await age.run(operation)  # the first one of a kind prepares its statements
        before = meter.cost()
        await age.run(operation)
        found[operation] = meter.cost().minus(before)
    return found
