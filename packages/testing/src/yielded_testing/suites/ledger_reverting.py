"""Cases of giving joining work back to the lane, guarded and not (LED-10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import OwnershipLost, TransitionRefused
from yielded_core.ports.work import JoiningGuard
from yielded_core.records.identifiers import SubmissionId
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_joining import hosting, keys_of, take
from yielded_testing.suites.ledger_values import LEASE, STATES, token

if TYPE_CHECKING:
    from yielded_core.ports.work import State
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

TOKENS: Final = ("current", "lapsed", "none", "superseded", "released", "foreign")
RIGHT: Final = frozenset({"current", "lapsed"})


class RevertCases:
    """LED-10: without guard a no-op or a revert; with one, atomic and by right."""

    @pytest.mark.rule("LED-10")
    async def test_joining_work_goes_back_to_the_lane(self, storage: Storage) -> None:
        """Ready as before, without a host, in its place; the others stay with theirs."""
        lane = await hosting(storage, "a", "b")
        await take(lane)
        version = await lane.version()
        assert await storage.ledger.revert_joining(THREAD, lane.id("a")) == "reverted"
        assert await lane.version() > version
        reverted = await lane.see("a")
        assert (reverted.state, reverted.host, reverted.queue_sequence) == ("ready", None, 2)
        assert (await lane.see("b")).state == "joining"
        await lane.settle("host")
        assert (await lane.claim()).submission.submission_id == lane.id("a")

    @pytest.mark.rule("LED-10")
    @pytest.mark.parametrize("guarded", [False, True])
    @pytest.mark.parametrize("state", [state for state in STATES if state != "joining"])
    async def test_what_is_not_joining_is_left_alone(
        self, storage: Storage, state: State, *, guarded: bool
    ) -> None:
        """Recovery may ask for a revert of anything; joined work stays joined."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        host = lane.receipts.get("host", lane.receipts["key-1"]).submission_id
        guard = JoiningGuard(host, token("1-1")) if guarded else None
        revert = storage.ledger.revert_joining(THREAD, submission, guard=guard)
        assert await lane.unmoved(revert) == "not-joining"

    @pytest.mark.rule("LED-10")
    async def test_reverting_twice_reverts_once(self, storage: Storage) -> None:
        """The repeat, guarded or not, finds nothing to do."""
        lane = await hosting(storage, "a")
        await take(lane)
        guard = JoiningGuard(lane.id("host"), lane.token)
        for first, given in ((True, guard), (False, guard), (False, None)):
            answer = await storage.ledger.revert_joining(THREAD, lane.id("a"), guard=given)
            assert (answer == "reverted") == first

    @pytest.mark.rule("LED-10")
    @pytest.mark.parametrize("given", ["none", "right", "foreign"])
    async def test_another_host_s_link_is_left_alone(self, storage: Storage, given: str) -> None:
        """Silently, whatever token comes with the guard, and whether or not that host exists."""
        lane = await hosting(storage, "a", "b")
        await take(lane)
        by = {"none": None, "right": lane.token, "foreign": token("foreign")}[given]
        for host in (lane.id("b"), lane.id("a"), SubmissionId("nobody")):
            revert = storage.ledger.revert_joining(
                THREAD, lane.id("a"), guard=JoiningGuard(host, by)
            )
            assert await lane.unmoved(revert) == "other-host"

    @pytest.mark.rule("LED-10", "LED-6")
    @pytest.mark.parametrize("given", TOKENS)
    async def test_an_unsettled_host_needs_its_current_token(
        self, storage: Storage, clock: VirtualClock, given: str
    ) -> None:
        """A lapsed one counts until somebody claims; none or a lost one changes nothing."""
        lane = await hosting(storage, "a")
        await take(lane)
        held = lane.token
        if given in {"lapsed", "superseded"}:
            clock.advance(LEASE)
        if given == "superseded":
            await lane.another("2").claim()
        if given == "released":
            await lane.release()
        by = {"none": None, "foreign": token("foreign")}.get(given, held)
        guard = JoiningGuard(lane.id("host"), by)
        revert = storage.ledger.revert_joining(THREAD, lane.id("a"), guard=guard)
        if given in RIGHT:
            assert await revert == "reverted"
        else:
            error = await lane.refuses(OwnershipLost, revert)
            assert error.actual == (await storage.threads.tail(THREAD)).epoch

    @pytest.mark.rule("LED-10")
    @pytest.mark.parametrize("given", ["none", "old", "foreign"])
    async def test_a_settled_host_needs_no_token(self, storage: Storage, given: str) -> None:
        """It has no owner any more, so any guard that names it is good."""
        lane = await hosting(storage, "a")
        await take(lane)
        held = lane.token
        await lane.settle("host")
        by = {"none": None, "old": held, "foreign": token("foreign")}[given]
        guard = JoiningGuard(lane.id("host"), by)
        assert await storage.ledger.revert_joining(THREAD, lane.id("a"), guard=guard) == "reverted"
        assert (await lane.claim()).submission.submission_id == lane.id("a")

    @pytest.mark.rule("LED-10", "LED-8")
    async def test_a_published_host_is_not_a_settled_one(self, storage: Storage) -> None:
        """Until it is finalized its token is needed."""
        lane = await hosting(storage, "a")
        await take(lane)
        await lane.publish("host")
        guard = JoiningGuard(lane.id("host"), None)
        revert = storage.ledger.revert_joining(THREAD, lane.id("a"), guard=guard)
        await lane.refuses(OwnershipLost, revert)
        await lane.finalize("host")
        revert = storage.ledger.revert_joining(THREAD, lane.id("a"), guard=guard)
        assert await revert == "reverted"

    @pytest.mark.rule("LED-10", "LED-16")
    async def test_reverted_work_is_claimed_exactly_once(self, storage: Storage) -> None:
        """However often it is reverted at once, and however many claim it afterwards."""
        lane = await hosting(storage, "a")
        await take(lane)
        await lane.settle("host")
        guard = JoiningGuard(lane.id("host"), None)
        revert = storage.ledger.revert_joining
        answers = await asyncio.gather(
            *(
                revert(THREAD, lane.id("a"), guard=guard if number % 2 else None)
                for number in range(12)
            )
        )
        assert sorted(answers) == [*["not-joining"] * 11, "reverted"]
        workers = [lane.another(f"w{number}") for number in range(12)]
        grants = await asyncio.gather(*(worker.try_claim() for worker in workers))
        (grant,) = [each for each in grants if each is not None]
        assert (grant.submission.submission_id, grant.epoch) == (lane.id("a"), 3)

    @pytest.mark.rule("LED-10")
    async def test_reverted_work_can_be_taken_again(self, storage: Storage) -> None:
        """By the same host, and then joins as any other."""
        lane = await hosting(storage, "a", "b")
        await take(lane)
        await storage.ledger.revert_joining(THREAD, lane.id("a"))
        assert keys_of(await take(lane)) == ["a", "b"]
        await lane.join("a", "host")
        assert (await lane.see("a")).state == "joined"

    @pytest.mark.rule("LED-10", "LED-16")
    async def test_reverting_and_joining_race(self, storage: Storage) -> None:
        """One of them wins: joined and left alone, or ready and refused to join."""
        lane = await hosting(storage)
        for number in range(12):
            key = f"guest-{number}"
            await lane.ready(key)
            await take(lane)
            sequence = await lane.append_input(key)
            guard = JoiningGuard(lane.id("host"), lane.token)
            pair = [
                storage.ledger.revert_joining(THREAD, lane.id(key), guard=guard),
                storage.ledger.mark_joined(
                    THREAD, lane.id(key), token=lane.token, sequence=sequence
                ),
            ]
            answers = await asyncio.gather(
                *(pair if number % 2 else pair[::-1]), return_exceptions=True
            )
            after = await lane.see(key)
            if "reverted" in answers:
                assert (after.state, after.host) == ("ready", None)
                assert any(isinstance(each, TransitionRefused) for each in answers)
                await lane.abort_queued(key)
            else:
                assert "not-joining" in answers
                assert (after.state, after.input_sequence) == ("joined", sequence)
