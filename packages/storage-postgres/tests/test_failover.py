"""A synchronous standby that takes over: nothing acknowledged is missing, and clients find it.

Primary and standby are servers of our own. A killed process leaves its writes to the kernel, so
that they need not be flushed: what is lost with a primary is what its standby was not given.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest
from proxy import proxied
from repeated import KINDS, without_replay
from replication import replicated
from server_side import Place, connect, outcome, until
from stored_log import Held, held_batches

from yielded_core.errors import StorageBusy, StorageReadOnly, StorageUnavailable
from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage
from yielded_testing.suites.builders import EMPTY, THREAD, Writer, batch, note, notes
from yielded_testing.suites.support import refused, stored_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from replication import Pair

    from yielded_core.ports.values import Appended, Batch, Tail
    from yielded_storage_postgres.store import PostgresStorage
    from yielded_testing.postgres import Installation

STORAGES: Final = 4
"""As many pools, as that many processes have; each failover costs each of them an operation."""
WAITING: Final = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'SyncRep'
"""


@pytest.fixture(scope="module")
def pair(programs: Installation) -> Generator[Pair]:
    """A primary and its standby, which each test leaves running, whichever is which then."""
    with replicated(programs) as started:
        yield started


@pytest.fixture
def schema() -> str:
    """The name of a schema, and of the connections of a store in it."""
    return f"test_{uuid4().hex}"


@pytest.fixture
async def own(pair: Pair, schema: str) -> AsyncGenerator[Place]:
    """The schema on the primary that there is at first, with a store in it."""
    raw = await connect(pair.primary.url(), schema)
    place = Place(pair.primary.url(), raw, schema)
    async with open_storage(place.url()):
        pass
    try:
        yield place
    finally:
        raw.terminate()


# --- Clients that follow -------------------------------------------------------------------------


@dataclass
class Outage:
    """Writers over a pair of servers, and what they were told."""

    pair: Pair
    schema: str
    writers: int
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    answered: int = 0
    failures: int = 0
    replays: int = 0
    _goal: int = 0
    _reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def more(self, count: int) -> None:
        """Wait for so many answers more."""
        self._goal = self.answered + count
        self._reached.clear()
        async with asyncio.timeout(120):
            await self._reached.wait()

    def count(self, done: Appended) -> None:
        """Take note of an answer."""
        self.answered += 1
        self.replays += done.replayed
        if self.answered >= self._goal:
            self._reached.set()

    async def fail_over(self, *, starved: bool) -> None:
        """Kill the primary in the midst of the writes, promote the standby, and replace it.

        A starved standby lacks what the primary committed last, which must not be acknowledged.
        """
        if starved:
            await self._starve()
        self.serving.clear()
        await asyncio.to_thread(self.pair.fail_over)
        self.serving.set()
        await asyncio.to_thread(self.pair.replace)

    async def _starve(self) -> None:
        """Cut the standby off, and wait for a commit that waits for it, or wrongly for none."""
        before = self.answered
        raw = await connect(self.pair.primary.url(), self.schema)
        try:
            await asyncio.to_thread(self.pair.primary.starve_standby)

            async def told() -> bool:
                waiting = await raw.fetchval(WAITING, self.schema)
                return bool(waiting) or self.answered > before + 3 * self.writers

            await until(told, "a commit waits for the standby, or is acknowledged without it")
        finally:
            await raw.close()


@dataclass
class Client:
    """Appends to a thread of its own, and repeats what failed until it is answered."""

    outage: Outage
    storage: PostgresStorage
    thread: ThreadId
    tail: Tail = EMPTY
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    """What was acknowledged."""

    async def run(self) -> None:
        """Append until the outage is over."""
        while not self.outage.ended.is_set():
            name = f"{self.thread}/{len(self.held) + 1}"
            records = notes(name, 1 + len(self.held) % 3, "x" * 200)
            done = await self._answered(batch(name, *records))
            self.outage.count(done)
            self.tail = done.tail
            self.held[name] = Held(
                done.first_sequence,
                done.tail.sequence,
                done.tail.digest,
                tuple(str(each.record_id) for each in records),
            )

    async def _answered(self, given: Batch) -> Appended:
        """Repeat an append: at once, and then again whenever somebody may serve."""
        for repeats in range(50):
            try:
                return await self.storage.threads.append(
                    self.thread, given, expected=self.tail, epoch=1
                )
            except (StorageUnavailable, StorageBusy):
                self.outage.failures += 1
                if repeats:
                    await self.outage.serving.wait()
        raise AssertionError("never answered")


async def ridden_out(
    pair: Pair, schema: str, writers: int, answers: int, starved: Sequence[bool]
) -> Outage:
    """Let clients write through outages, each after so many answers, and check every answer."""
    outage = Outage(pair, schema, writers)
    outage.serving.set()
    async with AsyncExitStack() as stack:
        url = pair.url(f"schema={schema}", f"application_name={schema}", "deadline=20")
        storages = [
            await stack.enter_async_context(open_storage(url))
            for _ in range(min(STORAGES, writers))
        ]
        clients = [
            Client(outage, storages[number % len(storages)], ThreadId(f"thread-{number}"))
            for number in range(writers)
        ]
        for each in clients:
            await each.storage.threads.materialize(each.thread, epoch=1)
        async with asyncio.TaskGroup() as writing:
            for each in clients:
                writing.create_task(each.run())
            for each in starved:
                await outage.more(answers)
                await outage.fail_over(starved=each)
            await outage.more(answers)
            outage.ended.set()
        raw = await connect(pair.primary.url(), schema)
        try:
            stored = await held_batches(raw)
        finally:
            await raw.close()
    assert stored == {str(each.thread): each.held for each in clients}
    assert sum(map(len, stored.values())) == outage.answered
    return outage


