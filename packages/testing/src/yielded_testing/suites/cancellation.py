"""Cases of cancellation at every await: all or nothing, and a store that goes on (LOG-7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from yielded_core.records.identifiers import RecordId, ThreadId
from yielded_testing.suites.builders import THREAD, Writer, batch, note, notes
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.support import (
    cancelled_at,
    indexed_reads,
    sequences,
    stored_names,
    whole_log,
)
from yielded_testing.suites.transfer import lines_of, pages_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yielded_core.storage import Storage


async def sweep(
    call: Callable[[], Awaitable[object]], check: Callable[[], Awaitable[Any]], delay: int
) -> None:
    """Cancel a call at each of its awaits, and check the store after each."""
    outcome, point = "", 0
    while outcome != "shorter":
        point += 1
        outcome = await cancelled_at(call(), point, delay=delay)
        if not delay:
            assert outcome in {"cancelled", "shorter"}
        await check()


class CancellationCases:
    """LOG-7 and the reads: a cancelled operation leaves a clean store."""

    @pytest.mark.rule("LOG-7")
    @pytest.mark.parametrize("delay", [0, 1, 4, 40])
    async def test_a_cancelled_append_is_all_or_nothing(self, storage: Storage, delay: int) -> None:
        """Repeated after each cancellation, it commits once: now, or as a replay."""
        writer = await Writer.begin(storage)
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            before = writer.tail
            given = batch(f"batch-{point}", *notes(f"n{point}", 3))
            work = storage.threads.append(THREAD, given, expected=before, epoch=1)
            outcome = await cancelled_at(work, point, delay=delay)
            assert outcome in {"cancelled", "shorter"} or delay
            seen = (await storage.threads.tail(THREAD)).sequence
            assert seen in {before.sequence, before.sequence + 3}
            done = await writer.append_batch(given)
            assert (done.first_sequence, done.tail.sequence) == (
                before.sequence + 1,
                before.sequence + 3,
            )
        assert sequences(await storage.threads.read(THREAD)) == list(range(1, 3 * point + 1))
        assert len(await whole_log(storage)) == point

    @pytest.mark.rule("LOG-7")
    async def test_cancelled_appends_do_not_harm_their_neighbours(self, storage: Storage) -> None:
        """Of 24 appends at once to as many threads every other one is cancelled."""
        writers = [await Writer.begin(storage, ThreadId(f"t-{n:02}")) for n in range(24)]
        for delay in (0, 1, 2, 5):
            tails = [writer.tail for writer in writers]
            names = [f"batch-{delay}-{n}" for n in range(24)]
            tasks = [
                asyncio.create_task(writer.append(*notes(f"n{delay}", 2), batch_id=name))
                for writer, name in zip(writers, names, strict=True)
            ]
            for _ in range(delay):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.wait(tasks)
            assert not any(task.cancelled() for task in tasks[1::2])
            for writer, tail, name in zip(writers, tails, names, strict=True):
                writer.tail = tail
                await writer.append(*notes(f"n{delay}", 2), batch_id=name)
        for writer in writers:
            assert len(await stored_names(storage, writer.thread)) == 8

    @pytest.mark.rule("LOG-7", "LOG-1")
    @pytest.mark.parametrize("delay", [0, 2])
    async def test_a_cancelled_takeover_can_be_repeated(self, storage: Storage, delay: int) -> None:
        """Cancelled at each await, the epoch is the old or the new one, and repeating makes it."""
        await storage.threads.materialize(THREAD, epoch=1)
        outcome, epoch = "", 1
        while outcome != "shorter":
            epoch += 1
            work = storage.threads.materialize(THREAD, epoch=epoch)
            outcome = await cancelled_at(work, epoch - 1, delay=delay)
            assert (await storage.threads.tail(THREAD)).epoch in {epoch - 1, epoch}
            assert (await storage.threads.materialize(THREAD, epoch=epoch)).epoch == epoch

    @pytest.mark.rule("LOG-7", "LOG-8")
    @pytest.mark.parametrize("delay", [0, 2])
    async def test_cancelled_reads_leave_the_store_usable(
        self, storage: Storage, delay: int
    ) -> None:
        """Every read, cancelled at each await, is answered when it is asked again."""
        writer = await indexed_thread(storage)
        tail = writer.tail.sequence
        threads = storage.threads
        calls = indexed_reads(threads, tail)
        calls["tail"] = lambda: threads.tail(THREAD)
        calls["read"] = lambda: threads.read(THREAD)
        calls["identity"] = lambda: threads.identity(THREAD)
        calls["threads"] = threads.threads
        calls["get_record"] = lambda: threads.get_record(THREAD, RecordId("noise-1"))
        for call in calls.values():
            expected = await call()

            async def check(
                call: Callable[[], Awaitable[object]] = call, expected: object = expected
            ) -> None:
                assert await call() == expected

            await sweep(call, check, delay)
        await writer.append(note("after"), batch_id="after")

    @pytest.mark.rule("LOG-7", "ARC-2")
    async def test_a_cancelled_export_leaves_the_store_usable(self, storage: Storage) -> None:
        """Cancelled at each await, an export can be made again, and appends go on."""
        writer = await Writer.begin(storage)
        await writer.fill(2, 2)
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            outcome = await cancelled_at(pages_of(storage), point)
            await writer.fill(1)
        assert len(await lines_of(storage)) == 2 + point + 5

    @pytest.mark.rule("LOG-7", "ARC-7")
    async def test_a_cancelled_deletion_can_be_repeated(self, storage: Storage) -> None:
        """Cancelled at each await, a thread is there or deleted, and repeating deletes it."""
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            writer = await Writer.begin(storage, ThreadId(f"thread-{point}"))
            await writer.fill(2)
            outcome = await cancelled_at(storage.threads.delete_thread(writer.thread), point)
            assert (await storage.threads.delete_thread(writer.thread)).tail == writer.tail
        assert await storage.threads.threads() == ()

    @pytest.mark.rule("LOG-7", "ARC-6")
    async def test_cancelled_archiving_can_be_repeated(self, storage: Storage) -> None:
        """Cancelled at each await, a range is sealed or archived, and every record is there."""
        writer = await Writer.begin(storage)
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            await writer.fill(2)
            sealed = await storage.archives.seal_range(THREAD, through=writer.tail.sequence)
            work = storage.archives.archive_range(THREAD, first=sealed.first_sequence)
            outcome = await cancelled_at(work, point)
            assert len(await stored_names(storage)) == 2 * point
            done = await storage.archives.archive_range(THREAD, first=sealed.first_sequence)
            assert done.state == "archived"
        assert sequences(await storage.threads.read(THREAD)) == list(range(1, 2 * point + 1))
