"""Cases of imports at the port: staged where no reader sees it, published by one step (ARC-4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from yielded_core.errors import (
    AppendConflict,
    BeyondTail,
    ImportRefused,
    InvalidInput,
    ProgressRefused,
    RecordNotFound,
    ThreadDeleted,
    ThreadNotMaterialized,
)
from yielded_core.log.prepared import prepare_batch, prepare_stored
from yielded_core.ports.values import ImportState, Tail, ThreadTail
from yielded_core.records.identifiers import RecordId
from yielded_testing.suites.builders import EMPTY, NOWHERE, OTHER, THREAD, Writer, batch, note
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.runs import RunScript
from yielded_testing.suites.support import (
    RUN,
    every_operation,
    observing,
    refused,
    sequences,
    turns,
    whole_log,
)

if TYPE_CHECKING:
    from yielded_core.ports.threads import ThreadReader
    from yielded_core.ports.values import PreparedBatch
    from yielded_core.records.identifiers import Digest, ThreadId
    from yielded_core.storage import Storage

Source = tuple[ThreadTail, list[tuple["PreparedBatch", int]]]


async def source(storage: Storage) -> Source:
    """Write a thread and return its tail and batches as an import into another one takes them."""
    await indexed_thread(storage)
    await (await Writer.begin(storage, epoch=2)).fill(1)
    tail = await storage.threads.tail(THREAD)
    batches = [
        (prepare_stored(each.batch_id, each.producer_id, [w for _, w in each.records]), each.epoch)
        for each in await whole_log(storage)
    ]
    return ThreadTail(OTHER, tail.sequence, tail.digest, tail.epoch), batches


async def staged(storage: Storage) -> Source:
    """Stage all of a source into the other thread."""
    archive, batches = await source(storage)
    await storage.archives.begin_import(archive)
    await storage.archives.stage_batches(OTHER, batches)
    return archive, batches


async def reads_of(reader: ThreadReader, thread: ThreadId, through: int) -> dict[str, Any]:
    """Return what every read of a reader gives."""
    stored = await reader.read(thread)
    return {
        "tail": await reader.tail(thread),
        "identity": await reader.identity(thread),
        "read": stored,
        "exact": [await reader.get_record(thread, each.record.record_id) for each in stored],
        "prompt": await reader.read_prompt(thread, after=0, through=through, limit=50),
        "batches": await reader.read_batches(thread, after=0, through=through, byte_limit=10**7),
        "input": await reader.get_run_input(thread, RUN),
        "continuation": await reader.read_continuation(thread, RUN, through=through),
        "evidence": await reader.read_run_evidence(thread, RUN, after=0, through=through),
        "handoffs": await reader.work_handoffs(thread),
    }


class StagingCases:
    """ARC-4 at the port: begin, stage, publish or discard."""

    @pytest.mark.rule("ARC-4")
    async def test_an_import_goes_from_staged_to_published(self, storage: Storage) -> None:
        """Its state follows the batches; publishing gives the thread the archive's tail."""
        archive, batches = await source(storage)
        archives = storage.archives
        assert await archives.import_state(OTHER) is None
        begun = ImportState(OTHER, archive.tail, EMPTY, complete=False)
        assert await archives.begin_import(archive) == begun
        half = await archives.stage_batches(OTHER, batches[:3])
        assert half.staged.sequence == (await whole_log(storage))[2].last_sequence
        assert half.staged.digest == (await whole_log(storage))[2].tail_digest
        assert await archives.import_state(OTHER) == half
        whole = await archives.stage_batches(OTHER, batches[3:])
        assert whole == ImportState(OTHER, archive.tail, archive.tail, complete=True)
        assert await archives.publish_import(OTHER) == archive
        assert await archives.import_state(OTHER) is None
        assert await storage.threads.tail(OTHER) == archive

    @pytest.mark.rule("ARC-4", "LOG-4")
    async def test_everything_is_kept(self, storage: Storage) -> None:
        """Batches with epochs and digests, wires, indexes and identities are the source's."""
        archive, batches = await staged(storage)
        await storage.archives.publish_import(OTHER)
        assert await whole_log(storage, OTHER) == await whole_log(storage)
        assert (await storage.threads.index_state(OTHER)).complete
        for mine, theirs in zip(
            await storage.threads.read(OTHER), await storage.threads.read(THREAD), strict=True
        ):
            assert (mine.sequence, mine.batch_id) == (theirs.sequence, theirs.batch_id)
            assert (mine.wire, mine.record) == (theirs.wire, theirs.record)
        progress = await storage.threads.run_progress(THREAD, RUN)
        assert await storage.threads.run_progress(OTHER, RUN) == progress
        again = await storage.threads.append(OTHER, batches[1][0], expected=EMPTY, epoch=2)
        assert again.replayed
        taken = batch("new", note("noise-1"))
        work = storage.threads.append(OTHER, taken, expected=archive.tail, epoch=2)
        assert (await refused(AppendConflict, work)).reason == "record-identity"

    @pytest.mark.rule("ARC-4")
    async def test_nothing_is_visible_before_it_is_published(self, storage: Storage) -> None:
        """Every operation on the destination answers as if nothing were staged."""
        archive, _ = await staged(storage)
        for name, call in every_operation(storage, OTHER).items():
            with pytest.raises(ThreadNotMaterialized) as caught:
                await call()
            assert caught.value.thread == OTHER, name
        assert [each.thread_id for each in await storage.threads.threads()] == [THREAD]
        assert await storage.archives.publish_import(OTHER) == archive
        assert [each.thread_id for each in await storage.threads.threads()] == [THREAD, OTHER]

    @pytest.mark.rule("ARC-4")
    async def test_an_empty_destination_stays_empty_until_then(self, storage: Storage) -> None:
        """A materialized destination is read as empty, and its observer gets all at once."""
        await storage.threads.materialize(OTHER, epoch=1)
        archive, _ = await staged(storage)
        assert (await storage.threads.tail(OTHER)).tail == EMPTY
        assert await storage.threads.read(OTHER) == ()
        assert (await storage.threads.index_state(OTHER)).complete
        async with observing(storage, OTHER) as seen:
            await turns(5)
            assert seen.records == []
            await storage.archives.publish_import(OTHER)
            await seen.until(archive.sequence)
            assert sequences(seen.records) == list(range(1, archive.sequence + 1))

    @pytest.mark.rule("ARC-4")
    async def test_readers_see_nothing_or_all(self, storage: Storage) -> None:
        """While an import is published, every tail, page and listing is empty or complete."""
        await storage.threads.materialize(OTHER, epoch=1)
        archive, _ = await staged(storage)
        seen: set[int] = set()

        async def look() -> None:
            while True:
                seen.add((await storage.threads.tail(OTHER)).sequence)
                seen.add(len(await storage.threads.read(OTHER)))
                seen.update(each.sequence for each in await storage.threads.threads(after=THREAD))
                await asyncio.sleep(0)

        readers = [asyncio.create_task(look()) for _ in range(2)]
        await turns(3)
        await storage.archives.publish_import(OTHER)
        await turns(3)
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        assert seen <= {0, archive.sequence}

    @pytest.mark.rule("ARC-4", "LOG-4")
    @pytest.mark.parametrize("kind", ["replay", "record", "progress", "handoff"])
    async def test_a_group_is_staged_whole_or_not_at_all(self, storage: Storage, kind: str) -> None:
        """A batch that an append would refuse is refused with its whole group."""
        archive, batches = await source(storage)
        await storage.archives.begin_import(archive)
        before = await storage.archives.stage_batches(OTHER, batches[:2])
        run = RunScript("3")
        wrong = {
            "replay": batches[0][0],
            "record": prepare_batch(batch("wrong", note("1/1"))),
            "progress": prepare_batch(
                batch("wrong", *run.begin(), run.continuation(record_count=9))
            ),
            "handoff": batches[4][0],
        }
        group = [batches[2], (wrong[kind], 1)] if kind != "handoff" else [(wrong[kind], 1)] * 2
        with pytest.raises((AppendConflict, ProgressRefused)):
            await storage.archives.stage_batches(OTHER, group)
        assert await storage.archives.import_state(OTHER) == before
        after = await storage.archives.stage_batches(OTHER, batches[2:])
        assert after.complete
        assert await storage.archives.publish_import(OTHER) == archive
        assert await whole_log(storage, OTHER) == await whole_log(storage)

    @pytest.mark.rule("ARC-4")
    async def test_what_is_not_complete_is_not_published(self, storage: Storage) -> None:
        """Neither a part of the batches nor batches that make another tail."""
        archive, batches = await source(storage)
        await storage.archives.begin_import(archive)
        await storage.archives.stage_batches(OTHER, batches[:-1])
        fault = await refused(ImportRefused, storage.archives.publish_import(OTHER))
        assert (fault.thread, fault.reason) == (OTHER, "not-complete")
        size = len(batches[-1][0].records)
        other = prepare_batch(batch("other", *(note(f"other-{n}") for n in range(size))))
        state = await storage.archives.stage_batches(OTHER, [(other, 1)])
        assert (state.staged.sequence, state.complete) == (archive.sequence, False)
        fault = await refused(ImportRefused, storage.archives.publish_import(OTHER))
        assert fault.reason == "not-complete"
        await refused(ThreadNotMaterialized, storage.threads.tail(OTHER))

    @pytest.mark.rule("ARC-4")
    async def test_an_import_is_resumed_by_the_same_archive_only(self, storage: Storage) -> None:
        """Beginning again goes on with what is staged; another archive is `in-progress`."""
        archive, batches = await source(storage)
        await storage.archives.begin_import(archive)
        half = await storage.archives.stage_batches(OTHER, batches[:3])
        assert await storage.archives.begin_import(archive) == half
        others = (
            ThreadTail(OTHER, archive.sequence + 1, archive.digest, archive.epoch),
            ThreadTail(OTHER, archive.sequence, NOWHERE, archive.epoch),
            ThreadTail(OTHER, archive.sequence, archive.digest, archive.epoch + 1),
        )
        for other in others:
            fault = await refused(ImportRefused, storage.archives.begin_import(other))
            assert fault.reason == "in-progress"
        assert await storage.archives.import_state(OTHER) == half

    @pytest.mark.rule("ARC-4", "REC-1")
    @pytest.mark.parametrize(
        ("sequence", "digest", "epoch"),
        [
            (-1, NOWHERE, 1),
            (2**64, NOWHERE, 1),
            (1, "f" * 63, 1),
            (1, "F" * 64, 1),
            (1, NOWHERE, 0),
            (1, NOWHERE, 10**18),
        ],
    )
    async def test_a_tail_that_no_archive_captured_is_refused(
        self, storage: Storage, sequence: int, digest: Digest, epoch: int
    ) -> None:
        """Sequence, digest and epoch are what a thread can have; nothing is begun otherwise."""
        wrong = ThreadTail(OTHER, sequence, digest, epoch)
        await refused(InvalidInput, storage.archives.begin_import(wrong))
        assert await storage.archives.import_state(OTHER) is None

    @pytest.mark.rule("ARC-4")
    async def test_a_discarded_import_is_gone(self, storage: Storage) -> None:
        """Nothing of it is left; discarding without one does nothing; it can begin again."""
        archive, batches = await staged(storage)
        for _ in range(2):
            await storage.archives.discard_import(OTHER)
        assert await storage.archives.import_state(OTHER) is None
        for work in (
            storage.archives.publish_import(OTHER),
            storage.archives.stage_batches(OTHER, batches[:1]),
        ):
            assert (await refused(ImportRefused, work)).reason == "discarded"
        assert (await storage.archives.begin_import(archive)).staged == EMPTY
        await storage.archives.stage_batches(OTHER, batches)
        assert await storage.archives.publish_import(OTHER) == archive

    @pytest.mark.rule("ARC-4")
    async def test_a_destination_with_records_is_refused(self, storage: Storage) -> None:
        """Before it begins and, when records came meanwhile, before it is published."""
        archive, _ = await staged(storage)
        writer = await Writer.begin(storage, OTHER)
        await writer.fill(2)
        fault = await refused(ImportRefused, storage.archives.publish_import(OTHER))
        assert (fault.thread, fault.reason) == (OTHER, "destination-not-empty")
        assert sequences(await storage.threads.read(OTHER)) == [1, 2]
        await storage.archives.discard_import(OTHER)
        fault = await refused(ImportRefused, storage.archives.begin_import(archive))
        assert fault.reason == "destination-not-empty"
        await writer.fill(1)

    @pytest.mark.rule("ARC-4", "ARC-7")
    async def test_a_deleted_destination_is_refused(self, storage: Storage) -> None:
        """A thread that is deleted while an import is staged does not come back."""
        await storage.threads.materialize(OTHER, epoch=1)
        await staged(storage)
        await storage.threads.delete_thread(OTHER)
        await refused(ThreadDeleted, storage.archives.publish_import(OTHER))
        await refused(ThreadDeleted, storage.threads.tail(OTHER))

    @pytest.mark.rule("ARC-4")
    @pytest.mark.parametrize(("destination", "expected"), [(1, 4), (4, 4), (9, 9)])
    async def test_the_higher_epoch_stays(
        self, storage: Storage, destination: int, expected: int
    ) -> None:
        """The epoch of the thread is the archive's, or the destination's where that is higher."""
        await storage.threads.materialize(OTHER, epoch=destination)
        archive, batches = await source(storage)
        raised = ThreadTail(OTHER, archive.sequence, archive.digest, 4)
        await storage.archives.begin_import(raised)
        await storage.archives.stage_batches(OTHER, batches)
        assert (await storage.archives.publish_import(OTHER)).epoch == expected
        assert (await storage.threads.tail(OTHER)).epoch == expected

    @pytest.mark.rule("ARC-4")
    async def test_an_empty_archive_can_be_imported(self, storage: Storage) -> None:
        """It makes an empty thread at its epoch."""
        archive = ThreadTail(OTHER, 0, EMPTY.digest, 3)
        assert (await storage.archives.begin_import(archive)).complete
        assert await storage.archives.publish_import(OTHER) == archive
        assert await storage.threads.tail(OTHER) == archive

    @pytest.mark.rule("ARC-4")
    async def test_other_writers_go_on_meanwhile(self, storage: Storage) -> None:
        """Appends to other threads commit between and during the steps of an import."""
        archive, batches = await source(storage)
        writer = await Writer.begin(storage, epoch=2)
        await storage.archives.begin_import(archive)
        for each in batches:
            await asyncio.gather(
                storage.archives.stage_batches(OTHER, [each]), writer.fill(1, prefix="meanwhile")
            )
        await asyncio.gather(
            storage.archives.publish_import(OTHER), writer.fill(1, prefix="meanwhile")
        )
        assert (await storage.threads.tail(THREAD)).tail == writer.tail
        assert await storage.threads.tail(OTHER) == archive


