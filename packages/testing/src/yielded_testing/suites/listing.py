"""Cases of listing and deletion: pages by key (LOG-19), tombstones (ARC-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    EvidenceFault,
    InvalidArgument,
    InvalidIdentifier,
    ThreadDeleted,
    ThreadInUse,
    ThreadNotMaterialized,
)
from yielded_core.ports.values import ThreadTail, Tombstone
from yielded_core.records.identifiers import ThreadId
from yielded_testing.suites.builders import (
    EMPTY_DIGEST,
    NOWHERE,
    OTHER,
    THREAD,
    Writer,
    note,
)
from yielded_testing.suites.evidence import closed, prepared
from yielded_testing.suites.support import every_operation, refused, stored_names

if TYPE_CHECKING:
    from yielded_core.storage import Storage

UNSORTED: Final = ("b", "ä", "a", "𐀀", "\ue000", "B", "10", "9", "a b", "a\tb", "%", "ab", "_")


async def listed(storage: Storage, limit: int = 1_024) -> list[str]:
    """Return the ids of all threads, page by page."""
    found: list[str] = []
    while True:
        after = ThreadId(found[-1]) if found else None
        page = await storage.threads.threads(after=after, limit=limit)
        found += [each.thread_id for each in page]
        if len(page) < limit:
            return found


class ListingCases:
    """LOG-19: threads by their ids, page by page."""

    @pytest.mark.rule("LOG-19")
    @pytest.mark.parametrize("limit", [1, 4, 13, 14, 1_024])
    async def test_pages_give_each_thread_once_by_key(self, storage: Storage, limit: int) -> None:
        """Threads come in the order of their ids' UTF-8 bytes, whatever order they were made in."""
        for name in UNSORTED:
            await storage.threads.materialize(ThreadId(name), epoch=1)
        assert await listed(storage, limit) == sorted(UNSORTED, key=str.encode)

    @pytest.mark.rule("LOG-19")
    async def test_a_listing_gives_tails(self, storage: Storage) -> None:
        """Each thread has the tail and the epoch that `tail` gives."""
        assert await storage.threads.threads() == ()
        await (await Writer.begin(storage, THREAD, epoch=3)).fill(2, 1)
        await storage.threads.materialize(OTHER, epoch=8)
        assert await storage.threads.threads() == (
            await storage.threads.tail(THREAD),
            ThreadTail(OTHER, 0, EMPTY_DIGEST, 8),
        )

    @pytest.mark.rule("LOG-19")
    async def test_a_page_begins_after_a_key(self, storage: Storage) -> None:
        """The key need not be a thread; threads made or deleted meanwhile shift nothing."""
        for name in ("b", "d", "f", "h"):
            await storage.threads.materialize(ThreadId(name), epoch=1)
        first = await storage.threads.threads(limit=2)
        await storage.threads.materialize(ThreadId("a"), epoch=1)
        await storage.threads.materialize(ThreadId("g"), epoch=1)
        rest = await storage.threads.threads(after=first[-1].thread_id, limit=9)
        assert [each.thread_id for each in (*first, *rest)] == ["b", "d", "f", "g", "h"]
        await storage.threads.delete_thread(ThreadId("d"))
        rest = await storage.threads.threads(after=first[-1].thread_id, limit=2)
        assert [each.thread_id for each in rest] == ["f", "g"]
        assert await storage.threads.threads(after=ThreadId("z")) == ()

    @pytest.mark.rule("LOG-19", "REC-1")
    @pytest.mark.parametrize("limit", [0, -1, 1_025, True, "1"])
    async def test_a_page_of_threads_holds_1_to_1_024(self, storage: Storage, limit: int) -> None:
        """Another limit is refused, and so is what is no thread id."""
        await refused(InvalidArgument, storage.threads.threads(limit=limit))
        for bad in ("", "\ud800", "a\x00"):
            await refused(InvalidIdentifier, storage.threads.threads(after=ThreadId(bad)))

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-19")
    async def test_more_than_a_page_of_threads(self, storage: Storage) -> None:
        """1,030 threads take two pages of 1,024; the default page holds 256."""
        names = [f"thread-{number:04}" for number in range(1_030)]
        for name in names:
            await storage.threads.materialize(ThreadId(name), epoch=1)
        assert await listed(storage) == names
        assert len(await storage.threads.threads()) == 256


