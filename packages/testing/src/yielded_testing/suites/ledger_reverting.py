"""Cases of giving joining work back to the lane, guarded and not (LED-10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import OwnershipLost
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
        assert await lane.revert("a") == "reverted"
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
        await lane.revert("a")
        assert keys_of(await take(lane)) == ["a", "b"]
        await lane.join("a", "host")
        assert (await lane.see("a")).state == "joined"

    @pytest.mark.rule("LED-10", "RCV-3")
    @pytest.mark.parametrize("host", ["owned", "released", "settled"])
    async def test_work_whose_input_is_in_the_log_stays(self, storage: Storage, host: str) -> None:
        """Its host's run holds it already: given back, it would run a second time."""
        lane = await hosting(storage, "a")
        await take(lane)
        await lane.append_input("a")
        guard = JoiningGuard(lane.id("host"), lane.token)
        if host == "released":
            await lane.release()
        elif host == "settled":
            await lane.settle("host")
        for given in (None,) if host == "released" else (None, guard):
            revert = storage.ledger.revert_joining(THREAD, lane.id("a"), guard=given)
            assert await lane.unmoved(revert) == "in-log"
        await storage.ledger.mark_joined(THREAD, lane.id("a"), sequence=1)

    @pytest.mark.rule("LED-10", "LED-6", "LED-11")
    @pytest.mark.parametrize("ends", ["lapses", "is released", "is suspended"])
    async def test_a_host_at_work_keeps_its_guests(
        self, storage: Storage, clock: VirtualClock, ends: str
    ) -> None:
        """Recovery, which has no token, takes none away while the lease is live."""
        lane = await hosting(storage, "a")
        await take(lane)
        for passed in (0, LEASE - 1):
            clock.advance(passed)
            revert = storage.ledger.revert_joining(THREAD, lane.id("a"))
            assert await lane.unmoved(revert) == "host-at-work"
        if ends == "lapses":
            clock.advance(1)
        elif ends == "is released":
            await lane.release()
        else:
            await lane.suspend("host")
        assert await storage.ledger.revert_joining(THREAD, lane.id("a")) == "reverted"

    @pytest.mark.rule("LED-10", "LED-16")
    async def test_a_join_wins_over_a_revert(self, storage: Storage) -> None:
        """Once the input is in the log, however the two race."""
        lane = await hosting(storage)
        for number in range(12):
            key = f"guest-{number}"
            await lane.ready(key)
            await take(lane)
            sequence = await lane.append_input(key)
            pair = [
                lane.revert(key),
                storage.ledger.mark_joined(THREAD, lane.id(key), sequence=sequence),
            ]
            answers = await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            assert {"in-log", "not-joining"}.intersection(map(str, answers))
            after = await lane.see(key)
            assert (after.state, after.input_sequence) == ("joined", sequence)

    @pytest.mark.rule("LED-10", "LED-15", "LOG-2")
    async def test_a_revert_and_the_input_race(self, storage: Storage) -> None:
        """Ready without an input, ready with one, or joining with one: the log says which."""
        lane = await hosting(storage)
        for number in range(12):
            key = f"guest-{number}"
            await lane.ready(key)
            await take(lane)
            pair = [lane.revert(key), lane.append_input(key)]
            answers = await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            after = await lane.snapshot(key)
            kept = "in-log" in answers
            assert after.submission.state == ("joining" if kept else "ready")
            (sequence,) = [each for each in answers if isinstance(each, int)]
            assert after.input_sequence == sequence
            if kept:
                await storage.ledger.mark_joined(THREAD, lane.id(key), sequence=sequence)
            else:
                await lane.abort_queued(key)
