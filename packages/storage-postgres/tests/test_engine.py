"""A storage on somebody else's engine: it works there, and leaves the rest of it alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from yielded_core.errors import InvalidArgument, StorageUnavailable
from yielded_storage_postgres import storage_over
from yielded_testing.suites.builders import THREAD, Writer, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from server_side import Place


@pytest.fixture
async def engine(place: Place) -> AsyncGenerator[AsyncEngine]:
    """An engine as an application has it, with an isolation level of its own."""
    url = make_url(place.server).set(drivername="postgresql+asyncpg")
    made = create_async_engine(
        url,
        isolation_level="SERIALIZABLE",
        pool_size=3,
        connect_args={"server_settings": {"application_name": place.schema}},
    )
    try:
        yield made
    finally:
        await made.dispose()


@pytest.mark.rule("STO-1", "STO-3")
async def test_a_storage_works_on_an_engine_and_leaves_it_open(
    place: Place, engine: AsyncEngine
) -> None:
    async with storage_over(engine, schema=place.schema) as storage:
        writer = await Writer.begin(storage)
        await writer.append(note("one"))
        lane = await LaneScript.begin(storage, epoch=2)
        await lane.run("key-1")
        assert await lane.publish("key-1", finalize=True)
    async with engine.connect() as connection:
        shown = (await connection.execute(text("SHOW transaction_isolation"))).scalar_one()
        long = "x" * 500
        given = (await connection.execute(text("SELECT :value"), {"value": long})).scalar_one()
    assert (shown, given) == ("serializable", long)
    async with storage_over(engine, schema=place.schema) as storage:
        assert (await storage.threads.tail(THREAD)).sequence == 2


@pytest.mark.rule("LOG-9")
async def test_observers_hear_of_commits_through_connections_of_the_engine(
    place: Place, engine: AsyncEngine
) -> None:
    """What listens and what notifies is not in the pool, which has three places and keeps them."""
    async with (
        storage_over(engine, schema=place.schema) as one,
        storage_over(engine, schema=place.schema) as other,
    ):
        writer = await Writer.begin(one)
        seen = other.threads.observe(THREAD)
        first = asyncio.ensure_future(anext(seen))
        await writer.append(note("one"))
        assert (await first).sequence == 1
        second = asyncio.ensure_future(anext(seen))
        await writer.append(note("two"))
        assert (await second).sequence == 2
        await seen.aclose()
    await engine.dispose()
    await place.gone()


@pytest.mark.rule("STO-3")
async def test_a_lost_connection_of_an_engine_costs_one_try(
    place: Place, engine: AsyncEngine
) -> None:
    async with storage_over(engine, schema=place.schema) as storage:
        await Writer.begin(storage)
        await place.raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = $1 AND pid <> pg_backend_pid()",
            place.schema,
        )
        await place.gone()
        assert (await refused(StorageUnavailable, storage.threads.tail(THREAD))).retryable
        assert (await storage.threads.tail(THREAD)).epoch == 1


async def test_what_is_no_engine_of_the_driver_or_no_schema_is_refused(
    place: Place, engine: AsyncEngine
) -> None:
    del place
    other = create_async_engine("sqlite+aiosqlite://")
    with pytest.raises(InvalidArgument, match="asyncpg"):
        storage_over(other)
    with pytest.raises(InvalidArgument, match="schema"):
        storage_over(engine, schema='a"; DROP SCHEMA public; --')
    with pytest.raises(InvalidArgument, match="partitions"):
        storage_over(engine, partitions=1_000)
    await other.dispose()