class DeletionCases:
    """ARC-7: what is deleted leaves a tombstone, and its id is never used again."""

    @pytest.mark.rule("ARC-7")
    async def test_a_deleted_thread_leaves_its_last_tail(self, storage: Storage) -> None:
        """The tombstone has tail and epoch; deleting again returns it again."""
        writer = await Writer.begin(storage, epoch=4)
        await writer.fill(3)
        expected = Tombstone(THREAD, writer.tail, 4)
        assert await storage.threads.delete_thread(THREAD) == expected
        assert await storage.threads.delete_thread(THREAD) == expected

    @pytest.mark.rule("ARC-7")
    async def test_every_operation_tells_that_a_thread_was_deleted(self, storage: Storage) -> None:
        """ThreadDeleted with the last sequence, to whatever is asked of the thread."""
        await (await Writer.begin(storage)).fill(3)
        await storage.threads.delete_thread(THREAD)
        operations = every_operation(storage, THREAD)
        del operations["delete_thread"]
        for name, call in operations.items():
            with pytest.raises(ThreadDeleted) as caught:
                await call()
            assert (caught.value.thread, caught.value.sequence) == (THREAD, 3), name

    @pytest.mark.rule("ARC-7")
    @pytest.mark.parametrize("records", [0, 2])
    async def test_a_deleted_id_is_never_used_again(self, storage: Storage, records: int) -> None:
        """Neither registering at any epoch nor an import brings the thread back."""
        writer = await Writer.begin(storage)
        if records:
            await writer.fill(records)
        await storage.threads.delete_thread(THREAD)
        for epoch in (1, 2, 10**17):
            await refused(ThreadDeleted, storage.threads.materialize(THREAD, epoch=epoch))
        archive = ThreadTail(THREAD, 1, NOWHERE, 1)
        await refused(ThreadDeleted, storage.archives.begin_import(archive))
        assert await storage.threads.threads() == ()

    @pytest.mark.rule("ARC-7")
    async def test_other_threads_stay(self, storage: Storage) -> None:
        """Deleting one thread leaves the others, their records and their listing."""
        for thread in (THREAD, OTHER):
            await (await Writer.begin(storage, thread)).fill(2)
        await storage.threads.delete_thread(THREAD)
        assert await listed(storage) == [OTHER]
        assert await stored_names(storage, OTHER) == ["note-1", "note-2"]
        await refused(ThreadNotMaterialized, storage.threads.delete_thread(ThreadId("thread-3")))

    @pytest.mark.rule("ARC-7")
    async def test_a_thread_with_open_work_is_kept(self, storage: Storage) -> None:
        """An open handoff refuses the deletion; once it is closed the thread can go."""
        writer = await Writer.begin(storage)
        await writer.append(prepared("open"), note("note"))
        fault = await refused(ThreadInUse, storage.threads.delete_thread(THREAD))
        assert fault.thread == THREAD
        assert await stored_names(storage) == ["open", "note"]
        await writer.append(closed("close", "open"))
        assert (await storage.threads.delete_thread(THREAD)).tail == writer.tail

    @pytest.mark.rule("ARC-7", "LOG-17")
    async def test_open_work_that_is_not_indexed_is_not_overlooked(self, storage: Storage) -> None:
        """While the indexes are incomplete nobody knows what is open, so nothing is deleted."""
        writer = await Writer.begin(storage)
        await writer.append(note("first"))
        await writer.append(prepared("open"))
        await storage.threads.rebuild_indexes(THREAD, restart=True, limit=1)
        fault = await refused(EvidenceFault, storage.threads.delete_thread(THREAD))
        assert fault.reason == "index-incomplete"
        await storage.threads.rebuild_indexes(THREAD)
        await refused(ThreadInUse, storage.threads.delete_thread(THREAD))

    @pytest.mark.rule("ARC-7")
    async def test_a_thread_is_deleted_with_all_that_is_large(self, storage: Storage) -> None:
        """Archived ranges and indexes go with it, and its ids mean nothing in another thread."""
        writer = await Writer.begin(storage)
        await writer.fill(*[100] * 11)
        sealed = await storage.archives.seal_range(THREAD, through=500)
        await storage.archives.archive_range(THREAD, first=sealed.first_sequence)
        assert (await storage.threads.delete_thread(THREAD)).tail == writer.tail
        await (await Writer.begin(storage, OTHER)).fill(2)
        assert (await storage.threads.tail(OTHER)).sequence == 2
        assert await storage.archives.ranges(OTHER) == ()
