"""Cases of the bundle: what it says of itself, opening and closing, a new timeline (STO)."""

from __future__ import annotations

import asyncio
import gc
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    FenceRejected,
    InvalidIdentifier,
    OffsetRefused,
    StorageClosed,
    StorageMisused,
    YieldedError,
)
from yielded_core.ports.values import ThreadTail
from yielded_core.records.identifiers import ThreadId
from yielded_core.transfer.verify import verify_thread
from yielded_testing.suites.builders import EMPTY, OTHER, THREAD, Writer, batch, note
from yielded_testing.suites.imports import staged
from yielded_testing.suites.support import (
    cancelled_at,
    close,
    every_operation,
    import_operations,
    observing,
    refused,
    sequences,
    stored_names,
    turns,
)
from yielded_testing.suites.transfer import pages_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from yielded_core.records.envelope import StoredRecord
    from yielded_core.storage import Storage

LEAP: Final = 2**32
LAST_EPOCH: Final = 999_999_999_999_999_999


def all_operations(storage: Storage) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return a call of every operation of a storage."""
    operations = every_operation(storage, THREAD)
    operations |= import_operations(storage, OTHER)
    operations["materialize"] = lambda: storage.threads.materialize(OTHER, epoch=1)
    operations["threads"] = storage.threads.threads
    operations["info"] = storage.info
    operations["new_incarnation"] = storage.new_incarnation
    return operations


class StorageSuite:
    """Every rule of the bundle that shows from outside.

    `open_again` returns another storage, not yet opened: of the same store where it outlives a
    storage, of another one elsewhere.
    """

    @pytest.mark.rule("STO-1")
    async def test_a_storage_says_what_it_is(self, storage: Storage) -> None:
        """Adapter, version, durability, lease lifetime, settings, incarnation, optional ports."""
        info = await storage.info()
        assert info.adapter
        assert info.version
        assert info.durability in {"non-durable", "durable-file", "durable-server"}
        assert info.lease_lifetime in {"process", "durable"}
        assert info.incarnation
        assert all(isinstance(value, str) for value in info.settings.values())
        assert bool(info.settings) == (info.durability != "non-durable")
        assert ("checkpoints" in info.optional_ports) == (storage.checkpoints is not None)
        assert await storage.info() == info

    @pytest.mark.rule("STO-2")
    async def test_the_ports_show_one_state(self, storage: Storage) -> None:
        """What one port commits, every other port of the bundle shows at once."""
        archive, _ = await staged(storage)
        await storage.archives.publish_import(OTHER)
        assert await storage.threads.tail(OTHER) == archive
        assert await storage.archives.import_state(OTHER) is None
        sealed = await storage.archives.seal_range(OTHER, through=archive.sequence)
        assert sealed.last_sequence == archive.sequence
        writer = Writer(storage, OTHER, archive.epoch, archive.tail)
        await writer.append(note("next"))
        assert (await storage.archives.seal_range(OTHER, through=10**6)).record_count == 1
        assert (await verify_thread(storage, OTHER)).ok

    @pytest.mark.rule("STO-3")
    async def test_a_storage_must_be_opened(self, open_again: Callable[[], Storage]) -> None:
        """Before that every operation is StorageClosed."""
        storage = open_again()
        for name, call in all_operations(storage).items():
            with pytest.raises(StorageClosed):
                await call()
            assert name

    @pytest.mark.rule("STO-3")
    async def test_a_closed_storage_refuses_everything(
        self, open_again: Callable[[], Storage]
    ) -> None:
        """After it was left, by its end or by an exception, every operation is StorageClosed."""
        async with open_again() as ended:
            await Writer.begin(ended)
        failed = open_again()
        with pytest.raises(InterruptedError):
            async with failed:
                raise InterruptedError
        for storage in (ended, failed):
            for name, call in all_operations(storage).items():
                with pytest.raises(StorageClosed):
                    await call()
                assert name

    @pytest.mark.rule("STO-3")
    async def test_a_storage_is_opened_once(self, open_again: Callable[[], Storage]) -> None:
        """Neither while it is open nor after it was closed is it opened again."""
        storage = open_again()
        async with storage:
            await Writer.begin(storage)
            with pytest.raises(StorageMisused):
                await storage.__aenter__()
            assert (await storage.threads.tail(THREAD)).sequence == 0
        with pytest.raises((StorageMisused, StorageClosed)):
            await storage.__aenter__()

    @pytest.mark.rule("STO-3")
    async def test_closing_waits_for_what_was_accepted(
        self, open_again: Callable[[], Storage]
    ) -> None:
        """Appends that began before the end are committed and answered."""
        async with open_again() as storage:
            writers = [await Writer.begin(storage, each) for each in (THREAD, OTHER)]
            tasks = [asyncio.create_task(writer.append(note("one"))) for writer in writers]
            await turns(3)
        done = await asyncio.gather(*tasks)
        assert [each.tail.sequence for each in done] == [1, 1]

    @pytest.mark.rule("STO-3", "LOG-9")
    async def test_closing_ends_observers(self, open_again: Callable[[], Storage]) -> None:
        """An observer that waits is told that the storage was closed."""
        async with open_again() as storage:
            await (await Writer.begin(storage)).fill(1)
            observer = storage.threads.observe(THREAD)
            first = await anext(observer)
            assert first.sequence == 1
            waiting = asyncio.create_task(_end_of(observer))
            await turns(5)
        assert isinstance(await waiting, StorageClosed)
        await close(observer)

    @pytest.mark.slow_case
    @pytest.mark.rule("STO-3")
    async def test_closing_leaves_nothing_behind(self, open_again: Callable[[], Storage]) -> None:
        """No thread and no task is left of a storage that was used in every way."""
        before = set(threading.enumerate())
        async with open_again() as storage:
            writer = await Writer.begin(storage)
            await writer.fill(2)
            async with observing(storage) as seen:
                await seen.until(2)
            await stored_names(storage)
        gc.collect()
        await turns(3)
        left = {each.name for each in set(threading.enumerate()) - before if each.is_alive()}
        assert {name for name in left if not name.startswith("asyncio_")} == set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @pytest.mark.rule("STO-3")
    async def test_opening_and_closing_can_be_cancelled(
        self, open_again: Callable[[], Storage]
    ) -> None:
        """Cancelled at each await of opening, using and closing, the next storage opens."""

        async def use() -> None:
            async with open_again() as storage:
                await storage.threads.materialize(THREAD, epoch=1)

        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            outcome = await cancelled_at(use(), point)
            async with open_again() as storage:
                assert (await storage.threads.materialize(THREAD, epoch=1)).epoch == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @pytest.mark.rule("STO-3")
    async def test_another_event_loop_is_told_at_once(self, storage: Storage) -> None:
        """An operation from another loop is StorageMisused, not a wait for ever."""
        await Writer.begin(storage)
        faults: list[BaseException] = []

        async def elsewhere() -> None:
            for call in all_operations(storage).values():
                try:
                    await call()
                except StorageMisused as fault:
                    faults.append(fault)

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert len(faults) == len(all_operations(storage))
        assert (await storage.threads.tail(THREAD)).sequence == 0

    @pytest.mark.rule("STO-4")
    async def test_a_new_timeline_raises_every_epoch(self, storage: Storage) -> None:
        """By 2^32, so that no epoch of the old one writes again; logs stay as they are."""
        one = await Writer.begin(storage, THREAD, epoch=3)
        await one.fill(2)
        await Writer.begin(storage, OTHER, epoch=7)
        before = (await storage.info()).incarnation
        after = await storage.new_incarnation()
        assert after != before
        assert (await storage.info()).incarnation == after
        assert await storage.threads.tail(THREAD) == ThreadTail(
            THREAD, 2, one.tail.digest, 3 + LEAP
        )
        assert (await storage.threads.tail(OTHER)).epoch == 7 + LEAP
        fence = await refused(FenceRejected, one.append(note("late")))
        assert fence.actual == 3 + LEAP
        writer = await Writer.begin(storage, THREAD, epoch=3 + LEAP)
        await writer.append(note("next"))
        assert (await verify_thread(storage, THREAD)).ok

    @pytest.mark.rule("STO-4", "LOG-1")
    async def test_a_thread_begins_above_every_lost_timeline(self, storage: Storage) -> None:
        """Whatever epoch it is given: the lost timeline may have written the same thread."""
        for restores in (1, 2):
            await storage.new_incarnation()
            thread = ThreadId(f"after-{restores}")
            begun = await storage.threads.materialize(thread, epoch=3)
            assert begun == ThreadTail(thread, 0, EMPTY.digest, 3 + restores * LEAP)
            assert await storage.threads.tail(thread) == begun
            lost = storage.threads.append(thread, batch("b", note("n")), expected=EMPTY, epoch=3)
            assert (await refused(FenceRejected, lost)).actual == begun.epoch
            again = storage.threads.materialize(thread, epoch=3)
            assert (await refused(FenceRejected, again)).actual == begun.epoch
            assert await storage.threads.materialize(thread, epoch=begun.epoch) == begun
            await Writer(storage, thread, begun.epoch).fill(1)

    @pytest.mark.rule("STO-4", "ARC-4")
    async def test_an_import_begins_above_every_lost_timeline(self, storage: Storage) -> None:
        """Whether it was staged before the restore or after it."""
        archive, _ = await staged(storage)
        await storage.new_incarnation()
        published = await storage.archives.publish_import(OTHER)
        assert published == replace(archive, epoch=archive.epoch + LEAP)
        assert await storage.threads.tail(OTHER) == published

    @pytest.mark.rule("STO-4", "LOG-9", "ARC-2")
    async def test_positions_of_the_old_timeline_are_refused(self, storage: Storage) -> None:
        """Offsets and cursors carry the incarnation; new ones are given out."""
        await (await Writer.begin(storage)).fill(2, 1)
        offset = (await storage.threads.read(THREAD))[0].offset
        cursor = (await pages_of(storage))[0].cursor
        await storage.new_incarnation()
        observer = storage.threads.observe(THREAD, after=offset)
        assert (await refused(OffsetRefused, anext(observer))).thread == THREAD
        await refused(OffsetRefused, pages_of(storage, cursor=cursor))
        again = (await storage.threads.read(THREAD))[0].offset
        assert again != offset
        async with observing(storage, after=again) as seen:
            assert sequences(await seen.until(2)) == [2, 3]

    @pytest.mark.rule("STO-4")
    async def test_a_timeline_without_room_is_refused_whole(self, storage: Storage) -> None:
        """Where one epoch cannot rise, none does, and the incarnation stays."""
        await storage.threads.materialize(OTHER, epoch=LAST_EPOCH)
        await storage.threads.materialize(THREAD, epoch=1)
        before = (await storage.info()).incarnation
        await refused(InvalidIdentifier, storage.new_incarnation())
        assert (await storage.info()).incarnation == before
        assert (await storage.threads.tail(THREAD)).epoch == 1
        work = storage.threads.append(THREAD, batch("one", note("one")), expected=EMPTY, epoch=1)
        assert (await work).first_sequence == 1


async def _end_of(observer: AsyncIterator[StoredRecord]) -> BaseException | None:
    """Return the error that ends an observer, or None if it delivers another record."""
    try:
        await anext(observer)
    except YieldedError as error:
        return error
    return None
