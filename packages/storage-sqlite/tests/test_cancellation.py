"""Every operation, cancelled at each of its awaits: nothing locked, nothing lent, all or nothing.

A cancellation arrives while the work waits for the first, second, third time and so on, some loop
turns into that wait; or after a random fraction of a millisecond, while the threads really run. The
operation is then repeated, and must do or return what an undisturbed one does.
"""

from __future__ import annotations

import asyncio
import gc
import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from checks import check_clean, open_files_of, our_threads, part

from yielded_core.errors import ImportRefused, YieldedError
from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Checkpoint, Tail, ThreadTail
from yielded_core.records.identifiers import ThreadId
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.verify import verify_thread
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import (
    INSTANT_TEXT,
    THREAD,
    Writer,
    batch,
    note,
    notes,
)
from yielded_testing.suites.support import cancelled_at, turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from yielded_core.ports.values import TransferPage
    from yielded_core.records.envelope import StoredRecord
    from yielded_storage_sqlite import SqliteStorage
    from yielded_testing.storm import Worker, Workers

DELAYS: Final = (0, 1, 4)
POINTS: Final = 400
"""More awaits than any operation has."""
BATCHES: Final = (
    batch("one", *notes("one", 3)),
    batch("two", note("two")),
    batch("three", *notes("three", 2)),
)


@pytest.fixture
async def storage(path: Path) -> AsyncIterator[SqliteStorage]:
    async with open_storage(f"sqlite:///{path}") as opened:
        writer = await Writer.begin(opened)
        for given in BATCHES:
            await writer.append_batch(given)
        yield opened
    gc.collect()
    assert our_threads() == []
    assert open_files_of(path) == []


@pytest.fixture
def prober(workers: Workers, path: Path, storage: SqliteStorage) -> Worker:
    assert storage is not None
    started = workers.start("prober", path=str(path))
    started.receive()
    return started


async def pages(storage: SqliteStorage) -> list[TransferPage]:
    return [page async for page in export_pages(storage, THREAD)]


async def observed(storage: SqliteStorage) -> list[StoredRecord]:
    found: list[StoredRecord] = []
    observer = storage.threads.observe(THREAD)
    async for record in observer:
        found.append(record)
        if record.sequence == 6:
            break
    return found


READS: Final[dict[str, Callable[[SqliteStorage], Awaitable[Any]]]] = {
    "read": lambda storage: storage.threads.read(THREAD),
    "tail": lambda storage: storage.threads.tail(THREAD),
    "identity": lambda storage: storage.threads.identity(THREAD),
    "read_prompt": lambda storage: storage.threads.read_prompt(
        THREAD, after=0, through=6, limit=10
    ),
    "read_batches": lambda storage: storage.threads.read_batches(
        THREAD, after=0, through=6, byte_limit=1
    ),
    "threads": lambda storage: storage.threads.threads(),
    "export": pages,
    "verify": lambda storage: verify_thread(storage, THREAD),
    "observe": observed,
}


@pytest.mark.rule("LOG-7", "STO-3")
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("name", READS)
async def test_a_cancelled_read_leaves_nothing_behind(
    storage: SqliteStorage, prober: Worker, name: str, delay: int
) -> None:
    read = READS[name]
    whole = await read(storage)
    for point in range(1, POINTS):
        outcome = await cancelled_at(read(storage), point, delay=delay)
        await check_clean(storage, prober)
        assert await read(storage) == whole
        if outcome == "shorter":
            return
    pytest.fail("the operation never ended")


@pytest.mark.rule("STO-3")
async def test_a_connection_that_is_cancelled_while_it_opens_is_closed(
    storage: SqliteStorage, prober: Worker
) -> None:
    for delay in DELAYS:
        for point in range(1, POINTS):
            await part(storage, "_file", "_readers").dispose()
            outcome = await cancelled_at(storage.threads.tail(THREAD), point, delay=delay)
            await check_clean(storage, prober)
            if outcome == "shorter":
                break


