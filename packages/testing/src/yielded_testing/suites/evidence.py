"""Cases of what a run can be continued from: continuation, evidence, handoffs (LOG-14, LOG-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import BeyondTail, EvidenceFault, InvalidArgument, ProgressRefused
from yielded_core.records.identifiers import RecordId, ToolCallId
from yielded_core.records.payloads import WorkHandoffCompleted
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import THREAD, Writer, note, notes, record
from yielded_testing.suites.progress import begun
from yielded_testing.suites.runs import RunScript
from yielded_testing.suites.support import (
    CALL,
    indexed_reads,
    names,
    refused,
    sequences,
)

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record, StoredRecord
    from yielded_core.storage import Storage

OTHER_CALL: Final = ToolCallId("call-2")


def prepared(record_id: str) -> Record:
    """Return a preparation: a handoff that is open until it is closed."""
    return record(record_id, sample_payload("PeerMessagePrepared"))


def closed(record_id: str, preparation: str) -> Record:
    """Return the acknowledgement that closes a preparation."""
    return record(
        record_id,
        WorkHandoffCompleted(preparation_id=RecordId(preparation), owner_id="owner-1"),
    )


class ContinuationCases:
    """LOG-14: the newest continuation of a run at or before a sequence."""

    @pytest.mark.rule("LOG-14")
    async def test_the_newest_in_a_range_is_found(self, storage: Storage) -> None:
        """At every sequence of a log of two runs, the right continuation of each."""
        one, two = RunScript("1"), RunScript("2")
        writer = await begun(storage, one)
        await writer.append(*two.begin(), note("n-1"), two.continuation())
        await writer.append(one.usage(), one.continuation(), two.usage(), two.continuation())
        await writer.append(note("n-2"), one.usage())
        read = storage.threads.read_continuation
        expected = {one.run: {3: 1, 9: 2}, two.run: {7: 1, 11: 2}}
        for run, revisions in expected.items():
            for through in range(14):
                found = await read(THREAD, run, through=through)
                place = max((at for at in revisions if at <= through), default=None)
                assert (found and found.sequence) == place
                if found is not None and place is not None:
                    assert found.record.payload.model_dump()["revision"] == revisions[place]

    @pytest.mark.rule("LOG-14")
    async def test_a_run_without_continuation_has_none(self, storage: Storage) -> None:
        """Neither its facts nor another run's continuation stand for it."""
        run, other = RunScript("1"), RunScript("2")
        writer = await begun(storage, other)
        await writer.append(*run.begin())
        assert await storage.threads.read_continuation(THREAD, run.run, through=5) is None

    @pytest.mark.rule("LOG-14")
    async def test_a_run_is_read_up_to_the_tail(self, storage: Storage) -> None:
        """A continuation is read inside a captured sequence, as evidence is."""
        run = RunScript()
        await begun(storage, run)
        calls = indexed_reads(storage.threads, 4)
        for name in ("read_continuation", "read_run_evidence", "read_operation_evidence"):
            fault = await refused(BeyondTail, calls[name]())
            assert (fault.attempted, fault.tail) == (4, 3)


