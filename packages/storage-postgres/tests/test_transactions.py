"""Transactions that others are in the way of, that are cancelled, and poolers between (STO-3)."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from opening_program import incarnation
from server_side import Failure, outcome, part, until
from sqlalchemy.exc import DBAPIError

from yielded_core.errors import FenceRejected, StorageBusy, StorageMisused
from yielded_core.ports.work import Grant
from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.database import TRIES
from yielded_testing.suites.builders import EMPTY, OTHER, THREAD, Writer, batch, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import cancelled_at, refused, stored_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from server_side import Place

    from yielded_storage_postgres.store import PostgresStorage

ROW: Final = "SELECT 1 FROM yielded_threads WHERE thread_id = $1 FOR UPDATE"


@pytest.fixture
async def storage(place: Place) -> AsyncGenerator[PostgresStorage]:
    async with open_storage(place.url()) as opened:
        yield opened


@pytest.mark.rule("STO-3", "LED-4")
async def test_a_deadlock_is_tried_again(place: Place, storage: PostgresStorage) -> None:
    """The server ends the claim, whose second try comes after the other transaction."""
    lane = await LaneScript.begin(storage)
    await lane.ready("key-1")
    async with place.holding("SET LOCAL deadlock_timeout = '1min'") as holder:
        await holder.execute("SELECT 1 FROM yielded_runnable FOR UPDATE")
        claiming = asyncio.create_task(lane.try_claim())
        await place.waiting(1)
        await holder.execute(ROW, THREAD)  # given as soon as the claim was ended
    assert isinstance(await claiming, Grant)


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_what_fails_each_time_is_busy(storage: PostgresStorage, state: str) -> None:
    tries: list[object] = []

    def fails(session: object) -> None:
        tries.append(session)
        raise DBAPIError("SELECT 1", None, Failure(state))

    error = await refused(StorageBusy, part(storage, "_database").write(fails))
    assert error.retryable
    assert len(tries) == TRIES


@pytest.mark.rule("LOG-2", "LED-16", "LAY-4")
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_default_isolation_changes_no_decision(place: Place, level: str) -> None:
    """Not even while stores are created; an old snapshot would fail or decide on what was."""
    database = await place.raw.fetchval("SELECT quote_ident(current_database())")
    async with place.role(f"default_transaction_isolation = '{level}'") as role:
        await place.run(f"GRANT CREATE ON DATABASE {database} TO {role}")
        url = place.url(role=role)
        assert len(set(await asyncio.gather(*(incarnation(url) for _ in range(6))))) == 1
        async with open_storage(url) as storage:
            await storage.threads.materialize(THREAD, epoch=1)
            given = batch("one", note("one"))
            append = storage.threads.append(THREAD, given, expected=EMPTY, epoch=1)
            async with place.holding(ROW, THREAD) as holder:
                appending = asyncio.create_task(outcome(append))
                await place.waiting(1)
                await holder.execute("UPDATE yielded_threads SET epoch = 2")
            assert isinstance(await appending, FenceRejected)
            await LaneScript(storage, OTHER).admit("key-1")
            await storage.threads.materialize(OTHER, epoch=1)


@pytest.mark.rule("LOG-7", "STO-3")
@pytest.mark.parametrize("delay", [0, 1, 3])
async def test_a_cancelled_append_leaves_all_or_nothing_and_a_clean_pool(
    place: Place, storage: PostgresStorage, delay: int
) -> None:
    pool = part(storage, "_database").engine.pool
    for point in range(1, 200):
        thread = ThreadId(f"thread-{point}")
        await storage.threads.materialize(thread, epoch=1)
        given = batch("batch", note("one"), note("two"))
        work = storage.threads.append(thread, given, expected=EMPTY, epoch=1)
        result = await cancelled_at(work, point, delay=delay)
        assert await stored_names(storage, thread) in ([], ["one", "two"])
        assert pool.checkedout() == 0
        await until_clean(place)
        again = storage.threads.append(thread, given, expected=EMPTY, epoch=1)
        assert (await again).tail.sequence == 2
        if result == "shorter":
            return
    pytest.fail("the append never ended")


async def until_clean(place: Place) -> None:
    """Wait until no connection of the store is in a transaction."""
    query = (
        "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity"
        " WHERE application_name = $1 AND xact_start IS NOT NULL)"
    )

    async def clean() -> bool:
        return bool(await place.raw.fetchval(query, place.schema))

    await until(clean, "no transaction is left open")


@pytest.mark.rule("STO-3", "STO-2")
async def test_a_pooler_that_keeps_no_statements_serves(place: Place) -> None:
    url = place.url("prepared_statement_cache_size=0", "statement_cache_size=0")
    async with open_storage(url) as storage:
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.append(note("one"))
        await lane.apply_input("key-1")
        await lane.publish("key-1", finalize=True)
        name = lane.id("key-1")
        found = await stored_names(storage)
    assert found == ["one", f"input:{name}", f"settlement:{name}"]


def uses(storage: PostgresStorage) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return some of every kind of operation."""
    return {
        "write": lambda: storage.threads.materialize(THREAD, epoch=1),
        "read": lambda: storage.threads.read(THREAD),
        "ledger": lambda: storage.ledger.lane(THREAD),
        "observe": lambda: anext(storage.threads.observe(THREAD)),
        "info": storage.info,
        "close": lambda: storage.__aexit__(None, None, None),
    }


async def misused(storage: PostgresStorage) -> list[str]:
    """Return which operations are refused at once as used from the wrong place."""
    found: list[str] = []
    for name, operation in uses(storage).items():
        try:
            async with asyncio.timeout(10):
                await operation()
        except StorageMisused:
            found.append(name)
    return found


@pytest.mark.rule("STO-3")
async def test_another_event_loop_is_told_so_at_once(storage: PostgresStorage) -> None:
    writer = await Writer.begin(storage)
    found = await asyncio.to_thread(lambda: asyncio.run(misused(storage)))
    assert found == list(uses(storage))
    await writer.append(note("one"))


@pytest.mark.rule("STO-3")
async def test_a_forked_child_is_told_so_at_once_and_harms_nothing(place: Place) -> None:
    """The child is a program's, which has no other thread that could hold a lock in it."""
    program = str(Path(__file__).with_name("fork_program.py"))
    child = await asyncio.create_subprocess_exec(
        sys.executable, program, place.url(), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await child.communicate()
    assert child.returncode == 0
    assert json.loads(said) == {"misused": ["read", "write", "info", "close"], "sequence": 1}
