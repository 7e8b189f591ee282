"""News between storages by NOTIFY: soon, after the commit, and across lost connections (LOG-9)."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import asyncpg
import pytest
from server_side import part, until
from sqlalchemy import event

from yielded_core.errors import StorageClosed, ThreadDeleted
from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import notices, open_storage
from yielded_storage_postgres.notices import POLL_SECONDS
from yielded_testing.suites.builders import THREAD, Writer, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import names, observing, sequences

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from server_side import Place, Raw

    from yielded_storage_postgres.store import PostgresStorage

SOON: Final = 1.0
"""Seconds; whoever only looks again by the clock comes after POLL_SECONDS."""

LISTENS: Final = "%tail_digest FROM%yielded_threads%ANY%"
"""What a connection asked last that listens to all that is observed."""


@pytest.fixture
async def storage(place: Place) -> AsyncGenerator[PostgresStorage]:
    async with open_storage(place.url()) as opened:
        yield opened


@pytest.fixture
async def other(place: Place, storage: PostgresStorage) -> AsyncGenerator[PostgresStorage]:
    """A second storage of the store, such as another process has."""
    assert storage is not None
    async with open_storage(place.url()) as opened:
        yield opened


async def listening(place: Place, but: int = 0) -> int:
    """Wait for a connection that listens, another one than that, and return its process."""
    found: list[int] = []

    async def there() -> bool:
        found[:] = [each for each in await place.backends(LISTENS) if each != but]
        return bool(found)

    await until(there, "a connection listens")
    return found[0]


@pytest.mark.rule("LOG-9")
async def test_a_commit_of_another_storage_arrives_soon(
    place: Place, storage: PostgresStorage, other: PostgresStorage
) -> None:
    assert POLL_SECONDS > 10 * SOON
    writer = await Writer.begin(other)
    waits: list[float] = []
    async with observing(storage) as seen:
        await listening(place)
        for number in range(1, 21):
            await writer.append(note(f"note-{number}"))
            committed = time.monotonic()
            await seen.until(number)
            waits.append(time.monotonic() - committed)
    assert max(waits) < SOON, waits


@pytest.mark.rule("LOG-9", "LED-8")
async def test_a_settlement_of_another_storage_arrives_soon(
    place: Place, storage: PostgresStorage, other: PostgresStorage
) -> None:
    lane = await LaneScript.begin(other)
    await lane.run("key-1")
    async with observing(storage) as seen:
        await listening(place)
        await lane.publish("key-1")
        async with asyncio.timeout(SOON):
            await seen.until(1)


@pytest.mark.rule("LOG-9")
async def test_ten_observers_of_three_threads_get_each_their_own(
    place: Place, storage: PostgresStorage, other: PostgresStorage
) -> None:
    threads = [ThreadId(f"thread-{number}") for number in range(3)]
    writers = [await Writer.begin(other, thread) for thread in threads]
    async with AsyncExitStack() as stack:
        seen = [
            await stack.enter_async_context(observing(storage, threads[number % 3]))
            for number in range(10)
        ]
        await listening(place)
        for number, writer in enumerate(writers):
            await writer.append(note(f"of-{number}-1"), note(f"of-{number}-2"))
            await writer.append(note(f"of-{number}-3"))
        async with asyncio.timeout(3 * SOON):
            found = [names(await each.until(3)) for each in seen]
    expected = [[f"of-{number % 3}-{at}" for at in (1, 2, 3)] for number in range(10)]
    assert found == expected


@pytest.mark.rule("LOG-9", "STO-3")
async def test_observation_goes_on_after_the_listening_connection_was_killed(
    place: Place, storage: PostgresStorage, other: PostgresStorage
) -> None:
    """What is committed while nobody listens is found as soon as somebody does again."""
    writer = await Writer.begin(other)
    async with observing(storage) as seen:
        killed = 0
        for number in range(1, 6, 2):
            killed = await listening(place, killed)
            await place.raw.execute("SELECT pg_terminate_backend($1)", killed)
            await writer.append(note(f"note-{number}"))
            async with asyncio.timeout(5 * SOON):
                await seen.until(number)
            await listening(place, killed)
            await writer.append(note(f"note-{number + 1}"))
            async with asyncio.timeout(SOON):
                await seen.until(number + 1)
        assert sequences(seen.records) == list(range(1, 7))


@pytest.mark.rule("LOG-9", "STO-3")
async def test_a_notice_goes_out_after_the_sending_connection_was_killed(
    place: Place, storage: PostgresStorage, other: PostgresStorage
) -> None:
    writer = await Writer.begin(other)
    async with observing(storage) as seen:
        await listening(place)
        for number in range(1, 4):
            await writer.append(note(f"note-{number}"))
            async with asyncio.timeout(SOON):
                await seen.until(number)
            (sending,) = await place.backends("%pg_notify(%")
            await place.raw.execute("SELECT pg_terminate_backend($1)", sending)
            await gone(place, sending)


@pytest.mark.rule("LOG-9", "STO-3")
@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("cut"),
        asyncpg.InterfaceError("closed"),
        asyncpg.InternalClientError("the driver has half noticed that its connection ended"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_notice_that_fails_goes_out_later(
    storage: PostgresStorage,
    other: PostgresStorage,
    monkeypatch: pytest.MonkeyPatch,
    place: Place,
    error: Exception,
) -> None:
    execute = asyncpg.Connection.execute
    failed: list[str] = []

    async def failing(self: Raw, query: str, *values: object) -> str:
        if "pg_notify" in query and len(failed) < 3:
            failed.append(query)
            raise error
        return await execute(self, query, *values)

    writer = await Writer.begin(other)
    async with observing(storage) as seen:
        await listening(place)
        monkeypatch.setattr(asyncpg.Connection, "execute", failing)
        await writer.append(note("one"))
        async with asyncio.timeout(SOON):
            await seen.until(1)
    assert len(failed) == 3


async def gone(place: Place, pid: int) -> None:
    """Wait until a server process has ended."""

    async def ended() -> bool:
        query = "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1)"
        return bool(await place.raw.fetchval(query, pid))

    await until(ended, "a killed process ends")


def statements_of(storage: PostgresStorage) -> list[str]:
    """Return a list that grows with each statement of the pool's connections."""
    made: list[str] = []

    def note_it(*given: object) -> None:
        made.append(str(given[2]))

    listen: Callable[..., None] = event.listen
    listen(part(storage, "_database").engine.sync_engine, "after_cursor_execute", note_it)
    return made


