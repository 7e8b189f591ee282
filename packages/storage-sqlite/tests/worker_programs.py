"""What the tests do in processes of their own: write, wait, hold locks, observe."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import resource
import signal
import sqlite3
import threading
import time
import warnings
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from log_checker import check_store
from saboteurs import applied

from yielded_core.errors import AppendConflict, StorageError
from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import actual_tail, batch, notes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractContextManager

    from yielded_core.ports.values import Appended, Batch, Tail
    from yielded_core.storage import Storage
    from yielded_storage_sqlite import SqliteStorage

Message: TypeAlias = dict[str, Any]

SHARED: Final = ThreadId("shared")
"""The thread to which every writer of a storm appends."""


class Channel:
    """The worker's end of the two pipes to its test."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._text = b""

    def say(self, **message: object) -> None:
        """Say something; a line at a time, so that a kill never leaves half of one."""
        os.write(self._writing, json.dumps(message).encode() + b"\n")

    async def hear(self) -> Message | None:
        """Wait for the next thing that the test says; None once it has hung up."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._text:
            ready = asyncio.Event()
            loop.add_reader(self._reading, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._reading)
            piece = os.read(self._reading, 65_536)
            if not piece:
                return None
            self._text += piece
        line, _, self._text = self._text.partition(b"\n")
        message: Message = json.loads(line)
        return message


Program: TypeAlias = "Callable[..., Coroutine[Any, Any, None]]"


def sabotage(name: str | None) -> AbstractContextManager[None]:
    """Make the adapter wrong in the way that a saboteur is, if one is named."""
    return nullcontext() if name is None else applied(name)


def storm_batch(thread: str, number: int) -> Batch:
    """Return the batch of a storm that bears this number: the same in every process."""
    size = 1 + number % 4
    details = "x" * (number * 37 % 3_000)
    return batch(f"{thread}/{number}", *notes(f"{thread}/{number}", size, details))


# --- the crash storm -----------------------------------------------------------------------------


async def storm_writer(
    channel: Channel, url: str, worker: str, epoch: int, numbers: Sequence[int]
) -> None:
    """Append to threads of its own and to a shared one, until told to end or killed.

    `numbers` holds, for each task, the first batch that nobody has heard to be committed. Says
    `begin` before each append and `done` with its result after it.
    """
    ending = asyncio.Event()
    async with open_storage(url) as storage:
        writing = [
            asyncio.create_task(
                _storm_task(channel, storage, f"{worker}-{task}", epoch, (task, number), ending)
            )
            for task, number in enumerate(numbers)
        ]
        while await channel.hear() is not None:
            pass
        ending.set()
        await asyncio.gather(*writing)
    channel.say(ended=True)


async def _storm_task(
    channel: Channel,
    storage: Storage,
    name: str,
    epoch: int,
    at: tuple[int, int],
    ending: asyncio.Event,
) -> None:
    task, number = at
    shared = task == 0
    thread = SHARED if shared else ThreadId(name)
    own_epoch = 1 if shared else epoch
    tail = (await storage.threads.materialize(thread, epoch=own_epoch)).tail
    while True:  # at least once: what a killed process left open is asked for again
        given = storm_batch(name, number)
        channel.say(begin=number, task=task)
        done = await _insist(storage, thread, given, tail, own_epoch)
        channel.say(
            done=number,
            task=task,
            first=done.first_sequence,
            last=done.tail.sequence,
            digest=done.tail.digest,
            replayed=done.replayed,
        )
        if ending.is_set():
            return
        tail = done.tail
        number += 1


async def _insist(
    storage: Storage, thread: ThreadId, given: Batch, tail: Tail, epoch: int
) -> Appended:
    """Append at whatever the tail is: others may have appended to the same thread."""
    while True:
        try:
            return await storage.threads.append(thread, given, expected=tail, epoch=epoch)
        except AppendConflict as conflict:
            if conflict.reason != "tail":
                raise
            tail = actual_tail(conflict)


# --- fairness ------------------------------------------------------------------------------------


async def busy_writer(
    channel: Channel, url: str, worker: str, tasks: int, saboteur: str | None = None
) -> None:
    """Append from many tasks between the test's first word and its last; say how it went."""
    with sabotage(saboteur):
        async with open_storage(url) as storage:
            threads = [ThreadId(f"{worker}-{task}") for task in range(tasks)]
            tails = [(await storage.threads.materialize(each, epoch=1)).tail for each in threads]
            channel.say(ready=True)
            await channel.hear()
            ending = asyncio.Event()
            began, used = time.monotonic(), time.process_time()
            writing = [
                asyncio.create_task(_busy_task(storage, thread, tail, ending))
                for thread, tail in zip(threads, tails, strict=True)
            ]
            await channel.hear()
            ending.set()
            seconds = [second for each in writing for second in await each]
            took = time.monotonic() - began
            channel.say(latencies=seconds, took=took, used=time.process_time() - used)


