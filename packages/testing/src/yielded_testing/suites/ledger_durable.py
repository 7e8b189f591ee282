"""Cases of lanes that outlive a storage, and of storages that race on one store (LED-16)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from yielded_core.errors import AdmissionConflict, FenceRejected, OwnershipLost
from yielded_core.ports.work import Admitted, Published
from yielded_core.records.identifiers import ThreadId
from yielded_testing.suites.builders import THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript, child_lane
from yielded_testing.suites.ledger_children import change
from yielded_testing.suites.ledger_races import Storm
from yielded_testing.suites.ledger_unknown import resolve
from yielded_testing.suites.ledger_values import LEASE, STATES, work

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from yielded_core.ports.work import AwaitedChild, State
    from yielded_core.storage import Storage
    from yielded_testing.clock import OpenStorage, VirtualClock

Answer = TypeVar("Answer")

THREADS = 4
"""Threads of the operating system, each with an event loop and a storage of its own."""


async def in_threads(
    open_storage: OpenStorage,
    clock: VirtualClock,
    task: Callable[[Storage, int], Coroutine[Any, Any, Answer]],
) -> list[Answer]:
    """Run a task in several threads at once, each over a storage of its own of one store."""
    together = Barrier(THREADS)

    async def run(number: int) -> Answer:
        async with open_storage(clock=clock) as storage:
            together.wait()
            return await task(storage, number)

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(THREADS) as pool:
        return await asyncio.gather(
            *(loop.run_in_executor(pool, asyncio.run, run(number)) for number in range(THREADS))
        )


class DurableLedgerSuite:
    """What durability means for accepted work; for stores that outlive their storages.

    `open_again` returns another storage of the same store, not yet opened, which follows the clock
    that it is given.
    """

    @pytest.mark.rule("LED-1", "LED-4", "LED-15", "LED-17", "STO-3")
    @pytest.mark.parametrize("state", STATES)
    async def test_a_lane_outlives_a_storage(
        self, open_again: OpenStorage, clock: VirtualClock, state: State
    ) -> None:
        """Everything that can be seen of it is there again, in every state of its work."""
        async with open_again(clock=clock) as storage:
            lane = await LaneScript.begin(storage)
            await lane.bring("key-1", state)
            await lane.ready("key-2")
            if state != "joined":
                await lane.abort("key-2")
            seen = await lane.seen()
            listed = await storage.ledger.scan_nonterminal()
        async with open_again(clock=clock) as storage:
            again = LaneScript(storage, receipts=lane.receipts)
            assert await again.seen() == seen
            assert await storage.ledger.scan_nonterminal() == listed

    @pytest.mark.rule("LED-12", "LED-13", "LED-14", "STO-3")
    async def test_what_belongs_to_work_outlives_a_storage(
        self, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """Decisions, calls, resolutions, reservations, and what repeats of them are answered."""
        async with open_again(clock=clock) as storage:
            lane = await LaneScript.begin(storage)
            await lane.run("key-1")
            lane.receipts["parent"] = lane.receipts["key-1"]
            await lane.decide("key-1", "a", approve=False)
            for step in ("reserve", "attach", "begin"):
                await change(lane, step)
            await lane.mark_unknown("key-1", "b", "c")
            await resolve(lane, "completed-with-result", "b", result={"n": [1.5, None]})
            before = await lane.seen()
        async with open_again(clock=clock) as storage:
            again = LaneScript(storage, receipts=lane.receipts, grants=lane.grants)
            assert await again.unmoved(again.decide("key-1", "a", approve=False)) is False
            assert (await again.unmoved(change(again, "begin"))).status == "releasing"
            await again.unmoved(again.mark_unknown("key-1", "b"))
            same = resolve(again, "completed-with-result", "b", result={"n": [1.5, None]})
            assert (await again.unmoved(same)).replayed
            assert await again.seen() == before

    @pytest.mark.rule("LED-4", "LED-6", "STO-1")
    async def test_a_lease_outlives_a_storage(
        self, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """It keeps others off until exactly its end, and its token goes on owning."""
        async with open_again(clock=clock) as storage:
            lane = await LaneScript.begin(storage)
            await lane.run("key-1")
        clock.advance(LEASE - 1)
        async with open_again(clock=clock) as storage:
            other = LaneScript(storage, name="2", receipts=lane.receipts)
            assert await other.unmoved(other.try_claim()) is None
            clock.advance(1)
            assert await storage.ledger.renew(THREAD, token=lane.token) == clock.now + LEASE
            assert await other.try_claim() is None
            clock.advance(LEASE)
            assert (await other.claim()).epoch == 3
        async with open_again(clock=clock) as storage:
            again = LaneScript(storage, receipts=lane.receipts, grants=lane.grants)
            lost = storage.ledger.renew(THREAD, token=lane.token)
            assert (await again.refuses(OwnershipLost, lost)).actual == 3
            await again.refuses(FenceRejected, again.append(note("stale")))

    @pytest.mark.rule("LED-1", "LED-4", "LED-8", "LOG-7")
    async def test_lost_answers_are_repeated_after_reopening(
        self, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """Admission, claim and publication are replays, and other content still conflicts."""
        async with open_again(clock=clock) as storage:
            lane = await LaneScript.begin(storage)
            await lane.run("key-1")
        async with open_again(clock=clock) as storage:
            again = LaneScript(storage, receipts=lane.receipts, grants=lane.grants)
            assert (await again.unmoved(storage.ledger.admit(work("key-1")))).replayed
            await again.refuses(AdmissionConflict, storage.ledger.admit(work("key-1", "other")))
            claim = storage.ledger.claim(THREAD, attempt=lane.grant.attempt_id, token=lane.token)
            grant = await again.unmoved(claim)
            assert grant is not None
            assert (grant.replayed, grant.epoch) == (True, lane.grant.epoch)
            first = await again.publish("key-1", finalize=True)
        async with open_again(clock=clock) as storage:
            again = LaneScript(storage, receipts=lane.receipts, grants=lane.grants)
            repeated = await again.unmoved(again.publish("key-1", "failed"))
            assert repeated == Published(first.record, first.tail, replayed=True)

    @pytest.mark.rule("LED-3", "LED-9", "LED-16")
    async def test_storages_of_one_store_show_one_ledger(
        self, storage: Storage, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """What one commits the other sees at once, and acts on."""
        async with open_again(clock=clock) as other:
            here = await LaneScript.begin(storage)
            there = LaneScript(other, name="2", receipts=here.receipts)
            await here.ready("key-1")
            assert await there.seen() == await here.seen()
            await there.claim()
            assert await here.unmoved(here.try_claim()) is None
            await here.abort("key-1")
            intent = await other.ledger.read_abort_intent(THREAD, here.id("key-1"))
            assert intent.intent is not None
            clock.advance(LEASE)
            await here.claim()
            await here.refuses(FenceRejected, there.append(note("stale")))
            await here.refuses(OwnershipLost, there.release())
            await here.settle("key-1", "aborted")
            assert (await there.see("key-1")).state == "settled"

    @pytest.mark.rule("LED-16", "LED-4")
    async def test_claims_of_two_storages_race(
        self, storage: Storage, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """Of 8 on each side exactly one is granted, ten times over."""
        async with open_again(clock=clock) as other:
            here = await LaneScript.begin(storage)
            await here.ready("key-1")
            for number in range(10):
                workers = [
                    LaneScript(side, name=f"{number}-{at}-{index}")
                    for at in range(8)
                    for index, side in enumerate((storage, other))
                ]
                grants = await asyncio.gather(*(worker.try_claim() for worker in workers))
                (grant,) = [each for each in grants if each is not None]
                assert grant.epoch == 2 + number
                clock.advance(LEASE)

    @pytest.mark.rule("LED-1", "LED-2", "LED-16")
    async def test_admissions_of_two_storages_race(
        self, storage: Storage, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """One key from both sides is one submission; many keys take the places without gap."""
        async with open_again(clock=clock) as other:
            sides = (storage, other)
            copies = await asyncio.gather(
                *(sides[at % 2].ledger.admit(work("one", group="g")) for at in range(12))
            )
            assert len({each.submission_id for each in copies}) == 1
            assert sum(not each.replayed for each in copies) == 1
            many = await asyncio.gather(
                *(sides[at % 2].ledger.admit(work(f"key-{at}")) for at in range(12))
            )
            assert sorted(each.queue_sequence for each in many) == list(range(2, 14))

    @pytest.mark.rule("LED-11", "LED-12", "LED-16")
    async def test_suspension_and_decision_of_two_storages_race(
        self, storage: Storage, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """Neither side misses what the other commits first, be it a decision or a child."""
        async with open_again(clock=clock) as other:
            here = await LaneScript.begin(storage)
            await here.run("key-1")
            there = LaneScript(other, receipts=here.receipts)
            for number in range(10):
                call = f"call-{number}"
                answer, woken = await asyncio.gather(
                    here.suspend("key-1", call), there.decide("key-1", call)
                )
                assert (answer == "suspended") == woken
                assert (await there.see("key-1")).state == "running"
                if woken:
                    await here.claim()
            for number in range(6):
                script, child = await child_lane(other, f"child-{number}")

                async def told(worker: LaneScript = script, awaited: AwaitedChild = child) -> str:
                    await worker.publish("child")
                    return await other.ledger.record_child_settled(
                        THREAD, here.id("key-1"), child=awaited
                    )

                answer, wake = await asyncio.gather(here.await_children("key-1", child), told())
                assert (answer == "suspended") == (wake == "woken")
                if wake == "woken":
                    await here.claim()

    @pytest.mark.rule("LED-8", "LED-16")
    async def test_publication_and_takeover_of_two_storages_race(
        self, storage: Storage, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """The record is in the tail of the new grant, or it is not there at all."""
        async with open_again(clock=clock) as other:
            for number in range(10):
                here = await LaneScript.begin(storage, ThreadId(f"lane-{number}"))
                await here.run("key-1")
                there = LaneScript(other, here.thread, "2", here.receipts)
                clock.advance(LEASE)
                answers = await asyncio.gather(
                    here.publish("key-1"), there.try_claim(), return_exceptions=True
                )
                published = isinstance(answers[0], Published)
                assert published != isinstance(answers[0], OwnershipLost)
                assert there.grant.tail.sequence == int(published)
                tail = await other.threads.tail(here.thread)
                assert (tail.sequence, tail.epoch) == (int(published), 3)

    @pytest.mark.slow_case
    @pytest.mark.rule("LED-1", "LED-4", "LED-16")
    async def test_threads_race_for_keys_and_lanes(
        self, storage: Storage, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """One key is one submission, one lane has one owner, whichever thread is first."""
        lanes = [await LaneScript.begin(storage, ThreadId(f"lane-{at:02}")) for at in range(12)]
        for lane in lanes:
            await lane.ready("key-1")

        async def race(mine: Storage, number: int) -> tuple[list[Admitted], list[int]]:
            receipts = [await mine.ledger.admit(work(f"key-{at}")) for at in range(12)]
            workers = [LaneScript(mine, lane.thread, f"w{number}") for lane in lanes]
            grants = await asyncio.gather(*(worker.try_claim() for worker in workers))
            return receipts, [at for at, grant in enumerate(grants) if grant is not None]

        answers = await in_threads(open_again, clock, race)
        for copies in zip(*(receipts for receipts, _ in answers), strict=True):
            assert len({each.submission_id for each in copies}) == 1
            assert sum(not each.replayed for each in copies) == 1
        assert sorted(at for _, won in answers for at in won) == list(range(12))

    @pytest.mark.slow_case
    @pytest.mark.rule("LED-16", "LED-4", "LED-6", "LED-7", "LED-8")
    async def test_a_storm_of_threads_settles_everything_once(
        self, storage: Storage, open_again: OpenStorage, clock: VirtualClock
    ) -> None:
        """In the order of each lane, under epochs that were current, nothing acknowledged lost."""
        storm = await Storm.begin(storage, clock, 3, 8)

        async def blow(mine: Storage, number: int) -> None:
            await asyncio.gather(*(storm.work(mine, f"{number}.{at}") for at in range(3)))

        await in_threads(open_again, clock, blow)
        await storm.check(storage)
        assert len(storm.grants) > 24
        assert storm.stale > 0
