"""Cases of the indexes: rebuilt in steps, and never answering what they do not hold (LOG-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import AppendConflict, EvidenceFault, FenceRejected, InvalidArgument
from yielded_core.ports.values import IndexState
from yielded_testing.suites.builders import EMPTY, THREAD, Writer, batch, note, notes
from yielded_testing.suites.evidence import closed, prepared
from yielded_testing.suites.progress import begun
from yielded_testing.suites.runs import RunScript
from yielded_testing.suites.support import (
    RUN,
    answers,
    indexed_reads,
    refused,
    stored_names,
)

if TYPE_CHECKING:
    from yielded_core.storage import Storage


async def indexed_thread(storage: Storage) -> Writer:
    """Write a thread of 6 batches and 23 records that every index has something of."""
    run, other = RunScript("1"), RunScript("2")
    writer = await begun(storage, run)
    await writer.append(*other.begin(), prepared("open"), prepared("closed"))
    await writer.append(run.response(1), run.fact("ToolApprovalRequested"), run.continuation())
    await writer.append(*notes("noise", 6))
    await writer.append(
        run.fact("ToolApprovalDecided"), run.fact("ToolCallSettled"), closed("c", "closed")
    )
    await writer.append(
        run.fact("ModelCompleted"), run.fact("SubmissionSettled"), other.usage(), note("end")
    )
    return writer


class IndexCases:
    """LOG-17: no silent empties, and a rebuild that is explicit, resumable and bounded."""

    @pytest.mark.rule("LOG-17")
    async def test_appends_keep_the_indexes_complete(self, storage: Storage) -> None:
        """Indexes reach the tail after every append."""
        writer = await indexed_thread(storage)
        tail = writer.tail.sequence
        state = await storage.threads.index_state(THREAD)
        assert state == IndexState(tail, tail)
        assert state.complete
        assert await storage.threads.rebuild_indexes(THREAD) == IndexState(tail, tail)

    @pytest.mark.rule("LOG-17", "LOG-15")
    @pytest.mark.parametrize("limit", [1, 5, 1_024])
    async def test_a_rebuild_gives_equal_answers(self, storage: Storage, limit: int) -> None:
        """Rebuilt in steps of any size, the indexes answer as they did when appends wrote them."""
        writer = await indexed_thread(storage)
        tail = writer.tail.sequence
        before = await answers(storage.threads, tail)
        progress = await storage.threads.run_progress(THREAD, RUN)
        state = await storage.threads.rebuild_indexes(THREAD, restart=True, limit=limit)
        while not state.complete:
            reached = state.indexed_through
            state = await storage.threads.rebuild_indexes(THREAD, limit=limit)
            assert state.indexed_through > reached
        assert await answers(storage.threads, tail) == before
        assert await storage.threads.run_progress(THREAD, RUN) == progress
        assert len(before["work_handoffs"]) == 1

    @pytest.mark.rule("LOG-17")
    async def test_a_step_indexes_whole_batches(self, storage: Storage) -> None:
        """At least one batch, then as many as the limit holds; each step goes on from the last."""
        await (await Writer.begin(storage)).fill(3, 2, 2, 5)
        rebuild = storage.threads.rebuild_indexes
        reached = [(await rebuild(THREAD, restart=True, limit=1)).indexed_through]
        reached += [(await rebuild(THREAD, limit=each)).indexed_through for each in (4, 3, 4)]
        assert reached == [3, 7, 12, 12]
        assert await storage.threads.index_state(THREAD) == IndexState(12, 12)

    @pytest.mark.rule("LOG-17")
    async def test_incomplete_indexes_answer_nothing(self, storage: Storage) -> None:
        """What needs more than they hold is `index-incomplete`, never empty and never a scan."""
        writer = await indexed_thread(storage)
        tail = writer.tail.sequence
        await storage.threads.rebuild_indexes(THREAD, restart=True, limit=1)
        calls = indexed_reads(storage.threads, tail)
        calls["run_progress"] = lambda: storage.threads.run_progress(THREAD, RUN)
        for name, call in calls.items():
            with pytest.raises(EvidenceFault) as caught:
                await call()
            assert (caught.value.thread, caught.value.reason) == (THREAD, "index-incomplete"), name

    @pytest.mark.rule("LOG-17", "LOG-14")
    async def test_a_rebuild_serves_the_range_that_it_reached(self, storage: Storage) -> None:
        """Reads inside what is indexed are answered, as they were before."""
        await indexed_thread(storage)
        run, threads = RUN, storage.threads
        before = [
            await threads.read_prompt(THREAD, after=0, through=3, limit=9),
            await threads.read_run_evidence(THREAD, run, after=0, through=3),
        ]
        state = await threads.rebuild_indexes(THREAD, restart=True, limit=1)
        assert state.indexed_through == 3
        after = [
            await threads.read_prompt(THREAD, after=0, through=3, limit=9),
            await threads.read_run_evidence(THREAD, run, after=0, through=3),
        ]
        assert after == before
        found = await threads.read_continuation(THREAD, run, through=3)
        assert found is not None
        assert found.sequence == 3

    @pytest.mark.rule("LOG-17")
    async def test_reads_without_an_index_go_on(self, storage: Storage) -> None:
        """Pages, exact records, tail and batches need no index that is rebuilt."""
        writer = await indexed_thread(storage)
        threads, tail = storage.threads, writer.tail.sequence
        before = await stored_names(storage)
        await threads.rebuild_indexes(THREAD, restart=True, limit=1)
        assert await stored_names(storage) == before
        assert (await threads.tail(THREAD)).sequence == tail
        assert (await threads.identity(THREAD)).first is not None
        assert len(await threads.read_batches(THREAD, after=0, through=tail, byte_limit=10**6)) == 6

    @pytest.mark.rule("LOG-17")
    async def test_appends_wait_for_the_rebuild(self, storage: Storage) -> None:
        """A new batch is a typed fault until the indexes are complete; a replay is answered."""
        writer = await Writer.begin(storage)
        await writer.fill(2, 2)
        await storage.threads.rebuild_indexes(THREAD, restart=True, limit=1)
        fault = await refused(EvidenceFault, writer.append(note("new"), batch_id="new"))
        assert fault.reason == "index-incomplete"
        replayed = batch("batch-3", note("note-3"), note("note-4"))
        again = await storage.threads.append(THREAD, replayed, expected=EMPTY, epoch=1)
        assert again.replayed
        await storage.threads.rebuild_indexes(THREAD)
        await writer.append(note("new"), batch_id="new")

    @pytest.mark.rule("LOG-17", "LOG-3")
    async def test_refusals_come_before_the_fault(self, storage: Storage) -> None:
        """A stale epoch and a wrong tail are told even while the indexes are incomplete."""
        writer = await Writer.begin(storage)
        await writer.fill(2, 2)
        await storage.threads.rebuild_indexes(THREAD, restart=True, limit=1)
        await storage.threads.materialize(THREAD, epoch=2)
        given = batch("new", note("new"))
        append = storage.threads.append
        await refused(FenceRejected, append(THREAD, given, expected=writer.tail, epoch=1))
        await refused(AppendConflict, append(THREAD, given, expected=EMPTY, epoch=2))

    @pytest.mark.rule("LOG-17")
    @pytest.mark.parametrize("limit", [0, 1_025, -1, True])
    async def test_a_step_of_another_size_is_refused(self, storage: Storage, limit: int) -> None:
        """A step is bounded to 1 to 1,024 records, and a refused one drops nothing."""
        await (await Writer.begin(storage)).fill(2)
        await refused(
            InvalidArgument, storage.threads.rebuild_indexes(THREAD, restart=True, limit=limit)
        )
        assert (await storage.threads.index_state(THREAD)).complete