@pytest.mark.rule("LOG-9")
async def test_no_transaction_of_a_commit_notifies(
    place: Place, storage: PostgresStorage, other: PostgresStorage
) -> None:
    """NOTIFY in it would make every commit of the database wait for the one before."""
    made = statements_of(other)
    writer = await Writer.begin(other)
    async with observing(storage) as seen:
        await writer.fill(*(1 for _ in range(5)))
        lane = LaneScript(other)
        await lane.run("key-1")
        await lane.publish("key-1", finalize=True)
        await seen.until(6)
    assert any("INSERT INTO" in each for each in made)
    assert [each for each in made if "notify" in each.lower()] == []
    assert len(await place.backends("%pg_notify(%")) == 1


@pytest.mark.rule("STO-3", "LOG-9")
@pytest.mark.parametrize("observed", [False, True])
async def test_closing_leaves_no_task_and_no_connection(place: Place, *, observed: bool) -> None:
    before = asyncio.all_tasks()
    storage = open_storage(place.url())
    await storage.__aenter__()
    writer = await Writer.begin(storage)
    await writer.append(note("one"))
    async with AsyncExitStack() as stack:
        observers = [
            await stack.enter_async_context(observing(storage)) for _ in range(3 * observed)
        ]
        for each in observers:
            await each.until(1)
            await listening(place)
        assert await place.backends()
        await storage.__aexit__(None, None, None)
        await place.gone()
        for each in observers:
            await each.failure(StorageClosed)
    assert asyncio.all_tasks() == before


@pytest.mark.rule("STO-3", "LOG-9")
async def test_the_last_commit_before_closing_is_told(
    place: Place, storage: PostgresStorage
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with observing(storage) as seen:
        await listening(place)
        async with open_storage(place.url()) as closing:
            await (await Writer.begin(closing)).append(note("one"))
        async with asyncio.timeout(SOON):
            await seen.until(1)


@pytest.mark.rule("LOG-9", "STO-3")
async def test_a_storage_that_nobody_observes_does_not_listen(
    place: Place, storage: PostgresStorage
) -> None:
    await (await Writer.begin(storage)).append(note("one"))
    assert await place.backends(LISTENS) == []
    assert [each.get_name() for each in asyncio.all_tasks() if "listen" in each.get_name()] == []


def says_nothing(_thread: ThreadId) -> None:
    """Take the place of what sends a notice."""


@pytest.mark.rule("LOG-9")
async def test_a_commit_whose_notice_was_lost_is_found_by_looking(
    storage: PostgresStorage, other: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process dies between its commit and its notice; long names are looked up too."""
    monkeypatch.setattr(notices, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(part(other, "_database", "_notices"), "touch", says_nothing)
    long = ThreadId("long" * 100)
    writers = [await Writer.begin(other, thread) for thread in (THREAD, long)]
    async with AsyncExitStack() as stack:
        seen = [
            await stack.enter_async_context(observing(storage, thread)) for thread in (THREAD, long)
        ]
        for number in range(1, 4):
            for writer in writers:
                await writer.append(note(f"note-{number}"))
            for each in seen:
                await each.until(number)
        await other.threads.delete_thread(long)
        await seen[1].failure(ThreadDeleted)