@pytest.mark.rule("STO-3", "LOG-2", "LOG-7", "REC-7")
@pytest.mark.parametrize("starved", [False, True])
async def test_nothing_acknowledged_is_missing_after_a_failover(
    pair: Pair, schema: str, *, starved: bool
) -> None:
    outage = await ridden_out(pair, schema, 4, 40, [starved])
    assert outage.failures >= STORAGES


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.rule("STO-3", "LOG-2", "LOG-7", "REC-7")
async def test_nothing_acknowledged_is_missing_after_five_failovers(
    pair: Pair, schema: str
) -> None:
    began = time.monotonic()
    outage = await ridden_out(pair, schema, 16, 200, [True, False, True, False, True])
    print(  # noqa: T201 - a measurement, shown with -s
        f"{outage.answered} acknowledged appends of 16 writers over 5 promotions in"
        f" {time.monotonic() - began:.0f} s; {outage.failures} failed tries,"
        f" {outage.replays} answers found committed"
    )
    assert outage.answered >= 1_000
    assert outage.failures >= 5 * STORAGES


# --- What only a standby tells -------------------------------------------------------------------


@pytest.mark.rule("STO-3")
async def test_a_standby_serves_reads_and_writes_once_it_is_promoted(
    pair: Pair, own: Place
) -> None:
    """The same storage, which names that server alone, all the time."""
    async with open_storage(own.url()) as storage:
        await (await Writer.begin(storage)).append(note("one"))
    standby = pair.standby
    url = f"{standby.url()}?schema={own.schema}&create=false"
    await until(lambda: _has(standby.url(), own.schema), "the standby has the store")
    async with open_storage(url) as storage:
        assert await stored_names(storage) == ["one"]
        error = await refused(StorageReadOnly, storage.threads.materialize(THREAD, epoch=2))
        assert "standby" in error.detail
        assert await storage.ledger.lane(THREAD) is not None
        await asyncio.to_thread(pair.fail_over)
        assert pair.primary is standby
        await asyncio.to_thread(pair.replace)
        assert (await storage.threads.materialize(THREAD, epoch=2)).epoch == 2


async def _has(server: str, schema: str) -> bool:
    """Whether a server has replayed the first record."""
    raw = await connect(server, schema)
    try:
        found = await raw.fetchval(f"SELECT to_regclass('{schema}.yielded_records')")
        return found is not None and await raw.fetchval("SELECT count(*) FROM yielded_records") == 1
    finally:
        await raw.close()


@pytest.mark.rule("STO-3")
async def test_a_pooled_connection_to_a_standby_is_let_go(pair: Pair, own: Place) -> None:
    """A name or an address that moved: the pool's connection still leads to where it led before."""
    async with open_storage(own.url()) as storage:
        await (await Writer.begin(storage)).append(note("one"))
    await until(lambda: _has(pair.standby.url(), own.schema), "the standby has the store")
    async with proxied(pair.standby.url()) as proxy:
        url = proxy.url(f"schema={own.schema}", "create=false", "pool=1")
        async with open_storage(url) as storage:
            assert await stored_names(storage) == ["one"]
            proxy.server = pair.primary.url()
            assert (await storage.threads.materialize(THREAD, epoch=2)).epoch == 2
            assert (await storage.threads.tail(THREAD)).epoch == 2


@pytest.mark.rule("STO-3", "LOG-7", "LED-4", "LED-8")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_no_standby_has_is_not_acknowledged_even_to_a_repeat(
    pair: Pair, own: Place, kind: str
) -> None:
    """The first try is committed where it is, and lost if that server is: so is who repeats it."""
    async with open_storage(own.url("pool=2")) as storage:
        case = await KINDS[kind].prepared(storage, ThreadId(f"thread-{kind}"))
        await asyncio.to_thread(pair.standby.kill)
        first = asyncio.create_task(outcome(case.run(storage)))
        await _waits(own, first)
        await own.raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = $1 AND wait_event = 'SyncRep'",
            own.schema,
        )
        assert isinstance(await first, StorageUnavailable)
        again = asyncio.create_task(case.run(storage))
        await _waits(own, again)
        await asyncio.to_thread(pair.standby.start)
        answer = await again
        assert answer.replayed
        await case.check(own, answer)
        assert without_replay(await case.run(storage)) == without_replay(answer)


async def _waits(place: Place, operation: asyncio.Task[object]) -> None:
    """Wait until a commit waits for a standby; the operation must not have been answered."""

    async def waits() -> bool:
        assert not operation.done(), f"answered before a standby has it: {operation.result()}"
        return int(await place.raw.fetchval(WAITING, place.schema)) == 1

    await until(waits, "a commit waits for the standby")
