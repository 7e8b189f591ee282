"""Cases of looking at many submissions, and at one of them whole (LED-15)."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import InvalidArgument, InvalidIdentifier
from yielded_core.ports.work import Submission
from yielded_core.records.identifiers import ThreadId
from yielded_testing.suites.builders import EMPTY, OTHER, THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_joining import hosting, take
from yielded_testing.suites.ledger_values import LEASE, STATES, UNSETTLED, work
from yielded_testing.suites.support import refused, turns

if TYPE_CHECKING:
    from yielded_core.ports.values import Tail
    from yielded_core.ports.work import State
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

UNSORTED: Final = ("b", "ä", "a", "𐀀", "\ue000", "B", "10", "9", "a b", "a\tb", "%", "ab", "_")
BEFORE_ALL: Final = (ThreadId("\x01"), 0)


async def scanned(storage: Storage, limit: int = 1_024) -> list[tuple[str, int]]:
    """Return the places of all unsettled submissions, page by page."""
    found: list[tuple[str, int]] = []
    while True:
        after = (ThreadId(found[-1][0]), found[-1][1]) if found else None
        page = await storage.ledger.scan_nonterminal(after=after, limit=limit)
        assert len(page) <= limit
        found += [(each.thread_id, each.queue_sequence) for each in page]
        assert len(set(found)) == len(found)
        if len(page) < limit:
            return found


class ScanCases:
    """LED-15: unsettled work in the order of (thread, place), page by page."""

    @pytest.mark.rule("LED-15")
    @pytest.mark.parametrize("limit", [1, 4, 38, 39, 40, 1_024])
    async def test_pages_give_each_submission_once(self, storage: Storage, limit: int) -> None:
        """By the UTF-8 bytes of the thread and by place, whatever order they were admitted in."""
        for number in range(3):
            for name in UNSORTED:
                await storage.ledger.admit(work(f"key-{number}", thread=ThreadId(name)))
        expected = [
            (name, place) for name in sorted(UNSORTED, key=str.encode) for place in (1, 2, 3)
        ]
        assert await scanned(storage, limit) == expected

    @pytest.mark.rule("LED-15")
    @pytest.mark.parametrize("state", STATES)
    async def test_a_scan_shows_what_a_lookup_shows(self, storage: Storage, state: State) -> None:
        """Every unsettled state with all its control fields; settled work is not listed."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        if state not in {"joined", "settled"}:
            await lane.abort("key-1")
        listed = {each.submission_id: each for each in await storage.ledger.scan_nonterminal()}
        expected = {lane.id(key): await lane.see(key) for key in lane.receipts}
        if state == "settled":
            del expected[lane.id("key-1")]
        assert listed == expected

    @pytest.mark.rule("LED-15")
    async def test_a_scan_shows_control_fields_alone(self, storage: Storage) -> None:
        """Neither input nor linkage nor message nor a token is in a submission."""
        lane = await LaneScript.begin(storage)
        given = work("key-1", "canary-1", linkage="canary-2", message="canary-3")
        lane.receipts["key-1"] = await storage.ledger.admit(given)
        await storage.ledger.mark_ready(THREAD, lane.id("key-1"))
        await lane.claim()
        (found,) = await storage.ledger.scan_nonterminal()
        assert "canary" not in repr(found)
        assert lane.token not in repr(found)
        assert {each.name for each in fields(found)} == {each.name for each in fields(Submission)}

    @pytest.mark.rule("LED-15")
    async def test_a_page_begins_after_a_place(self, storage: Storage) -> None:
        """The place need not be taken; work that comes or goes meanwhile shifts nothing."""
        lanes = [await LaneScript.begin(storage, ThreadId(name)) for name in ("b", "d", "f")]
        for lane in lanes:
            await lane.ready("key-1", "key-2", "key-3")
        scan = storage.ledger.scan_nonterminal
        first = await scan(limit=4)
        assert [(each.thread_id, each.queue_sequence) for each in first][-1] == ("d", 1)
        await lanes[1].abort_queued("key-1")
        await lanes[1].abort_queued("key-3")
        await storage.ledger.admit(work(thread=ThreadId("a")))
        await storage.ledger.admit(work(thread=ThreadId("e")))
        rest = await scan(after=(ThreadId("d"), 1), limit=9)
        places = [(each.thread_id, each.queue_sequence) for each in rest]
        assert places == [("d", 2), ("e", 1), ("f", 1), ("f", 2), ("f", 3)]
        for after, count in (
            (BEFORE_ALL, 9),
            ((ThreadId("c"), 7), 5),
            ((ThreadId("d"), 0), 5),
            ((ThreadId("d"), 99), 4),
            ((ThreadId("f"), 3), 0),
            ((ThreadId("z"), 0), 0),
        ):
            assert len(await scan(after=after)) == count

    @pytest.mark.slow_case
    @pytest.mark.rule("LED-15")
    async def test_more_than_a_page_of_work(self, storage: Storage) -> None:
        """1,030 submissions take two pages of 1,024; the default page holds 256."""
        for number in range(1_030):
            await storage.ledger.admit(work(f"key-{number}"))
        assert await scanned(storage) == [(THREAD, place) for place in range(1, 1_031)]
        assert len(await storage.ledger.scan_nonterminal()) == 256

    @pytest.mark.rule("LED-15", "REC-1")
    @pytest.mark.parametrize("limit", [0, -1, 1_025, True, "1", None, 1.0])
    async def test_a_page_of_work_holds_1_to_1_024(self, storage: Storage, limit: int) -> None:
        """Another limit is refused, and so is what is no place."""
        scan = storage.ledger.scan_nonterminal
        await refused(InvalidArgument, scan(limit=limit))
        for name in ("", "\ud800", "a\x00"):
            await refused(InvalidIdentifier, scan(after=(ThreadId(name), 1)))
        for place in (-1, True, 2**53 + 1):
            await refused(InvalidArgument, scan(after=(THREAD, place)))

    @pytest.mark.rule("LED-15", "ARC-7")
    async def test_deleted_threads_leave_the_ledger(self, storage: Storage) -> None:
        """Their settled work is found no more, and other lanes stay."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", "settled")
        await storage.ledger.admit(work(thread=OTHER))
        await storage.threads.delete_thread(THREAD)
        assert await storage.ledger.lookup(submission) is None
        assert await scanned(storage) == [(OTHER, 1)]


class SnapshotCases:
    """LED-15: all that recovery decides on, in one consistent read."""

    @pytest.mark.rule("LED-15")
    async def test_a_snapshot_has_everything(self, storage: Storage, clock: VirtualClock) -> None:
        """Lane, tail, submission, and an empty place for everything that did not happen."""
        lane = await LaneScript.begin(storage, epoch=6)
        submission = await lane.run("key-1")
        snapshot = await lane.snapshot("key-1")
        assert snapshot.lane == await storage.ledger.lane(THREAD)
        assert snapshot.lane.owner is not None
        assert (snapshot.lane.owner.submission_id, snapshot.lane.epoch) == (submission, 7)
        assert (snapshot.lane.owner.live, snapshot.tail) == (True, EMPTY)
        assert snapshot.submission == await lane.see("key-1")
        assert (snapshot.approvals, snapshot.unknown_calls) == ((), ())
        assert (snapshot.resolutions, snapshot.reservations) == ((), ())
        assert snapshot.published_children == frozenset()
        assert (snapshot.input_sequence, snapshot.settlement_published) == (None, False)
        assert snapshot.host_published is False
        clock.advance(LEASE)
        await lane.append(note("one"))
        later = await lane.snapshot("key-1")
        assert later.lane.owner is not None
        assert later.lane.owner.live is False
        assert later.tail == (await storage.threads.tail(THREAD)).tail

    @pytest.mark.rule("LED-15", "LED-8")
    async def test_a_snapshot_asks_the_log(self, storage: Storage) -> None:
        """The input's and the settlement's records count, whatever the markers say."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.append(note("one"))
        sequence = await lane.append_input("key-1")
        snapshot = await lane.snapshot("key-1")
        assert (snapshot.input_sequence, snapshot.submission.input_sequence) == (sequence, None)
        await lane.publish("key-1")
        snapshot = await lane.snapshot("key-1")
        assert (snapshot.settlement_published, snapshot.submission.settled) == (True, None)
        await lane.finalize("key-1")
        snapshot = await lane.snapshot("key-1")
        assert (snapshot.settlement_published, snapshot.submission.state) == (True, "settled")

    @pytest.mark.rule("LED-15", "LED-10")
    async def test_a_guest_s_snapshot_tells_of_its_host(self, storage: Storage) -> None:
        """Whether its host's settlement is published; work without a host has none."""
        lane = await hosting(storage, "a", "alone")
        await take(lane, limit=1)
        assert not (await lane.snapshot("a")).host_published
        await lane.publish("host")
        assert (await lane.snapshot("a")).host_published
        assert not (await lane.snapshot("alone")).host_published
        assert not (await lane.snapshot("host")).host_published

    @pytest.mark.rule("LED-15", "LED-6")
    @pytest.mark.parametrize("state", UNSETTLED)
    async def test_no_read_shows_a_token(self, storage: Storage, state: State) -> None:
        """Neither the live one nor an old one, in no answer about the lane."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        answers = [
            await lane.snapshot("key-1"),
            await storage.ledger.lane(THREAD),
            await storage.ledger.lookup(submission),
            await storage.ledger.scan_nonterminal(),
            await storage.ledger.runnable(),
            await storage.ledger.read_abort_intent(THREAD, submission),
        ]
        text = repr(answers)
        assert submission in text
        assert "token" not in text

    @pytest.mark.rule("LED-15", "LED-16", "LED-11")
    async def test_a_snapshot_is_of_one_moment(self, storage: Storage) -> None:
        """While its work suspends, wakes, appends and is claimed, its parts always agree."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        tails = {(await storage.threads.tail(THREAD)).tail}
        versions: dict[int, object] = {}
        looked: list[Tail] = []

        async def look() -> None:
            while True:
                seen = await lane.snapshot("key-1")
                suspended = seen.submission.state == "suspended"
                assert suspended == (seen.submission.suspension is not None)
                assert suspended <= (seen.lane.owner is None)
                waiting = seen.submission.suspension
                calls = () if waiting is None else waiting.approvals
                assert not {each.tool_call_id for each in seen.approvals} & {*calls}
                marked = seen.submission.input_sequence
                assert marked is None or marked == seen.input_sequence
                assert (seen.input_sequence or 0) <= seen.tail.sequence
                assert versions.setdefault(seen.lane.version, seen.submission) == seen.submission
                looked.append(seen.tail)
                await asyncio.sleep(0)

        readers = [asyncio.create_task(look()) for _ in range(3)]
        for number in range(15):
            if number == 5:
                await lane.apply_input("key-1")
            else:
                await lane.append(note(f"note-{number}"))
            tails.add((await storage.threads.tail(THREAD)).tail)
            await lane.suspend("key-1", f"call-{number}")
            await lane.decide("key-1", f"call-{number}")
            await lane.claim()
            await turns(2)
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        assert all(reader.cancelled() for reader in readers)
        assert looked
        assert {*looked} <= tails
