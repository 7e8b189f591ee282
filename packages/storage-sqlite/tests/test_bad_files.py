"""What is wrong with a file is said by a typed error, in time, and the storage goes on after it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from checks import open_files_of, our_threads
from log_checker import check_store
from saboteurs import applied

from yielded_core.errors import (
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageReadOnly,
    StorageUnavailable,
    StoreRefused,
)
from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import OTHER, THREAD, Writer, note
from yielded_testing.suites.support import observing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yielded_testing.storm import Workers

DEADLINE = 0.4


async def make_store(path: Path, name: str = "note") -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        await (await Writer.begin(storage)).append(note(name))


# --- permissions ---------------------------------------------------------------------------------


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def forbid_file(folder: Path) -> None:
    folder.chmod(0o777)
    (folder / "store.db").chmod(0o444)


def forbid_folder(folder: Path) -> None:
    (folder / "store.db").chmod(0o666)
    (folder / "store.db-writer").chmod(0o666)
    folder.chmod(0o555)


def forbid_new_file(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()
    folder.chmod(0o555)


def forbid_lock(folder: Path) -> None:
    folder.chmod(0o777)
    (folder / "store.db").chmod(0o666)
    (folder / "store.db-writer").chmod(0o444)


@pytest.mark.rule("STO-3", "LAY-3")
@pytest.mark.parametrize("forbid", [forbid_file, forbid_folder, forbid_new_file, forbid_lock])
async def test_what_may_not_be_written_is_read_only(
    public: Path, tmp_path: Path, workers: Workers, forbid: Callable[[Path], None]
) -> None:
    path = public / "store.db"
    await make_store(path)
    forbid(public)
    before = {each.name: each.read_bytes() for each in public.iterdir()}
    worker = workers.start(
        "unprivileged", url=f"sqlite:///{path}", spare=str(tmp_path / "spare.db")
    )
    said = worker.rest()
    assert said[-1].get("code") == "storage-read-only", said
    after = {each.name: each.read_bytes() for each in public.iterdir()}
    assert {name: after.get(name) for name in before} == before


@pytest.mark.rule("STO-3")
async def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/missing/store.db")
    with pytest.raises(StorageUnavailable, match="missing"):
        await storage.__aenter__()
    assert not (tmp_path / "missing").exists()
    assert our_threads() == []


@pytest.mark.rule("STO-3")
async def test_a_lock_file_that_is_none_is_a_typed_error(path: Path) -> None:
    Path(f"{path}-writer").mkdir()
    with pytest.raises(StorageUnavailable, match="lock file"):
        await open_storage(f"sqlite:///{path}").__aenter__()
    assert our_threads() == []


# --- locks of others -----------------------------------------------------------------------------


@pytest.mark.rule("STO-3", "LOG-7")
@pytest.mark.parametrize("hold", ["database", "lock file"])
async def test_a_lock_of_another_process_ends_at_the_callers_deadline(
    path: Path, workers: Workers, hold: str
) -> None:
    async with open_storage(f"sqlite:///{path}?deadline={DEADLINE}") as storage:
        writer = await Writer.begin(storage)
        await writer.append(note("one"))
        locker = workers.start("locker", path=str(path), hold=hold)
        for name in ("two", "three"):
            locker.send()
            assert await asyncio.to_thread(locker.receive) == {"held": True}
            began = time.monotonic()
            with pytest.raises(StorageBusy) as caught:
                await writer.append(note(name), batch_id=name)
            assert DEADLINE <= time.monotonic() - began < DEADLINE + 5
            assert caught.value.retryable
            assert len(await storage.threads.read(THREAD)) == writer.tail.sequence
            locker.send()
            assert await asyncio.to_thread(locker.receive) == {"held": False}
            await writer.append(note(name), batch_id=name)
    assert len(check_store(path)[THREAD]) == 3


@pytest.mark.rule("STO-3", "LAY-4")
async def test_opening_ends_at_the_deadline_too(path: Path, workers: Workers) -> None:
    locker = workers.start("locker", path=str(path), hold="lock file")
    locker.send()
    assert locker.receive() == {"held": True}
    began = time.monotonic()
    with pytest.raises(StorageBusy):
        await open_storage(f"sqlite:///{path}?deadline={DEADLINE}").__aenter__()
    assert time.monotonic() - began < DEADLINE + 5
    waiting = asyncio.create_task(open_storage(f"sqlite:///{path}").__aenter__())
    await asyncio.wait({waiting}, timeout=DEADLINE)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert time.monotonic() - began < 2 * DEADLINE + 10
    locker.send()
    assert locker.receive() == {"held": False}
    await gone(path)
    async with open_storage(f"sqlite:///{path}") as storage:
        assert await storage.threads.threads() == ()


@pytest.mark.rule("STO-3")
async def test_closing_ends_at_the_deadline_and_gives_back_later(
    path: Path, workers: Workers
) -> None:
    storage = open_storage(f"sqlite:///{path}?deadline={DEADLINE}")
    await storage.__aenter__()
    await Writer.begin(storage)
    locker = workers.start("locker", path=str(path), hold="lock file")
    locker.send()
    assert locker.receive() == {"held": True}
    began = time.monotonic()
    with pytest.raises(StorageBusy):
        await storage.__aexit__(None, None, None)
    assert DEADLINE <= time.monotonic() - began < DEADLINE + 5
    locker.send()
    assert locker.receive() == {"held": False}
    await gone(path)


async def gone(path: Path) -> None:
    """Wait until no thread and no descriptor of a storage is left."""
    async with asyncio.timeout(30):
        while our_threads() or open_files_of(path):
            await asyncio.to_thread(os.sched_yield)


@pytest.mark.rule("STO-3")
async def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(
    path: Path, workers: Workers
) -> None:
    parent = workers.start("forking_writer", url=f"sqlite:///{path}")
    child = int(parent.receive()["child"])
    try:
        os.kill(parent.pid, signal.SIGKILL)
        async with open_storage(f"sqlite:///{path}?deadline=10") as storage:
            await (await Writer.begin(storage)).append(note("one"))
    finally:
        os.kill(child, signal.SIGKILL)


# --- files that change under the storage ---------------------------------------------------------


@pytest.mark.rule("LOG-9", "STO-3")
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
async def test_a_removed_file_is_noticed_before_anything_is_acknowledged(
    path: Path, suffix: str
) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        writer = await Writer.begin(storage)
        await writer.append(note("one"))
        async with observing(storage) as seen:
            await seen.until(1)
            kept = path.with_name("kept")
            Path(f"{path}{suffix}").rename(kept)
            for work in (writer.append(note("two")), storage.threads.read(THREAD)):
                with pytest.raises(StorageUnavailable, match="removed or replaced"):
                    await work
            await seen.failure(StorageUnavailable)
            kept.rename(f"{path}{suffix}")
            await writer.append(note("two"))
    assert len(check_store(path)[THREAD]) == 2


async def check_replaced_file(path: Path, workers: Workers) -> None:
    """Another store takes the name of an open one, and is served by another process."""
    other = path.with_name("other.db")
    await make_store(other, "other")
    async with open_storage(f"sqlite:///{path}") as storage:
        writer = await Writer.begin(storage)
        await writer.append(note("one"))
        other.rename(path)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()
        scribe = workers.start("scribe", url=f"sqlite:///{path}", thread=OTHER)
        assert scribe.receive() == {"sequence": 0}
        scribe.send(name="batch", number=4)
        assert (await asyncio.to_thread(scribe.receive))["last"] == 1
        with pytest.raises(StorageUnavailable):
            await writer.append(note("two"))
        with pytest.raises(StorageUnavailable):
            await storage.threads.read(THREAD)
    assert Path(f"{path}-wal").stat().st_size, "closing removed another store's log"
    scribe.send(name="batch", number=8)
    assert (await asyncio.to_thread(scribe.receive))["last"] == 2
    scribe.finish()
    stored = check_store(path)
    assert stored[THREAD]["batch-1"].record_ids == ("other",)
    assert stored[OTHER].keys() == {"batch/4", "batch/8"}


@pytest.mark.rule("STO-3")
async def test_a_replaced_file_is_neither_read_nor_written_nor_tidied(
    path: Path, workers: Workers
) -> None:
    await check_replaced_file(path, workers)


async def test_trusting_names_is_caught(path: Path, workers: Workers) -> None:
    with applied("trusts-names"), pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await check_replaced_file(path, workers)


@pytest.mark.rule("STO-3")
async def test_a_file_that_is_cut_short_is_a_typed_error(path: Path) -> None:
    await make_store(path)
    async with open_storage(f"sqlite:///{path}") as storage:
        with path.open("r+b") as cut:  # no other connection of this process is open to lose a lock
            cut.truncate(8_192)
        with pytest.raises((StorageCorrupt, StorageUnavailable)):
            await storage.threads.read(THREAD)
    with pytest.raises(StoreRefused) as refused:
        await open_storage(f"sqlite:///{path}").__aenter__()
    assert refused.value.reason == "corrupt"


@pytest.mark.rule("STO-3")
async def test_damaged_pages_are_a_typed_error(path: Path) -> None:
    """Each page of the file in turn is overwritten; reads and appends raise nothing else."""
    async with open_storage(f"sqlite:///{path}") as storage:
        await (await Writer.begin(storage)).fill(3, 3)
    pages = path.stat().st_size // 8_192
    damaged = path.with_name("damaged.db")
    faults: list[StorageError] = []
    for page in range(1, pages):
        shutil.copy(path, damaged)
        with damaged.open("r+b") as file:
            file.seek(page * 8_192)
            file.write(b"\xa5" * 8_192)
        try:
            async with open_storage(f"sqlite:///{damaged}") as storage:
                tail = await storage.threads.tail(THREAD)
                await storage.threads.read(THREAD)
                await Writer(storage, tail=tail.tail).fill(1, prefix="more")
        except StorageError as error:
            faults.append(error)
    assert len(faults) >= 5
    assert not [each for each in faults if isinstance(each, StorageReadOnly | StorageBusy)]


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.rule("STO-3")
async def test_a_change_of_directory_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        await make_store(tmp_path / name / "store.db", name)
    monkeypatch.chdir(tmp_path / "here")
    async with open_storage("sqlite:///store.db") as storage:
        monkeypatch.chdir(tmp_path / "there")
        (record,) = await storage.threads.read(THREAD)
        assert record.record.record_id == "here"
        async with observing(storage) as seen:
            await seen.until(1)


@pytest.mark.rule("STO-3")
async def test_two_names_of_a_file_share_the_lock(path: Path, workers: Workers) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    async with open_storage(f"sqlite:///{link}?deadline={DEADLINE}") as storage:
        await (await Writer.begin(storage)).append(note("one"))
        assert not Path(f"{link}-writer").exists()
        locker = workers.start("locker", path=str(path), hold="lock file")
        locker.send()
        assert locker.receive() == {"held": True}
        with pytest.raises(StorageBusy):
            await storage.threads.materialize(ThreadId("new"), epoch=1)
        locker.send()
        assert locker.receive() == {"held": False}


@pytest.mark.rule("STO-3")
async def test_a_lost_lock_file_stops_nobody(path: Path, workers: Workers) -> None:
    """Without its lock file a store is less fair, and as safe: SQLite's own lock is still taken."""
    async with open_storage(f"sqlite:///{path}") as storage:
        writer = await Writer.begin(storage)
        Path(f"{path}-writer").unlink()
        scribe = workers.start("scribe", url=f"sqlite:///{path}", thread=OTHER)
        scribe.receive()
        for number in range(4, 44, 4):
            scribe.send(name="batch", number=number)
            await writer.append(note(f"note-{number}"))
            assert "last" in await asyncio.to_thread(scribe.receive)
        scribe.finish()
    assert len(check_store(path)[OTHER]) == len(check_store(path)[THREAD]) == 10
