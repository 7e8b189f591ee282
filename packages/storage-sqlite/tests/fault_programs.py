"""What the tests do in processes of their own: hold what others need, misuse, fill the disk."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import resource
import signal
import sqlite3
import threading
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from log_checker import check_store
from worker_programs import storm_batch

from yielded_core.errors import StorageError
from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import batch, notes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from yielded_core.ports.values import Batch, Tail
    from yielded_core.storage import Storage
    from yielded_storage_sqlite import SqliteStorage
    from yielded_testing.storm.channel import Channel, Program

# --- what another process can do with the file ---------------------------------------------------


async def prober(channel: Channel, path: str) -> None:
    """For each word, try to take the lock file, to write, and to write the whole log back."""
    with (
        closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection,
        Path(path + "-writer").open("rb") as lock,
    ):
        channel.say(ready=True)
        while await channel.hear() is not None:
            channel.say(
                lock=_can_lock(lock.fileno()),
                write=_can_write(connection),
                checkpoint=_can_checkpoint(connection),
            )


def _can_lock(lock: int) -> bool:
    def too_late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(5)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except TimeoutError:
        return False
    finally:
        signal.alarm(0)
        fcntl.flock(lock, fcntl.LOCK_UN)
    return True


def _can_write(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    connection.execute("ROLLBACK")
    return True


def _can_checkpoint(connection: sqlite3.Connection) -> bool:
    (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


# --- holding what others need --------------------------------------------------------------------


async def locker(channel: Channel, path: str, hold: str) -> None:
    """Hold the database or the lock file from one word of the test to the next."""
    with (
        closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection,
        Path(path + "-writer").open("ab") as lock,
    ):
        while await channel.hear() is not None:
            if hold == "database":
                connection.execute("BEGIN EXCLUSIVE")
            else:
                fcntl.flock(lock, fcntl.LOCK_EX)
            channel.say(held=True)
            await channel.hear()
            if hold == "database":
                connection.execute("ROLLBACK")
            else:
                fcntl.flock(lock, fcntl.LOCK_UN)
            channel.say(held=False)


async def forking_writer(channel: Channel, url: str) -> None:
    """Fork while the writer is in the midst of a commit; the child lives on for a while."""
    begun = threading.Event()

    def hold(_connection: sqlite3.Connection) -> None:
        begun.set()
        threading.Event().wait()

    async with open_storage(url) as storage:
        holding = asyncio.ensure_future(vars(storage)["_file"].write(hold))
        await asyncio.to_thread(begun.wait)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            signal.pause()
        channel.say(child=child)
        await holding


async def misuser(channel: Channel, url: str) -> None:
    """Fork while a storage is open; the child says what each operation answers it, and when."""
    async with open_storage(url) as storage:
        thread = ThreadId("thread")
        tail = (await storage.threads.materialize(thread, epoch=1)).tail
        await storage.threads.read(thread)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            _misuse(channel, storage)
            os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        given = storm_batch("parent", 4)
        done = await storage.threads.append(thread, given, expected=tail, epoch=1)
        channel.say(sequence=done.tail.sequence)


def _misuse(channel: Channel, storage: SqliteStorage) -> None:
    thread = ThreadId("thread")
    operations: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "materialize": lambda: storage.threads.materialize(thread, epoch=1),
        "read": lambda: storage.threads.read(thread),
        "observe": lambda: _first(storage, thread),
        "info": storage.info,
        "close": lambda: storage.__aexit__(None, None, None),
    }
    loop = asyncio.new_event_loop()
    asyncio.events._set_running_loop(None)  # noqa: SLF001 - the child has none of its own yet
    for name, operation in operations.items():
        began = time.monotonic()
        try:
            loop.run_until_complete(operation())
        except StorageError as fault:
            channel.say(operation=name, code=fault.code, took=time.monotonic() - began)


async def _first(storage: SqliteStorage, thread: ThreadId) -> object:
    return await anext(storage.threads.observe(thread))


async def unprivileged(channel: Channel, url: str, spare: str) -> None:
    """Open a store and write to it as somebody whom permissions stop; say what he hears."""
    async with open_storage(f"sqlite:///{spare}") as warm:  # everything is loaded while it may be
        await warm.threads.threads()
    if os.geteuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)
    try:
        async with open_storage(url) as storage:
            channel.say(opened=True)
            await storage.threads.materialize(ThreadId("new"), epoch=1)
    except StorageError as fault:
        channel.say(code=fault.code, text=str(fault))


# --- a full disk ---------------------------------------------------------------------------------

_DISK_BYTES: Final = 6 * 1_048_576


async def filler(channel: Channel, folder: str, means: str) -> None:
    """Write until nothing fits any more, make room, write the rest, and check all of it."""
    means = means if means == "file system" and _mount_small(folder) else "file size"
    path = Path(folder) / "store.db"
    ballast = Path(folder) / "ballast"
    codes: list[str] = []
    if means == "file system":
        _fill(ballast)
        try:
            async with open_storage(f"sqlite:///{path}"):
                pass
        except StorageError as fault:
            codes.append(fault.code)
        ballast.write_bytes(b"x" * (_DISK_BYTES // 2))
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    channel.say(means=means, codes=codes)
    async with open_storage(f"sqlite:///{path}") as storage:
        threads = [ThreadId(f"thread-{number}") for number in range(16)]
        tails = {each: (await storage.threads.materialize(each, epoch=1)).tail for each in threads}
        if means == "file size":
            resource.setrlimit(resource.RLIMIT_FSIZE, (_DISK_BYTES // 2, resource.RLIM_INFINITY))
        heard = await asyncio.gather(*(_fill_thread(storage, each, tails) for each in threads))
        faults = [fault for fault, _ in heard]
        channel.say(
            means=means,
            codes=[fault.code for fault in faults],
            retryable=all(fault.retryable for fault in faults),
            acknowledged=sum(count for _, count in heard),
            failed=len(faults),
        )
        ballast.unlink(missing_ok=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wrong: list[str] = []
        for thread, (_, count) in zip(threads, heard, strict=True):
            tail = (await storage.threads.tail(thread)).tail
            if tail != tails[thread]:
                wrong.append(thread)
            await storage.threads.append(
                thread, _filling(thread, count + 1), expected=tail, epoch=1
            )
        channel.say(retried=len(threads), wrong=wrong)
    channel.say(checked=sum(len(batches) for batches in check_store(path).values()))


async def _fill_thread(
    storage: Storage, thread: ThreadId, tails: dict[ThreadId, Tail]
) -> tuple[StorageError, int]:
    count = 0
    while True:
        try:
            done = await storage.threads.append(
                thread, _filling(thread, count + 1), expected=tails[thread], epoch=1
            )
        except StorageError as fault:
            return fault, count
        tails[thread] = done.tail
        count += 1


def _filling(thread: str, number: int) -> Batch:
    return batch(f"{thread}-{number}", *notes(f"{thread}-{number}", 2, "x" * 5_000))


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(b"x" * 4_096):
            pass


def _mount_small(folder: str) -> bool:
    """Mount a small file system that only this process sees; say whether that is permitted."""
    library = ctypes.CDLL(None, use_errno=True)
    new_mounts, new_users, private, recursive = 0x20000, 0x10000000, 1 << 18, 1 << 14
    if library.unshare(new_mounts) and library.unshare(new_mounts | new_users):
        return False
    if library.mount(b"none", b"/", None, private | recursive, None):
        return False
    options = f"size={_DISK_BYTES}".encode()
    return not library.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, options)


PROGRAMS: Final[dict[str, Program]] = {
    "filler": filler,
    "forking_writer": forking_writer,
    "locker": locker,
    "misuser": misuser,
    "prober": prober,
    "unprivileged": unprivileged,
}
