"""Cases of writing: materialize and append (LOG-1, LOG-2), what is stored (REC-5, REC-7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    AppendConflict,
    FenceRejected,
    InvalidBatch,
    InvalidIdentifier,
    ThreadNotMaterialized,
)
from yielded_core.ports.values import Appended, ThreadTail
from yielded_testing.suites.builders import (
    EMPTY,
    EMPTY_DIGEST,
    INSTANT_TEXT,
    OTHER,
    PRODUCER,
    THREAD,
    Writer,
    actual_tail,
    batch,
    canonical,
    next_digest,
    note,
    note_value,
    notes,
    record_digest,
)
from yielded_testing.suites.support import (
    every_operation,
    names,
    refused,
    sequences,
    stored_names,
    turns,
    whole_log,
)

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage

LAST_EPOCH: Final = 999_999_999_999_999_999


class MaterializeCases:
    """LOG-1: registering a thread, and taking it over."""

    @pytest.mark.rule("LOG-1")
    async def test_a_new_thread_is_empty(self, storage: Storage) -> None:
        """A registered thread has sequence 0, the empty digest and its epoch."""
        expected = ThreadTail(THREAD, 0, EMPTY_DIGEST, 7)
        assert await storage.threads.materialize(THREAD, epoch=7) == expected
        assert await storage.threads.tail(THREAD) == expected

    @pytest.mark.rule("LOG-1")
    async def test_repeating_changes_nothing(self, storage: Storage) -> None:
        """Registering again at the same epoch returns the tail as it is."""
        writer = await Writer.begin(storage)
        await writer.fill(3)
        again = await storage.threads.materialize(THREAD, epoch=1)
        assert again == ThreadTail(THREAD, 3, writer.tail.digest, 1)
        assert await stored_names(storage) == ["note-1", "note-2", "note-3"]

    @pytest.mark.rule("LOG-1")
    async def test_a_higher_epoch_takes_over(self, storage: Storage) -> None:
        """After a takeover the old epoch is fenced, the new one writes at the same tail."""
        first = await Writer.begin(storage)
        await first.fill(2)
        second = await Writer.begin(storage, epoch=5)
        assert second.tail == first.tail
        fence = await refused(FenceRejected, first.append(note("late")))
        assert (fence.actual, fence.attempted) == (5, 1)
        await second.append(note("next"))
        assert await stored_names(storage) == ["note-1", "note-2", "next"]

    @pytest.mark.rule("LOG-1")
    @pytest.mark.parametrize("lower", [1, 4])
    async def test_a_lower_epoch_is_refused(self, storage: Storage, lower: int) -> None:
        """The refusal names the actual and the attempted epoch and changes nothing."""
        await storage.threads.materialize(THREAD, epoch=5)
        fence = await refused(FenceRejected, storage.threads.materialize(THREAD, epoch=lower))
        assert (fence.thread, fence.actual, fence.attempted) == (THREAD, 5, lower)
        assert (await storage.threads.tail(THREAD)).epoch == 5

    @pytest.mark.rule("LOG-1")
    async def test_the_largest_epoch_is_exact(self, storage: Storage) -> None:
        """18 digits survive: one less than the largest epoch is another epoch."""
        await storage.threads.materialize(THREAD, epoch=LAST_EPOCH - 1)
        writer = await Writer.begin(storage, epoch=LAST_EPOCH)
        await writer.append(note("one"))
        fence = await refused(
            FenceRejected, storage.threads.materialize(THREAD, epoch=LAST_EPOCH - 1)
        )
        assert fence.actual == LAST_EPOCH

    @pytest.mark.rule("LOG-1", "REC-1")
    @pytest.mark.parametrize("epoch", [0, -1, LAST_EPOCH + 1, 2**63, True, 1.0, "1", None])
    async def test_what_is_no_epoch_is_refused(self, storage: Storage, epoch: int) -> None:
        """An epoch is an integer from 1 to 18 digits, to materialize as to append."""
        await refused(InvalidIdentifier, storage.threads.materialize(OTHER, epoch=epoch))
        await storage.threads.materialize(THREAD, epoch=1)
        given = batch("batch-1", note("one"))
        work = storage.threads.append(THREAD, given, expected=EMPTY, epoch=epoch)
        await refused(InvalidIdentifier, work)
        await refused(ThreadNotMaterialized, storage.threads.tail(OTHER))

    @pytest.mark.rule("LOG-1")
    async def test_every_operation_needs_a_registered_thread(self, storage: Storage) -> None:
        """Whatever is asked of a thread that was never registered is ThreadNotMaterialized."""
        await Writer.begin(storage)
        for name, call in every_operation(storage, OTHER).items():
            with pytest.raises(ThreadNotMaterialized) as caught:
                await call()
            assert caught.value.thread == OTHER, name

    @pytest.mark.rule("LOG-1")
    async def test_threads_are_independent(self, storage: Storage) -> None:
        """Epoch, tail and identities of one thread mean nothing to another."""
        one = await Writer.begin(storage, THREAD, epoch=3)
        two = await Writer.begin(storage, OTHER, epoch=9)
        for writer in (one, two):
            await writer.append(note("same"), batch_id="same")
        await two.append(note("more"))
        assert (await storage.threads.tail(THREAD)).sequence == 1
        assert (await storage.threads.tail(OTHER)).sequence == 2
        assert (await storage.threads.tail(THREAD)).epoch == 3


class AppendCases:
    """LOG-2: whole batches, gap-free, under the fence; REC-5 and REC-7: what is stored of them."""

    @pytest.mark.rule("LOG-2")
    async def test_sequences_follow_the_order_of_declaration(self, storage: Storage) -> None:
        """Records are numbered from 1 without gap, over batches of any size."""
        writer = await Writer.begin(storage)
        given = [note(name) for name in ("c", "a", "b")]
        first = await writer.append(*given)
        second = await writer.append(note("z"), note("0"))
        assert (first.first_sequence, first.tail.sequence, first.replayed) == (1, 3, False)
        assert (second.first_sequence, second.tail.sequence) == (4, 5)
        stored = await storage.threads.read(THREAD)
        assert names(stored) == ["c", "a", "b", "z", "0"]
        assert sequences(stored) == [1, 2, 3, 4, 5]

    @pytest.mark.rule("LOG-2", "REC-3")
    async def test_a_batch_of_256_is_stored_whole(self, storage: Storage) -> None:
        """The largest batch is accepted."""
        writer = await Writer.begin(storage)
        done = await writer.append(*notes("note", 256))
        assert done.tail.sequence == 256
        assert await stored_names(storage) == [f"note-{number}" for number in range(1, 257)]

    @pytest.mark.rule("LOG-2", "REC-3")
    @pytest.mark.parametrize("count", [0, 257])
    async def test_a_batch_of_another_size_is_refused(self, storage: Storage, count: int) -> None:
        """No records, or more than 256, are refused and nothing is written."""
        writer = await Writer.begin(storage)
        fault = await refused(InvalidBatch, writer.append(*notes("note", count)))
        assert fault.batch_id == "batch-1"
        assert await storage.threads.tail(THREAD) == ThreadTail(THREAD, 0, EMPTY_DIGEST, 1)

    @pytest.mark.rule("LOG-2")
    @pytest.mark.parametrize("epoch", [1, 4, 6, LAST_EPOCH])
    async def test_only_the_thread_s_own_epoch_writes(self, storage: Storage, epoch: int) -> None:
        """A lower and a higher epoch are both fenced, and nothing is written."""
        await storage.threads.materialize(THREAD, epoch=5)
        work = storage.threads.append(
            THREAD, batch("batch-1", note("one")), expected=EMPTY, epoch=epoch
        )
        fence = await refused(FenceRejected, work)
        assert (fence.actual, fence.attempted) == (5, epoch)
        assert (await storage.threads.tail(THREAD)).sequence == 0

    @pytest.mark.rule("LOG-2")
    async def test_one_of_many_at_a_tail_wins(self, storage: Storage) -> None:
        """Of 24 appends at one tail exactly one commits; the others learn the new tail."""
        await Writer.begin(storage)
        outcomes = await asyncio.gather(
            *(
                storage.threads.append(
                    THREAD,
                    batch(f"batch-{number}", *notes(f"n{number}", 3)),
                    expected=EMPTY,
                    epoch=1,
                )
                for number in range(24)
            ),
            return_exceptions=True,
        )
        won = [each for each in outcomes if isinstance(each, Appended)]
        lost = [each for each in outcomes if isinstance(each, AppendConflict)]
        assert (len(won), len(lost)) == (1, 23)
        assert {(each.reason, each.sequence) for each in lost} == {("tail", 3)}
        assert {each.digest for each in lost} == {won[0].tail.digest}
        assert len(await stored_names(storage)) == 3

    @pytest.mark.rule("LOG-2", "LOG-5")
    async def test_all_of_many_get_through_by_the_tails_they_are_told(
        self, storage: Storage
    ) -> None:
        """12 tasks, each going on from its conflict, leave 12 whole batches and no gap."""
        await Writer.begin(storage)

        async def insist(number: int) -> None:
            given, tail = batch(f"batch-{number}", *notes(f"n{number}", 2)), EMPTY
            while True:
                try:
                    await storage.threads.append(THREAD, given, expected=tail, epoch=1)
                except AppendConflict as conflict:
                    tail = actual_tail(conflict)
                else:
                    return

        await asyncio.gather(*(insist(number) for number in range(12)))
        stored = await storage.threads.read(THREAD)
        assert sequences(stored) == list(range(1, 25))
        pairs = [tuple(names(stored)[at : at + 2]) for at in range(0, 24, 2)]
        assert set(pairs) == {(f"n{number}-1", f"n{number}-2") for number in range(12)}

    @pytest.mark.rule("LOG-2")
    async def test_readers_see_whole_batches_only(self, storage: Storage) -> None:
        """Tail, page, batches and capture are at a batch's end at every moment of 40 appends."""
        writer = await Writer.begin(storage)
        seen: set[int] = set()

        async def look() -> None:
            while True:
                tail = await storage.threads.tail(THREAD)
                page = await storage.threads.read(THREAD)
                captured = await storage.threads.capture(THREAD)
                seen.update((tail.sequence, len(page), captured.tail.sequence))
                await asyncio.sleep(0)

        readers = [asyncio.create_task(look()) for _ in range(3)]
        await writer.fill(*[5] * 40)
        await turns(5)
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        assert all(reader.cancelled() for reader in readers)
        assert {sequence % 5 for sequence in seen} == {0}

    @pytest.mark.rule("REC-5")
    async def test_a_stored_record_says_where_it_stands(self, storage: Storage) -> None:
        """A stored record has its thread, sequence, batch, an offset of its own and its wire."""
        writer = await Writer.begin(storage)
        await writer.append(note("one", {"b": 1, "a": [True, None]}), batch_id="first")
        await writer.append(note("two"), batch_id="second")
        one, two = await storage.threads.read(THREAD)
        assert (one.thread_id, one.sequence, one.batch_id) == (THREAD, 1, "first")
        assert (two.thread_id, two.sequence, two.batch_id) == (THREAD, 2, "second")
        assert one.offset != two.offset
        assert one.record == note("one", {"b": 1, "a": [True, None]})
        assert one.wire == canonical(note_value("one", {"b": 1, "a": [True, None]}))
        assert one.digest == record_digest(one.record)
        assert INSTANT_TEXT.encode() in two.wire

    @pytest.mark.rule("REC-7")
    async def test_the_tail_digest_is_the_chain_s(self, storage: Storage) -> None:
        """Every tail is the SHA-256 that REC-7 describes, computed here by other means."""
        writer = await Writer.begin(storage)
        expected = EMPTY_DIGEST
        for number, size in ((1, 1), (2, 3), (5, 2)):
            details: JsonValue = {"🧵": "é\u0000", "z": [1.5, -0.0, 1e21, number]}
            given = notes(f"n{number}", size, details)
            done = await writer.append(*given)
            wires = [canonical(note_value(each.record_id, details)) for each in given]
            expected = next_digest(expected, f"batch-{number}", wires)
            assert done.tail.digest == expected
        assert (await storage.threads.tail(THREAD)).digest == expected

    @pytest.mark.rule("REC-7")
    async def test_stored_batches_bear_the_chain_out(self, storage: Storage) -> None:
        """The stored batches, their bytes and epochs re-compute to the tail."""
        writer = await Writer.begin(storage)
        await writer.fill(2, 1)
        writer = await Writer.begin(storage, epoch=8)
        await writer.append(*notes("late", 3), batch_id="late")
        stored = await whole_log(storage)
        digest = EMPTY_DIGEST
        for each in stored:
            digest = next_digest(digest, each.batch_id, [wire for _, wire in each.records])
            assert each.tail_digest == digest
            assert each.producer_id == PRODUCER
        assert [each.epoch for each in stored] == [1, 1, 8]
        assert [(each.first_sequence, each.last_sequence) for each in stored] == [
            (1, 2),
            (3, 3),
            (4, 6),
        ]
        assert digest == (await storage.threads.tail(THREAD)).digest