class ImportReaderCases:
    """ARC-8: reads of exactly what would be published."""

    @pytest.mark.rule("ARC-8")
    async def test_reads_before_are_reads_after(self, storage: Storage) -> None:
        """Every read of the staged import is equal to that of the published thread."""
        archive, _ = await staged(storage)
        reader = storage.archives.import_reader(OTHER)
        before = await reads_of(reader, OTHER, archive.sequence)
        await storage.archives.publish_import(OTHER)
        assert await reads_of(storage.threads, OTHER, archive.sequence) == before
        assert before["tail"] == archive

    @pytest.mark.rule("ARC-8", "LOG-12")
    async def test_a_reader_sees_what_is_staged_so_far(self, storage: Storage) -> None:
        """Its tail and range are those of the staged batches, and grow with them."""
        archive, batches = await source(storage)
        await storage.archives.begin_import(archive)
        state = await storage.archives.stage_batches(OTHER, batches[:2])
        reader = storage.archives.import_reader(OTHER)
        through = state.staged.sequence
        assert (await reader.tail(OTHER)).tail == state.staged
        assert len(await reader.read(OTHER)) == through
        beyond = reader.read_prompt(OTHER, after=0, through=through + 1, limit=1)
        assert (await refused(BeyondTail, beyond)).tail == through
        await refused(RecordNotFound, reader.get_record(OTHER, RecordId("noise-1")))
        await storage.archives.stage_batches(OTHER, batches[2:])
        assert (await reader.tail(OTHER)).tail == archive.tail

    @pytest.mark.rule("ARC-8")
    async def test_a_reader_without_an_import_is_refused(self, storage: Storage) -> None:
        """Before, after it was discarded and after it was published: `discarded`."""
        reader = storage.archives.import_reader(OTHER)
        assert (await refused(ImportRefused, reader.tail(OTHER))).reason == "discarded"
        await staged(storage)
        assert (await reader.tail(OTHER)).sequence
        await storage.archives.publish_import(OTHER)
        assert (await refused(ImportRefused, reader.read(OTHER))).reason == "discarded"

    @pytest.mark.rule("ARC-8")
    async def test_a_reader_is_of_its_own_import(self, storage: Storage) -> None:
        """It reads neither live threads nor another thread's import."""
        await staged(storage)
        reader = storage.archives.import_reader(OTHER)
        await refused(ImportRefused, reader.tail(THREAD))
        await refused(ImportRefused, storage.archives.import_reader(THREAD).tail(OTHER))

    @pytest.mark.rule("ARC-8")
    async def test_staged_tails_are_the_chain_s(self, storage: Storage) -> None:
        """At each staged batch the reader's tail is that of the source there."""
        archive, batches = await source(storage)
        await storage.archives.begin_import(archive)
        reader = storage.archives.import_reader(OTHER)
        for each, given in zip(await whole_log(storage), batches, strict=True):
            await storage.archives.stage_batches(OTHER, [given])
            tail = await reader.tail(OTHER)
            assert tail.tail == Tail(each.last_sequence, each.tail_digest)
