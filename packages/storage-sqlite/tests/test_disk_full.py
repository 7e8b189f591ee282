"""A full disk: whoever is told that he succeeded has, whoever is told that he failed has not.

SQLite answers a full disk in the midst of a savepoint by rolling the whole transaction back and
going on without one, so that the truth about a whole group of callers is at stake. Once there is
room again, the same storage goes on.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from checks import part
from log_checker import check_store
from saboteurs import applied

from yielded_core.errors import AppendConflict, StorageFull
from yielded_core.ports.values import Appended
from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import EMPTY, batch, note, notes

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from yielded_core.ports.values import Batch
    from yielded_storage_sqlite import SqliteStorage
    from yielded_storage_sqlite.file import StoreFile
    from yielded_testing.storm import Workers

CALLERS = 40


def file_of(storage: SqliteStorage) -> StoreFile:
    file: StoreFile = part(storage, "_file")
    return file


async def as_one_group(storage: SqliteStorage, appends: list[tuple[ThreadId, Batch]]) -> list[Any]:
    """Append all at the empty tail, in one group: the writer is held until all of them wait."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_connection: sqlite3.Connection) -> None:
        begun.set()
        assert go_on.wait(30)

    holding = asyncio.create_task(file_of(storage).write(hold))
    await asyncio.to_thread(begun.wait)
    waiting = [
        asyncio.create_task(storage.threads.append(thread, given, expected=EMPTY, epoch=1))
        for thread, given in appends
    ]
    await asyncio.sleep(0)
    go_on.set()
    await holding
    return await asyncio.gather(*waiting, return_exceptions=True)


async def leave_pages(storage: SqliteStorage, count: int) -> None:
    """Let the file grow by so many pages and no more."""

    def limit(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + count}")

    await file_of(storage).write(limit)


async def check_full_group(path: Path) -> None:
    """Fill the store within a group, and compare what each caller heard with what is stored."""
    async with open_storage(f"sqlite:///{path}") as storage:
        threads = [ThreadId(f"thread-{number}") for number in range(CALLERS)]
        for thread in threads:
            await storage.threads.materialize(thread, epoch=1)
        appends = [
            (thread, batch(f"{thread}-{which}", *notes(f"{thread}-{which}", 2, "x" * 3_000)))
            for thread in threads
            for which in ("first", "second")  # the second conflicts, if the first one is there
        ]
        await leave_pages(storage, 30)
        heard = await as_one_group(storage, appends)
        await check_heard(storage, appends, heard)
        assert sum(isinstance(each, Appended) for each in heard) >= 5
        assert sum(isinstance(each, StorageFull) for each in heard) >= 5
        await leave_pages(storage, 10_000)
        again = await as_one_group(storage, appends)
        assert not [each for each in again if isinstance(each, StorageFull)]
        await check_heard(storage, appends, again)
    stored = check_store(path)
    assert [len(batches) for batches in stored.values()] == [1] * CALLERS


async def check_heard(
    storage: SqliteStorage, appends: list[tuple[ThreadId, Batch]], heard: list[Any]
) -> None:
    for (thread, given), answer in zip(appends, heard, strict=True):
        tail = (await storage.threads.tail(thread)).tail
        stored = {str(each.batch_id) for each in await storage.threads.read(thread)}
        if isinstance(answer, Appended):
            assert stored == {given.batch_id}, "an acknowledged batch is not there"
            assert answer.tail == tail
        elif isinstance(answer, AppendConflict):
            assert stored, "refused for what is not there"
            assert (answer.sequence, answer.digest) == (tail.sequence, tail.digest)
        else:
            assert isinstance(answer, StorageFull), answer
            assert answer.retryable
            assert given.batch_id not in stored, "a failed batch is there"


@pytest.mark.rule("LOG-2", "LOG-7")
async def test_every_caller_of_a_group_that_fills_the_store_hears_the_truth(path: Path) -> None:
    await check_full_group(path)


async def test_trusting_savepoints_is_caught(path: Path) -> None:
    with (
        applied("trusts-savepoints"),
        pytest.raises(AssertionError, match="an acknowledged batch is not there"),
    ):
        await check_full_group(path)


async def check_refusal_waits(path: Path) -> None:
    """A refusal is answered after the commit of what it rests on."""
    async with open_storage(f"sqlite:///{path}") as storage:
        thread = ThreadId("thread")
        await storage.threads.materialize(thread, epoch=1)
        begun, go_on = threading.Event(), threading.Event()
        told = asyncio.Event()

        def hold(_connection: sqlite3.Connection) -> None:
            begun.set()
            assert go_on.wait(30)

        async def refused() -> None:
            with pytest.raises(AppendConflict):
                await storage.threads.append(
                    thread, batch("two", note("two")), expected=EMPTY, epoch=1
                )
            told.set()

        def linger(_connection: sqlite3.Connection) -> bool:
            """Stay in the group until the refusal is heard, which must not come before."""
            return heard.wait(0.3)

        heard = threading.Event()
        tasks = [asyncio.create_task(file_of(storage).write(hold))]
        await asyncio.to_thread(begun.wait)
        one = storage.threads.append(thread, batch("one", note("one")), expected=EMPTY, epoch=1)
        tasks.append(asyncio.create_task(_ignoring(one)))
        refusing = asyncio.create_task(refused())
        refusing.add_done_callback(lambda _: heard.set())
        last = asyncio.create_task(file_of(storage).write(linger))
        await asyncio.sleep(0)
        go_on.set()
        assert not await last, "refused before the commit"
        await asyncio.gather(*tasks, refusing)


async def _ignoring(work: Any) -> None:  # noqa: ANN401
    await work


@pytest.mark.rule("LOG-2", "LOG-5")
async def test_a_refusal_waits_for_the_commit_that_it_rests_on(path: Path) -> None:
    await check_refusal_waits(path)


async def test_refusing_before_the_commit_is_caught(path: Path) -> None:
    with (
        applied("refuses-before-commit"),
        pytest.raises(AssertionError, match="refused before the commit"),
    ):
        await check_refusal_waits(path)


@pytest.mark.rule("LOG-2", "LOG-7", "STO-3")
@pytest.mark.parametrize("means", ["file system", "file size"])
def test_a_really_full_disk_is_survived(workers: Workers, tmp_path: Path, means: str) -> None:
    """A file system of some mebibytes where that may be mounted, else a limit on file sizes."""
    folder = tmp_path / "small"
    folder.mkdir()
    worker = workers.start("filler", folder=str(folder), means=means)
    opening = worker.receive()
    assert opening["codes"] == ["storage-full"] or opening["means"] == "file size"
    full = worker.receive()
    codes = {"file system": "storage-full", "file size": "storage-unavailable"}
    assert set(full["codes"]) == {codes[full["means"]]}
    assert full["retryable"]
    assert full["acknowledged"] >= 10
    assert worker.receive() == {"retried": full["failed"], "wrong": []}
    assert worker.rest()[-1] == {"checked": full["acknowledged"] + full["failed"]}
