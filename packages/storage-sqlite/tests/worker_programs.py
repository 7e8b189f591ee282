"""What the tests do in processes of their own: write, boot, observe."""

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final

from saboteurs import applied

from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.storm.operations import insist
from yielded_testing.suites.builders import batch, notes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from yielded_core.ports.values import Batch, Tail
    from yielded_core.storage import Storage
    from yielded_testing.storm.channel import Channel, Program

SHARED: Final = ThreadId("shared")
"""The thread to which every writer of a storm appends."""


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
        done = await insist(storage, thread, given, tail, own_epoch)
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
            done = await insist(storage, name, given, tail, 1)
            tail = done.tail
            channel.say(first=done.first_sequence, last=tail.sequence, at=time.monotonic())
    channel.say(closed=True)


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


PROGRAMS: Final[dict[str, Program]] = {
    "busy_writer": busy_writer,
    "idle_observers": idle_observers,
    "opener": opener,
    "scribe": scribe,
    "storm_writer": storm_writer,
}