class EvidenceCases:
    """LOG-15: the facts of one run, and of one tool call."""

    @pytest.mark.rule("LOG-15")
    async def test_run_evidence_is_all_facts_of_a_run(self, storage: Storage) -> None:
        """Ascending, in pages of 8, terminal ones included; no other traffic, no continuation."""
        run, other = RunScript("1"), RunScript("2")
        writer = await begun(storage, run)
        await writer.append(*other.begin(), *notes("noise", 40))
        facts = [run.response(1), *(run.usage() for _ in range(16))]
        for fact in facts:
            await writer.append(note(f"before-{fact.record_id}"), fact, other.usage())
        ends = [run.fact("RunCompleted"), run.fact("SubmissionSettled")]
        await writer.append(*ends)
        found: list[StoredRecord] = []
        lengths: list[int] = []
        while not lengths or lengths[-1] == 8:
            page = await storage.threads.read_run_evidence(
                THREAD,
                run.run,
                after=found[-1].sequence if found else 0,
                through=writer.tail.sequence,
            )
            found += page
            lengths.append(len(page))
        assert names(found) == ["1/1", "1/2", *(str(each.record_id) for each in [*facts, *ends])]
        assert sequences(found) == sorted(sequences(found))
        assert (lengths, len(found)) == ([8, 8, 5], run.evidence)

    @pytest.mark.rule("LOG-15")
    async def test_evidence_is_read_in_a_range(self, storage: Storage) -> None:
        """`after` is excluded, `through` included, and a smaller page may be asked for."""
        run = RunScript()
        writer = await begun(storage, run)
        await writer.append(*(run.usage() for _ in range(5)))
        read = storage.threads.read_run_evidence
        assert sequences(await read(THREAD, run.run, after=1, through=5)) == [2, 4, 5]
        assert sequences(await read(THREAD, run.run, after=2, through=8, limit=2)) == [4, 5]
        assert sequences(await read(THREAD, run.run, after=7, through=8)) == [8]
        assert await read(THREAD, run.run, after=8, through=8) == ()

    @pytest.mark.rule("LOG-15")
    @pytest.mark.parametrize("limit", [0, 9, -1, True])
    async def test_a_page_of_evidence_holds_1_to_8(self, storage: Storage, limit: int) -> None:
        """Another limit is refused."""
        run = RunScript()
        await begun(storage, run)
        work = storage.threads.read_run_evidence(THREAD, run.run, after=0, through=1, limit=limit)
        await refused(InvalidArgument, work)

    @pytest.mark.rule("LOG-15", "LOG-17")
    async def test_a_run_that_is_not_there_has_no_empty_evidence(self, storage: Storage) -> None:
        """An unknown run is `evidence-missing`, never an empty page."""
        await begun(storage, RunScript())
        unknown = RunScript("2").run
        work = storage.threads.read_run_evidence(THREAD, unknown, after=0, through=3)
        fault = await refused(EvidenceFault, work)
        assert (fault.thread, fault.reason) == (THREAD, "evidence-missing")

    @pytest.mark.rule("LOG-15")
    async def test_operation_evidence_is_one_call_s(self, storage: Storage) -> None:
        """The declaration with result, approvals, steps and resolution; nothing of other calls."""
        run, other = RunScript("1"), RunScript("2")
        writer = await begun(storage, run)
        declaration = run.response(1)
        await writer.append(*other.begin(), note("noise"), declaration, other.response(1))
        tags = (
            "ToolApprovalRequested",
            "ToolApprovalDecided",
            "ToolStepSettled",
            "ToolCallUnknown",
            "ToolCallResolved",
            "ToolCallSettled",
        )
        facts = [run.fact(tag) for tag in tags]
        for fact in facts:
            await writer.append(fact, run.fact("ToolStepSettled", call="call-2"))
            await writer.append(other.fact("ToolStepSettled"))
        tail = writer.tail.sequence
        read = storage.threads.read_operation_evidence
        found = await read(THREAD, run.run, CALL, through=tail)
        assert found.run_id == run.run
        assert found.declaration.record == declaration
        assert [each.record for each in found.facts] == facts
        early = await read(THREAD, run.run, CALL, through=found.facts[2].sequence)
        assert early.facts == found.facts[:3]

    @pytest.mark.rule("LOG-15", "LOG-17")
    async def test_an_undeclared_call_is_a_typed_fault(self, storage: Storage) -> None:
        """Facts about a call whose declaration is missing, or comes later, are no evidence."""
        run = RunScript()
        writer = await begun(storage, run)
        await writer.append(run.fact("ToolCallSettled", call=OTHER_CALL))
        await writer.append(run.response(1))
        read = storage.threads.read_operation_evidence
        for call, through in ((OTHER_CALL, 5), (CALL, 4), (ToolCallId("call-3"), 5)):
            fault = await refused(EvidenceFault, read(THREAD, run.run, call, through=through))
            assert fault.reason == "evidence-missing"
        await read(THREAD, run.run, CALL, through=5)


