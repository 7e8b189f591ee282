"""Opening, closing and exiting at any moment, in any order, leave nothing behind (STO-3)."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import warnings
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from checks import check_clean, open_files_of, our_threads, part, probe
from log_checker import check_store

from yielded_core.errors import StorageBusy, StorageClosed, StorageMisused, YieldedError
from yielded_core.ports.values import Appended
from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_storage_sqlite.connections import MOST_READERS
from yielded_testing.suites.builders import EMPTY, THREAD, Writer, batch, note
from yielded_testing.suites.support import every_operation, import_operations, observing, turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from yielded_testing.storm import Workers

PROGRAM: Final = Path(__file__).with_name("left_open_program.py")
WAYS_TO_EXIT: Final = {"returns": 0, "forgets": 0, "in flight": 0, "raises": 1, "exits": 3}
"""How the program ends, and with which status."""


class LeftOpen(NamedTuple):
    """An interpreter that leaves a storage open, and the store."""

    path: Path
    process: subprocess.Popen[str]


@pytest.mark.rule("STO-3")
async def test_closing_leaves_no_thread_descriptor_or_lock(path: Path, workers: Workers) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        writer = await Writer.begin(storage)
        await writer.fill(5)
        reads = [storage.threads.read(THREAD) for _ in range(20)]
        assert {len(found) for found in await asyncio.gather(*reads)} == {5}
        async with observing(storage) as seen:
            await seen.until(5)
        prober = workers.start("prober", path=str(path))
        prober.receive()
        await check_clean(storage, prober)
        assert our_threads()
        assert open_files_of(path)
    assert our_threads() == []
    assert open_files_of(path) == []
    assert await probe(prober) == {"lock": True, "write": True, "checkpoint": True}
    prober.finish()
    assert not Path(f"{path}-wal").exists()


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("delay", [0, 1, 3, 10, 40])
async def test_closing_amid_operations_ends_each_of_them(path: Path, delay: int) -> None:
    """What was accepted is done and there; what came later is refused; observers end."""
    storage = open_storage(f"sqlite:///{path}")
    await storage.__aenter__()
    names = [ThreadId(f"thread-{number}") for number in range(30)]
    for name in names:
        await storage.threads.materialize(name, epoch=1)

    async def late(name: ThreadId, wait: int) -> Appended:
        await turns(wait)
        given = batch("batch", note("note"))
        return await storage.threads.append(name, given, expected=EMPTY, epoch=1)

    async def watch(name: ThreadId) -> None:
        async for _ in storage.threads.observe(name):
            pass

    appending = [asyncio.create_task(late(name, at * 2)) for at, name in enumerate(names)]
    watching = [asyncio.create_task(watch(name)) for name in names[:5]]
    reading = [asyncio.create_task(storage.threads.read(name)) for name in names]
    await turns(delay)
    await storage.__aexit__(None, None, None)
    assert our_threads() == []
    heard = await asyncio.gather(*appending, return_exceptions=True)
    watched = await asyncio.gather(*watching, return_exceptions=True)
    read = await asyncio.gather(*reading, return_exceptions=True)
    stored = check_store(path)
    for name, answer in zip(names, heard, strict=True):
        assert isinstance(answer, Appended | StorageClosed), answer
        assert bool(stored[name]) == isinstance(answer, Appended)
    assert {type(each) for each in watched} == {StorageClosed}
    assert {type(each) for each in read} <= {tuple, StorageClosed}


@pytest.mark.rule("STO-3")
async def test_a_read_waits_for_a_connection_until_the_deadline(path: Path) -> None:
    async with open_storage(f"sqlite:///{path}?deadline=1") as storage:
        await (await Writer.begin(storage)).append(note("one"))
        async with AsyncExitStack() as lent:
            for _ in range(MOST_READERS):
                await lent.enter_async_context(part(storage, "_file").connection())
            with pytest.raises(StorageBusy):
                await storage.threads.read(THREAD)
            waiting = asyncio.create_task(storage.threads.read(THREAD))
            await turns(5)
        assert len(await waiting) == 1
        many = [storage.threads.read(THREAD) for _ in range(3 * MOST_READERS)]
        assert {len(found) for found in await asyncio.gather(*many)} == {1}


@pytest.mark.rule("STO-3")
async def test_closing_twice_at_once_ends_both(path: Path) -> None:
    storage = open_storage(f"sqlite:///{path}")
    await storage.__aenter__()
    writer = await Writer.begin(storage)
    appending = asyncio.create_task(writer.append(note("one")))
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await asyncio.gather(*(storage.__aexit__(None, None, None) for _ in range(3)))
    assert (await appending).tail.sequence == 1
    assert our_threads() == []
    await storage.__aexit__(None, None, None)


@pytest.mark.rule("STO-3")
async def test_every_operation_is_refused_before_and_after(path: Path) -> None:
    storage = open_storage(f"sqlite:///{path}")

    async def check() -> None:
        operations = every_operation(storage, THREAD) | import_operations(storage, THREAD)
        operations["info"] = storage.info
        operations["threads"] = storage.threads.threads
        for operation in operations.values():
            with pytest.raises(StorageClosed):
                await operation()

    await check()
    async with storage:
        await Writer.begin(storage)
    await check()
    with pytest.raises(StorageMisused):
        await storage.__aenter__()
    assert our_threads() == []


@pytest.mark.rule("STO-3")
async def test_a_failed_opening_is_closed(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/missing/store.db")
    with pytest.raises(YieldedError):
        await storage.__aenter__()
    with pytest.raises(StorageClosed):
        await storage.threads.read(THREAD)


@pytest.mark.rule("STO-3")
def test_another_event_loop_is_told_so_at_once(path: Path) -> None:
    async def check(storage: Any) -> None:  # noqa: ANN401
        operations: list[Awaitable[object]] = [
            operation() for operation in every_operation(storage, THREAD).values()
        ]
        operations += [storage.info(), storage.__aexit__(None, None, None)]
        for operation in operations:
            with pytest.raises(StorageMisused, match="loop"):
                async with asyncio.timeout(10):
                    await operation

    async def use() -> None:
        async with open_storage(f"sqlite:///{path}") as storage:
            writer = await Writer.begin(storage)
            await asyncio.to_thread(asyncio.run, check(storage))
            await writer.append(note("one"))

    asyncio.run(use())
    assert our_threads() == []


@pytest.mark.rule("STO-3")
def test_a_forked_child_is_told_so_at_once_and_harms_nothing(path: Path, workers: Workers) -> None:
    worker = workers.start("misuser", url=f"sqlite:///{path}")
    said = worker.rest()
    assert said[-1] == {"sequence": 1}
    assert [each["operation"] for each in said[:-1]] == [
        "materialize",
        "read",
        "observe",
        "info",
        "close",
    ]
    assert {each["code"] for each in said[:-1]} == {"storage-misused"}
    assert max(each["took"] for each in said[:-1]) < 1
    assert len(check_store(path)["thread"]) == 1


@pytest.mark.rule("STO-3", "LOG-2")
async def test_two_storages_of_one_process_share_a_file(path: Path, workers: Workers) -> None:
    """Opening and closing one of them takes nothing from the other one's locks."""
    url = f"sqlite:///{path}"
    async with open_storage(url) as first:
        writer = await Writer.begin(first)
        prober = workers.start("prober", path=str(path))
        prober.receive()
        for number in range(3):
            async with open_storage(url) as second:
                other = await Writer.begin(second, ThreadId(f"other-{number}"))
                async with observing(first, other.thread) as seen:
                    await asyncio.gather(writer.fill(1), other.fill(1, 1))
                    await seen.until(2)
                    await check_clean(second, prober)
            await writer.fill(1)
            assert Path(f"{path}-wal").exists()
    assert {len(batches) for batches in check_store(path).values()} == {6, 2}