async def _busy_task(
    storage: Storage, thread: ThreadId, tail: Tail, ending: asyncio.Event
) -> list[float]:
    latencies: list[float] = []
    while not ending.is_set():
        number = len(latencies)
        given = batch(f"batch-{number}", *notes(f"note-{number}", 1, "x" * 800))
        began = time.monotonic()
        done = await storage.threads.append(thread, given, expected=tail, epoch=1)
        latencies.append(time.monotonic() - began)
        tail = done.tail
    return latencies


# --- the first boot ------------------------------------------------------------------------------


async def opener(channel: Channel, url: str, worker: str) -> None:
    """Open at the test's word, write one record, say whose store it is."""
    channel.say(ready=True)
    await channel.hear()
    async with open_storage(url) as storage:
        thread = ThreadId(worker)
        tail = (await storage.threads.materialize(thread, epoch=1)).tail
        given = batch("first", *notes("first", 1))
        await storage.threads.append(thread, given, expected=tail, epoch=1)
        channel.say(incarnation=(await storage.info()).incarnation)
        await channel.hear()


# --- a writer that does what it is told ----------------------------------------------------------


async def scribe(channel: Channel, url: str, thread: str, *, hold_log: bool = False) -> None:
    """Append one batch for each word, at whatever the tail is, and say what came of it.

    With `hold_log`, SQLite does not write its log back by itself.
    """
    name = ThreadId(thread)
    async with open_storage(url) as storage:
        if hold_log:
            await vars(storage)["_file"].write(_hold_log)
        tail = (await storage.threads.materialize(name, epoch=1)).tail
        channel.say(sequence=tail.sequence)
        while (order := await channel.hear()) is not None:
            given = storm_batch(str(order["name"]), int(order["number"]))
            done = await _insist(storage, name, given, tail, 1)
            tail = done.tail
            channel.say(first=done.first_sequence, last=tail.sequence, at=time.monotonic())
    channel.say(closed=True)


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


def _hold_log(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_autocheckpoint = 0")


# --- observing -----------------------------------------------------------------------------------


async def idle_observers(
    channel: Channel, url: str, count: int, seconds: float, saboteur: str | None = None
) -> None:
    """Observe threads that nobody writes to, and say what that costs this process."""
    with sabotage(saboteur):
        async with open_storage(url) as storage:
            await storage.threads.threads()
            before, _ = await _cost(0.5)
            names = [ThreadId(f"thread-{number % 10}") for number in range(count)]
            caught_up = [asyncio.Event() for _ in names]
            watching = [
                asyncio.create_task(_watch(storage, name, event))
                for name, event in zip(names, caught_up, strict=True)
            ]
            for event in caught_up:
                await event.wait()
            during = min([(await _cost(seconds))[1] for _ in range(3)])
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)
            after, _ = await _cost(0.5)
            channel.say(before=before, during=during, after=after)


async def _watch(storage: Storage, thread: ThreadId, caught_up: asyncio.Event) -> None:
    async for record in storage.threads.observe(thread):
        if record.sequence == 1:
            caught_up.set()


async def _cost(seconds: float) -> tuple[float, float]:
    """Return the wake-ups a second and the share of a core of this process while nothing comes."""
    used, began = time.process_time(), time.monotonic()
    woken = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
    took = time.monotonic() - began
    wakes = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - woken
    return wakes / took, (time.process_time() - used) / took


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
    "busy_writer": busy_writer,
    "filler": filler,
    "forking_writer": forking_writer,
    "idle_observers": idle_observers,
    "locker": locker,
    "misuser": misuser,
    "opener": opener,
    "prober": prober,
    "scribe": scribe,
    "storm_writer": storm_writer,
    "unprivileged": unprivileged,
}
