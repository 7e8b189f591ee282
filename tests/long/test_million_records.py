"""A thread has no ceiling: long threads cost what short ones cost (LOG-18).

The short form, 20,000 records, runs with every other test and looks at counts and memory, which do
not vary. The long form, a million records, also looks at times: `uv run pytest -m long`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from yielded_bench.ageing import OPERATIONS, Age, compare, costs
from yielded_bench.children import measured_by
from yielded_bench.long_thread import BATCH_RECORDS, RUNS
from yielded_bench.meter import Meter
from yielded_core.storage import open_storage
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.verify import verify_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SHORT: Final = 1_000
DEARER: Final = 1.3
"""How much more anything may cost on the long thread."""
MOST_MEMORY: Final = 128 * 1_048_576
REPETITIONS: Final = 400
ATTEMPTS: Final = 3
"""Times are taken again when other work on the machine may have spoiled them."""


class Pair(NamedTuple):
    """A short and a long thread, each in a store of its own, closed."""

    short_url: str
    long_url: str
    short: Age
    long: Age

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[tuple[Age, Age]]:
        """Open both stores."""
        async with open_storage(self.short_url) as one, open_storage(self.long_url) as other:
            yield replace(self.short, storage=one), replace(self.long, storage=other)


async def build(url: str, records: int) -> Age:
    """Build a thread in a new store and close it."""
    async with open_storage(url) as storage:
        return await Age.build(storage, records)


MILLION: Final = (pytest.mark.long, pytest.mark.timeout(3_600))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(20_000, id="short"),
        pytest.param(1_000_000, id="million", marks=MILLION),
    ],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Build both threads through `append`."""
    folder = tmp_path_factory.mktemp("threads")
    urls = [f"sqlite:///{folder / name}.db" for name in ("short", "long")]
    short = asyncio.run(build(urls[0], SHORT))
    return Pair(urls[0], urls[1], short, asyncio.run(build(urls[1], request.param)))


@pytest.mark.rule("LOG-18", "LOG-14")
def test_the_thread_is_what_agents_write(pair: Pair) -> None:
    families = Counter(pair.long.long.families)
    assert len(families) == 10
    assert families.total() == pair.long.through
    assert len(pair.long.long.calls) == RUNS
    assert families["RunContinuation"] == pair.long.through // BATCH_RECORDS * RUNS


@pytest.mark.rule("LOG-18")
async def test_every_operation_asks_the_same_of_the_engine(pair: Pair) -> None:
    with Meter() as meter:
        async with pair.opened() as (short, long):
            at_first = await costs(short, meter)
            later = await costs(long, meter)
    assert list(later) == list(OPERATIONS)
    for operation, cost in later.items():
        assert cost[:4] == at_first[operation][:4], operation
        assert cost.steps <= DEARER * at_first[operation].steps, operation


async def rows_of_all(age: Age, meter: Meter) -> tuple[float, float]:
    """Return how many rows verify and export read, for each record of the thread."""
    counts = [meter.cost().read]
    assert (await verify_thread(age.storage, age.long.thread)).ok
    counts.append(meter.cost().read)
    async for page in export_pages(age.storage, age.long.thread):
        assert page.text
    counts.append(meter.cost().read)
    records = (await age.storage.threads.tail(age.long.thread)).sequence
    begin, verified, exported = counts
    return (verified - begin) / records, (exported - verified) / records


@pytest.mark.rule("ARC-2", "ARC-3", "LOG-18")
async def test_verify_and_export_read_each_record_as_often(pair: Pair) -> None:
    with Meter(stepping=False) as meter:
        async with pair.opened() as (short, long):
            at_first = await rows_of_all(short, meter)
            later = await rows_of_all(long, meter)
    assert [rows <= DEARER * few for rows, few in zip(later, at_first, strict=True)] == [True, True]


@pytest.mark.rule("ARC-2", "ARC-3")
@pytest.mark.parametrize("command", ["verify", "export"])
async def test_memory_does_not_follow_the_length(pair: Pair, command: str) -> None:
    found = await measured_by(command, pair.long_url, "long")
    assert found["peak"] < MOST_MEMORY


@pytest.mark.long
@pytest.mark.rule("LOG-18")
async def test_every_operation_takes_as_long(pair: Pair) -> None:
    ratios: dict[str, float] = {}
    async with pair.opened() as (short, long):
        for _ in range(ATTEMPTS):
            ratios = (await compare(short, long, REPETITIONS)).ratios()
            if max(ratios.values()) <= DEARER:
                break
    assert {name: ratio for name, ratio in ratios.items() if ratio > DEARER} == {}
