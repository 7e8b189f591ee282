"""Observers across processes: cheap while nothing happens, quick when it does, never wrong."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from saboteurs import applied

from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import connections, file, open_storage
from yielded_testing.suites.builders import THREAD, Writer, note
from yielded_testing.suites.support import observing, sequences

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_core.records.envelope import StoredRecord
    from yielded_storage_sqlite import SqliteStorage
    from yielded_storage_sqlite.address import Address
    from yielded_testing.storm import Worker, Workers


async def check_idle_cost(
    path: Path, workers: Workers, seconds: float, saboteur: str | None = None
) -> None:
    """A hundred observers of silent threads cost under 1% of a core, and none cost nothing."""
    async with open_storage(f"sqlite:///{path}") as storage:
        for number in range(10):
            await (await Writer.begin(storage, ThreadId(f"thread-{number}"))).append(note("one"))
    worker = workers.start(
        "idle_observers", url=f"sqlite:///{path}", count=100, seconds=seconds, saboteur=saboteur
    )
    found = await asyncio.to_thread(worker.receive, 60 + 10 * seconds)
    print(f"{found['during']:.2%} of a core")  # noqa: T201 - a measurement, shown with -s
    assert found["during"] < 0.01, f"{found['during']:.2%} of a core"
    assert found["before"] < 10
    assert found["after"] < 10


@pytest.mark.rule("LOG-9")
async def test_a_hundred_idle_observers_cost_next_to_nothing(path: Path, workers: Workers) -> None:
    await check_idle_cost(path, workers, 1)


@pytest.mark.long
@pytest.mark.rule("LOG-9")
async def test_a_hundred_idle_observers_over_a_minute(path: Path, workers: Workers) -> None:
    await check_idle_cost(path, workers, 20)


async def test_polling_for_each_observer_is_caught(path: Path, workers: Workers) -> None:
    with pytest.raises(AssertionError, match="core"):
        await check_idle_cost(path, workers, 0.3, "polls-for-each-observer")


async def measure_arrivals(path: Path, workers: Workers, commits: int) -> list[float]:
    """Return how long after its acknowledgement in another process each commit was delivered."""
    async with open_storage(f"sqlite:///{path}") as storage:
        await storage.threads.materialize(THREAD, epoch=1)
        scribe = workers.start("scribe", url=f"sqlite:///{path}", thread=THREAD)
        await asyncio.to_thread(scribe.receive)
        arrived: list[float] = []
        news = asyncio.Event()

        async def follow() -> None:
            async for _ in storage.threads.observe(THREAD):
                arrived.append(time.monotonic())
                news.set()

        following = asyncio.create_task(follow())
        waits: list[float] = []
        for number in range(commits):
            news.clear()
            scribe.send(name="batch", number=4 * (number + 1))  # one record
            committed = (await asyncio.to_thread(scribe.receive))["at"]
            async with asyncio.timeout(30):
                while len(arrived) <= number:
                    news.clear()
                    await news.wait()
            waits.append(arrived[number] - committed)
        following.cancel()
        await asyncio.wait({following})
    return waits


@pytest.mark.rule("LOG-9")
async def test_a_commit_of_another_process_arrives_soon(path: Path, workers: Workers) -> None:
    medians = await rounds(path, workers, 31)
    assert min(medians) < 0.030, medians


async def rounds(path: Path, workers: Workers, commits: int) -> list[float]:
    """Measure again while the machine is busy with other things, which can only add to a wait."""
    medians: list[float] = []
    while len(medians) < 4 and min(medians, default=1.0) >= 0.030:
        store = path.with_name(f"round-{len(medians)}.db")
        medians.append(statistics.median(await measure_arrivals(store, workers, commits)))
    return medians


@pytest.mark.long
@pytest.mark.rule("LOG-9")
async def test_five_hundred_commits_arrive_soon(path: Path, workers: Workers) -> None:
    waits = sorted(await measure_arrivals(path, workers, 500))
    print(f"median {waits[250] * 1_000:.1f} ms, p99 {waits[495] * 1_000:.1f} ms")  # noqa: T201
    assert waits[250] < 0.030
    assert waits[495] < 0.200


async def check_storm(path: Path, workers: Workers, batches: int) -> None:
    """Two processes write to one thread; observers from the start and from amid see it once."""
    async with open_storage(f"sqlite:///{path}") as storage, AsyncExitStack() as stack:
        await storage.threads.materialize(THREAD, epoch=1)
        scribes = [
            workers.start("scribe", url=f"sqlite:///{path}", thread=THREAD) for _ in range(2)
        ]
        for scribe in scribes:
            await asyncio.to_thread(scribe.receive)
        seen = [await stack.enter_async_context(observing(storage)) for _ in range(3)]
        writing = [
            asyncio.create_task(asyncio.to_thread(dictate, scribe, f"scribe-{which}", batches))
            for which, scribe in enumerate(scribes)
        ]
        first = await seen[0].until(batches // 2)
        amid = first[-1]
        late = await stack.enter_async_context(observing(storage, after=amid.offset))
        total = sum(1 + number % 4 for number in range(1, batches + 1)) * 2
        for each in seen:
            assert sequences(await each.until(total)) == list(range(1, total + 1))
        await late.until(total - amid.sequence)
        assert sequences(late.records) == list(range(amid.sequence + 1, total + 1))
        assert tuple(seen[1].records) == await whole(storage)
        await asyncio.gather(*writing)


def dictate(scribe: Worker, name: str, batches: int) -> None:
    """Let a scribe write so many batches, some of them ordered ahead."""
    for number in range(1, batches + 1):
        scribe.send(name=name, number=number)
        if number > 20:
            scribe.receive()


async def whole(storage: SqliteStorage) -> tuple[StoredRecord, ...]:
    found: tuple[StoredRecord, ...] = ()
    while page := await storage.threads.read(THREAD, after=len(found)):
        found += page
    return found


@pytest.mark.rule("LOG-9", "LOG-2")
async def test_a_storm_of_two_processes_is_seen_in_order_and_once(
    path: Path, workers: Workers
) -> None:
    await check_storm(path, workers, 60)


@pytest.mark.long
@pytest.mark.rule("LOG-9", "LOG-2")
async def test_a_long_storm_is_seen_in_order_and_once(path: Path, workers: Workers) -> None:
    await check_storm(path, workers, 1_500)


async def check_error_of_the_watcher(path: Path, workers: Workers, patience: float) -> None:
    """The watching thread meets an error of SQLite; observers are woken all the same."""
    right, errors = connections.open_reader, [0]

    def failing(address: Address) -> sqlite3.Connection:
        errors[0] += 1
        if errors[0] <= 2:
            message = "not now"
            raise sqlite3.OperationalError(message)
        return right(address)

    with patch.object(file, "open_reader", failing):
        async with open_storage(f"sqlite:///{path}") as storage:
            await storage.threads.materialize(THREAD, epoch=1)
            scribe = workers.start("scribe", url=f"sqlite:///{path}", thread=THREAD)
            await asyncio.to_thread(scribe.receive)
            async with observing(storage) as seen, asyncio.timeout(patience):
                for number in range(1, 4):
                    scribe.send(name="batch", number=4 * number)
                    await asyncio.to_thread(scribe.receive)
                    await seen.until(number)


@pytest.mark.rule("LOG-9")
async def test_an_error_does_not_end_the_watching(path: Path, workers: Workers) -> None:
    await check_error_of_the_watcher(path, workers, 30)


async def test_watching_that_ends_at_an_error_is_caught(path: Path, workers: Workers) -> None:
    with applied("stops-watching-at-an-error"), pytest.raises(TimeoutError):
        await check_error_of_the_watcher(path, workers, 2)


@pytest.mark.rule("LOG-9", "STO-3")
async def test_many_observers_come_and_go(path: Path) -> None:
    """Two hundred observers of as many threads each get their record, in a bounded time."""
    async with open_storage(f"sqlite:///{path}") as storage:
        names = [ThreadId(f"thread-{number}") for number in range(200)]
        writers = await asyncio.gather(*(Writer.begin(storage, name) for name in names))
        observers: list[Any] = [storage.threads.observe(name) for name in names]
        waiting = [asyncio.ensure_future(anext(each)) for each in observers]
        await asyncio.gather(*(each.append(note("one")) for each in writers))
        async with asyncio.timeout(60):
            found = await asyncio.gather(*waiting)
        assert [each.sequence for each in found] == [1] * len(names)
        await asyncio.gather(*(each.aclose() for each in observers))
