"""Cases of a store that outlives a storage: reopened, and opened twice at once (LOG-7, STO-3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import AppendConflict, FenceRejected, ThreadDeleted
from yielded_core.ports.values import Appended
from yielded_core.records.identifiers import ThreadId
from yielded_core.transfer.verify import verify_thread
from yielded_testing.suites.builders import EMPTY, OTHER, THREAD, Writer, batch, note, notes
from yielded_testing.suites.checkpoints import checkpoint
from yielded_testing.suites.imports import reads_of, staged
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.support import (
    observing,
    refused,
    sequences,
    stored_names,
    whole_log,
)
from yielded_testing.suites.transfer import pages_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.storage import Storage


class DurableSuite:
    """What durability means at the port; for adapters whose stores outlive their storages.

    `open_again` returns another storage of the same store, not yet opened.
    """

    @pytest.mark.rule("STO-1")
    async def test_a_durable_storage_says_so(self, storage: Storage) -> None:
        """With the settings in force, which a reader can judge."""
        info = await storage.info()
        assert info.durability in {"durable-file", "durable-server"}
        assert info.lease_lifetime == "durable"
        assert info.settings

    @pytest.mark.rule("STO-3", "LOG-7")
    async def test_everything_is_there_again(self, open_again: Callable[[], Storage]) -> None:
        """Logs, indexes, ranges, checkpoints, tombstones and the incarnation outlive a storage."""
        async with open_again() as storage:
            writer = await indexed_thread(storage)
            await storage.archives.seal_range(THREAD, through=10)
            await storage.archives.archive_range(THREAD, first=1)
            saved = checkpoint(writer.tail, {"kept": True})
            if storage.checkpoints is not None:
                await storage.checkpoints.save(saved)
            await (await Writer.begin(storage, OTHER)).fill(1)
            await storage.threads.delete_thread(OTHER)
            tail = writer.tail.sequence
            before = await reads_of(storage.threads, THREAD, tail)
            ranges = await storage.archives.ranges(THREAD)
            info = await storage.info()
        async with open_again() as storage:
            assert await reads_of(storage.threads, THREAD, tail) == before
            assert await storage.archives.ranges(THREAD) == ranges
            if storage.checkpoints is not None:
                assert await storage.checkpoints.load(THREAD) == saved
            await refused(ThreadDeleted, storage.threads.tail(OTHER))
            assert (await storage.info()).incarnation == info.incarnation
            assert (await verify_thread(storage, THREAD)).ok

    @pytest.mark.rule("LOG-7", "LOG-4")
    async def test_a_retry_after_reopening_is_a_replay(
        self, open_again: Callable[[], Storage]
    ) -> None:
        """Batch and record identities are remembered, and the fence holds."""
        given = batch("batch-1", *notes("n", 3))
        async with open_again() as storage:
            writer = await Writer.begin(storage, epoch=5)
            first = await writer.append_batch(given)
        async with open_again() as storage:
            append = storage.threads.append
            again = await append(THREAD, given, expected=EMPTY, epoch=5)
            assert again == Appended(1, first.tail, replayed=True)
            taken = append(THREAD, batch("new", note("n-2")), expected=first.tail, epoch=5)
            assert (await refused(AppendConflict, taken)).reason == "record-identity"
            stale = append(THREAD, given, expected=EMPTY, epoch=4)
            assert (await refused(FenceRejected, stale)).actual == 5

    @pytest.mark.rule("LOG-9", "ARC-2")
    async def test_positions_outlive_a_storage(self, open_again: Callable[[], Storage]) -> None:
        """An offset and a cursor of one storage are good in the next one of the same store."""
        async with open_again() as storage:
            writer = await Writer.begin(storage)
            await writer.fill(2, 1)
            offset = (await storage.threads.read(THREAD))[1].offset
            pages = await pages_of(storage)
        async with open_again() as storage:
            async with observing(storage, after=offset) as seen:
                assert sequences(await seen.until(1)) == [3]
            assert await pages_of(storage, cursor=pages[0].cursor) == pages[1:]

    @pytest.mark.rule("ARC-4")
    async def test_a_staged_import_outlives_a_storage(
        self, open_again: Callable[[], Storage]
    ) -> None:
        """It is neither visible nor lost, and is published or resumed by the next storage."""
        async with open_again() as storage:
            archive, _ = await staged(storage)
            state = await storage.archives.import_state(OTHER)
        async with open_again() as storage:
            assert [each.thread_id for each in await storage.threads.threads()] == [THREAD]
            assert await storage.archives.begin_import(archive) == state
            assert await storage.archives.publish_import(OTHER) == archive
            assert await whole_log(storage, OTHER) == await whole_log(storage)

    @pytest.mark.rule("LOG-17")
    async def test_a_rebuild_outlives_a_storage(self, open_again: Callable[[], Storage]) -> None:
        """A rebuild that was cut off goes on where it was."""
        async with open_again() as storage:
            await (await Writer.begin(storage)).fill(2, 2, 2)
            reached = await storage.threads.rebuild_indexes(THREAD, restart=True, limit=1)
        async with open_again() as storage:
            assert await storage.threads.index_state(THREAD) == reached
            assert (await storage.threads.rebuild_indexes(THREAD)).complete

    @pytest.mark.rule("LOG-2", "LOG-5")
    async def test_two_storages_of_one_store_agree(
        self, storage: Storage, open_again: Callable[[], Storage]
    ) -> None:
        """Each sees at once what the other committed, and is refused where the other was first."""
        async with open_again() as other:
            mine, theirs = await Writer.begin(storage), await Writer.begin(other)
            await mine.fill(2)
            assert await stored_names(other) == ["note-1", "note-2"]
            conflict = await refused(AppendConflict, theirs.append(note("late"), batch_id="late"))
            assert (conflict.reason, conflict.sequence) == ("tail", 2)
            theirs.tail = mine.tail
            await theirs.append(note("next"))
            assert await stored_names(storage) == ["note-1", "note-2", "next"]
            await other.threads.materialize(THREAD, epoch=2)
            assert (await refused(FenceRejected, mine.append(note("stale")))).actual == 2

    @pytest.mark.rule("LOG-2")
    async def test_writers_of_two_storages_leave_one_log(
        self, storage: Storage, open_again: Callable[[], Storage]
    ) -> None:
        """Of each pair of appends at one tail exactly one commits; the chain verifies."""
        async with open_again() as other:
            writers = [await Writer.begin(storage), await Writer.begin(other)]
            for number in range(10):
                outcomes = await asyncio.gather(
                    *(
                        writer.append(*notes(f"n{number}-{at}", 2), batch_id=f"b{number}-{at}")
                        for at, writer in enumerate(writers)
                    ),
                    return_exceptions=True,
                )
                won = [each for each in outcomes if isinstance(each, Appended)]
                lost = [each for each in outcomes if isinstance(each, AppendConflict)]
                assert (len(won), len(lost)) == (1, 1)
                for writer in writers:
                    writer.tail = won[0].tail
            assert (await storage.threads.tail(THREAD)).sequence == 20
            assert (await verify_thread(other, THREAD)).ok

    @pytest.mark.rule("LOG-9")
    async def test_an_observer_sees_another_storage_s_appends(
        self, storage: Storage, open_again: Callable[[], Storage]
    ) -> None:
        """Stored and new records of both, in order, without gap or repeat."""
        await storage.threads.materialize(THREAD, epoch=1)
        async with open_again() as other, observing(storage) as seen:
            writer = await Writer.begin(other)
            for number in range(1, 6):
                await writer.fill(2)
                await seen.until(2 * number)
            mine = await Writer.begin(storage)
            await mine.append(note("mine"), batch_id="mine")
            assert sequences(await seen.until(11)) == list(range(1, 12))

    @pytest.mark.rule("STO-3")
    async def test_closing_one_storage_leaves_the_other(
        self, storage: Storage, open_again: Callable[[], Storage]
    ) -> None:
        """Storages of one store open and close in any order."""
        for number in range(4):
            async with open_again() as other:
                thread = ThreadId(f"thread-{number}")
                await (await Writer.begin(other, thread)).fill(1)
            await (await Writer.begin(storage, ThreadId(f"mine-{number}"))).fill(1)
        assert len(await storage.threads.threads()) == 8
        assert (await storage.threads.tail(ThreadId("thread-3"))).sequence == 1
