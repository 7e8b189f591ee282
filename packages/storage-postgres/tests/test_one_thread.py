"""Every transaction of a store writes one thread: by the server's own log, and in two stores.

That is what lets a store be spread: nothing but the end of a timeline (STO-4), which an operator
declares, is written for several threads at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import defaultdict
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from emptied import EMPTIED
from server_side import connect, new_database

from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage
from yielded_testing.postgres import UNFLUSHED, Installation, Server, running
from yielded_testing.suites.builders import Writer
from yielded_testing.suites.ledger_builders import LaneScript

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from server_side import Place, Raw

    from yielded_core.storage import Storage

SUITES: Final = Path(__file__).with_name("test_suites.py")
SLOT: Final = "one_thread"
WRITTEN: Final = """
SELECT xid::text, data FROM pg_logical_slot_get_changes($1, NULL, NULL, 'skip-empty-xacts', '1')
"""
ROW: Final = re.compile(r"table \S+\.(\w+): (?:INSERT|UPDATE|DELETE): (.*)", re.DOTALL)
OWNER: Final = re.compile(r"^thread_id\[text\]:'((?:[^']|'')*)'")
THREADS: Final = [ThreadId(f"thread-{number}") for number in range(12)]


class Transactions(NamedTuple):
    """What the server wrote."""

    number: int
    several: dict[str, set[str]]
    """The threads of those that wrote rows of more than one."""
    timelines: int
    """How many wrote the header, as the end of a timeline does: they are not among the others."""


@pytest.fixture(scope="module")
def server(programs: Installation) -> Iterator[Server]:
    settings = (*UNFLUSHED, "wal_level=logical", "max_connections=200")
    with running(programs, *settings, name="decoded") as started:
        yield started


@asynccontextmanager
async def decoding(server: Server) -> AsyncGenerator[Raw]:
    """Lend a connection; the server keeps what is written from here on until it is read."""
    raw = await connect(server.url(), "public")
    try:
        await raw.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'test_decoding')")
        try:
            yield raw
        finally:
            await raw.execute(f"SELECT pg_drop_replication_slot('{SLOT}')")
    finally:
        await raw.close()


async def written(raw: Raw) -> Transactions:
    """Return what was written since the last time, as the rows tell it."""
    threads: defaultdict[str, set[str]] = defaultdict(set)
    left_out: set[str] = set()
    timelines: set[str] = set()
    async with raw.transaction():
        async for transaction, line in raw.cursor(WRITTEN, SLOT, prefetch=10_000):
            row = ROW.match(line)
            if row is None:
                if EMPTIED in line:
                    left_out.add(transaction)
            elif row[1] == "yielded_header":
                timelines.add(transaction)
            else:
                owner = OWNER.match(row[2])
                assert owner is not None, f"a row of {row[1]} has no thread in front"
                threads[transaction].add(owner[1])
    found = {name: them for name, them in threads.items() if name not in left_out | timelines}
    several = {name: them for name, them in found.items() if len(them) > 1}
    return Transactions(len(found), several, len(timelines))


async def run_suites(server: Server, *options: str) -> str:
    """Run the conformance suites on the server in a process of their own; return what it said."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"),
        *(str(SUITES), *options),
        env=os.environ | {"YIELDED_POSTGRES_URL": server.url()},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await program.communicate()
    except BaseException:
        program.kill()
        await program.wait()
        raise
    assert program.returncode == 0, said.decode()
    return said.decode()


@pytest.mark.rule("STO-1")
@pytest.mark.parametrize(
    ("options", "least"),
    [
        pytest.param(("-k", "TestSettlements or TestCheckpoints or Handoff"), 500, id="some"),
        pytest.param((), 20_000, id="all", marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
    ],
)
async def test_no_transaction_of_the_suites_writes_two_threads(
    server: Server, options: Sequence[str], least: int
) -> None:
    async with decoding(server) as raw:
        await run_suites(server, *options)
        found = await written(raw)
        print(f"{found.number} transactions, {found.timelines} headers")  # noqa: T201 - a figure
        assert found.several == {}
        assert found.number >= least


async def test_a_transaction_of_two_threads_is_seen(server: Server) -> None:
    async with decoding(server) as raw, open_storage(f"{server.url()}?schema=seen") as storage:
        for thread in THREADS:
            await storage.threads.materialize(thread, epoch=1)
        assert (await written(raw)).several == {}
        await raw.execute("UPDATE seen.yielded_threads SET epoch = 2 WHERE thread_id < 'thread-2'")
        (names,) = (await written(raw)).several.values()
        assert names == {name for name in THREADS if name < "thread-2"}


async def work(storage: Storage, thread: ThreadId) -> list[str]:
    """Write, accept, claim and settle in a thread, and return the families of its records."""
    writer = await Writer.begin(storage, thread)
    await writer.fill(1, 2, 3)
    lane = LaneScript(storage, thread)
    for key in ("key-1", "key-2"):
        await lane.run(key)
        await lane.publish(key, finalize=True)
    return [type(each.record.payload).__name__ for each in await storage.threads.read(thread)]


@pytest.mark.rule("STO-1")
async def test_threads_in_two_stores_end_as_they_do_in_one(place: Place) -> None:
    """Every second one lies in another database."""
    async with new_database(place) as other, AsyncExitStack() as stack:
        alone, first, second = [
            await stack.enter_async_context(open_storage(url))
            for url in (place.url(), f"{place.server}?schema={place.schema}_first", other)
        ]
        try:
            whole = await asyncio.gather(*(work(alone, thread) for thread in THREADS))
            stores = [(first, second)[number % 2] for number in range(len(THREADS))]
            pairs = zip(stores, THREADS, strict=True)
            assert await asyncio.gather(*(work(*pair) for pair in pairs)) == whole
            for at, store in enumerate((first, second)):
                held = await store.threads.threads()
                assert [each.thread_id for each in held] == sorted(THREADS[at::2])
        finally:
            await place.run(f"DROP SCHEMA {place.schema}_first CASCADE")
