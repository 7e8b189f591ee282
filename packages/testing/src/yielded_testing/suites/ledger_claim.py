"""Cases of claiming a lane: its head, its one lease, its epoch (LED-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import EpochExhausted, FenceRejected, OwnershipLost
from yielded_core.ports.work import Grant, Lane, Owner
from yielded_core.records.identifiers import AttemptId, ThreadId
from yielded_testing.suites.builders import OTHER, THREAD, Writer, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import LEASE, token
from yielded_testing.suites.support import stored_names

if TYPE_CHECKING:
    from yielded_core.ports.work import State
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

LAST_EPOCH: Final = 999_999_999_999_999_999
BARRIERS: Final = ("admitted", "joining", "joined", "suspended")


async def barred(storage: Storage, state: State) -> LaneScript:
    """Return a lane with ready work behind a head that no claim passes, and nobody's lease."""
    lane = await LaneScript.begin(storage)
    await lane.bring("head", state)
    if state in {"joining", "joined"}:
        await lane.settle("host")
    await lane.ready("behind")
    assert (await lane.see("head")).state == state
    return lane


class HeadCases:
    """LED-4: a claim takes the lowest unsettled submission, or nothing."""

    @pytest.mark.rule("LED-4")
    async def test_a_claim_gives_the_lane(self, storage: Storage, clock: VirtualClock) -> None:
        """The grant has the head, now running, the next epoch, the tail and when it ends."""
        writer = await Writer.begin(storage, epoch=4)
        await writer.fill(3)
        lane = LaneScript(storage)
        submission = await lane.ready("key-1")
        version = await lane.version()
        grant = await lane.claim(lease=5_000)
        running = await lane.see("key-1")
        assert (running.submission_id, running.state) == (submission, "running")
        attempt = AttemptId("attempt-1-1")
        until = clock.now + 5_000
        assert grant == Grant(running, attempt, 5, until, writer.tail, replayed=False)
        seen = await storage.ledger.lane(THREAD)
        assert seen is not None
        assert seen == Lane(THREAD, 5, seen.version, Owner(submission, attempt, until, live=True))
        assert seen.version > version
        assert (await storage.threads.tail(THREAD)).epoch == 5

    @pytest.mark.rule("LED-4")
    async def test_a_lease_lasts_30_seconds_by_default(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """And up to 24 hours when asked for."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        grant = await storage.ledger.claim(
            THREAD, attempt=AttemptId("attempt"), token=token("default")
        )
        assert grant is not None
        assert grant.expires_at == clock.now + 30_000
        clock.advance(30_000)
        assert (await lane.claim(lease=86_400_000)).expires_at == clock.now + 86_400_000
        clock.advance(86_400_000)
        assert (await lane.claim(lease=1)).expires_at == clock.now + 1

    @pytest.mark.rule("LED-4")
    async def test_work_is_claimed_in_the_order_of_its_admission(self, storage: Storage) -> None:
        """Not in that of its readiness, and each once the one before it is settled."""
        lane = await LaneScript.begin(storage)
        keys = [f"key-{number}" for number in range(1, 6)]
        await lane.admit(*keys)
        for key in reversed(keys):
            await storage.ledger.mark_ready(THREAD, lane.id(key))
        for key in keys:
            assert (await lane.claim()).submission.submission_id == lane.id(key)
            await lane.settle(key)
        assert await lane.unmoved(lane.try_claim()) is None

    @pytest.mark.rule("LED-4")
    async def test_where_there_is_nothing_a_claim_is_none(self, storage: Storage) -> None:
        """Without a thread, without work, with settled work alone; and no lane comes to be."""
        nowhere = LaneScript(storage, ThreadId("nowhere"))
        assert await nowhere.try_claim() is None
        assert await storage.ledger.lane(nowhere.thread) is None
        lane = await LaneScript.begin(storage)
        assert await lane.unmoved(lane.try_claim()) is None
        await lane.run("key-1")
        await lane.settle("key-1")
        assert await lane.unmoved(lane.try_claim()) is None

    @pytest.mark.rule("LED-4", "LED-17")
    @pytest.mark.parametrize("state", BARRIERS)
    async def test_a_barrier_stops_every_claim(self, storage: Storage, state: State) -> None:
        """Nothing behind an admitted, joining, joined or suspended head is claimed."""
        lane = await barred(storage, state)
        assert await lane.unmoved(lane.try_claim()) is None
        assert await storage.ledger.runnable() == ()

    @pytest.mark.rule("LED-4", "LED-9")
    @pytest.mark.parametrize("state", ["admitted", "joining"])
    async def test_an_abort_does_not_open_a_barrier(self, storage: Storage, state: State) -> None:
        """Only a settlement takes the head out of the lane."""
        lane = await barred(storage, state)
        await lane.abort("head")
        assert await lane.unmoved(lane.try_claim()) is None

    @pytest.mark.rule("LED-4")
    async def test_unknown_work_is_passed_over(self, storage: Storage) -> None:
        """Any number of it, at the head and further behind; its state stays."""
        lane = await LaneScript.begin(storage)
        for key in ("lost-1", "lost-2"):
            await lane.bring(key, "unknown")
        await lane.run("key-1")
        await lane.settle("key-1")
        await lane.bring("lost-3", "unknown")
        assert await lane.unmoved(lane.try_claim()) is None
        assert (await lane.run("key-2")) == lane.id("key-2")
        for key in ("lost-1", "lost-2", "lost-3"):
            assert (await lane.see(key)).state == "unknown"

    @pytest.mark.rule("LED-4")
    async def test_only_unknown_work_is_passed_over(self, storage: Storage) -> None:
        """Behind it an admitted gap is a barrier as ever."""
        lane = await LaneScript.begin(storage)
        await lane.bring("lost", "unknown")
        await lane.admit("gap")
        await lane.ready("behind")
        assert await lane.unmoved(lane.try_claim()) is None

    @pytest.mark.rule("LED-4", "LED-9")
    async def test_unknown_work_that_is_to_be_aborted_is_claimed(self, storage: Storage) -> None:
        """In its turn, before the work behind it, and still unknown."""
        lane = await LaneScript.begin(storage)
        await lane.bring("lost-1", "unknown")
        await lane.bring("lost-2", "unknown")
        await lane.ready("behind")
        await lane.abort("lost-2")
        grant = await lane.claim()
        assert grant.submission.submission_id == lane.id("lost-2")
        assert grant.submission.state == (await lane.see("lost-2")).state == "unknown"
        await lane.settle("lost-2", "aborted")
        assert (await lane.claim()).submission.submission_id == lane.id("behind")

    @pytest.mark.rule("LED-4")
    @pytest.mark.parametrize("how", ["released", "lapsed", "taken over"])
    @pytest.mark.parametrize("state", ["running", "input-applied"])
    async def test_work_goes_on_where_it_was(
        self, storage: Storage, clock: VirtualClock, state: State, how: str
    ) -> None:
        """Work whose owner is gone is claimed again, in the state in which it was left."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        before = await lane.see("key-1")
        if how == "released":
            await lane.release()
        elif how == "lapsed":
            clock.advance(LEASE)
        else:
            await storage.threads.materialize(THREAD, epoch=10)
        await lane.ready("key-2")
        grant = await lane.claim()
        assert (grant.submission, grant.submission.submission_id) == (before, submission)
        assert await lane.see("key-1") == before


class LeaseCases:
    """LED-4: one live lease in a thread, and a claim that can be repeated."""

    @pytest.mark.rule("LED-4", "LED-6")
    @pytest.mark.parametrize("lease", [1, 30_000, 86_400_000])
    async def test_equal_time_is_expired(
        self, storage: Storage, clock: VirtualClock, lease: int
    ) -> None:
        """A millisecond before its end a lease is live; at its end the lane can be claimed."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        grant = await lane.claim(lease=lease)
        clock.now = grant.expires_at - 1
        assert await lane.unmoved(lane.try_claim()) is None
        seen = await storage.ledger.lane(THREAD)
        assert (seen and seen.owner and seen.owner.live) is True
        clock.now = grant.expires_at
        seen = await storage.ledger.lane(THREAD)
        assert (seen and seen.owner and seen.owner.live) is False
        assert (await lane.claim()).epoch == grant.epoch + 1

    @pytest.mark.rule("LED-4")
    @pytest.mark.parametrize(
        ("attempt", "name"),
        [("attempt-2", "2"), ("attempt-1-1", "2"), ("attempt-2", "1-1"), ("ATTEMPT-1-1", "1-1")],
    )
    async def test_a_live_lease_admits_no_other_claim(
        self, storage: Storage, attempt: str, name: str
    ) -> None:
        """Not of the same attempt with another token, nor of the same token for another attempt."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.ready("key-2")
        claim = storage.ledger.claim(THREAD, attempt=AttemptId(attempt), token=token(name))
        assert await lane.unmoved(claim) is None

    @pytest.mark.rule("LED-4")
    async def test_a_live_lease_counts_wherever_it_is(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Its submission need not be the head: parked as unknown, it keeps the lane."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.mark_unknown("key-1")
        await lane.ready("key-2")
        assert await lane.unmoved(lane.try_claim()) is None
        clock.advance(LEASE)
        assert (await lane.claim()).submission.submission_id == lane.id("key-2")

    @pytest.mark.rule("LED-4")
    async def test_lanes_are_owned_apart(self, storage: Storage) -> None:
        """A lease in one thread means nothing in another, not even with the same names."""
        lanes = [await LaneScript.begin(storage, thread) for thread in (THREAD, OTHER)]
        grants = [(await lane.run("key-1"), lane.grant) for lane in lanes]
        assert [grant.submission.thread_id for _, grant in grants] == [THREAD, OTHER]
        assert grants[0][1].attempt_id == grants[1][1].attempt_id
        await lanes[0].release()
        assert await storage.ledger.renew(OTHER, token=lanes[1].token) == lanes[1].grant.expires_at

    @pytest.mark.rule("LED-4")
    async def test_repeating_a_claim_replays_its_grant(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Also later, with another lease and after expiry: a lost answer blocks nothing."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        first = lane.grant
        for passed, lease in ((0, LEASE), (1, 1), (LEASE - 2, LEASE), (1, LEASE), (5_000, 1)):
            clock.advance(passed)
            again = storage.ledger.claim(
                THREAD, attempt=first.attempt_id, token=lane.token, lease=lease
            )
            expected = Grant(
                first.submission, first.attempt_id, 2, first.expires_at, first.tail, replayed=True
            )
            assert await lane.unmoved(again) == expected

    @pytest.mark.rule("LED-4")
    async def test_a_replayed_grant_shows_the_lane_as_it_is(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """With the tail, the state and the renewed expiry of that moment."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.apply_input("key-1")
        clock.advance(10)
        until = await storage.ledger.renew(THREAD, token=lane.token)
        again = await storage.ledger.claim(THREAD, attempt=lane.grant.attempt_id, token=lane.token)
        assert again is not None
        assert (again.replayed, again.epoch, again.expires_at) == (True, 2, until)
        assert again.submission.state == "input-applied"
        assert again.tail == (await storage.threads.tail(THREAD)).tail

    @pytest.mark.rule("LED-4")
    async def test_a_superseded_claim_is_not_replayed(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Once somebody else claimed, the names of the old claim give nothing."""
        lane, other = await LaneScript.begin(storage), LaneScript(storage, name="2")
        await lane.run("key-1")
        clock.advance(LEASE)
        await other.claim()
        again = storage.ledger.claim(THREAD, attempt=lane.grant.attempt_id, token=lane.token)
        assert await lane.unmoved(again) is None


class EpochCases:
    """LED-4: each grant raises the producer epoch of the thread by one, which fences the old."""

    @pytest.mark.rule("LED-4", "LED-16")
    async def test_a_claim_raises_the_epoch_by_one(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Once for each grant, neither for a replay nor for a claim that gives nothing."""
        lane = await LaneScript.begin(storage, epoch=7)
        await lane.ready("key-1")
        for number in range(1, 6):
            assert (await lane.claim()).epoch == 7 + number
            assert await lane.try_claim() is None
            await storage.ledger.claim(THREAD, attempt=lane.grant.attempt_id, token=lane.token)
            assert (await storage.threads.tail(THREAD)).epoch == 7 + number
            clock.advance(LEASE)

    @pytest.mark.rule("LED-4", "LED-16", "LOG-2")
    async def test_the_old_owner_is_fenced(self, storage: Storage, clock: VirtualClock) -> None:
        """It may append until somebody claims, lease or no lease, and never afterwards."""
        lane, other = await LaneScript.begin(storage), LaneScript(storage, name="2")
        await lane.run("key-1")
        clock.advance(2 * LEASE)
        await lane.append(note("late but owned"))
        grant = await other.claim()
        assert grant.tail.sequence == 1
        fence = await lane.refuses(FenceRejected, lane.append(note("stale")))
        assert (fence.actual, fence.attempted) == (grant.epoch, grant.epoch - 1)
        await other.append(note("mine"))
        assert await stored_names(storage) == ["late but owned", "mine"]

    @pytest.mark.rule("LED-4", "LOG-2", "LOG-1")
    async def test_who_materialized_the_thread_is_fenced_too(self, storage: Storage) -> None:
        """A claim takes the thread from whoever wrote to it before."""
        writer = await Writer.begin(storage)
        lane = LaneScript(storage)
        await lane.run("key-1")
        fence = await lane.refuses(FenceRejected, writer.append(note("stale")))
        assert (fence.actual, fence.attempted) == (2, 1)
        refusal = storage.threads.materialize(THREAD, epoch=1)
        await lane.refuses(FenceRejected, refusal)

    @pytest.mark.rule("LED-4", "LED-6", "LOG-1")
    async def test_taking_the_thread_over_ends_the_ownership(self, storage: Storage) -> None:
        """At a higher epoch nobody owns the lane; the next claim is one above it."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.unmoved(storage.threads.materialize(THREAD, epoch=2))
        assert await storage.ledger.renew(THREAD, token=lane.token) == lane.grant.expires_at
        await storage.threads.materialize(THREAD, epoch=20)
        seen = await storage.ledger.lane(THREAD)
        assert seen is not None
        assert (seen.epoch, seen.owner) == (20, None)
        lost = storage.ledger.renew(THREAD, token=lane.token)
        assert (await lane.refuses(OwnershipLost, lost)).actual == 20
        assert (await lane.claim()).epoch == 21

    @pytest.mark.rule("LED-4", "STO-4")
    async def test_a_new_timeline_ends_every_ownership(self, storage: Storage) -> None:
        """No token of the lost timeline matches again; the lanes can be claimed at once."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await storage.new_incarnation()
        lost = storage.ledger.renew(THREAD, token=lane.token)
        assert (await lane.refuses(OwnershipLost, lost)).actual == 2 + 2**32
        assert (await lane.claim()).epoch == 3 + 2**32

    @pytest.mark.rule("LED-4", "STO-4")
    async def test_a_new_timeline_takes_work_of_no_thread_along(self, storage: Storage) -> None:
        """A lane whose thread is not materialized stays at epoch 0, its work admitted.

        The lost timeline may have materialized it: it begins above the epochs granted there.
        """
        lane = LaneScript(storage)
        await lane.admit("key-1")
        await storage.new_incarnation()
        seen = await storage.ledger.lane(THREAD)
        assert (seen and seen.epoch) == 0
        assert (await storage.threads.materialize(THREAD, epoch=1)).epoch == 1 + 2**32
        await lane.ready("key-1")
        assert (await lane.claim()).epoch == 2 + 2**32

    @pytest.mark.rule("LED-4", "LOG-1")
    async def test_the_last_epoch_is_granted_and_none_after_it(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """A claim beyond 18 digits is EpochExhausted and changes nothing."""
        lane = await LaneScript.begin(storage, epoch=LAST_EPOCH - 1)
        await lane.run("key-1")
        assert lane.grant.epoch == LAST_EPOCH
        clock.advance(LEASE)
        error = await lane.refuses(EpochExhausted, lane.try_claim())
        assert (error.thread, error.last) == (THREAD, LAST_EPOCH)
