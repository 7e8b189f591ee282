"""Cases of joining the run of a host: taken in order, joined once, or given back (LED-10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import EvidenceFault, MarkerConflict, TransitionRefused
from yielded_testing.suites.builders import THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import LEASE, STATES

if TYPE_CHECKING:
    from yielded_core.ports.work import State, Submission
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

NOT_JOINING: Final = tuple(state for state in STATES if state not in {"joining", "joined"})


async def hosting(storage: Storage, *guests: str) -> LaneScript:
    """Return a lane whose owned host `host` has ready guests behind it."""
    lane = await LaneScript.begin(storage)
    await lane.run("host")
    if guests:
        await lane.ready(*guests)
    return lane


async def take(lane: LaneScript, host: str = "host", *, limit: int = 16) -> tuple[Submission, ...]:
    """Take the guests behind a host that the newest claim owns."""
    return await lane.ledger.claim_joining(
        lane.thread, lane.id(host), token=lane.token, limit=limit
    )


def keys_of(guests: tuple[Submission, ...]) -> list[str]:
    """Return the keys of submissions."""
    return [each.idempotency_key for each in guests]


class TakingCases:
    """LED-10: the contiguous ready work behind the host, in order, up to a maximum."""

    @pytest.mark.rule("LED-10")
    async def test_ready_work_behind_the_host_is_taken(self, storage: Storage) -> None:
        """In the order of the lane; each is joining, and its host is known."""
        lane = await hosting(storage, "a", "b", "c")
        version = await lane.version()
        taken = await take(lane)
        assert keys_of(taken) == ["a", "b", "c"]
        assert {(each.state, each.host) for each in taken} == {("joining", lane.id("host"))}
        assert [await lane.see(key) for key in "abc"] == list(taken)
        assert await lane.version() > version

    @pytest.mark.rule("LED-10")
    @pytest.mark.parametrize("applied", [False, True])
    async def test_a_host_may_have_applied_its_input(
        self, storage: Storage, *, applied: bool
    ) -> None:
        """Running or applied, a host takes guests as long as it is owned."""
        lane = await hosting(storage, "a")
        if applied:
            await lane.apply_input("host")
        assert keys_of(await take(lane)) == ["a"]

    @pytest.mark.rule("LED-10")
    async def test_no_more_are_taken_than_asked_for(self, storage: Storage) -> None:
        """16 by default; those that were taken and did not join yet are told first, again."""
        keys = [f"guest-{number:02}" for number in range(20)]
        lane = await hosting(storage, *keys)
        assert keys_of(await take(lane, limit=1)) == keys[:1]
        assert keys_of(await lane.unmoved(take(lane, limit=1))) == keys[:1]
        assert keys_of(await take(lane, limit=3)) == keys[:3]
        await lane.join(keys[1], "host")
        assert keys_of(await take(lane, limit=3)) == [keys[0], *keys[2:4]]
        assert keys_of(await take(lane)) == [keys[0], *keys[2:17]]
        assert (await lane.see(keys[17])).state == "ready"
        assert keys_of(await take(lane, limit=256)) == [keys[0], *keys[2:]]

    @pytest.mark.rule("LED-10")
    async def test_an_admitted_row_breaks_the_prefix(self, storage: Storage) -> None:
        """What is ready behind it is not taken, until it is ready itself."""
        lane = await hosting(storage, "a")
        await lane.admit("gap")
        await lane.ready("c")
        assert keys_of(await take(lane)) == ["a"]
        assert (await lane.see("c")).state == "ready"
        await lane.ready("gap")
        assert keys_of(await take(lane)) == ["a", "gap", "c"]

    @pytest.mark.rule("LED-10")
    async def test_settled_aborted_work_does_not_break_the_prefix(self, storage: Storage) -> None:
        """It is no part of the lane any more, at the front as in the middle."""
        lane = await hosting(storage, "x", "a", "y", "b")
        await lane.abort_queued("x")
        await lane.abort_queued("y")
        assert keys_of(await take(lane)) == ["a", "b"]

    @pytest.mark.rule("LED-10", "LED-9")
    async def test_work_that_is_to_be_aborted_is_not_taken(self, storage: Storage) -> None:
        """It is to be settled, not to run with anybody."""
        lane = await hosting(storage, "a", "doomed")
        await lane.abort("doomed")
        assert keys_of(await take(lane)) == ["a"]
        assert (await lane.see("doomed")).state == "ready"

    @pytest.mark.rule("LED-10")
    async def test_where_nothing_is_ready_nothing_is_taken(self, storage: Storage) -> None:
        """An empty answer, and nothing changes; work before the host is none of its guests."""
        lane = await LaneScript.begin(storage)
        await lane.bring("lost", "unknown")
        await lane.run("host")
        assert await lane.unmoved(take(lane)) == ()
        await lane.admit("gap")
        assert await lane.unmoved(take(lane)) == ()

    @pytest.mark.rule("LED-10")
    async def test_a_parked_host_takes_no_guests(self, storage: Storage) -> None:
        """While its calls are unknown it runs nothing that work could join."""
        lane = await hosting(storage, "a")
        await lane.mark_unknown("host")
        refusal = await lane.refuses(TransitionRefused, take(lane))
        assert (refusal.submission, refusal.state) == (lane.id("host"), "unknown")

    @pytest.mark.rule("LED-10", "LED-4")
    async def test_taken_work_waits_for_the_next_owner_of_its_host(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """A takeover leaves it joining, and the new owner is told of it again."""
        lane, other = await hosting(storage, "a", "b"), LaneScript(storage, name="2")
        await take(lane)
        clock.advance(LEASE)
        other.receipts = lane.receipts
        await other.claim()
        assert keys_of(await lane.unmoved(take(other))) == ["a", "b"]

    @pytest.mark.rule("LED-10", "LED-16")
    async def test_guests_are_taken_once_by_many_tasks(self, storage: Storage) -> None:
        """12 calls at once with one token all get the same guests."""
        lane = await hosting(storage, "a", "b", "c")
        answers = await asyncio.gather(*(take(lane) for _ in range(12)))
        assert {tuple(keys_of(each)) for each in answers} == {("a", "b", "c")}


class JoinedCases:
    """LED-10: the marker of a joined input."""

    @pytest.mark.rule("LED-10")
    async def test_a_guest_joins_where_its_input_stands(self, storage: Storage) -> None:
        """It is joined, in its place in the lane, with the position of its input."""
        lane = await hosting(storage, "a")
        await take(lane)
        await lane.append(note("one"))
        sequence = await lane.append_input("a")
        joined = await storage.ledger.mark_joined(THREAD, lane.id("a"), sequence=sequence)
        assert (joined.state, joined.input_sequence) == ("joined", 2)
        assert (joined.host, await lane.see("a")) == (lane.id("host"), joined)

    @pytest.mark.rule("LED-10")
    async def test_the_same_join_again_changes_nothing(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Under its owner, under the next one, and once the host is settled."""
        lane = await hosting(storage, "a")
        await take(lane)
        sequence = await lane.join("a", "host")
        for way in ("same", "next", "settled"):
            if way == "next":
                clock.advance(LEASE)
                await lane.claim()
            elif way == "settled":
                await lane.settle("host")
            again = storage.ledger.mark_joined(THREAD, lane.id("a"), sequence=sequence)
            assert (await lane.unmoved(again)).state == "joined"

    @pytest.mark.rule("LED-10")
    async def test_another_join_marker_is_a_conflict(self, storage: Storage) -> None:
        """It names the marker that stands, and changes nothing."""
        lane = await hosting(storage, "a")
        await take(lane)
        sequence = await lane.join("a", "host")
        await lane.append(note("one"))
        for other in (0, sequence + 1, 99):
            moved = storage.ledger.mark_joined(THREAD, lane.id("a"), sequence=other)
            assert (await lane.refuses(MarkerConflict, moved)).existing == sequence

    @pytest.mark.rule("LED-10")
    async def test_the_log_must_bear_the_join_out(self, storage: Storage) -> None:
        """The host's own input, a note and nothing are no input of the guest."""
        lane = await hosting(storage, "a")
        await lane.apply_input("host")
        await lane.append(note("one"))
        await take(lane)
        for sequence in (0, 1, 2, 3):
            missing = storage.ledger.mark_joined(THREAD, lane.id("a"), sequence=sequence)
            assert (await lane.refuses(EvidenceFault, missing)).reason == "evidence-missing"

    @pytest.mark.rule("LED-10", "RCV-3")
    @pytest.mark.parametrize("host", ["taken over", "released", "suspended", "settled"])
    async def test_the_log_proves_a_join(
        self, storage: Storage, clock: VirtualClock, host: str
    ) -> None:
        """Recovery repairs the marker whoever owns the host by then, or nobody."""
        lane = await hosting(storage, "a")
        await take(lane)
        sequence = await lane.append_input("a")
        if host == "taken over":
            clock.advance(LEASE)
            await lane.another("2").claim()
        elif host == "released":
            await lane.release()
        elif host == "suspended":
            await lane.suspend("host")
        else:
            await lane.settle("host")
        joined = await storage.ledger.mark_joined(THREAD, lane.id("a"), sequence=sequence)
        assert (joined.state, joined.host) == ("joined", lane.id("host"))

    @pytest.mark.rule("LED-10")
    @pytest.mark.parametrize("state", NOT_JOINING)
    async def test_only_joining_work_joins(self, storage: Storage, state: State) -> None:
        """Any other is refused with its state."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        sequence = (await lane.see("key-1")).input_sequence or 1
        join = storage.ledger.mark_joined(THREAD, submission, sequence=sequence)
        assert (await lane.refuses(TransitionRefused, join)).state == state
