"""Cases of accepted work in imports: restored without claims, or refused (ARC-4).

An archive is imported into the same store as another thread, with submissions of other names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from yielded_core.errors import (
    AdmissionConflict,
    ArchiveRefused,
    ImportRefused,
)
from yielded_core.ports.work import Suspension
from yielded_core.records.identifiers import RunId, ToolCallId
from yielded_core.transfer.importing import import_archive
from yielded_core.transfer.verify import verify_archive, verify_thread
from yielded_testing.sample_parts import Subject
from yielded_testing.samples import sample_payload
from yielded_testing.suites.archive_lanes import (
    EXPECTED,
    archive_of,
    brought,
    every_state,
    facts_of,
    resolve,
)
from yielded_testing.suites.archive_pages import parsed_pages, rechained_pages, sealed_lines
from yielded_testing.suites.builders import OTHER, record
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_handoff import handoff
from yielded_testing.suites.ledger_values import CALL, work
from yielded_testing.suites.support import refused
from yielded_testing.suites.transfer import content_of, lines_of, streamed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock
    from yielded_testing.suites.archive_pages import Page

FORGED: Final = (
    "place",
    "key",
    "submission",
    "receipt",
    "group",
    "input",
    "settlement",
    "abort",
    "approval",
    "resolution",
    "order",
    "twice",
    "kind",
    "field",
    "instant",
    "nul",
    "host",
)


class RestoredWorkCases:
    """ARC-4: queued work in order, with its receipts and instants, and no claims."""

    @pytest.mark.rule("ARC-4", "REC-7", "LED-13")
    async def test_every_state_is_restored(self, storage: Storage, clock: VirtualClock) -> None:
        """From the log and the facts: settled, unknown, input-applied, joined, or ready."""
        lane = await every_state(storage, clock)
        other = await brought(lane)
        for place, (key, state) in enumerate(EXPECTED.items(), 1):
            here, there = await lane.see(key), await other.see(key)
            assert (there.queue_sequence, there.state) == (place, state), key
            assert (there.admitted_at, there.abort) == (here.admitted_at, here.abort)
            assert there.admission_digest == here.admission_digest
            assert there.input_sequence == here.input_sequence
            assert there.suspension is None
        assert (await other.see("guest")).host == other.id("host")
        settled = (await other.see("settled")).settled
        assert settled is not None
        assert (settled.outcome, settled.settlement_id) == (
            "completed",
            f"settlement:{other.id('settled')}",
        )
        parked = await other.snapshot("unknown")
        assert [one.tool_call_id for one in parked.unknown_calls] == ["call-1", "call-2"]
        assert [one.tool_call_id for one in parked.resolutions] == ["call-2"]
        assert parked.resolutions == (await lane.snapshot("unknown")).resolutions
        assert (await other.snapshot("host")).approvals == (await lane.snapshot("host")).approvals

    @pytest.mark.rule("ARC-4", "REC-7", "LED-13")
    async def test_unresolved_calls_stay_unknown(self, storage: Storage) -> None:
        """A mutating call that the log leaves open parks its work, until a person resolves it."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("one")
        await lane.apply_input("one")
        subject = Subject(submission, RunId(f"run:{submission}"), call=CALL)
        declared = sample_payload("ModelResponseRecorded", subject)
        await lane.append(record("declared", declared))
        other = await brought(lane)
        assert (await other.see("one")).state == "unknown"
        parked = await other.snapshot("one")
        assert [(one.tool_call_id, one.run_id) for one in parked.unknown_calls] == [
            (CALL, f"run:{other.id('one')}")
        ]
        assert await other.try_claim() is None
        await resolve(other, "one", CALL)
        assert (await other.claim()).submission.state == "input-applied"

    @pytest.mark.rule("ARC-2", "ARC-4", "REC-7")
    async def test_the_lane_exports_the_same(self, storage: Storage, clock: VirtualClock) -> None:
        """Both threads verify, and their archives say the same, the revision of facts included."""
        lane = await every_state(storage, clock)
        lines = await archive_of(lane)
        assert (await verify_archive(streamed(lines))).ok
        other = await brought(lane)
        assert content_of(await lines_of(storage, other.thread)) == content_of(lines)
        for thread in (lane.thread, other.thread):
            found = await verify_thread(storage, thread)
            assert found.ok, found.findings
            judged = {one.invariant: one.outcome for one in found.findings}
            assert judged["ledger-log-agreement"] == "passed"
            assert judged["all-settled"] == "skipped"

    @pytest.mark.rule("ARC-4", "REC-7", "LED-5", "CRT-6")
    async def test_what_was_passed_is_remembered(self, storage: Storage) -> None:
        """Work that a handoff passed was settled later, in order, here and after an import."""
        lane = await LaneScript.begin(storage)
        await lane.defer("head")
        await lane.ready("next")
        await lane.claim(handoff=await handoff(lane))
        await lane.apply_input("next")
        await lane.settle("next")
        await lane.claim()
        await lane.settle("head")
        other = await brought(lane)
        assert (await other.see("head")).deferred_at == (await lane.see("head")).deferred_at
        assert (await other.see("next")).deferred_at is None
        for thread in (lane.thread, other.thread):
            assert (await verify_thread(storage, thread)).ok

    @pytest.mark.rule("ARC-4", "REC-7", "LED-1")
    async def test_keys_are_remembered(self, storage: Storage, clock: VirtualClock) -> None:
        """The same work replays with its first receipt, settled or not; other work conflicts."""
        lane = await every_state(storage, clock)
        other = await brought(lane)
        for key in EXPECTED:
            again = await storage.ledger.admit(work(key, thread=OTHER))
            assert again == replace(other.receipts[key], replayed=True)
            conflict = storage.ledger.admit(work(key, "else", thread=OTHER))
            assert (await refused(AdmissionConflict, conflict)).submission == other.id(key)
        new = await other.admit("new")
        assert new.queue_sequence == len(EXPECTED) + 1

    @pytest.mark.rule("ARC-4", "REC-7", "LED-4", "LED-17")
    async def test_no_claim_comes_along(self, storage: Storage, clock: VirtualClock) -> None:
        """Nobody owns the lane; it is claimable at once, from its head, at the next epoch."""
        lane = await every_state(storage, clock)
        before = await lane.ledger.lane(lane.thread)
        assert before is not None
        assert before.owner is not None
        other = await brought(lane)
        seen = await other.ledger.lane(OTHER)
        assert seen is not None
        assert (seen.owner, seen.epoch) == (None, before.epoch)
        assert OTHER in [one.thread_id for one in await storage.ledger.runnable()]
        grant = await other.claim()
        assert grant.submission.submission_id == other.id("resolved")
        assert grant.epoch == before.epoch + 1
        await other.settle("resolved")
        assert (await other.claim()).submission.submission_id == other.id("host")

    @pytest.mark.rule("ARC-4", "REC-7", "LED-11")
    async def test_work_that_waited_or_ran_goes_on_from_the_log(self, storage: Storage) -> None:
        """Suspended work is input-applied again, and what runs without an input is ready."""
        lane = await LaneScript.begin(storage)
        await lane.run("one")
        await lane.apply_input("one")
        await lane.decide("one", "call-2")
        await lane.suspend("one", CALL, "call-2")
        other = await brought(lane)
        assert (await other.see("one")).state == "input-applied"
        waiting = Suspension((CALL, ToolCallId("call-2")))
        await other.claim()
        again = other.ledger.suspend(OTHER, other.id("one"), token=other.token, waiting_for=waiting)
        assert await again == "suspended"
        assert await other.decide("one")

    @pytest.mark.rule("ARC-4", "REC-7", "REC-3")
    async def test_hostile_values_are_kept(self, storage: Storage) -> None:
        """NUL, astral text, numbers at the edge of a double, null, and deep JSON."""
        lane = await LaneScript.begin(storage)
        deep: Any = None
        for _ in range(63):
            deep = [deep]
        values: list[Any] = [
            "\u0000",
            {"\U0001f600": "\ue000"},
            1e16,
            -0.0,
            5e-324,
            1e21,
            None,
            deep,
        ]
        for number, value in enumerate(values):
            key = f"k\U0001f600{number}"
            given = work(key, value, group=f"g\ue000{number}", linkage=value, message=[value])
            lane.receipts[key] = await storage.ledger.admit(given)
        other = await brought(lane)
        here, there = await facts_of(storage), await facts_of(storage, OTHER)
        assert [(one.input, one.linkage, one.message) for one in here] == [
            (one.input, one.linkage, one.message) for one in there
        ]
        assert [one.submission.group for one in here] == [one.submission.group for one in there]
        assert len(other.receipts) == len(there)

    @pytest.mark.rule("ARC-4", "REC-7", "LED-2")
    async def test_groups_stay_occupied(self, storage: Storage) -> None:
        """A group is occupied by the unsettled work that was imported, and by nothing settled."""
        lane = await LaneScript.begin(storage)
        await lane.run("one", group="g")
        await lane.settle("one")
        await lane.admit("two", group="g")
        other = await brought(lane)
        held = [one.submission.group for one in await facts_of(storage, OTHER)]
        assert held == ["g", "g"]
        await other.ledger.mark_ready(OTHER, other.id("two"))
        await other.claim()
        await other.settle("two")
        await other.admit("three", group="g")

    @pytest.mark.rule("ARC-4", "REC-7", "ARC-7")
    async def test_imported_work_is_deleted_with_its_thread(self, storage: Storage) -> None:
        """Once it is settled: nothing of it is found by its id any more."""
        lane = await LaneScript.begin(storage)
        await lane.run("one")
        await lane.decide("one")
        await lane.settle("one")
        other = await brought(lane)
        assert (await other.see("one")).state == "settled"
        await storage.threads.delete_thread(OTHER)
        assert await storage.ledger.lookup(other.id("one")) is None
        assert (await lane.see("one")).state == "settled"

    @pytest.mark.rule("ARC-4", "REC-7")
    @pytest.mark.parametrize("materialized", [False, True])
    async def test_a_destination_with_work_refuses_an_import(
        self, storage: Storage, *, materialized: bool
    ) -> None:
        """Its log is empty, its lane is not: the work stays, and nothing is staged."""
        lines = await archive_of(await LaneScript.begin(storage))
        if materialized:
            await storage.threads.materialize(OTHER, epoch=1)
        other = LaneScript(storage, OTHER, "other")
        await other.admit("own")
        fault = await refused(ImportRefused, import_archive(storage, streamed(lines)))
        assert fault.reason == "destination-not-empty"
        assert await storage.archives.import_state(OTHER) is None
        assert (await other.see("own")).state == "admitted"

    @pytest.mark.rule("ARC-4", "REC-7")
    @pytest.mark.parametrize("kind", FORGED)
    async def test_forged_facts_are_refused(
        self, storage: Storage, clock: VirtualClock, kind: str
    ) -> None:
        """Though every digest is right: what no ledger held, or what the log contradicts."""
        lane = await every_state(storage, clock)
        pages = parsed_pages(await archive_of(lane))
        facts = {page["section"]: page["facts"] for page in pages if "facts" in page}
        reason = _forge(kind, facts, pages)
        lines = sealed_lines(rechained_pages(pages))
        fault = await refused(ArchiveRefused, import_archive(storage, streamed(lines)))
        assert fault.reason == reason
        assert await storage.archives.import_state(OTHER) is None
        assert await storage.ledger.lane(OTHER) is None
        assert (await storage.ledger.facts(OTHER)).facts == ()

    @pytest.mark.slow_case
    @pytest.mark.rule("ARC-4", "REC-7")
    async def test_a_changed_byte_of_a_fact_is_refused(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """A byte changed anywhere in a page of facts is found, and the page named (a sample)."""
        lines = await archive_of(await every_state(storage, clock))
        for number, line in enumerate(lines[-5:], start=len(lines) - 4):
            for place in range(number, len(line), 61):
                changed = bytes([*line[:place], line[place] ^ 1, *line[place + 1 :]])
                damaged = [*lines[: number - 1], changed, *lines[number:]]
                work_of = import_archive(storage, streamed(damaged))
                assert (await refused(ArchiveRefused, work_of)).page == number


def _forge(kind: str, facts: dict[str, list[Page]], pages: Sequence[Page]) -> str:
    """Change facts in one way, and return why the archive must be refused."""
    admissions, approvals = facts["admissions"], facts["approvals"]
    changes: dict[str, Callable[[], object]] = {
        "place": lambda: admissions.pop(3),
        "key": lambda: admissions[8].update(idempotencyKey="queued"),
        "submission": lambda: admissions[8].update(submissionId=admissions[6]["submissionId"]),
        "receipt": lambda: admissions[8].update(receiptId=admissions[6]["receiptId"]),
        "group": lambda: [admissions[at].update(group="g") for at in (6, 8)],
        "input": lambda: admissions[4].update(input="another"),
        "settlement": lambda: admissions[0].update(receiptId="another"),
        "abort": lambda: facts["abortCommands"][0].update(submissionId="nobody"),
        "approval": lambda: approvals[1].update(submissionId="nobody"),
        "resolution": lambda: facts["resolutions"][0].update(submissionId="nobody"),
        "order": approvals.reverse,
        "twice": lambda: facts["abortCommands"].insert(0, facts["abortCommands"][0]),
        "kind": lambda: facts["resolutions"][0].update(kind="execution"),
        "field": lambda: approvals[0].update(future=True),
        "instant": lambda: approvals[0].update(decidedAt="2026-01-02T03:04:05Z"),
        "nul": lambda: approvals[0].update(reason="\u0000"),
        "host": lambda: _joined_elsewhere(pages, admissions[8]["submissionId"]),
    }
    changes[kind]()
    return "dependency" if kind in {"abort", "approval", "resolution", "order"} else "record"


def _joined_elsewhere(pages: Sequence[Page], host: str) -> None:
    """Let the input of the guest stand in the run of something that comes after it."""
    inputs = [
        each["payload"]
        for page in pages
        for each in page.get("batch", {}).get("records", ())
        if each["payload"]["_tag"] == "UserInputRecorded"
    ]
    inputs[-1]["runId"] = f"run:{host}"