@pytest.mark.rule("LOG-7", "LOG-2")
@pytest.mark.parametrize("delay", DELAYS)
async def test_a_cancelled_append_is_whole_or_not_there(
    storage: SqliteStorage, prober: Worker, delay: int
) -> None:
    tail = (await storage.threads.tail(THREAD)).tail
    for point in range(1, POINTS):
        given = prepare_batch(batch(f"cancelled-{point}", *notes(f"cancelled-{point}", 3)))
        work = storage.threads.append(THREAD, given, expected=tail, epoch=1)
        outcome = await cancelled_at(work, point, delay=delay)
        await check_clean(storage, prober)
        tail = await check_append(storage, tail, point)
        if outcome == "shorter":
            return
    pytest.fail("the operation never ended")


async def check_append(storage: SqliteStorage, before: Tail, number: int) -> Tail:
    """All of a batch of three is there or nothing; repeating it returns what was committed."""
    found = (await storage.threads.tail(THREAD)).tail
    assert found.sequence in {before.sequence, before.sequence + 3}
    given = batch(f"cancelled-{number}", *notes(f"cancelled-{number}", 3))
    again = await storage.threads.append(THREAD, given, expected=before, epoch=1)
    assert again.replayed == (found != before)
    assert again.tail.sequence == before.sequence + 3
    if again.replayed:
        assert again.tail == found
    return again.tail


@pytest.mark.rule("LOG-1", "LOG-7")
async def test_a_cancelled_takeover_can_be_repeated(storage: SqliteStorage, prober: Worker) -> None:
    epoch = 1
    for delay in DELAYS:
        for point in range(1, POINTS):
            epoch += 1
            work = storage.threads.materialize(THREAD, epoch=epoch)
            outcome = await cancelled_at(work, point, delay=delay)
            await check_clean(storage, prober)
            assert (await storage.threads.tail(THREAD)).epoch in {epoch - 1, epoch}
            assert (await storage.threads.materialize(THREAD, epoch=epoch)).epoch == epoch
            if outcome == "shorter":
                break


@pytest.mark.rule("ARC-4", "LOG-7")
@pytest.mark.parametrize("delay", DELAYS)
async def test_a_cancelled_import_is_resumed_or_was_published(
    storage: SqliteStorage, prober: Worker, delay: int
) -> None:
    archive = await storage.threads.tail(THREAD)
    whole = [record.wire for record in await storage.threads.read(THREAD)]
    for point in range(1, POINTS):
        copy = ThreadTail(ThreadId(f"copy-{point}"), archive.sequence, archive.digest, 1)
        outcome = await cancelled_at(install(storage, copy), point, delay=delay)
        await check_clean(storage, prober)
        listed = {each.thread_id: each for each in await storage.threads.threads()}
        if copy.thread_id in listed:
            assert listed[copy.thread_id] == copy
            with pytest.raises(ImportRefused, match="destination-not-empty"):
                await install(storage, copy)
        else:
            await install(storage, copy)
        found = await storage.threads.read(copy.thread_id)
        assert [record.wire for record in found] == whole
        await storage.archives.discard_import(copy.thread_id)
        if outcome == "shorter":
            return
    pytest.fail("the operation never ended")


async def install(storage: SqliteStorage, archive: ThreadTail) -> None:
    """Import what the fixture wrote as another thread, from wherever its import stands."""
    archives = storage.archives
    state = await archives.begin_import(archive)
    last = 0
    for given in BATCHES:
        last += len(given.records)
        if state.staged.sequence < last:
            staging = [(prepare_batch(given), 1)]
            state = await archives.stage_batches(archive.thread_id, staging)
    assert state.complete
    await archives.publish_import(archive.thread_id)


