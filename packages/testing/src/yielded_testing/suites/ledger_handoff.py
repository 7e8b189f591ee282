"""Cases of claiming past work that waits: the handoff of a claim (LED-5)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.ports.work import ClaimHandoff
from yielded_core.records.identifiers import SubmissionId
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import LEASE

if TYPE_CHECKING:
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

NOT_DEFERRED: Final = (
    "admitted",
    "ready",
    "joining",
    "joined",
    "running",
    "suspended",
    "unknown",
)
NOT_RUNNABLE: Final = ("admitted", "suspended")


async def deferred(storage: Storage) -> LaneScript:
    """Return a lane with an applied, released head `head`, and ready work `next` and `last`."""
    lane = await LaneScript.begin(storage)
    await lane.defer("head")
    await lane.ready("next", "last")
    return lane


async def handoff(lane: LaneScript, *heads: str, target: str = "next") -> ClaimHandoff:
    """Return a handoff past heads, as the claimant sees the lane."""
    epoch = (await lane.storage.threads.tail(lane.thread)).epoch
    return ClaimHandoff(epoch, tuple(lane.id(head) for head in heads or ("head",)), lane.id(target))


class ClaimHandoffCases:
    """LED-5: granted only past a released, applied, un-aborted head, to exactly the next."""

    @pytest.mark.rule("LED-5")
    async def test_a_handoff_claims_what_is_next(self, storage: Storage) -> None:
        """The deferred head stays as it is, and is the head again when the next is settled."""
        lane = await deferred(storage)
        before = await lane.see("head")
        grant = await lane.claim(handoff=await handoff(lane))
        assert (grant.submission.submission_id, grant.epoch) == (lane.id("next"), 3)
        assert grant.submission.state == "running"
        before = replace(before, deferred_at=(await lane.see("head")).deferred_at)
        assert await lane.see("head") == before
        assert await lane.unmoved(lane.try_claim()) is None
        await lane.settle("next")
        assert (await lane.claim()).submission == before

    @pytest.mark.rule("LED-5", "ARC-2")
    async def test_a_deferred_head_says_since_when(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """The first instant is kept. It is a fact, so the first time makes a new revision."""
        lane = await deferred(storage)
        clock.advance(7)
        revision = (await storage.ledger.facts(THREAD)).fact_revision
        first = (await lane.claim(handoff=await handoff(lane))).expires_at - LEASE
        for _ in range(2):
            assert (await storage.ledger.facts(THREAD)).fact_revision == revision + 1
            passed = [(await lane.see(key)).deferred_at for key in ("head", "next", "last")]
            assert passed == [first, None, None]
            clock.advance(LEASE)
            await lane.claim(handoff=await handoff(lane))

    @pytest.mark.rule("LED-5", "LED-4")
    async def test_without_a_handoff_the_head_itself_is_claimed(self, storage: Storage) -> None:
        """Deferring is the claimant's choice, not the lane's."""
        lane = await deferred(storage)
        assert (await lane.claim()).submission.submission_id == lane.id("head")

    @pytest.mark.rule("LED-5")
    async def test_several_heads_are_deferred_in_order(self, storage: Storage) -> None:
        """All of them, each once, in the order of the lane; anything else gives nothing."""
        lane = await deferred(storage)
        await lane.claim(handoff=await handoff(lane))
        await lane.apply_input("next")
        await lane.release()
        for heads in (("head",), ("next",), ("next", "head"), ("head", "head"), ("head", "last")):
            wrong = await handoff(lane, *heads, target="last")
            assert await lane.unmoved(lane.try_claim(handoff=wrong)) is None
        right = await handoff(lane, "head", "next", target="last")
        assert (await lane.claim(handoff=right)).submission.submission_id == lane.id("last")

    @pytest.mark.rule("LED-5")
    @pytest.mark.parametrize("epoch", [1, 3, 2 + 2**32])
    async def test_the_epoch_must_be_the_current_one(self, storage: Storage, epoch: int) -> None:
        """A claimant that knows an older or a later epoch gets nothing."""
        lane = await deferred(storage)
        wrong = ClaimHandoff(epoch, (lane.id("head"),), lane.id("next"))
        assert await lane.unmoved(lane.try_claim(handoff=wrong)) is None

    @pytest.mark.rule("LED-5")
    @pytest.mark.parametrize("state", NOT_DEFERRED)
    async def test_a_head_that_is_not_applied_is_not_deferred(
        self, storage: Storage, clock: VirtualClock, state: str
    ) -> None:
        """Whatever else it is, with no live lease in the way, the handoff gives nothing."""
        lane = await LaneScript.begin(storage)
        if state == "admitted":
            await lane.admit("head")
        elif state == "ready":
            await lane.ready("head")
        elif state in {"joining", "joined"}:
            await lane.bring("head", "joining" if state == "joining" else "joined")
            await lane.settle("host")
        else:
            await lane.run("head")
            if state == "suspended":
                await lane.suspend("head")
            elif state == "unknown":
                await lane.apply_input("head")
                await lane.mark_unknown("head")
                await lane.release()
            else:
                await lane.release()
        await lane.ready("next")
        clock.advance(LEASE)
        wrong = await handoff(lane)
        assert await lane.unmoved(lane.try_claim(handoff=wrong)) is None

    @pytest.mark.rule("LED-5")
    async def test_an_owned_head_is_not_deferred(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Released is what its owner did; a lease that merely ran out is not that."""
        lane = await LaneScript.begin(storage)
        await lane.run("head")
        await lane.apply_input("head")
        await lane.ready("next")
        for passed in (0, LEASE - 1, 1, 10 * LEASE):
            clock.advance(passed)
            wrong = await handoff(lane)
            assert await lane.unmoved(lane.try_claim(handoff=wrong)) is None
        await lane.release()
        assert await lane.try_claim(handoff=await handoff(lane)) is not None

    @pytest.mark.rule("LED-5", "LED-9")
    async def test_a_head_that_is_to_be_aborted_is_not_deferred(self, storage: Storage) -> None:
        """It is claimed itself, to be settled."""
        lane = await deferred(storage)
        await lane.abort("head")
        wrong = await handoff(lane)
        assert await lane.unmoved(lane.try_claim(handoff=wrong)) is None
        assert (await lane.claim()).submission.submission_id == lane.id("head")

    @pytest.mark.rule("LED-5")
    @pytest.mark.parametrize("target", ["head", "last", "nobody"])
    async def test_the_target_is_exactly_the_next(self, storage: Storage, target: str) -> None:
        """Neither the head, nor what comes later, nor what is not in the lane."""
        lane = await deferred(storage)
        name = SubmissionId("nobody") if target == "nobody" else lane.id(target)
        epoch = (await storage.threads.tail(THREAD)).epoch
        wrong = ClaimHandoff(epoch, (lane.id("head"),), name)
        assert await lane.unmoved(lane.try_claim(handoff=wrong)) is None

    @pytest.mark.rule("LED-5", "LED-4")
    @pytest.mark.parametrize("state", NOT_RUNNABLE)
    async def test_the_target_must_be_claimable(self, storage: Storage, state: str) -> None:
        """A barrier behind the deferred head is a barrier for the handoff too."""
        lane = await LaneScript.begin(storage)
        await lane.defer("head")
        if state == "admitted":
            await lane.admit("next")
        else:
            await lane.ready("next")
            await lane.claim(handoff=await handoff(lane))
            await lane.suspend("next")
        await lane.ready("last")
        for target in ("next", "last"):
            wrong = await handoff(lane, target=target)
            assert await lane.unmoved(lane.try_claim(handoff=wrong)) is None

    @pytest.mark.rule("LED-5", "LED-4")
    async def test_unknown_work_is_passed_over_behind_the_head_too(self, storage: Storage) -> None:
        """What is next is counted as a claim counts it; an abort makes it count again."""
        lane = await LaneScript.begin(storage)
        await lane.defer("head")
        await lane.ready("lost")
        await lane.claim(handoff=await handoff(lane, target="lost"))
        await lane.mark_unknown("lost")
        await lane.release()
        await lane.ready("next")
        right = await handoff(lane)
        await lane.claim(handoff=right)
        await lane.release()
        await lane.abort("lost")
        for key, granted in (("next", False), ("lost", True)):
            grant = await lane.try_claim(handoff=await handoff(lane, target=key))
            assert (grant is not None) == granted

    @pytest.mark.rule("LED-5", "LED-4")
    async def test_a_handoff_is_repeated_as_any_claim(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """The same attempt and token get the grant again, though its epoch is current no more."""
        lane = await deferred(storage)
        wanted = await handoff(lane)
        grant = await lane.claim(handoff=wanted)
        again = storage.ledger.claim(
            THREAD, attempt=grant.attempt_id, token=lane.token, handoff=wanted
        )
        replayed = await lane.unmoved(again)
        assert replayed is not None
        assert (replayed.replayed, replayed.epoch) == (True, grant.epoch)
        clock.advance(LEASE)
        assert await lane.unmoved(lane.try_claim(handoff=wanted)) is None
        current = await handoff(lane)
        assert (await lane.claim(handoff=current)).submission.submission_id == lane.id("next")

    @pytest.mark.rule("LED-5", "LED-4")
    async def test_no_handoff_passes_a_live_lease(self, storage: Storage) -> None:
        """Whoever owns the next submission owns the lane."""
        lane = await deferred(storage)
        await lane.claim(handoff=await handoff(lane))
        wanted = await handoff(lane)
        assert await lane.unmoved(lane.another("2").try_claim(handoff=wanted)) is None
