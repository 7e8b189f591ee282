"""What depends on the SQLite that runs here: version, settings, and who writes its log back.

Before a fix in 2026, a checkpoint that races with a commit on another connection could lose
committed pages later on. So only a writer ever checkpoints, with the lock between writers in its
hands; what is observed here is which thread calls SQLite, and whether it holds the lock.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest
from checks import part
from log_checker import check_store
from saboteurs import applied

from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import connections, open_storage, writer
from yielded_storage_sqlite.engine_version import engine_notes, resets_log_safely
from yielded_storage_sqlite.file_lock import FileLock
from yielded_testing.suites.builders import THREAD, Writer, note
from yielded_testing.suites.support import observing

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from yielded_testing.storm import Workers

FIXED: Final = ((3, 51, 3), (3, 52, 0), (3, 53, 1), (4, 0, 0), (3, 50, 7), (3, 50, 9), (3, 44, 6))
FAULTY: Final = ((3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 49, 9), (3, 50, 6), (3, 51, 0), (3, 51, 2))


@pytest.mark.rule("STO-1")
def test_the_versions_that_carry_the_fix_are_known() -> None:
    assert all(resets_log_safely(version) for version in FIXED)
    assert not any(resets_log_safely(version) for version in FAULTY)
    assert all(engine_notes(version) == () for version in FIXED)
    for version in FAULTY:
        (text,) = engine_notes(version)
        assert ".".join(str(part) for part in version) in text
        assert "3.51.3" in text


def synchronous_of(connection: sqlite3.Connection) -> Any:  # noqa: ANN401 - a row
    return connection.execute("PRAGMA synchronous").fetchone()


@pytest.mark.rule("STO-1")
@pytest.mark.parametrize("synchronous", ["full", "normal"])
async def test_info_says_what_is_in_force(path: Path, synchronous: str) -> None:
    async with open_storage(f"sqlite:///{path}?synchronous={synchronous}") as storage:
        info = await storage.info()
        numbers = {"normal": 1, "full": 2}
        (level,) = await part(storage, "_file").write(synchronous_of)
    assert level == numbers[synchronous]
    assert info.settings["synchronous"] == synchronous
    assert info.settings["journal_mode"] == "wal"
    assert info.settings["sqlite"] == sqlite3.sqlite_version
    assert info.durability == "durable-file"
    assert info.notes == engine_notes()


class Watched(sqlite3.Connection):
    """A connection that takes note of what could write the log back."""

    log: Final[list[str]] = []

    def close(self) -> None:
        """Close, and note whether this was done under the lock."""
        self.log.append(f"close {self.role()} {'locked' if LOCKED else 'free'}")
        super().close()

    def role(self) -> str:
        """Whether the connection may write."""
        (query_only,) = self.execute("PRAGMA query_only").fetchone()
        return "reader" if query_only else "writer"


LOCKED: Final[list[FileLock]] = []


@contextmanager
def watching() -> Generator[list[str]]:
    """Note each close of a connection and the checkpoint setting of each reader."""
    right_connect = sqlite3.connect
    enter, leave = FileLock.__enter__, FileLock.__exit__

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401
        return right_connect(*arguments, factory=Watched, **options)

    def lock(self: FileLock) -> FileLock:
        enter(self)
        LOCKED.append(self)
        return self

    def unlock(self: FileLock, *error: object) -> None:
        LOCKED.remove(self)
        leave(self, *error)

    Watched.log.clear()
    with (
        patch.object(sqlite3, "connect", connect),
        patch.object(FileLock, "__enter__", lock),
        patch.object(FileLock, "__exit__", unlock),
    ):
        yield Watched.log


async def use(path: Path) -> None:
    """Write, read and observe, then close."""
    async with open_storage(f"sqlite:///{path}") as storage:
        writer = await Writer.begin(storage)
        await writer.append(note("one"))
        async with observing(storage) as seen:
            await seen.until(1)
            await asyncio.gather(*(storage.threads.read(THREAD) for _ in range(6)))


async def check_last_close(path: Path) -> None:
    """The writer closes last, under the lock, so that it is the one to write the log back."""
    with watching() as log:
        await use(path)
    store = [entry for entry in log if not entry.startswith("close writer free")]
    assert store[-1] == "close writer locked", log
    assert log[-1] == "close writer locked", log
    assert "close reader free" in log


@pytest.mark.rule("STO-3")
async def test_the_writer_closes_last_under_the_lock(path: Path) -> None:
    await check_last_close(path)


async def test_closing_the_writer_first_is_caught(path: Path) -> None:
    with applied("lets-readers-write-back"), pytest.raises(AssertionError, match="close reader"):
        await check_last_close(path)


@pytest.mark.rule("STO-3")
async def test_no_reader_ever_checkpoints(path: Path) -> None:
    """Readers have no automatic checkpoint and cannot be made to write."""
    async with open_storage(f"sqlite:///{path}") as storage:
        await (await Writer.begin(storage)).append(note("one"))
        engine = part(storage, "_file", "_readers")
        async with engine.connect() as pooled:
            for pragma, value in (("wal_autocheckpoint", 0), ("query_only", 1)):
                found = await pooled.exec_driver_sql(f"PRAGMA {pragma}")
                assert found.scalar() == value
        watching = connections.open_reader(part(storage, "_file").address)
        for pragma, value in (("wal_autocheckpoint", 0), ("query_only", 1)):
            assert watching.execute(f"PRAGMA {pragma}").fetchone() == (value,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            watching.execute("UPDATE yielded_threads SET epoch = 2")
        watching.close()


async def largest_log(path: Path) -> int:
    """Write 10 MB of records while eight tasks read without pause; return the log's size."""
    log = path.with_name(f"{path.name}-wal")
    largest = 0
    async with open_storage(f"sqlite:///{path}") as storage:
        writers = [await Writer.begin(storage, ThreadId(f"thread-{n}")) for n in range(4)]
        ending = asyncio.Event()

        async def read(name: ThreadId) -> None:
            while not ending.is_set():
                await storage.threads.read(name, limit=16)

        reading = [asyncio.create_task(read(each.thread)) for each in writers for _ in range(2)]
        for number in range(40):
            for each in writers:
                await each.append(note(f"{number}", "x" * 60_000), batch_id=f"{number}")
            largest = max(largest, log.stat().st_size)
        ending.set()
        await asyncio.gather(*reading)
    assert {len(batches) for batches in check_store(path).values()} == {40}
    return largest


