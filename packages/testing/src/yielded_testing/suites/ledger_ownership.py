"""Cases of keeping and losing a lane (LED-6), and of the marker that its owner sets (LED-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    EvidenceFault,
    MarkerConflict,
    OwnershipLost,
    TransitionRefused,
)
from yielded_core.records.identifiers import OwnershipToken, SubmissionId
from yielded_testing.suites.builders import THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_operations import OWNED, WITHOUT_OWNER, staged
from yielded_testing.suites.ledger_values import LEASE, input_record, token

if TYPE_CHECKING:
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

LOST: Final = ("superseded", "released", "taken over", "suspended", "settled", "new timeline")
LOSSES: Final = [
    (way, name) for way in LOST for name in OWNED if way != "settled" or name not in WITHOUT_OWNER
]


async def lose(lane: LaneScript, clock: VirtualClock, way: str) -> None:
    """Let the newest claim of a lane lose its ownership."""
    if way == "superseded":
        clock.advance(LEASE)
        await lane.another("2").claim()
    elif way == "released":
        await lane.release()
    elif way == "taken over":
        await lane.storage.threads.materialize(lane.thread, epoch=lane.grant.epoch + 1)
    elif way == "suspended":
        await lane.suspend("host")
    elif way == "settled":
        await lane.settle("host")
    else:
        await lane.storage.new_incarnation()


class RenewCases:
    """LED-6: a lease is extended, never shortened, and outlived by its ownership."""

    @pytest.mark.rule("LED-6")
    async def test_a_renewal_extends_the_lease(self, storage: Storage, clock: VirtualClock) -> None:
        """From the instant of the renewal on; nobody else can claim until exactly its end."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        clock.advance(LEASE - 1)
        version = await lane.version()
        until = await storage.ledger.renew(THREAD, token=lane.token, lease=7_000)
        assert until == clock.now + 7_000
        assert await lane.version() > version
        seen = await storage.ledger.lane(THREAD)
        assert seen is not None
        assert seen.owner is not None
        assert (seen.owner.expires_at, seen.epoch) == (until, 2)
        clock.now = until - 1
        assert await lane.unmoved(lane.another("2").try_claim()) is None
        clock.now = until
        assert await lane.another("2").try_claim() is not None

    @pytest.mark.rule("LED-6")
    async def test_a_renewal_never_shortens_the_lease(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """A shorter one answers with the end that stands, to the millisecond."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        ends = (await lane.claim(lease=10_000)).expires_at
        for lease in (1, 9_999, 10_000):
            assert await storage.ledger.renew(THREAD, token=lane.token, lease=lease) == ends
        assert await storage.ledger.renew(THREAD, token=lane.token, lease=10_001) == ends + 1
        clock.now = ends
        assert await lane.try_claim() is None

    @pytest.mark.rule("LED-6")
    @pytest.mark.parametrize("late", [0, 1, 365 * 86_400_000])
    async def test_a_lapsed_lease_is_renewed_if_nobody_claimed(
        self, storage: Storage, clock: VirtualClock, late: int
    ) -> None:
        """At its end as much as a year later; from then on it is live again."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        clock.now = lane.grant.expires_at + late
        assert await storage.ledger.renew(THREAD, token=lane.token) == clock.now + LEASE
        assert await lane.unmoved(lane.another("2").try_claim()) is None
        await lane.append(note("mine"))

    @pytest.mark.rule("LED-6")
    @pytest.mark.parametrize("name", list(OWNED))
    async def test_an_owner_works_on_until_somebody_claims(
        self, storage: Storage, clock: VirtualClock, name: str
    ) -> None:
        """Every operation of an owner works after its lease ran out, and raises the version."""
        lane = await staged(storage)
        clock.advance(2 * LEASE)
        version = await lane.version()
        await OWNED[name](lane, lane.token)
        if name != "claim_joining":  # which only repeats its answer here
            assert await lane.version() > version

    @pytest.mark.rule("LED-6", "LED-7", "LED-8", "LED-10", "LED-11", "LED-14")
    @pytest.mark.parametrize(("way", "name"), LOSSES)
    async def test_a_token_that_lost_the_lane_does_nothing(
        self, storage: Storage, clock: VirtualClock, way: str, name: str
    ) -> None:
        """OwnershipLost with the actual epoch, however it was lost; and nothing changes."""
        lane = await staged(storage)
        await lose(lane, clock, way)
        error = await lane.refuses(OwnershipLost, OWNED[name](lane, lane.token))
        epoch = (await storage.threads.tail(THREAD)).epoch
        assert (error.thread, error.actual) == (THREAD, epoch)

    @pytest.mark.rule("LED-6", "LED-7", "LED-8", "LED-10", "LED-11", "LED-14")
    @pytest.mark.parametrize("name", list(OWNED))
    async def test_a_token_that_nobody_was_given_does_nothing(
        self, storage: Storage, name: str
    ) -> None:
        """Tokens are exact: neither another case, nor a space more, nor the attempt's name."""
        lane = await staged(storage)
        for wrong in (lane.token.upper(), f"{lane.token} ", lane.token[:-1], "attempt-1-1"):
            await lane.refuses(OwnershipLost, OWNED[name](lane, OwnershipToken(wrong)))

    @pytest.mark.rule("LED-6")
    async def test_no_token_owns_a_lane_that_is_not_there(self, storage: Storage) -> None:
        """Nor one that was never claimed."""
        for lane in (LaneScript(storage), await LaneScript.begin(storage)):
            for work in (
                storage.ledger.renew(THREAD, token=token("1")),
                storage.ledger.release(THREAD, token=token("1")),
            ):
                error = await lane.refuses(OwnershipLost, work)
                assert error.actual in {0, 1}


class ReleaseCases:
    """LED-6: ownership ends without a settlement."""

    @pytest.mark.rule("LED-6")
    @pytest.mark.parametrize("passed", [0, LEASE, 5 * LEASE])
    async def test_a_released_lane_is_claimable_at_once(
        self, storage: Storage, clock: VirtualClock, passed: int
    ) -> None:
        """Its work is as it was, unsettled, in its place; the old token is worth nothing."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.apply_input("key-1")
        before = await lane.see("key-1")
        clock.advance(passed)
        await lane.release()
        seen = await storage.ledger.lane(THREAD)
        assert seen is not None
        assert (seen.owner, seen.epoch) == (None, 2)
        await lane.refuses(OwnershipLost, lane.release())
        grant = await lane.another("2").claim()
        assert (grant.submission, grant.epoch) == (before, 3)

    @pytest.mark.rule("LED-6", "LED-4")
    async def test_one_owner_s_release_does_not_touch_the_next(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """A release or a renewal that comes late leaves the new owner alone."""
        lane, other = await LaneScript.begin(storage), LaneScript(storage, name="2")
        await lane.run("key-1")
        clock.advance(LEASE)
        await other.claim()
        await lane.refuses(OwnershipLost, lane.release())
        await lane.refuses(OwnershipLost, storage.ledger.renew(THREAD, token=lane.token))
        assert await storage.ledger.renew(THREAD, token=other.token) == other.grant.expires_at

    @pytest.mark.rule("LED-6", "LED-4", "LED-8")
    async def test_a_lane_is_owned_for_one_submission(self, storage: Storage) -> None:
        """The token of one submission does nothing for another one of the same lane."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        other = await lane.ready("key-2")
        sequence = await lane.append_input("key-2")
        ledger, mine = storage.ledger, lane.token
        for work in (
            lambda: ledger.mark_input_applied(THREAD, other, token=mine, sequence=sequence),
            lambda: ledger.claim_joining(THREAD, other, token=mine),
            lambda: lane.suspend("key-2"),
            lambda: lane.publish("key-2"),
        ):
            await lane.refuses(OwnershipLost, work())


class MarkerCases:
    """LED-7: where the input of the owned submission stands in the log."""

    @pytest.mark.rule("LED-7")
    async def test_the_marker_says_where_the_input_is(self, storage: Storage) -> None:
        """Wherever that is; the submission is input-applied from then on."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        await lane.append(note("one"), note("two"))
        await lane.append(note("three"), input_record(submission), note("four"))
        marked = await storage.ledger.mark_input_applied(
            THREAD, submission, token=lane.token, sequence=4
        )
        assert (marked.state, marked.input_sequence) == ("input-applied", 4)
        assert await lane.see("key-1") == marked

    @pytest.mark.rule("LED-7")
    async def test_the_same_marker_again_changes_nothing(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Not even when the next owner sets it."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        sequence = await lane.apply_input("key-1")
        for worker in (lane, lane.another("2")):
            if worker is not lane:
                clock.advance(LEASE)
                await worker.claim()
            again = storage.ledger.mark_input_applied(
                THREAD, submission, token=worker.token, sequence=sequence
            )
            assert (await lane.unmoved(again)).input_sequence == sequence

    @pytest.mark.rule("LED-7")
    @pytest.mark.parametrize("sequence", [0, 2, 3, 2**53])
    async def test_another_marker_is_a_conflict(self, storage: Storage, sequence: int) -> None:
        """It names the marker that stands, and changes nothing."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        await lane.apply_input("key-1")
        await lane.append(note("two"))
        other = storage.ledger.mark_input_applied(
            THREAD, submission, token=lane.token, sequence=sequence
        )
        conflict = await lane.refuses(MarkerConflict, other)
        assert (conflict.thread, conflict.submission) == (THREAD, submission)
        assert conflict.existing == 1

    @pytest.mark.rule("LED-7")
    @pytest.mark.parametrize("sequence", [0, 1, 3, 4, 2**53])
    async def test_the_log_must_bear_the_marker_out(self, storage: Storage, sequence: int) -> None:
        """Where the log has no input of this submission, nothing is marked."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        await lane.append(note("one"))
        missing = storage.ledger.mark_input_applied(
            THREAD, submission, token=lane.token, sequence=sequence
        )
        assert (await lane.refuses(EvidenceFault, missing)).reason == "evidence-missing"
        await lane.append(input_record(submission))
        await lane.append(input_record(SubmissionId("somebody else")))
        missing = storage.ledger.mark_input_applied(
            THREAD, submission, token=lane.token, sequence=sequence
        )
        assert (await lane.refuses(EvidenceFault, missing)).thread == THREAD

    @pytest.mark.rule("LED-7")
    async def test_parked_work_takes_no_marker(self, storage: Storage) -> None:
        """Its owner is refused, with its state, until its calls are resolved."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        sequence = await lane.append_input("key-1")
        await lane.mark_unknown("key-1")
        marker = storage.ledger.mark_input_applied(
            THREAD, submission, token=lane.token, sequence=sequence
        )
        refusal = await lane.refuses(TransitionRefused, marker)
        assert (refusal.submission, refusal.state) == (submission, "unknown")
