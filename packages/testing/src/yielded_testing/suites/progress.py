"""Cases of progress: what a continuation must agree with (LOG-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from yielded_core.errors import AppendConflict, InvalidBatch, ProgressRefused
from yielded_core.records.payloads import EvidenceReference
from yielded_testing.sample_parts import sample_accounting, sample_reference
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import (
    EMPTY,
    NOWHERE,
    THREAD,
    Writer,
    batch,
    note,
    record,
)
from yielded_testing.suites.runs import RunScript, reference
from yielded_testing.suites.support import names, refused

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record
    from yielded_core.storage import Storage

COUNTERS: Final = (
    "record_count",
    "record_bytes",
    "turn",
    "turn_bytes",
    "terminal_bytes",
    "terminal_records",
    "terminal_usage_bytes",
)
REFERENCES: Final = ("original_input", "saved_context", "latest_response", "terminal")
GROWING: Final = (
    "programmatic_tool_calls",
    "model_restarts",
    "model_calls",
    "unobserved_model_calls",
    "input_tokens",
    "output_tokens",
    "cost_microusd",
    "accounted_tool_turn",
)


async def begun(storage: Storage, run: RunScript) -> Writer:
    """Append the first facts of a run with their continuation."""
    writer = await Writer.begin(storage)
    await writer.append(*run.begin(), run.continuation())
    return writer


async def refusal(writer: Writer, run: RunScript, *records: Record) -> ProgressRefused:
    """Return why an append is refused, having shown that it wrote nothing."""
    before = await writer.storage.threads.tail(writer.thread)
    progress = await writer.storage.threads.run_progress(writer.thread, run.run)
    fault = await refused(ProgressRefused, writer.append(*records, batch_id="refused"))
    assert (fault.thread, fault.run) == (writer.thread, run.run)
    assert await writer.storage.threads.tail(writer.thread) == before
    assert await writer.storage.threads.run_progress(writer.thread, run.run) == progress
    return fault


class ContinuationRules:
    """LOG-16: a continuation that does not follow from the facts is refused before any write."""

    @pytest.mark.rule("LOG-16")
    async def test_a_whole_run_is_accepted(self, storage: Storage) -> None:
        """Continuations that state what the facts make pass, from the first to the settled one."""
        run = RunScript()
        writer = await begun(storage, run)
        await writer.append(run.fact("RunContextRecorded"), run.response(1), run.continuation())
        await writer.append(note("between"), run.usage(), run.sized(2_000))
        await writer.append(run.response(2, call="call-2"), run.continuation())
        await writer.append(
            run.fact("ModelCompleted"),
            run.fact("RunCompleted"),
            run.fact("SubmissionSettled"),
            run.continuation(position="settled"),
        )
        progress = await storage.threads.run_progress(THREAD, run.run)
        assert progress is not None
        assert progress.revision == run.revision == 4
        stated = {name: getattr(progress, name) for name in COUNTERS}
        assert stated == {name: getattr(run, name) for name in COUNTERS}

    @pytest.mark.rule("LOG-16")
    async def test_a_run_without_facts_has_no_progress(self, storage: Storage) -> None:
        """The counters of a run that the thread does not know are none."""
        run = RunScript()
        await begun(storage, run)
        assert await storage.threads.run_progress(THREAD, RunScript("2").run) is None

    @pytest.mark.rule("LOG-16")
    @pytest.mark.parametrize("revision", [1, 3, 7])
    async def test_the_revision_is_exactly_one_more(self, storage: Storage, revision: int) -> None:
        """A repeated and a skipped revision are both refused."""
        run = RunScript()
        writer = await begun(storage, run)
        wrong = (run.usage(), run.continuation(revision=revision))
        assert (await refusal(writer, run, *wrong)).reason == "revision"

    @pytest.mark.rule("LOG-16")
    async def test_the_first_revision_is_one(self, storage: Storage) -> None:
        """A run cannot begin at a later revision."""
        run = RunScript()
        writer = await Writer.begin(storage)
        wrong = (*run.begin(), run.continuation(revision=2))
        assert (await refusal(writer, run, *wrong)).reason == "revision"

    @pytest.mark.rule("LOG-16")
    @pytest.mark.parametrize("counter", COUNTERS)
    @pytest.mark.parametrize("by", [-1, 1])
    async def test_counters_are_what_the_facts_make(
        self, storage: Storage, counter: str, by: int
    ) -> None:
        """One less or one more in any counter is refused."""
        run = RunScript()
        writer = await begun(storage, run)
        facts = (run.response(1), run.fact("ModelCompleted"), run.fact("SubmissionSettled"))
        stated = run.continuation(**{counter: getattr(run, counter) + by})
        assert (await refusal(writer, run, *facts, stated)).reason == "counters"

    @pytest.mark.rule("LOG-16")
    @pytest.mark.parametrize("name", REFERENCES)
    @pytest.mark.parametrize("kind", ["digest", "record", "absent", "invented"])
    async def test_references_name_the_run_s_records(
        self, storage: Storage, name: str, kind: str
    ) -> None:
        """Another record, other bytes, none, or one that does not exist yet are refused."""
        run = RunScript()
        writer = await begun(storage, run)
        facts: list[Record] = [run.usage()]
        if kind != "invented":
            facts += [run.fact("RunContextRecorded"), run.response(1), run.fact("RunCompleted")]
        right = run.references.get(name) or reference(facts[0])
        wrong: dict[str, EvidenceReference | None] = {
            "digest": EvidenceReference(record_id=right.record_id, digest=NOWHERE),
            "record": reference(facts[0]),
            "absent": None,
            "invented": sample_reference("nowhere"),
        }
        if kind == "absent" and name == "original_input":
            wrong["absent"] = sample_reference("nowhere")  # this one is no optional key
        stated = run.continuation(**{name: wrong[kind]})
        assert (await refusal(writer, run, *facts, stated)).reason == "references"

    @pytest.mark.rule("LOG-16")
    async def test_the_original_input_never_changes(self, storage: Storage) -> None:
        """A later input of the same run is no original input, and cannot become it."""
        run = RunScript()
        writer = await begun(storage, run)
        joined = run.fact("UserInputRecorded", kind="steering")
        wrong = run.continuation(original_input=reference(joined))
        assert (await refusal(writer, run, joined, wrong)).reason == "references"

    @pytest.mark.rule("LOG-16")
    async def test_the_submission_never_changes(self, storage: Storage) -> None:
        """A run stays with the submission of its first continuation."""
        run = RunScript()
        writer = await begun(storage, run)
        fact = run.usage()
        wrong = run.continuation(submission_id="submission-2")
        assert (await refusal(writer, run, fact, wrong)).reason == "references"

    @pytest.mark.rule("LOG-16")
    @pytest.mark.parametrize("counter", GROWING)
    async def test_accounting_never_regresses(self, storage: Storage, counter: str) -> None:
        """Each counter of the accounting is at least the previous one."""
        run = RunScript(accounting=sample_accounting().model_copy(update={counter: 2}))
        writer = await begun(storage, run)
        fact = run.usage()
        less = run.accounting.model_copy(update={counter: 1})
        fault = await refusal(writer, run, fact, run.continuation(accounting=less))
        assert fault.reason == "accounting"

    @pytest.mark.rule("LOG-16")
    async def test_a_used_finalization_stays_used(self, storage: Storage) -> None:
        """`finalizationUsed` does not return to false."""
        used = sample_accounting().model_copy(update={"finalization_used": True})
        run = RunScript(accounting=used)
        writer = await begun(storage, run)
        fact = run.usage()
        fault = await refusal(writer, run, fact, run.continuation(accounting=sample_accounting()))
        assert fault.reason == "accounting"

    @pytest.mark.rule("LOG-16")
    async def test_what_the_last_call_used_may_fall(self, storage: Storage) -> None:
        """The tokens of the last call describe it alone; the others may stay or grow."""
        run = RunScript()
        writer = await begun(storage, run)
        fewer = {"last_input_tokens": 0, "last_output_tokens": 0, "model_calls": 9}
        run.accounting = run.accounting.model_copy(update=fewer)
        await writer.append(run.usage(), run.continuation())

    @pytest.mark.rule("LOG-16")
    @pytest.mark.parametrize("kind", ["none", "earlier", "digest", "another run's", "invented"])
    async def test_the_last_fact_is_in_the_same_batch(self, storage: Storage, kind: str) -> None:
        """It is the last fact that the run has, with the digest of its bytes."""
        run, other = RunScript(), RunScript("2")
        writer = await begun(storage, run)
        facts = [] if kind == "none" else [run.usage(), run.usage()]
        last = run.references["last_fact"]
        between = other.begin()
        wrong = {
            "none": last,
            "earlier": reference(facts[0]) if facts else last,
            "digest": EvidenceReference(record_id=last.record_id, digest=NOWHERE),
            "another run's": reference(between[1]),
            "invented": sample_reference("nowhere"),
        }
        stated = run.continuation(last_fact=wrong[kind])
        fault = await refusal(writer, run, *facts, *between, stated)
        assert fault.reason == "last-fact"

    @pytest.mark.rule("LOG-16")
    async def test_one_continuation_a_batch_after_its_facts(self, storage: Storage) -> None:
        """Neither a second continuation nor a fact of the run may follow one in its batch."""
        run = RunScript()
        writer = await begun(storage, run)
        fact, first = run.usage(), run.continuation()
        assert (await refusal(writer, run, fact, first, run.continuation())).reason == "order"
        assert (await refusal(writer, run, fact, first, run.usage())).reason == "order"

    @pytest.mark.rule("LOG-16")
    async def test_runs_in_one_batch_do_not_mix(self, storage: Storage) -> None:
        """Two runs whose facts alternate each have their continuation in one batch."""
        one, two = RunScript("1"), RunScript("2")
        writer = await Writer.begin(storage)
        (input_1, start_1), (input_2, start_2) = one.begin(), two.begin()
        await writer.append(
            input_1, input_2, note("n"), start_2, start_1, two.continuation(), one.continuation()
        )
        await writer.append(one.usage(), two.usage(), one.continuation(), two.continuation())
        for run in (one, two):
            found = await storage.threads.read_continuation(THREAD, run.run, through=11)
            assert found is not None
            assert found.record.payload.model_dump()["revision"] == 2

    @pytest.mark.rule("LOG-16")
    async def test_a_refused_append_can_be_put_right(self, storage: Storage) -> None:
        """Batch and records are as free as before; the right continuation passes."""
        run = RunScript()
        writer = await begun(storage, run)
        fact = run.usage()
        right = run.continuation()
        payload = right.payload.model_copy(update={"record_count": 99})
        wrong = right.model_copy(update={"payload": payload})
        assert (await refusal(writer, run, fact, wrong)).reason == "counters"
        await writer.append(fact, right, batch_id="refused")
        assert names(await storage.threads.read(THREAD))[3:] == [
            fact.record_id,
            right.record_id,
        ]

    @pytest.mark.rule("LOG-3", "LOG-16", "LOG-4")
    async def test_progress_is_judged_after_identities_and_tail(self, storage: Storage) -> None:
        """A wrong tail, a stored record or a stored batch is told before wrong progress."""
        run = RunScript()
        writer = await begun(storage, run)
        fact, wrong = run.usage(), run.continuation(revision=9)
        expectations: list[tuple[Any, ...]] = [
            ("tail", "batch-9", (fact, wrong), EMPTY),
            ("record-identity", "batch-9", (note("1/1"), fact, wrong), writer.tail),
            ("batch-digest", "batch-1", (fact, wrong), writer.tail),
        ]
        for reason, batch_id, records, tail in expectations:
            given = batch(batch_id, *records)
            work = storage.threads.append(THREAD, given, expected=tail, epoch=1)
            assert (await refused(AppendConflict, work)).reason == reason


class PlacementCases:
    """REC-6: rules across records, of one batch and of one thread."""

    @pytest.mark.rule("REC-6")
    async def test_a_thread_s_creation_is_its_first_record(self, storage: Storage) -> None:
        """ThreadCreated anywhere else is refused, in the first batch too."""
        writer = await Writer.begin(storage)
        created = record("created", sample_payload("ThreadCreated"))
        fault = await refused(ProgressRefused, writer.append(note("one"), created))
        assert fault.reason == "placement"
        await writer.append(created, note("one"))
        again = record("created again", sample_payload("ThreadCreated"))
        await refused(ProgressRefused, writer.append(again))

    @pytest.mark.rule("REC-6")
    async def test_a_lineage_record_is_the_second_in_a_batch_of_its_own(
        self, storage: Storage
    ) -> None:
        """It is neither the first nor the third record, and has no company."""
        writer = await Writer.begin(storage)
        lineage = record("lineage", sample_payload("SubagentLineageRecorded"))
        assert (await refused(ProgressRefused, writer.append(lineage))).reason == "placement"
        await writer.append(note("one"))
        await refused(InvalidBatch, writer.append(lineage, note("two")))
        await writer.append(lineage)
        again = record("lineage again", sample_payload("SubagentLineageRecorded"))
        assert (await refused(ProgressRefused, writer.append(again))).reason == "placement"

    @pytest.mark.rule("REC-6")
    @pytest.mark.parametrize("tag", ["ToolCallResolved", "SubagentJoined"])
    async def test_a_result_comes_with_its_settled_call(self, storage: Storage, tag: str) -> None:
        """A resolution with a result and a joined child need the ToolCallSettled of their call."""
        run = RunScript()
        writer = await begun(storage, run)
        payload = run.payload(tag)
        if tag == "ToolCallResolved":
            payload = payload.model_copy(update={"resolution": "completed-with-result"})
        joined = record("joined", payload)
        others = record("others", run.payload("ToolCallSettled", call="call-2"))
        await refused(InvalidBatch, writer.append(joined))
        await refused(InvalidBatch, writer.append(joined, others))
        await writer.append(joined, record("settled", run.payload("ToolCallSettled")))

    @pytest.mark.rule("REC-6")
    async def test_reserved_usage_never_shrinks(self, storage: Storage) -> None:
        """RunPolicyUsageReserved counts at least what the run reserved before."""
        run = RunScript()
        writer = await begun(storage, run)
        tag = "RunPolicyUsageReserved"
        await writer.append(run.fact(tag, programmatic_tool_calls=3, finalization_used=True))
        await writer.append(run.fact(tag, programmatic_tool_calls=3, finalization_used=True))
        for changes in (
            {"programmatic_tool_calls": 2, "finalization_used": True},
            {"programmatic_tool_calls": 3, "finalization_used": False},
        ):
            less = record("less", run.payload(tag).model_copy(update=changes))
            await refused(ProgressRefused, writer.append(less))
