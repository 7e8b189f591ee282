"""Cases of observing: first what is stored, then what comes, without gap or repeat (LOG-9)."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import OffsetRefused, ThreadDeleted
from yielded_core.records.identifiers import Offset
from yielded_testing.suites.builders import OTHER, THREAD, Writer, note
from yielded_testing.suites.support import (
    cancelled_at,
    close,
    names,
    observing,
    refused,
    sequences,
    turns,
)

if TYPE_CHECKING:
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.storage import Storage

SEEDS: Final = (
    *range(10),
    *(pytest.param(seed, marks=pytest.mark.slow_case) for seed in range(10, 50)),
)


class ObserveCases:
    """LOG-9 as one process sees it."""

    @pytest.mark.rule("LOG-9")
    async def test_stored_records_come_first_then_new_ones(self, storage: Storage) -> None:
        """An observer of a thread that grows is given every record once, in order."""
        writer = await Writer.begin(storage)
        await writer.fill(2, 1)
        async with observing(storage) as seen:
            assert sequences(await seen.until(3)) == [1, 2, 3]
            await writer.fill(2)
            assert sequences(await seen.until(5)) == [1, 2, 3, 4, 5]
            await writer.fill(1)
            assert sequences(await seen.until(6)) == [1, 2, 3, 4, 5, 6]
        assert [each.wire for each in seen.records] == [
            each.wire for each in await storage.threads.read(THREAD)
        ]

    @pytest.mark.rule("LOG-9")
    async def test_an_empty_thread_can_be_observed(self, storage: Storage) -> None:
        """The first record of all is delivered to an observer that was there before."""
        writer = await Writer.begin(storage)
        async with observing(storage) as seen:
            await turns(5)
            await writer.fill(1)
            assert sequences(await seen.until(1)) == [1]

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-9")
    async def test_more_than_a_page_is_delivered(self, storage: Storage) -> None:
        """1,100 stored records and a new one arrive without gap."""
        writer = await Writer.begin(storage)
        await writer.fill(*[220] * 5)
        async with observing(storage) as seen:
            await seen.until(1_100)
            await writer.fill(1)
            assert sequences(await seen.until(1_101)) == list(range(1, 1_102))

    @pytest.mark.rule("LOG-9")
    async def test_every_offset_resumes_after_its_record(self, storage: Storage) -> None:
        """From whichever stored record an observer resumes, the next one is the first it gets."""
        writer = await Writer.begin(storage)
        await writer.fill(3, 2)
        stored = await storage.threads.read(THREAD)
        for each in stored[:-1]:
            async with observing(storage, after=each.offset) as seen:
                await seen.until(5 - each.sequence)
            assert sequences(seen.records) == list(range(each.sequence + 1, 6))
        async with observing(storage, after=stored[-1].offset) as seen:
            await turns(5)
            assert seen.records == []
            await writer.fill(1)
            assert sequences(await seen.until(1)) == [6]

    @pytest.mark.rule("LOG-9")
    async def test_observers_do_not_disturb_each_other(self, storage: Storage) -> None:
        """Two observers of a thread and one of another each get their own thread, whole."""
        one, two = await Writer.begin(storage), await Writer.begin(storage, OTHER)
        async with (
            observing(storage) as first,
            observing(storage) as second,
            observing(storage, OTHER) as other,
        ):
            await one.fill(2)
            await two.fill(1, prefix="other")
            await first.until(2)
            assert first.task is not None
            first.task.cancel()
            await one.fill(2)
            assert sequences(await second.until(4)) == [1, 2, 3, 4]
            assert names(await other.until(1)) == ["other-1"]
        assert sequences(first.records) == [1, 2]

    @pytest.mark.rule("LOG-9")
    @pytest.mark.parametrize("seed", SEEDS)
    async def test_random_interleavings_leave_no_gap_or_repeat(
        self, storage: Storage, seed: int
    ) -> None:
        """Observers that begin anywhere while batches of any size commit get each record once."""
        chance = random.Random(seed)
        writer = await Writer.begin(storage)
        sizes = [chance.randint(1, 4) for _ in range(chance.randint(3, 7))]

        async def write() -> None:
            for size in sizes:
                await turns(chance.randint(0, 6))
                await writer.fill(size)

        async def watch(delay: int) -> None:
            await turns(delay)
            async with observing(storage) as seen:
                await seen.until_sequence(sum(sizes))
            watched.append(sequences(seen.records))

        watched: list[list[int]] = []
        delays = [chance.randint(0, 30) for _ in range(3)]
        await asyncio.gather(write(), *(watch(delay) for delay in delays))
        assert watched == [list(range(1, sum(sizes) + 1))] * 3

    @pytest.mark.rule("LOG-9", "LOG-2")
    async def test_a_batch_arrives_whole(self, storage: Storage) -> None:
        """By the time its first record is delivered, all of a batch can be read."""
        writer = await Writer.begin(storage)
        async with observing(storage) as seen:
            for number in range(1, 9):
                await writer.fill(5)
                await seen.until(5 * number - 4)
                assert (await storage.threads.tail(THREAD)).sequence == 5 * number

    @pytest.mark.rule("LOG-9")
    async def test_cancelling_ends_an_observer_cleanly(self, storage: Storage) -> None:
        """An observer that waits ends by its cancellation, and appends go on."""
        writer = await Writer.begin(storage)
        await writer.fill(2)
        async with observing(storage) as seen:
            await seen.until(2)
            await turns(5)
            assert seen.task is not None
            seen.task.cancel()
            await asyncio.wait({seen.task})
            assert seen.task.cancelled()
        await writer.fill(1)
        async with observing(storage, after=seen.records[-1].offset) as again:
            assert sequences(await again.until(1)) == [3]

    @pytest.mark.rule("LOG-9")
    @pytest.mark.parametrize("delay", [0, 1, 4])
    async def test_cancelling_anywhere_loses_nothing(self, storage: Storage, delay: int) -> None:
        """Cancelled at each of its first awaits, an observer resumes after what it delivered."""
        await (await Writer.begin(storage)).fill(2, 2)
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            delivered: list[StoredRecord] = []
            outcome = await cancelled_at(_take(storage, 4, delivered), point, delay=delay)
            if len(delivered) < 4:
                after = delivered[-1].offset if delivered else None
                async with observing(storage, after=after) as seen:
                    delivered += await seen.until(4 - len(delivered))
            assert sequences(delivered) == [1, 2, 3, 4]

    @pytest.mark.rule("LOG-9")
    async def test_what_is_no_offset_of_this_thread_is_refused(self, storage: Storage) -> None:
        """Another thread's offset, an altered one and invented ones are OffsetRefused."""
        await (await Writer.begin(storage)).fill(3)
        await (await Writer.begin(storage, OTHER)).fill(3)
        mine = (await storage.threads.read(THREAD))[0].offset
        others = (await storage.threads.read(OTHER))[0].offset
        forged = [others, "", "1", "o1", mine[:-1], f"{mine} ", f"{mine}x", mine.upper(), "\ud800"]
        forged += [mine[:-1] + digits for digits in ("01", "-1", "1.0", "٣", "1" * 40)]
        for offset in forged:
            observer = storage.threads.observe(THREAD, after=Offset(offset))
            fault = await refused(OffsetRefused, anext(observer))
            assert fault.thread == THREAD

    @pytest.mark.rule("LOG-9")
    async def test_an_offset_beyond_the_tail_is_refused(self, storage: Storage) -> None:
        """A position that the thread has not reached was given out by nobody."""
        writer = await Writer.begin(storage)
        await writer.fill(2)
        last = (await storage.threads.read(THREAD))[-1].offset
        forged = Offset(last.removesuffix("2") + "3")
        assert forged != last
        for _ in range(2):
            work = anext(storage.threads.observe(THREAD, after=forged))
            with pytest.raises(OffsetRefused):
                await work

    @pytest.mark.rule("LOG-9", "ARC-7")
    async def test_deletion_ends_an_observer(self, storage: Storage) -> None:
        """An observer of a thread that is deleted is told so; it does not wait for ever."""
        writer = await Writer.begin(storage)
        await writer.append(note("one"))
        async with observing(storage) as seen:
            await seen.until(1)
            await turns(5)
            await storage.threads.delete_thread(THREAD)
            assert (await seen.failure(ThreadDeleted)).sequence == 1


async def _take(storage: Storage, count: int, into: list[StoredRecord]) -> None:
    """Observe a thread until a number of records was delivered."""
    observer = storage.threads.observe(THREAD)
    try:
        while len(into) < count:
            into.append(await anext(observer))
    finally:
        await close(observer)
