"""What a server of our own fails with: a full disk, no connection left, stopped and killed (STO-3).

Each time the same storage goes on as soon as the server does, without being opened again.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest
from server_side import PASSWORD, Place, connect, outcome, until

from yielded_core.errors import StorageBusy, StorageFull, StorageUnavailable, YieldedError
from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage
from yielded_testing.postgres import UNFLUSHED, Server, running
from yielded_testing.suites.builders import EMPTY, THREAD, Writer, batch, note, notes
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import observing, refused, stored_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from pathlib import Path

    from yielded_core.ports.values import Appended
    from yielded_storage_postgres.store import PostgresStorage
    from yielded_testing.postgres import Installation

CONNECTIONS: Final = 12
"""What the server gives altogether, three of them to superusers only."""
CALLERS: Final = 16
THREADS: Final = tuple(ThreadId(f"thread-{number}") for number in range(8))
ROW: Final = "SELECT 1 FROM yielded_threads WHERE thread_id = $1 FOR UPDATE"


@pytest.fixture(scope="module")
def server(programs: Installation) -> Generator[Server]:
    """A server that tests of this module may do anything to, but leave running."""
    settings = (f"max_connections={CONNECTIONS}", "superuser_reserved_connections=3")
    with running(programs, *UNFLUSHED, *settings, name="suffering") as started:
        yield started


@pytest.fixture
async def own(server: Server) -> AsyncGenerator[Place]:
    """A schema on that server; the connection of the operator may be lost with it."""
    schema = f"test_{uuid4().hex}"
    raw = await connect(server.url(), schema)
    try:
        yield Place(server.url(), raw, schema)
    finally:
        raw.terminate()


async def append_to(storage: PostgresStorage, thread: ThreadId, name: str = "one") -> Appended:
    given = batch(name, *notes(name, 2, "x" * 500))
    return await storage.threads.append(thread, given, expected=EMPTY, epoch=1)


# --- A full disk ---------------------------------------------------------------------------------


@asynccontextmanager
async def full(place: Place, server: Server, table: str) -> AsyncGenerator[None]:
    """Leave the file of an empty table no room: each write to it is answered with ENOSPC.

    `/dev/full` is an empty file on a full disk to whoever reads and writes it, for every user and
    without a file system of its own.
    """
    name = await place.raw.fetchval("SELECT pg_relation_filepath($1)", f"{place.schema}.{table}")
    file = server.data / name
    assert file.stat().st_size == 0
    kept = file.with_name(f"{file.name}.kept")
    await _replaced(place, table, lambda: file.rename(kept), lambda: file.symlink_to("/dev/full"))
    yield
    await _replaced(place, table, file.unlink, lambda: kept.rename(file))


async def _replaced(place: Place, table: str, *steps: Callable[[], Path | None]) -> None:
    """Change files of a table while nobody uses it, and let every connection open them again."""
    async with place.raw.transaction():
        await place.raw.execute(f"LOCK TABLE {table}")
        for step in steps:
            step()
        await place.raw.execute(f"ALTER TABLE {table} SET (fillfactor = 100)")


@pytest.mark.rule("STO-3", "LOG-2", "LOG-7")
async def test_a_full_disk_is_told_and_leaves_nothing_behind(own: Place, server: Server) -> None:
    async with open_storage(own.url("pool=4")) as storage:
        for thread in THREADS:
            await storage.threads.materialize(thread, epoch=1)
        lane = await LaneScript.begin(storage, ThreadId("lane"))
        async with full(own, server, "yielded_records"):
            found = await asyncio.gather(*(outcome(append_to(storage, each)) for each in THREADS))
            assert {type(each) for each in found} == {StorageFull}
            assert all(isinstance(each, StorageFull) and each.retryable for each in found)
            for thread in THREADS:
                assert (await storage.threads.tail(thread)).tail == EMPTY
            await lane.run("key-1")  # what needs no room there goes on
            await refused(StorageFull, lane.publish("key-1"))
            assert (await lane.see("key-1")).state == "running"
        for thread in THREADS:
            assert not (await append_to(storage, thread)).replayed
            assert await stored_names(storage, thread) == ["one-1", "one-2"]
        assert not (await lane.publish("key-1", finalize=True)).replayed
        assert (await lane.see("key-1")).state == "settled"


# --- Connections ---------------------------------------------------------------------------------


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("attributes", ["", "SUPERUSER"])
async def test_a_server_without_a_free_connection_is_busy(own: Place, attributes: str) -> None:
    """Whoever is no superuser is told sooner, of the connections that are kept for these."""
    async with open_storage(own.url()) as storage:
        await storage.threads.materialize(THREAD, epoch=1)
    await own.gone()
    async with own.role(attributes=attributes) as role:
        await own.grant(role)
        async with open_storage(own.url(f"pool={CALLERS}", role=role, password=PASSWORD)) as many:
            reads = (outcome(many.threads.tail(THREAD)) for _ in range(CALLERS))
            found = await asyncio.gather(*reads)
            errors = [each for each in found if isinstance(each, BaseException)]
            assert CALLERS - CONNECTIONS <= len(errors) < CALLERS
            assert {type(each) for each in errors} == {StorageBusy}
            assert (await many.threads.tail(THREAD)).sequence == 0
        await own.gone()


# --- A server that ends and comes back -----------------------------------------------------------


@pytest.mark.rule("STO-3")
async def test_a_server_that_shuts_down_serves_whom_it_served_and_nobody_else(
    own: Place, server: Server
) -> None:
    storage = open_storage(own.url("pool=1"))
    async with storage:
        writer = await Writer.begin(storage)
        server.shut_down()

        async def told() -> bool:
            found = await outcome(_opened(own.url("create=false")))
            assert found is None or isinstance(found, StorageUnavailable)
            return isinstance(found, StorageUnavailable) and "shuts down" in found.detail

        await until(told, "new connections are refused")
        await writer.append(note("one"))
    await own.raw.close()
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    async with open_storage(own.url("create=false")) as again:
        assert await stored_names(again) == ["one"]


async def _opened(url: str) -> None:
    async with open_storage(url):
        pass


@pytest.mark.rule("STO-3", "LOG-7")
@pytest.mark.parametrize("end", [Server.stop, Server.kill])
async def test_a_pool_heals_by_itself_when_its_server_is_back(
    own: Place, server: Server, end: Callable[[Server], None]
) -> None:
    """What is in flight fails, so does what comes while nobody serves; then all goes on at once."""
    async with open_storage(own.url("pool=8")) as storage:
        for thread in THREADS:
            await storage.threads.materialize(thread, epoch=1)
        await asyncio.gather(*(append_to(storage, each) for each in THREADS[1:]))
        await own.raw.execute("BEGIN")
        await own.raw.fetch(ROW, THREADS[0])
        in_flight = asyncio.create_task(outcome(append_to(storage, THREADS[0])))
        await _waiting(server, own)
        await asyncio.to_thread(end, server)
        errors = [await in_flight]
        for _ in range(2):
            errors += await asyncio.gather(*(outcome(append_to(storage, at)) for at in THREADS))
        errors.append(await outcome(storage.threads.tail(THREADS[0])))
        errors.append(await outcome(storage.ledger.lane(THREADS[0])))
        assert {type(each) for each in errors} == {StorageUnavailable}
        assert all(isinstance(each, YieldedError) and each.retryable for each in errors)
        await asyncio.to_thread(server.start)
        found = await asyncio.gather(*(append_to(storage, each) for each in THREADS))
        assert [each.replayed for each in found] == [False] + [True] * (len(THREADS) - 1)
        assert {each.tail.sequence for each in found} == {2}


async def _waiting(server: Server, place: Place) -> None:
    """Wait until an append waits for a lock; the operator's own connection holds it."""
    raw = await connect(server.url(), place.schema)
    try:
        await Place(place.server, raw, place.schema).waiting(1)
    finally:
        await raw.close()


@pytest.mark.rule("STO-3", "LOG-9")
async def test_news_come_again_when_a_killed_server_is_back(own: Place, server: Server) -> None:
    """An observer is told of the failure; the next one, of the same storage, hears of commits."""
    async with open_storage(own.url()) as storage, open_storage(own.url()) as other:
        writer = await Writer.begin(other)
        await writer.append(note("one"))
        async with observing(storage) as seen:
            await seen.until(1)
            await asyncio.to_thread(server.kill)
            await seen.failure(StorageUnavailable)
        await asyncio.to_thread(server.start)
        assert await refused(StorageUnavailable, writer.append(note("two"), batch_id="batch-2"))
        async with observing(storage) as seen:
            await seen.until(1)
            await writer.append(note("two"), batch_id="batch-2")
            async with asyncio.timeout(10):  # far less than an observer's own look at the clock
                await seen.until(2)
