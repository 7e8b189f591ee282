"""Cases of archive ranges: sealed, archived, and read as before (ARC-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from yielded_core.errors import AppendConflict, RangeRefused
from yielded_core.ports.values import Appended, ArchiveRange
from yielded_core.records.identifiers import RecordId
from yielded_testing.suites.builders import EMPTY, THREAD, Writer, batch, note
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.support import (
    answers,
    observing,
    refused,
    sequences,
    whole_log,
)

if TYPE_CHECKING:
    from yielded_core.storage import Storage

MIB: Final = 1_048_576


async def everything(storage: Storage) -> dict[str, Any]:
    """Return what every read of the thread gives."""
    threads = storage.threads
    tail = await threads.tail(THREAD)
    found = await answers(threads, tail.sequence)
    stored = await threads.read(THREAD)
    found["tail"] = tail
    found["identity"] = await threads.identity(THREAD)
    found["read"] = stored
    found["pages"] = [await threads.read(THREAD, after=at, limit=3) for at in range(tail.sequence)]
    found["exact"] = [await threads.get_record(THREAD, each.record.record_id) for each in stored]
    found["batches"] = await whole_log(storage)
    found["prompts"] = [
        await threads.read_prompt(THREAD, after=at, through=tail.sequence, limit=2)
        for at in range(tail.sequence)
    ]
    found["capture"] = await threads.capture(THREAD)
    return found


async def archived(storage: Storage, through: int) -> ArchiveRange:
    """Seal and archive the next range."""
    sealed = await storage.archives.seal_range(THREAD, through=through)
    return await storage.archives.archive_range(THREAD, first=sealed.first_sequence)


class RangeCases:
    """ARC-6: whole batches go from open over sealed to archived."""

    @pytest.mark.rule("ARC-6")
    async def test_whole_batches_are_sealed_from_the_oldest(self, storage: Storage) -> None:
        """A range ends with the last batch at or before a sequence; the next one follows it."""
        await (await Writer.begin(storage)).fill(2, 3, 4, 1)
        sizes = {
            each.first_sequence: sum(len(wire) for _, wire in each.records)
            for each in await whole_log(storage)
        }
        seal, ranges = storage.archives.seal_range, storage.archives.ranges
        assert await ranges(THREAD) == ()
        first = await seal(THREAD, through=8)
        assert first == ArchiveRange(1, 5, "sealed", 5, sizes[1] + sizes[3])
        second = await seal(THREAD, through=1_000_000)
        assert second == ArchiveRange(6, 10, "sealed", 5, sizes[6] + sizes[10])
        assert await ranges(THREAD) == (first, second)

    @pytest.mark.rule("ARC-6")
    async def test_a_range_without_a_whole_batch_is_refused(self, storage: Storage) -> None:
        """No batch ends there, or all of them are in ranges."""
        await (await Writer.begin(storage)).fill(3, 2)
        for through in (0, 2, -1):
            fault = await refused(
                RangeRefused, storage.archives.seal_range(THREAD, through=through)
            )
            assert (fault.thread, fault.first, fault.last) == (THREAD, 1, through)
        await storage.archives.seal_range(THREAD, through=5)
        await refused(RangeRefused, storage.archives.seal_range(THREAD, through=5))
        assert len(await storage.archives.ranges(THREAD)) == 1

    @pytest.mark.slow_case
    @pytest.mark.rule("ARC-6")
    async def test_a_range_holds_up_to_1_024_records(self, storage: Storage) -> None:
        """Exactly 1,024 records are one range; a batch that would pass them begins the next."""
        writer = await Writer.begin(storage)
        await writer.fill(*[128] * 8)
        first = await storage.archives.seal_range(THREAD, through=writer.tail.sequence)
        assert (first.first_sequence, first.last_sequence, first.record_count) == (1, 1_024, 1_024)
        await writer.fill(*[205] * 5)
        second = await storage.archives.seal_range(THREAD, through=writer.tail.sequence)
        assert (second.first_sequence, second.last_sequence) == (1_025, 1_844)

    @pytest.mark.slow_case
    @pytest.mark.rule("ARC-6")
    async def test_a_range_holds_up_to_32_mib(self, storage: Storage) -> None:
        """Of three batches of 12 MiB two are one range."""
        writer = await Writer.begin(storage)
        for number in range(3):
            await writer.append(*(note(f"{number}-{n}", "x" * (MIB - 2)) for n in range(12)))
        first = await storage.archives.seal_range(THREAD, through=36)
        assert (first.first_sequence, first.last_sequence) == (1, 24)
        assert 24 * MIB < first.byte_count < 25 * MIB
        await storage.archives.archive_range(THREAD, first=1)
        assert len(await storage.threads.read(THREAD, after=20, limit=8)) == 8

    @pytest.mark.rule("ARC-6")
    async def test_archiving_is_idempotent(self, storage: Storage) -> None:
        """A range is archived once; what is no range's beginning is refused."""
        await (await Writer.begin(storage)).fill(2, 2, 2)
        archive = storage.archives.archive_range
        await refused(RangeRefused, archive(THREAD, first=1))
        sealed = await storage.archives.seal_range(THREAD, through=4)
        for first in (0, 2, 3, 5):
            await refused(RangeRefused, archive(THREAD, first=first))
        done = await archive(THREAD, first=1)
        assert done == ArchiveRange(1, 4, "archived", 4, sealed.byte_count)
        assert await archive(THREAD, first=1) == done
        assert await storage.archives.ranges(THREAD) == (done,)

    @pytest.mark.rule("ARC-6")
    async def test_every_read_is_the_same_before_and_after(self, storage: Storage) -> None:
        """Open, sealed, partly archived and wholly archived, every read gives equal answers."""
        writer = await indexed_thread(storage)
        before = await everything(storage)
        await storage.archives.seal_range(THREAD, through=7)
        assert await everything(storage) == before
        await storage.archives.archive_range(THREAD, first=1)
        assert await everything(storage) == before
        await archived(storage, writer.tail.sequence)
        assert [each.state for each in await storage.archives.ranges(THREAD)] == ["archived"] * 2
        assert await everything(storage) == before

    @pytest.mark.rule("ARC-6", "LOG-17")
    async def test_indexes_are_rebuilt_from_archived_records(self, storage: Storage) -> None:
        """A rebuild reads across the boundary."""
        writer = await indexed_thread(storage)
        tail = writer.tail.sequence
        before = await answers(storage.threads, tail)
        await archived(storage, 10)
        state = await storage.threads.rebuild_indexes(THREAD, restart=True, limit=4)
        while not state.complete:
            reached = state.indexed_through
            state = await storage.threads.rebuild_indexes(THREAD, limit=4)
            assert state.indexed_through > reached
        assert await answers(storage.threads, tail) == before

    @pytest.mark.rule("ARC-6", "LOG-9")
    async def test_observers_read_across_the_boundary(self, storage: Storage) -> None:
        """From the beginning and from an archived record's offset, without gap or repeat."""
        writer = await Writer.begin(storage)
        await writer.fill(2, 2, 2)
        second = (await storage.threads.read(THREAD))[1]
        await archived(storage, 4)
        async with (
            observing(storage) as every,
            observing(storage, after=second.offset) as rest,
        ):
            await every.until(6)
            await writer.fill(1)
            assert sequences(await every.until(7)) == list(range(1, 8))
            assert sequences(await rest.until(5)) == list(range(3, 8))

    @pytest.mark.rule("ARC-6", "LOG-4")
    async def test_archived_identities_are_enforced(self, storage: Storage) -> None:
        """An archived batch replays or conflicts, and its record ids stay taken."""
        writer = await Writer.begin(storage)
        first = await writer.append(note("one"), note("two"))
        await writer.fill(2)
        await archived(storage, 2)
        append = storage.threads.append
        same = batch("batch-1", note("one"), note("two"))
        assert await append(THREAD, same, expected=EMPTY, epoch=1) == Appended(
            1, first.tail, replayed=True
        )
        other = append(THREAD, batch("batch-1", note("new")), expected=writer.tail, epoch=1)
        assert (await refused(AppendConflict, other)).reason == "batch-digest"
        taken = append(THREAD, batch("new", note("two")), expected=writer.tail, epoch=1)
        assert (await refused(AppendConflict, taken)).reason == "record-identity"
        await writer.append(note("new"))
        found = await storage.threads.get_record(THREAD, RecordId("two"))
        assert (found.sequence, found.batch_id) == (2, "batch-1")

    @pytest.mark.rule("ARC-6")
    async def test_a_range_can_be_archived_to_the_tail(self, storage: Storage) -> None:
        """A thread whose records are all archived is appended to as before."""
        writer = await Writer.begin(storage)
        await writer.fill(2)
        await archived(storage, 2)
        assert (await storage.threads.tail(THREAD)).tail == writer.tail
        await writer.fill(2)
        assert sequences(await storage.threads.read(THREAD)) == [1, 2, 3, 4]
        assert (await archived(storage, 4)).first_sequence == 3
