"""Cases of the work of an import at the port: staged where nobody finds it (ARC-4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import (
    ArchiveRefused,
    ImportRefused,
    InvalidArgument,
)
from yielded_core.log.prepared import prepare_stored
from yielded_core.ports.values import ThreadTail
from yielded_core.records.identifiers import SubmissionId, ThreadId
from yielded_core.transfer.importing import import_archive
from yielded_testing.suites.archive_lanes import (
    archive_of,
    brought,
    facts_of,
    other_lane,
)
from yielded_testing.suites.builders import OTHER, THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import refused, whole_log
from yielded_testing.suites.transfer import streamed

if TYPE_CHECKING:
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.storage import Storage


class StagedWorkCases:
    """ARC-4 at the port: work staged where nobody finds it."""

    @pytest.mark.rule("ARC-4", "REC-7")
    async def test_staged_work_is_invisible(self, storage: Storage) -> None:
        """No question of the ledger finds it before it is published, nor after it is discarded."""
        lane, entries = await _staged(storage)
        one = entries[0].submission
        assert (await storage.archives.staged_work(OTHER)) == tuple(entries)
        for _ in range(2):
            assert await storage.ledger.lookup(one.submission_id) is None
            key = (one.principal, one.idempotency_key)
            assert await storage.ledger.lookup_key(OTHER, *key) is None
            assert await storage.ledger.lane(OTHER) is None
            assert (await storage.ledger.facts(OTHER)).facts == ()
            scanned = await storage.ledger.scan_nonterminal()
            assert {each.thread_id for each in scanned} == {lane.thread}
            assert [each.thread_id for each in await storage.ledger.runnable()] == [lane.thread]
            await storage.archives.discard_import(OTHER)
        work_left = storage.archives.staged_work(OTHER)
        assert (await refused(ImportRefused, work_left)).reason == "discarded"

    @pytest.mark.rule("ARC-4", "REC-7")
    async def test_staged_work_hides_no_other(self, storage: Storage) -> None:
        """Live work is found by its id, though an import into a live thread staged it before."""
        lane = await LaneScript.begin(storage)
        await lane.ready("one")
        (known,) = await facts_of(storage)
        brought_twice = SubmissionId("brought-twice")
        for thread in (ThreadId("staged"), OTHER):
            at = await storage.threads.materialize(thread, epoch=1)
            await storage.archives.begin_import(at)
            work = replace(known.submission, thread_id=thread, submission_id=brought_twice)
            await storage.archives.stage_work(thread, [replace(known, submission=work)])
        assert await storage.ledger.lookup(brought_twice) is None
        await storage.archives.publish_import(OTHER)
        found = await storage.ledger.lookup(brought_twice)
        assert found is not None
        assert found.submission.thread_id == OTHER

    @pytest.mark.rule("ARC-4", "REC-7", "LED-15")
    async def test_staged_work_is_published_as_it_is(self, storage: Storage) -> None:
        """In the order of the lane, and `facts` then gives what was staged."""
        _, entries = await _staged(storage)
        await storage.archives.publish_import(OTHER)
        assert await facts_of(storage, OTHER) == entries
        found = await storage.ledger.scan_nonterminal(after=(OTHER, 0))
        assert [each.queue_sequence for each in found] == [1, 2, 3]

    @pytest.mark.rule("ARC-4", "REC-7")
    @pytest.mark.parametrize("kind", ["gap", "again", "thread", "id", "key"])
    async def test_work_is_staged_in_order_or_not_at_all(self, storage: Storage, kind: str) -> None:
        """What does not follow is refused with its whole group, and changes nothing."""
        _, entries = await _staged(storage)
        before = await storage.archives.import_state(OTHER)
        last = entries[-1].submission
        next_one = replace(
            last,
            queue_sequence=4,
            submission_id=SubmissionId("next"),
            idempotency_key=type(last.idempotency_key)("next"),
        )
        wrong = {
            "gap": replace(next_one, queue_sequence=6),
            "again": last,
            "thread": replace(next_one, thread_id=THREAD, queue_sequence=5),
            "id": replace(next_one, queue_sequence=5),
            "key": replace(next_one, queue_sequence=5, submission_id=SubmissionId("else")),
        }[kind]
        group = [replace(entries[-1], submission=each) for each in (next_one, wrong)]
        await refused(InvalidArgument, storage.archives.stage_work(OTHER, group))
        assert await storage.archives.import_state(OTHER) == before
        assert await storage.archives.staged_work(OTHER) == tuple(entries)
        state = await storage.archives.stage_work(OTHER, group[:1])
        assert state.work == 4

    @pytest.mark.rule("ARC-4", "REC-7")
    async def test_an_interrupted_import_goes_on(self, storage: Storage) -> None:
        """What was staged before is not staged again, and is what is published."""
        lane, entries = await _staged(storage)
        await brought(lane)
        assert await facts_of(storage, OTHER) == entries

    @pytest.mark.rule("ARC-4", "REC-7")
    @pytest.mark.parametrize("kind", ["abort", "decision", "less"])
    async def test_an_interrupted_import_is_of_its_own_work(
        self, storage: Storage, kind: str
    ) -> None:
        """An archive of the same log with other work is `mismatch`, and nothing is left."""
        lane, entries = await _staged(storage)
        if kind == "less":
            last = entries[-1]
            more = replace(
                last.submission,
                queue_sequence=4,
                submission_id=SubmissionId("four"),
                idempotency_key=type(last.submission.idempotency_key)("four"),
            )
            await storage.archives.stage_work(OTHER, [replace(last, submission=more)])
        elif kind == "abort":
            await lane.abort("three")
        else:
            await lane.decide("one")
        work_of = import_archive(storage, streamed(await archive_of(lane)))
        assert (await refused(ArchiveRefused, work_of)).reason == "mismatch"
        assert await storage.archives.import_state(OTHER) is None


async def _staged(storage: Storage) -> tuple[LaneScript, list[SubmissionFacts]]:
    """Stage a lane of three into the other thread; return what was staged of its work."""
    lane = await LaneScript.begin(storage)
    await lane.ready("one", "two", "three")
    await lane.decide("two")
    tail = await storage.threads.tail(THREAD)
    archive = ThreadTail(OTHER, tail.sequence, tail.digest, tail.epoch)
    await storage.archives.begin_import(archive)
    await storage.archives.stage_batches(
        OTHER,
        [
            (prepare_stored(each.batch_id, each.producer_id, [w for _, w in each.records]), 1)
            for each in await whole_log(storage)
        ],
    )
    there = other_lane(lane)
    entries = [
        replace(
            one,
            submission=replace(
                one.submission,
                thread_id=OTHER,
                submission_id=there.receipts[one.submission.idempotency_key].submission_id,
                receipt_id=there.receipts[one.submission.idempotency_key].receipt_id,
            ),
        )
        for one in await facts_of(storage)
    ]
    state = await storage.archives.stage_work(OTHER, entries)
    assert state.work == 3
    return lane, entries
