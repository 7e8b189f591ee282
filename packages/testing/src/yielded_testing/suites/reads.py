"""Cases of reading: pages, exact reads, tail and identity, batches (LOG-8, LOG-10, LOG-11)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import (
    AmbiguousRunInput,
    BeyondTail,
    EvidenceFault,
    InvalidArgument,
    InvalidInput,
    RecordNotFound,
    RecordUndecodable,
)
from yielded_core.ports.values import ThreadTail
from yielded_core.records.identifiers import RecordId, RunId, SubmissionId, ThreadId, ToolCallId
from yielded_core.records.payloads import UserInputRecorded
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import (
    EMPTY_DIGEST,
    OTHER,
    THREAD,
    Writer,
    append_every_family,
    canonical,
    note,
    note_value,
    prepared_as_is,
    record,
)
from yielded_testing.suites.support import RUN, batch_ids, names, refused, sequences

if TYPE_CHECKING:
    from typing import Literal

    from yielded_core.records.envelope import Record
    from yielded_core.storage import Storage

CANARY = "canary-7a9e"


def said(
    record_id: str,
    *,
    run: str | None = RUN,
    submission: str | None = "submission-1",
    kind: Literal["user", "steering", "follow-up"] = "user",
) -> Record:
    """Return a UserInputRecorded."""
    return record(
        record_id,
        UserInputRecorded(
            submission_id=None if submission is None else SubmissionId(submission),
            kind=kind,
            run_id=None if run is None else RunId(run),
            input=record_id,
        ),
    )


class PageCases:
    """LOG-8: pages of at most 1,024 records, decoded."""

    @pytest.mark.rule("LOG-8")
    async def test_a_page_begins_after_a_sequence(self, storage: Storage) -> None:
        """`after` is exclusive, from 0; a page ends at its limit or at the tail."""
        await (await Writer.begin(storage)).fill(3, 4)
        read = storage.threads.read
        assert sequences(await read(THREAD, after=0, limit=2)) == [1, 2]
        assert sequences(await read(THREAD, after=2, limit=3)) == [3, 4, 5]
        assert sequences(await read(THREAD, after=5)) == [6, 7]
        assert await read(THREAD, after=7) == ()
        assert await read(THREAD, after=1_000) == ()

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-8")
    async def test_a_page_holds_up_to_1_024_records(self, storage: Storage) -> None:
        """1,030 records are a page of 1,024, which is also the default, and one of 6."""
        await (await Writer.begin(storage)).fill(*[206] * 5)
        page = await storage.threads.read(THREAD)
        assert sequences(page) == list(range(1, 1_025))
        assert page == await storage.threads.read(THREAD, limit=1_024)
        assert sequences(await storage.threads.read(THREAD, after=1_024)) == list(
            range(1_025, 1_031)
        )

    @pytest.mark.rule("LOG-8")
    @pytest.mark.parametrize("limit", [0, -1, 1_025, 2**40, True, 1.0, "1", None])
    async def test_another_limit_is_refused(self, storage: Storage, limit: int) -> None:
        """A limit is an integer from 1 to 1,024."""
        await (await Writer.begin(storage)).fill(1)
        await refused(InvalidArgument, storage.threads.read(THREAD, limit=limit))

    @pytest.mark.rule("LOG-8")
    @pytest.mark.parametrize("after", [-1, True, 0.0, "0", None, 2**64])
    async def test_another_position_is_refused(self, storage: Storage, after: int) -> None:
        """A position is an integer from 0 that a sequence can have."""
        await (await Writer.begin(storage)).fill(1)
        await refused(InvalidArgument, storage.threads.read(THREAD, after=after))

    @pytest.mark.rule("LOG-8")
    async def test_an_undecodable_value_is_a_typed_error(self, storage: Storage) -> None:
        """It names thread, sequence and reason, shows no content, and hides no other record."""
        writer = await Writer.begin(storage)
        await writer.fill(1)
        damaged = canonical(note_value("damaged", CANARY)).replace(b"Repair", b"Despair")
        await writer.append_batch(prepared_as_is("damaged", [(note("damaged"), damaged)]))
        await writer.append(note("note-3"))
        fault = await refused(RecordUndecodable, storage.threads.read(THREAD))
        assert (fault.thread, fault.sequence) == (THREAD, 2)
        assert fault.reason
        assert CANARY not in f"{fault}{fault!r}{fault.fields()}"
        exact = storage.threads.get_record(THREAD, RecordId("damaged"))
        assert (await refused(RecordUndecodable, exact)).sequence == 2
        assert sequences(await storage.threads.read(THREAD, limit=1)) == [1]
        assert sequences(await storage.threads.read(THREAD, after=2)) == [3]

    @pytest.mark.rule("LOG-8", "REC-6")
    async def test_every_family_is_decoded(self, storage: Storage) -> None:
        """A page gives back records equal to those that were appended; see also LOG-16."""
        given = await append_every_family(await Writer.begin(storage))
        stored = await storage.threads.read(THREAD)
        assert [each.record for each in stored] == given


class BatchPageCases:
    """The undecoded batches that verify and export stream (ARC-2, ARC-3)."""

    @pytest.mark.rule("ARC-2")
    async def test_batches_are_read_whole(self, storage: Storage) -> None:
        """Pages end between batches: one at least, then as many as the bytes allow."""
        await (await Writer.begin(storage)).fill(2, 3, 1)
        read = storage.threads.read_batches
        every = await read(THREAD, after=0, through=6, byte_limit=1_000_000)
        assert batch_ids(every) == ["batch-1", "batch-3", "batch-6"]
        sizes = [sum(len(wire) for _, wire in each.records) for each in every]
        one = await read(THREAD, after=0, through=6, byte_limit=1)
        assert batch_ids(one) == ["batch-1"]
        two = await read(THREAD, after=0, through=6, byte_limit=sizes[0] + sizes[1])
        assert batch_ids(two) == ["batch-1", "batch-3"]
        fewer = await read(THREAD, after=0, through=6, byte_limit=sizes[0] + sizes[1] - 1)
        assert batch_ids(fewer) == ["batch-1"]
        assert await read(THREAD, after=6, through=6, byte_limit=1) == ()

    @pytest.mark.rule("ARC-2")
    async def test_batches_end_at_a_captured_sequence(self, storage: Storage) -> None:
        """No batch beyond `through` is given; `after` is 0 or the end of a batch."""
        await (await Writer.begin(storage)).fill(2, 3, 1)
        read = storage.threads.read_batches
        assert batch_ids(await read(THREAD, after=2, through=5, byte_limit=10**6)) == ["batch-3"]
        assert await read(THREAD, after=2, through=4, byte_limit=10**6) == ()
        for after in (1, 4, 7, -1):
            await refused(InvalidArgument, read(THREAD, after=after, through=6, byte_limit=1))
        await refused(BeyondTail, read(THREAD, after=0, through=7, byte_limit=1))


class IdentityCases:
    """LOG-10: what a thread is, in one consistent read."""

    @pytest.mark.rule("LOG-10")
    async def test_tail_gives_sequence_digest_and_epoch(self, storage: Storage) -> None:
        """The tail is that of the last append and of the last takeover."""
        writer = await Writer.begin(storage)
        await writer.fill(2)
        await storage.threads.materialize(THREAD, epoch=4)
        expected = ThreadTail(THREAD, 2, writer.tail.digest, 4)
        assert await storage.threads.tail(THREAD) == expected
        assert (await storage.threads.capture(THREAD)).tail == expected

    @pytest.mark.rule("LOG-10")
    async def test_identity_of_an_empty_thread(self, storage: Storage) -> None:
        """There is neither a first nor a lineage record."""
        await Writer.begin(storage)
        found = await storage.threads.identity(THREAD)
        assert found.tail == ThreadTail(THREAD, 0, EMPTY_DIGEST, 1)
        assert (found.first, found.lineage) == (None, None)

    @pytest.mark.rule("LOG-10")
    async def test_identity_gives_first_and_lineage_record(self, storage: Storage) -> None:
        """A child's thread has its lineage as second record; the two are given as they are read."""
        writer = await Writer.begin(storage)
        await writer.append(record("created", sample_payload("ThreadCreated")))
        await writer.append(record("lineage", sample_payload("SubagentLineageRecorded")))
        await writer.append(note("after"))
        found = await storage.threads.identity(THREAD)
        assert found.first is not None
        assert found.lineage is not None
        assert names([found.first, found.lineage]) == ["created", "lineage"]
        assert found.tail == await storage.threads.tail(THREAD)

    @pytest.mark.rule("LOG-10")
    async def test_a_second_record_need_not_be_a_lineage(self, storage: Storage) -> None:
        """Any other second record is not given."""
        writer = await Writer.begin(storage)
        await writer.append(record("created", sample_payload("ThreadCreated")))
        assert (await storage.threads.identity(THREAD)).lineage is None
        await writer.append(note("second"), note("third"))
        found = await storage.threads.identity(THREAD)
        assert found.first is not None
        assert (names([found.first]), found.lineage) == (["created"], None)

    @pytest.mark.rule("LOG-10")
    async def test_identity_is_one_consistent_read(self, storage: Storage) -> None:
        """While threads get their first records, tail and records always agree.

        Where a database takes its time, the commit falls between two reads in some threads only.
        """
        agreed = True
        for number in range(16):
            thread = ThreadId(f"thread-{number}")
            writer = await Writer.begin(storage, thread)
            task = asyncio.create_task(writer.append(note("one"), note("two")))
            while not task.done():
                found = await storage.threads.identity(thread)
                agreed = agreed and (found.first is None) == (found.tail.sequence == 0)
                await asyncio.sleep(0)
            await task
            assert (await storage.threads.identity(thread)).first is not None
        assert agreed


