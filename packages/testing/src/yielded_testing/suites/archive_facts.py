"""Cases of accepted work in the pages of an export (ARC-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import (
    ExportInvalidated,
)
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.verify import verify_archive
from yielded_testing.suites.archive_lanes import (
    brought,
    every_state,
    facts_of,
    resolve,
)
from yielded_testing.suites.archive_pages import parsed_pages
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import work
from yielded_testing.suites.support import refused
from yielded_testing.suites.transfer import lines_of, pages_of, streamed

if TYPE_CHECKING:
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock


class ArchivedFactCases:
    """ARC-2: the facts of accepted work in pages of an export."""

    @pytest.mark.rule("ARC-1", "ARC-2", "REC-7")
    async def test_each_section_holds_its_facts(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Every submission, settled ones too; each abort, decision and resolution."""
        lane = await every_state(storage, clock)
        pages = {
            page["section"]: page["facts"] for page in parsed_pages(await lines_of(storage))[-5:]
        }
        assert [fact["queueSequence"] for fact in pages["admissions"]] == list(range(1, 10))
        assert [fact["receiptId"] for fact in pages["admissions"]] == [
            one.receipt_id for one in lane.receipts.values()
        ]
        aborted = [fact["submissionId"] for fact in pages["abortCommands"]]
        assert aborted == [lane.id("aborted"), lane.id("unwanted")]
        decided = [(fact["toolCallId"], fact["decision"]) for fact in pages["approvals"]]
        assert decided == [("approved-call", "approved"), ("denied-call", "denied")]
        resolved = [(fact["toolCallId"], fact["kind"]) for fact in pages["resolutions"]]
        assert resolved == [("call-2", "factual"), ("call-1", "execution"), ("call-2", "factual")]
        assert pages["deliveries"] == []

    @pytest.mark.rule("ARC-1", "ARC-2", "REC-7")
    async def test_a_page_holds_up_to_256_facts(self, storage: Storage) -> None:
        """More follow on a page of the same section, and every cursor goes on in it."""
        lane = await LaneScript.begin(storage)
        keys = [f"key-{number}" for number in range(300)]
        await lane.admit(*keys)
        for key in keys[:257]:
            await lane.abort(key)
        pages = await pages_of(storage)
        counts = [
            (page["section"], len(page["facts"])) for page in parsed_pages(p.text for p in pages)
        ]
        assert counts[:4] == [
            ("admissions", 256),
            ("admissions", 44),
            ("abortCommands", 256),
            ("abortCommands", 1),
        ]
        for number, page in enumerate(pages[:-1], start=1):
            assert await pages_of(storage, cursor=page.cursor) == pages[number:]
        assert (await verify_archive(streamed(page.text for page in pages))).ok

    @pytest.mark.rule("ARC-1", "ARC-2", "REC-7")
    async def test_a_cursor_goes_on_among_the_facts_of_one_submission(
        self, storage: Storage
    ) -> None:
        """A submission may have more decisions and resolutions than a page holds."""
        lane = await LaneScript.begin(storage)
        await lane.run("one")
        calls = [f"call-{number:03}" for number in range(258)]
        for part in (calls[:200], calls[200:]):
            await lane.mark_unknown("one", *part)
        for call in calls:
            await lane.decide("one", call)
            await resolve(lane, "one", call)
        pages = await pages_of(storage)
        sections = [page.section for page in pages]
        assert [sections.count(name) for name in ("approvals", "resolutions")] == [2, 2]
        for number, page in enumerate(pages[:-1], start=1):
            assert await pages_of(storage, cursor=page.cursor) == pages[number:]

    @pytest.mark.rule("ARC-1", "ARC-2", "REC-7", "REC-3")
    async def test_large_inputs_are_spread_over_pages(self, storage: Storage) -> None:
        """Inputs of 1 MiB come through whole, on pages far below 32 MiB."""
        lane = await LaneScript.begin(storage)
        given = "x" * (1_048_576 - 2)
        for number in range(9):
            key = f"key-{number}"
            lane.receipts[key] = await storage.ledger.admit(work(key, given))
        pages = await pages_of(storage)
        admissions = [page for page in pages if page.section == "admissions"]
        assert len(admissions) > 1
        assert all(len(page.text) < 8 * 1_048_576 for page in admissions)
        for number, page in enumerate(pages[:-1], start=1):
            assert await pages_of(storage, cursor=page.cursor) == pages[number:]
        other = await brought(lane)
        assert [len(one.input) for one in await facts_of(storage, other.thread)] == [1_048_576] * 9

    @pytest.mark.rule("ARC-1", "ARC-2", "REC-7")
    @pytest.mark.parametrize("kind", ["admission", "abort", "approval", "resolution"])
    async def test_a_new_fact_ends_an_export(self, storage: Storage, kind: str) -> None:
        """Between any two pages, facts included: with its cursor, and while it runs."""
        lane = await LaneScript.begin(storage)
        await lane.run("one")
        await lane.mark_unknown("one", *(f"call-{number}" for number in range(5)))
        await lane.admit(*(f"queued-{number}" for number in range(5)))
        count = len(await pages_of(storage))
        assert count == 5
        for at in range(1, count):
            running = export_pages(storage, THREAD)
            begun = [await anext(running) for _ in range(at)]
            await _new_fact(lane, kind, at)
            assert (await refused(ExportInvalidated, anext(running))).thread == THREAD
            await refused(ExportInvalidated, pages_of(storage, cursor=begun[-1].cursor))

    @pytest.mark.rule("ARC-1", "ARC-2", "REC-7")
    async def test_what_is_no_fact_ends_no_export(self, storage: Storage) -> None:
        """Claims, markers, settlements and appends are left out, and change no page."""
        lane = await LaneScript.begin(storage)
        await lane.ready("one")
        before = await pages_of(storage)
        await lane.claim()
        await lane.apply_input("one")
        await lane.ledger.renew(lane.thread, token=lane.token)
        await lane.settle("one")
        assert await pages_of(storage, cursor=before[0].cursor) == before[1:]


async def _new_fact(lane: LaneScript, kind: str, number: int) -> None:
    if kind == "admission":
        await lane.admit(f"new-{number}")
    elif kind == "approval":
        await lane.decide("one", f"new-{number}")
    elif kind == "resolution":
        await resolve(lane, "one", f"call-{number}")
    else:
        await lane.abort(f"queued-{number}")