class HandoffCases:
    """LOG-15: preparations are listed until exactly they are closed."""

    @pytest.mark.rule("LOG-15")
    async def test_open_preparations_are_listed(self, storage: Storage) -> None:
        """Ascending, after a sequence, in pages of a limit; closed ones are gone."""
        writer = await Writer.begin(storage)
        for number in range(1, 7):
            await writer.append(note(f"note-{number}"), prepared(f"open-{number}"))
        await writer.append(closed("close-2", "open-2"), closed("close-5", "open-5"))
        listed = storage.threads.work_handoffs
        assert names(await listed(THREAD)) == ["open-1", "open-3", "open-4", "open-6"]
        assert names(await listed(THREAD, limit=2)) == ["open-1", "open-3"]
        assert names(await listed(THREAD, after=6, limit=2)) == ["open-4", "open-6"]
        assert await listed(THREAD, after=12) == ()

    @pytest.mark.rule("LOG-15")
    async def test_a_preparation_outlives_its_run(self, storage: Storage) -> None:
        """It stays listed when run and submission are settled, and after a takeover."""
        run = RunScript()
        writer = await begun(storage, run)
        await writer.append(prepared("open"))
        await writer.append(run.fact("RunCompleted"), run.fact("SubmissionSettled"))
        await storage.threads.materialize(THREAD, epoch=2)
        assert names(await storage.threads.work_handoffs(THREAD)) == ["open"]

    @pytest.mark.rule("LOG-15")
    async def test_a_preparation_can_be_closed_where_it_is_made(self, storage: Storage) -> None:
        """Preparation and acknowledgement in one batch leave nothing open."""
        writer = await Writer.begin(storage)
        await writer.append(prepared("one"), closed("close-one", "one"), prepared("two"))
        assert names(await storage.threads.work_handoffs(THREAD)) == ["two"]

    @pytest.mark.rule("LOG-15", "LOG-16")
    @pytest.mark.parametrize("preparation", ["closed", "note", "nowhere", "later", "twice"])
    async def test_only_what_is_open_is_closed(self, storage: Storage, preparation: str) -> None:
        """Closing again, closing what is no preparation or comes later is refused; none is lost."""
        writer = await Writer.begin(storage)
        await writer.append(note("note"), prepared("open"), prepared("closed"), prepared("twice"))
        await writer.append(closed("first", "closed"))
        batch = [closed("wrong", preparation)]
        if preparation == "twice":
            batch.append(closed("wrong again", preparation))
        fault = await refused(ProgressRefused, writer.append(*batch, prepared("later")))
        assert fault.reason == "handoff"
        assert names(await storage.threads.work_handoffs(THREAD)) == ["open", "twice"]

    @pytest.mark.rule("LOG-15")
    @pytest.mark.parametrize("limit", [0, 257, -1, True])
    async def test_a_page_of_handoffs_holds_1_to_256(self, storage: Storage, limit: int) -> None:
        """Another limit is refused."""
        await Writer.begin(storage)
        await refused(InvalidArgument, storage.threads.work_handoffs(THREAD, limit=limit))

    @pytest.mark.rule("LOG-15")
    async def test_260_handoffs_take_two_pages(self, storage: Storage) -> None:
        """The default page holds 256."""
        writer = await Writer.begin(storage)
        for part in range(2):
            await writer.append(*(prepared(f"open-{part}-{n}") for n in range(130)))
        first = await storage.threads.work_handoffs(THREAD)
        rest = await storage.threads.work_handoffs(THREAD, after=first[-1].sequence)
        assert sequences([*first, *rest]) == list(range(1, 261))
        assert len(first) == 256