@pytest.fixture(scope="module")
def left_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LeftOpen]]:
    """Interpreters that exit in each way with an open storage, all started at once."""
    folder = tmp_path_factory.mktemp("left-open")
    started: dict[str, LeftOpen] = {}
    for how in WAYS_TO_EXIT:
        path = folder / f"{how}.db"
        started[how] = LeftOpen(
            path,
            subprocess.Popen(
                [sys.executable, PROGRAM, f"sqlite:///{path}", how],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ),
        )
    yield started
    for each in started.values():
        with each.process as process:
            process.kill()


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("how", WAYS_TO_EXIT)
def test_an_interpreter_with_an_open_storage_exits_and_says_so(
    left_open: dict[str, LeftOpen], how: str
) -> None:
    path, process = left_open[how]
    said, complained = process.communicate(timeout=60)
    assert process.returncode == WAYS_TO_EXIT[how], complained
    assert said == "written\n"
    assert "left open" in complained
    assert ("the program fails" in complained) == (how == "raises")
    assert check_store(path)[THREAD].keys() >= {"batch-1"}


@pytest.mark.rule("STO-3")
async def test_a_forgotten_storage_ends_by_itself(path: Path) -> None:
    storage = open_storage(f"sqlite:///{path}")
    await storage.__aenter__()
    await Writer.begin(storage)
    storage = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other tests left behind is collected here too
        gc.collect()
    async with asyncio.timeout(30):
        while our_threads():
            await asyncio.to_thread(threading.Event().wait, 0.01)
    assert open_files_of(path) == []