@pytest.mark.rule("STO-3", "LOG-2")
async def test_the_log_stays_small_while_somebody_always_reads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that never pause keep SQLite from beginning its log anew; the writer sees to it."""
    limit = 1_048_576
    assert await largest_log(path.with_name("unlimited.db")) > 6 * limit
    monkeypatch.setattr(writer, "LOG_BYTES", limit)
    assert await largest_log(path) < 6 * limit


@pytest.mark.rule("STO-3", "LOG-7")
async def test_an_aged_log_is_recovered_by_many_at_once(path: Path, workers: Workers) -> None:
    """A writer is killed over a large log; several processes open it at once and lose nothing."""
    url = f"sqlite:///{path}"
    scribe = workers.start("scribe", url=url, thread="aged", hold_log=True)
    scribe.receive()
    last = 0
    for number in range(1, 251):
        scribe.send(name="batch", number=4 * number + 3)
        last = scribe.receive()["last"]
    assert path.with_name(f"{path.name}-wal").stat().st_size > 10 * 1_048_576
    scribe.kill()
    openers = [workers.start("opener", url=url, worker=f"worker-{number}") for number in range(6)]
    for each in openers:
        each.receive()
    for each in openers:
        each.send()
    assert len({each.receive()["incarnation"] for each in openers}) == 1
    async with open_storage(url) as storage:
        assert (await storage.threads.tail(ThreadId("aged"))).sequence == last == 1_000
    for each in openers:
        each.finish()
    assert len(check_store(path)["aged"]) == 250


@pytest.mark.rule("STO-3", "LOG-7")
async def test_a_recovery_that_is_killed_is_recovered(path: Path, workers: Workers) -> None:
    """Killed again and again while it opens what a crash left behind, a store loses nothing."""
    url = f"sqlite:///{path}"
    scribe = workers.start("scribe", url=url, thread="aged", hold_log=True)
    scribe.receive()
    for number in range(1, 101):
        scribe.send(name="batch", number=4 * number + 3)
        scribe.receive()
    scribe.kill()
    for number in range(12):
        opener = workers.start("opener", url=url, worker=f"worker-{number}")
        opener.receive()
        opener.send()
        await asyncio.sleep(0.003 * number)  # a little later in its opening each time
        opener.kill()
    async with open_storage(url) as storage:
        assert (await storage.threads.tail(ThreadId("aged"))).sequence == 400
    assert len(check_store(path)["aged"]) == 100
