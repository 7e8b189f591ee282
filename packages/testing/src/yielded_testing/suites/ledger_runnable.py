"""Cases of finding lanes with claimable work: a hint, oldest first (LED-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import InvalidArgument, InvalidIdentifier
from yielded_core.ports.work import RunnableLane
from yielded_core.records.identifiers import ThreadId
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_claim import BARRIERS, barred
from yielded_testing.suites.ledger_openings import OPENINGS
from yielded_testing.suites.ledger_values import LEASE
from yielded_testing.suites.support import refused

if TYPE_CHECKING:
    from yielded_core.ports.work import State
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

NAMES: Final = ("d", "a", "c", "é", "b", "𐀀", "\ue000")


async def found(storage: Storage, limit: int = 1_024) -> list[str]:
    """Return the threads of all runnable lanes, page by page."""
    lanes: list[RunnableLane] = []
    while True:
        page = await storage.ledger.runnable(after=lanes[-1] if lanes else None, limit=limit)
        assert len(page) <= limit
        lanes += page
        places = [(each.since, each.thread_id.encode()) for each in lanes]
        assert places == sorted(set(places))
        if len(page) < limit:
            return [each.thread_id for each in lanes]


class RunnableCases:
    """LED-17: lanes that can be claimed, and those alone."""

    @pytest.mark.rule("LED-17")
    @pytest.mark.parametrize("limit", [1, 3, 6, 7, 8, 1_024])
    async def test_lanes_are_found_oldest_first(
        self, storage: Storage, clock: VirtualClock, limit: int
    ) -> None:
        """By the instant since when their head is claimable, then by thread; page by page."""
        for name in NAMES[:4]:
            await (await LaneScript.begin(storage, ThreadId(name))).ready("key-1")
            clock.advance(1)
        for name in NAMES[4:]:
            await (await LaneScript.begin(storage, ThreadId(name))).ready("key-1")
        assert await found(storage, limit) == ["d", "a", "c", "é", "b", "\ue000", "𐀀"]

    @pytest.mark.rule("LED-17")
    async def test_finding_grants_nothing(self, storage: Storage, clock: VirtualClock) -> None:
        """However often it is asked, the lane is as it was, and still found."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        expected = (RunnableLane(THREAD, clock.now),)
        for _ in range(3):
            assert await lane.unmoved(storage.ledger.runnable()) == expected
            clock.advance(1_000)
        await lane.claim()

    @pytest.mark.rule("LED-17", "LED-6")
    async def test_an_owned_lane_is_found_when_its_lease_ends(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Not a millisecond before; a renewal puts it off; its age counts from the end."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1", "key-2")
        await lane.claim()
        clock.advance(LEASE - 1)
        assert await found(storage) == []
        until = await storage.ledger.renew(THREAD, token=lane.token)
        clock.advance(1)
        assert await found(storage) == []
        clock.now = until - 1
        assert await found(storage) == []
        clock.now = until
        assert await storage.ledger.runnable() == (RunnableLane(THREAD, until),)
        clock.advance(500)
        assert await storage.ledger.runnable() == (RunnableLane(THREAD, until),)
        await storage.ledger.renew(THREAD, token=lane.token)
        assert await found(storage) == []

    @pytest.mark.rule("LED-17")
    @pytest.mark.parametrize("state", BARRIERS)
    async def test_a_barred_lane_is_not_found(self, storage: Storage, state: State) -> None:
        """Whatever is ready behind its head."""
        await barred(storage, state)
        assert await found(storage) == []

    @pytest.mark.rule("LED-17")
    async def test_idle_parked_and_settled_lanes_are_not_found(self, storage: Storage) -> None:
        """Nor those whose thread is not there; work behind parked work is found."""
        await LaneScript.begin(storage, ThreadId("idle"))
        await LaneScript(storage, ThreadId("not there")).admit("key-1")
        states: tuple[State, ...] = ("settled", "unknown", "suspended", "running", "admitted")
        for state in states:
            await (await LaneScript.begin(storage, ThreadId(state))).bring("key-1", state)
        assert await found(storage) == []
        await LaneScript(storage, ThreadId("unknown")).ready("key-2")
        assert await found(storage) == ["unknown"]

    @pytest.mark.rule("LED-17")
    @pytest.mark.parametrize("way", list(OPENINGS))
    async def test_a_lane_is_found_as_soon_as_it_is_claimable(
        self, storage: Storage, clock: VirtualClock, way: str
    ) -> None:
        """By whatever makes its head claimable, from that instant on; and then it is claimed."""
        lane = await LaneScript.begin(storage)
        opening = OPENINGS[way](lane)
        await anext(opening)
        clock.advance(10)
        assert await found(storage) == []
        await anext(opening, None)
        assert await storage.ledger.runnable() == (RunnableLane(THREAD, clock.now),)
        await lane.claim()
        assert await found(storage) == []

    @pytest.mark.rule("LED-17", "LED-4", "LOG-1", "STO-4")
    @pytest.mark.parametrize("way", ["taken over", "new timeline"])
    async def test_a_lane_whose_owner_was_fenced_is_found(
        self, storage: Storage, clock: VirtualClock, way: str
    ) -> None:
        """Its lease means nothing any more, so the lane does not wait for its end."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        await lane.claim(lease=86_400_000)
        idle = await LaneScript.begin(storage, ThreadId("idle"))
        clock.advance(10)
        if way == "taken over":
            for worker in (lane, idle):
                await storage.threads.materialize(worker.thread, epoch=10)
        else:
            await storage.new_incarnation()
        assert await storage.ledger.runnable() == (RunnableLane(THREAD, clock.now),)
        await lane.claim()
        assert await found(storage) == []

    @pytest.mark.rule("LED-17", "LED-13")
    @pytest.mark.parametrize("late", [False, True])
    async def test_a_lane_is_as_old_as_what_came_last(
        self, storage: Storage, clock: VirtualClock, *, late: bool
    ) -> None:
        """Behind parked work that is still owned: the end of its lease, or later readiness."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.mark_unknown("key-1")
        if late:
            clock.advance(2 * LEASE)
            assert await found(storage) == []
        await lane.ready("key-2")
        since = clock.now if late else lane.grant.expires_at
        if not late:
            clock.now = since - 1
            assert await found(storage) == []
        for now in (since, since + 7):
            clock.now = now
            assert await storage.ledger.runnable() == (RunnableLane(THREAD, since),)
        assert (await lane.claim()).submission.submission_id == lane.id("key-2")

    @pytest.mark.rule("LED-17")
    async def test_waiting_lanes_keep_their_places(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """More work behind the head, and an abort of it, make a lane no younger."""
        one, two = [await LaneScript.begin(storage, ThreadId(name)) for name in ("z", "a")]
        await one.ready("key-1")
        since = clock.now
        clock.advance(5)
        await two.ready("key-1")
        clock.advance(5)
        await one.ready("key-2")
        await one.abort("key-1")
        await storage.ledger.mark_ready(one.thread, one.id("key-1"))
        assert (await storage.ledger.runnable())[0] == RunnableLane(one.thread, since)
        assert await found(storage) == ["z", "a"]

    @pytest.mark.rule("LED-17")
    async def test_lanes_take_turns(self, storage: Storage, clock: VirtualClock) -> None:
        """A lane whose work was just settled goes behind those that wait longer."""
        lanes = {name: await LaneScript.begin(storage, ThreadId(name)) for name in ("a", "b", "c")}
        for lane in lanes.values():
            await lane.ready(*(f"key-{number}" for number in range(3)))
        order: list[str] = []
        for number in range(9):
            clock.advance(1)
            (first,) = await storage.ledger.runnable(limit=1)
            order.append(first.thread_id)
            lane = lanes[first.thread_id]
            await lane.claim()
            await lane.settle(f"key-{number // 3}")
        assert order == ["a", "b", "c"] * 3
        assert await found(storage) == []

    @pytest.mark.rule("LED-17", "ARC-7")
    async def test_a_deleted_thread_is_not_found(self, storage: Storage) -> None:
        """Its lane goes with it."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", "settled")
        await storage.threads.delete_thread(THREAD)
        assert await found(storage) == []

    @pytest.mark.rule("LED-17", "REC-1")
    @pytest.mark.parametrize("limit", [0, -1, 1_025, True, "1", None])
    async def test_a_page_of_lanes_holds_1_to_1_024(self, storage: Storage, limit: int) -> None:
        """Another limit is refused, and so is what is no place; the default page holds 64."""
        runnable = storage.ledger.runnable
        await refused(InvalidArgument, runnable(limit=limit))
        for name in ("", "\ud800", "a\x00"):
            await refused(InvalidIdentifier, runnable(after=RunnableLane(ThreadId(name), 1)))
        for since in (-1, True, 2**53 + 1):
            await refused(InvalidArgument, runnable(after=RunnableLane(THREAD, since)))

    @pytest.mark.slow_case
    @pytest.mark.rule("LED-17")
    async def test_a_page_of_lanes_holds_64_by_default(self, storage: Storage) -> None:
        """70 lanes take two of them."""
        for number in range(70):
            await (await LaneScript.begin(storage, ThreadId(f"lane-{number:02}"))).ready("key-1")
        first = await storage.ledger.runnable()
        assert len(first) == 64
        assert len(await storage.ledger.runnable(after=first[-1])) == 6
