"""Whether a long thread costs what a short one costs (LOG-18): the same work, side by side."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from yielded_bench.figures import median
from yielded_bench.long_thread import BATCH_RECORDS, LongThread
from yielded_bench.records import batches, tool_result

if TYPE_CHECKING:
    from yielded_bench.meter import Cost, Meter
    from yielded_core.ports.values import Tail
    from yielded_core.records.identifiers import RunId
    from yielded_core.storage import Storage

Work: TypeAlias = Callable[[], Awaitable[object]]

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

    def appending(self) -> Work:
        """Append one record of a run."""
        (batch,) = batches(tool_result, self._appended, 1)

        async def work() -> None:
            done = await self.storage.threads.append(
                self.long.thread, batch, expected=self._tail, epoch=1
            )
            self._tail = done.tail
            self._appended += 1

        return work

    def tail(self) -> Work:
        """Read the tail."""
        return lambda: self.storage.threads.tail(self.long.thread)

    def exact_read(self) -> Work:
        """Read a record by its id."""
        record = self.chance.choice(self.long.record_ids)
        return lambda: self.storage.threads.get_record(self.long.thread, record)

    def prompt_page(self) -> Work:
        """Read a page of what a prompt is rebuilt from."""
        after = self.chance.randrange(self.through - 2 * _PROMPT_RECORDS)
        return lambda: self.storage.threads.read_prompt(
            self.long.thread, after=after, through=self.through, limit=_PROMPT_RECORDS
        )

    def continuation(self) -> Work:
        """Read the newest continuation of a run."""
        run = self._run()
        return lambda: self.storage.threads.read_continuation(
            self.long.thread, run, through=self.through
        )

    def run_evidence(self) -> Work:
        """Read a page of the newest facts of a run."""
        run, after = self._run(), self.through - BATCH_RECORDS
        return lambda: self.storage.threads.read_run_evidence(
            self.long.thread, run, after=after, through=self.through
        )

    def operation_evidence(self) -> Work:
        """Read what is recorded about a tool call."""
        run = self._run()
        call = self.long.calls[run]
        return lambda: self.storage.threads.read_operation_evidence(
            self.long.thread, run, call, through=self.through
        )

    def _run(self) -> RunId:
        return self.chance.choice(list(self.long.calls))


OPERATIONS: Final[dict[str, Callable[[Age], Work]]] = {
    "append": Age.appending,
    "tail": Age.tail,
    "exact read": Age.exact_read,
    "prompt page": Age.prompt_page,
    "continuation": Age.continuation,
    "run evidence": Age.run_evidence,
    "operation evidence": Age.operation_evidence,
}
"""Each makes ready to do an operation on a place in the thread that is chosen by chance."""


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
        for operation, prepare in OPERATIONS.items():
            for age, times in sides:
                work = prepare(age)
                start = time.perf_counter()
                await work()
                times.setdefault(operation, []).append(time.perf_counter() - start)
    return found


async def costs(age: Age, meter: Meter) -> dict[str, Cost]:
    """Return what each operation asks of the engine."""
    found: dict[str, Cost] = {}
    for operation, prepare in OPERATIONS.items():
        await prepare(age)()  # the first connection of a reader is not what is counted
        before = meter.cost()
        await prepare(age)()
        found[operation] = meter.cost().minus(before)
    return found