class ExactCases:
    """LOG-11: one record by its id, and the input that a run began with."""

    @pytest.mark.rule("LOG-11")
    async def test_a_record_is_found_by_its_id(self, storage: Storage) -> None:
        """Wherever it stands in the log, and in its own thread only."""
        writer = await Writer.begin(storage)
        await writer.fill(100, 3)
        for number in (1, 57, 100, 101, 103):
            found = await storage.threads.get_record(THREAD, RecordId(f"note-{number}"))
            assert (found.sequence, names([found])) == (number, [f"note-{number}"])
        await Writer.begin(storage, OTHER)
        await refused(RecordNotFound, storage.threads.get_record(OTHER, RecordId("note-1")))

    @pytest.mark.rule("LOG-11")
    async def test_a_record_that_is_not_there_is_a_typed_error(self, storage: Storage) -> None:
        """The error names thread and record id."""
        await (await Writer.begin(storage)).fill(2)
        fault = await refused(
            RecordNotFound, storage.threads.get_record(THREAD, RecordId("note-3"))
        )
        assert (fault.thread, fault.record_id) == (THREAD, "note-3")

    @pytest.mark.rule("LOG-11")
    async def test_joined_inputs_are_no_original_input(self, storage: Storage) -> None:
        """Steering, follow-ups and inputs of another submission join a run; one began it."""
        writer = await Writer.begin(storage)
        await writer.append(said("joined-before", submission="submission-0"))
        await writer.append(note("between"), said("original"))
        await writer.append(
            said("steering", kind="steering"),
            said("follow-up", kind="follow-up"),
            said("joined-after", submission="submission-2"),
        )
        await writer.append(said("elsewhere", run="run:submission-2", submission="submission-2"))
        found = await storage.threads.get_run_input(THREAD, RUN)
        assert (found.sequence, names([found])) == (3, ["original"])

    @pytest.mark.rule("LOG-11")
    async def test_an_input_without_submission_begins_its_run(self, storage: Storage) -> None:
        """Work that was not durably accepted has an original input too."""
        writer = await Writer.begin(storage)
        await writer.append(said("no run", run=None), said("direct", submission=None))
        assert names([await storage.threads.get_run_input(THREAD, RUN)]) == ["direct"]

    @pytest.mark.rule("LOG-11")
    async def test_two_original_inputs_are_refused(self, storage: Storage) -> None:
        """An ambiguous log is told, never resolved by taking the first."""
        writer = await Writer.begin(storage)
        await writer.append(said("one"))
        await writer.append(said("two"), said("three", submission=None))
        fault = await refused(AmbiguousRunInput, storage.threads.get_run_input(THREAD, RUN))
        assert (fault.thread, fault.run, fault.count) == (THREAD, RUN, 3)

    @pytest.mark.rule("LOG-11", "LOG-17")
    async def test_a_run_without_input_is_a_typed_fault(self, storage: Storage) -> None:
        """No original input is `evidence-missing`, also where inputs joined the run."""
        writer = await Writer.begin(storage)
        await writer.append(said("steering", kind="steering"))
        fault = await refused(EvidenceFault, storage.threads.get_run_input(THREAD, RUN))
        assert (fault.thread, fault.reason) == (THREAD, "evidence-missing")


class IdentifierCases:
    """REC-1: what is no identifier is refused by every operation that takes one."""

    @pytest.mark.rule("REC-1")
    @pytest.mark.parametrize("bad", ["", "a\x00b", "\ud800", "x" * 4_097, "🧵" * 2_049, None, 7])
    async def test_what_is_no_identifier_is_refused(self, storage: Storage, bad: str) -> None:
        """Empty, U+0000, a lone surrogate, 4,097 characters, and what is not text."""
        await (await Writer.begin(storage)).fill(1)
        run, threads = RunId(bad), storage.threads
        await refused(InvalidInput, threads.get_record(THREAD, RecordId(bad)))
        await refused(InvalidInput, threads.get_run_input(THREAD, run))
        await refused(InvalidInput, threads.read_continuation(THREAD, run, through=1))
        await refused(InvalidInput, threads.read_run_evidence(THREAD, run, after=0, through=1))
        await refused(InvalidInput, threads.run_progress(THREAD, run))
        call = threads.read_operation_evidence(THREAD, RUN, ToolCallId(bad), through=1)
        await refused(InvalidInput, call)