@pytest.mark.rule("ARC-7", "ARC-6", "LOG-13", "LOG-17")
@pytest.mark.parametrize("delay", DELAYS)
async def test_cancelled_maintenance_can_be_repeated(
    storage: SqliteStorage, prober: Worker, delay: int
) -> None:
    assert storage.checkpoints is not None
    threads, archives, checkpoints = storage.threads, storage.archives, storage.checkpoints
    for point in range(1, POINTS):
        thread = ThreadId(f"kept-{point}")
        writer = await Writer.begin(storage, thread)
        await writer.fill(2, 2)
        checkpoint = Checkpoint(thread, 4, writer.tail.digest, {"a": 1}, INSTANT_TEXT)
        outcomes = [
            await cancelled_at(work, point, delay=delay)
            for work in (
                threads.rebuild_indexes(thread, restart=True),
                checkpoints.save(checkpoint),
                archives.seal_range(thread, through=2),
            )
        ]
        await check_clean(storage, prober)
        await threads.rebuild_indexes(thread)
        assert (await threads.index_state(thread)).complete
        await checkpoints.save(checkpoint)
        if not await archives.ranges(thread):
            await archives.seal_range(thread, through=2)
        outcomes.append(
            await cancelled_at(archives.archive_range(thread, first=1), point, delay=delay)
        )
        assert (await archives.archive_range(thread, first=1)).state == "archived"
        assert len(await threads.read(thread)) == 4
        outcomes.append(await cancelled_at(threads.delete_thread(thread), point, delay=delay))
        await check_clean(storage, prober)
        assert (await threads.delete_thread(thread)).tail == writer.tail
        if set(outcomes) == {"shorter"}:
            return
    pytest.fail("the operations never ended")


@pytest.mark.rule("STO-3", "LOG-7")
@pytest.mark.parametrize("seed", range(4))
async def test_cancelled_at_random_while_threads_run(
    storage: SqliteStorage, prober: Worker, seed: int
) -> None:
    """Three operations at a time, each cancelled once or twice after up to some milliseconds."""
    chance = random.Random(seed)
    tail = (await storage.threads.tail(THREAD)).tail
    for number in range(25):
        given = batch(f"cancelled-{number}", *notes(f"cancelled-{number}", 3))
        works: list[Awaitable[Any]] = [
            storage.threads.append(THREAD, given, expected=tail, epoch=1),
            chance.choice(list(READS.values()))(storage),
            chance.choice(list(READS.values()))(storage),
        ]
        tasks = [asyncio.ensure_future(work) for work in works]
        for task in tasks:
            for _ in range(chance.randint(1, 2)):
                asyncio.get_running_loop().call_later(chance.random() * 0.006, task.cancel)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            assert not isinstance(outcome, Exception), outcome
        await check_clean(storage, prober)
        tail = await check_append(storage, tail, number)


@pytest.mark.rule("STO-3")
async def test_a_second_cancellation_changes_nothing(
    storage: SqliteStorage, prober: Worker
) -> None:
    """A read that is cancelled, and cancelled again while it tidies up, still gives all back."""
    for first in range(30):
        for second in (1, 2, 3):
            task = asyncio.ensure_future(storage.threads.read(THREAD))
            await turns(first)
            task.cancel()
            await turns(second)
            task.cancel()
            await asyncio.wait({task})
            await check_clean(storage, prober)


@pytest.mark.rule("STO-3", "LAY-4")
@pytest.mark.parametrize("delay", DELAYS)
async def test_a_cancelled_opening_leaves_nothing_open(path: Path, delay: int) -> None:
    for point in range(1, POINTS):
        storage = open_storage(f"sqlite:///{path}")
        outcome = await cancelled_at(storage.__aenter__(), point, delay=delay)
        if outcome != "cancelled":
            await storage.__aexit__(None, None, None)
        assert our_threads() == []
        assert open_files_of(path) == []
        if outcome == "shorter":
            break
    async with open_storage(f"sqlite:///{path}") as again:
        assert await again.threads.threads() == ()


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("delay", DELAYS)
async def test_a_cancelled_closing_closes_all_the_same(path: Path, delay: int) -> None:
    for point in range(1, POINTS):
        storage = open_storage(f"sqlite:///{path}")
        await storage.__aenter__()
        await storage.threads.threads()
        work = storage.__aexit__(None, None, None)
        outcome = await cancelled_at(work, point, delay=delay)
        assert our_threads() == []
        assert open_files_of(path) == []
        with pytest.raises(YieldedError, match="not open"):
            await storage.threads.threads()
        if outcome == "shorter":
            return
    pytest.fail("the operation never ended")
