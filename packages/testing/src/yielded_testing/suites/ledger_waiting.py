"""Cases of suspension and of the approvals that end it (LED-11, LED-12)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import ApprovalConflict, SettlementConflict, TransitionRefused
from yielded_core.ports.work import ApprovalDecision, ApprovalRecorded, Suspension
from yielded_core.records.identifiers import ToolCallId
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript, child_lane
from yielded_testing.suites.ledger_values import CALL, LEASE, UNSETTLED

if TYPE_CHECKING:
    from yielded_core.ports.work import Decision, State
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

DECISIONS: Final[tuple[Decision, Decision]] = ("approved", "denied")
COVERED: Final[dict[str, tuple[tuple[str, ...], dict[str, bool]]]] = {
    "the only one approved": (("a",), {"a": True}),
    "the only one denied": (("a",), {"a": False}),
    "all approved": (("a", "b", "c"), {"c": True, "a": True, "b": True}),
    "one denied, others open": (("a", "b", "c"), {"b": False}),
    "one denied, others approved": (("a", "b"), {"a": True, "b": False}),
    "all denied": (("a", "b"), {"a": False, "b": False}),
}
PENDING: Final[dict[str, tuple[tuple[str, ...], dict[str, bool]]]] = {
    "none decided": (("a", "b"), {}),
    "one open": (("a", "b", "c"), {"a": True, "c": True}),
    "a denial of another batch": (("a", "b"), {"a": True, "x": False}),
    "approvals of another batch": (("a",), {"x": True, "A": True, "a ": True}),
}


async def running(storage: Storage, *, applied: bool = False) -> LaneScript:
    """Return a lane whose one submission `key-1` runs and is owned."""
    lane = await LaneScript.begin(storage)
    await lane.run("key-1")
    if applied:
        await lane.apply_input("key-1")
    return lane


class SuspendCases:
    """LED-11: ownership ends until what is waited for is there."""

    @pytest.mark.rule("LED-11", "LED-4", "LED-17")
    @pytest.mark.parametrize("waits", ["approvals", "children"])
    @pytest.mark.parametrize("applied", [False, True])
    async def test_suspended_work_waits_without_an_owner(
        self, storage: Storage, waits: str, *, applied: bool
    ) -> None:
        """Its suspension is kept, its lease is gone, and nothing behind it is claimed."""
        lane = await running(storage, applied=applied)
        await lane.ready("behind")
        version = await lane.version()
        if waits == "approvals":
            expected = Suspension((ToolCallId("b"), ToolCallId("a")))
            answer = await lane.suspend("key-1", "b", "a")
        else:
            children = [(await child_lane(storage, name))[1] for name in ("two", "one")]
            expected = Suspension(children=tuple(children))
            answer = await lane.await_children("key-1", *children)
        assert answer == "suspended"
        after = await lane.see("key-1")
        assert (after.state, after.suspension) == ("suspended", expected)
        assert after.input_sequence == (1 if applied else None)
        seen = await storage.ledger.lane(THREAD)
        assert seen is not None
        assert (seen.owner, seen.epoch) == (None, 2)
        assert seen.version > version
        assert await lane.unmoved(lane.another("2").try_claim()) is None
        assert THREAD not in [each.thread_id for each in await storage.ledger.runnable()]

    @pytest.mark.rule("LED-11")
    @pytest.mark.parametrize("case", list(COVERED))
    async def test_decisions_before_the_suspension_are_not_missed(
        self, storage: Storage, case: str
    ) -> None:
        """What is covered already is answered with resume-immediately; the token owns on."""
        lane = await running(storage)
        calls, decisions = COVERED[case]
        for call, approve in decisions.items():
            await lane.decide("key-1", call, approve=approve)
        assert await lane.unmoved(lane.suspend("key-1", *calls)) == "resume-immediately"
        assert await storage.ledger.renew(THREAD, token=lane.token) == lane.grant.expires_at

    @pytest.mark.rule("LED-11")
    @pytest.mark.parametrize("case", list(PENDING))
    async def test_what_is_pending_is_waited_for(self, storage: Storage, case: str) -> None:
        """Calls are exact, and those of other batches count for nothing."""
        lane = await running(storage)
        calls, decisions = PENDING[case]
        for call, approve in decisions.items():
            await lane.decide("key-1", call, approve=approve)
        assert await lane.suspend("key-1", *calls) == "suspended"
        assert (await lane.see("key-1")).state == "suspended"

    @pytest.mark.rule("LED-11", "LED-9")
    async def test_work_that_is_to_be_aborted_waits_for_nothing(self, storage: Storage) -> None:
        """An abort that comes before the suspension is not missed either."""
        lane = await running(storage)
        await lane.abort("key-1")
        assert await lane.unmoved(lane.suspend("key-1")) == "resume-immediately"

    @pytest.mark.rule("LED-11")
    async def test_only_running_work_is_suspended(self, storage: Storage) -> None:
        """What its owner parked as unknown is refused, with its state."""
        lane = await running(storage)
        await lane.mark_unknown("key-1")
        refusal = await lane.refuses(TransitionRefused, lane.suspend("key-1"))
        assert refusal.state == "unknown"

    @pytest.mark.rule("LED-11", "LED-4")
    async def test_work_can_be_suspended_again(self, storage: Storage) -> None:
        """For another batch; the decisions of the first one stay."""
        lane = await running(storage)
        for number in range(3):
            assert await lane.suspend("key-1", f"call-{number}") == "suspended"
            assert await lane.decide("key-1", f"call-{number}")
            await lane.claim()
        assert await lane.unmoved(lane.suspend("key-1", "call-0", "call-2")) == "resume-immediately"
        assert len((await lane.snapshot("key-1")).approvals) == 3


class ApprovalCases:
    """LED-12: one decision for each call, and the one that covers wakes the lane."""

    @pytest.mark.rule("LED-12", "LED-11")
    @pytest.mark.parametrize("applied", [False, True])
    @pytest.mark.parametrize("case", list(COVERED))
    async def test_the_covering_decision_wakes_the_lane(
        self, storage: Storage, case: str, *, applied: bool
    ) -> None:
        """That one and no other: from then on the work can be claimed where it was."""
        lane = await running(storage, applied=applied)
        calls, decisions = COVERED[case]
        await lane.suspend("key-1", *calls)
        woken = [
            await lane.decide("key-1", call, approve=approve) for call, approve in decisions.items()
        ]
        first = 1 + next(
            (at for at, approve in enumerate(decisions.values()) if not approve),
            len(decisions) - 1,
        )
        assert woken == [at == first for at in range(1, len(decisions) + 1)]
        after = await lane.see("key-1")
        assert (after.state, after.suspension) == (
            "input-applied" if applied else "running",
            None,
        )
        assert [each.thread_id for each in await storage.ledger.runnable()] == [THREAD]
        assert (await lane.claim()).submission == after

    @pytest.mark.rule("LED-12", "LED-11")
    @pytest.mark.parametrize("case", list(PENDING))
    async def test_a_decision_that_does_not_cover_wakes_nothing(
        self, storage: Storage, case: str
    ) -> None:
        """It is kept, and the work stays suspended."""
        lane = await running(storage)
        calls, decisions = PENDING[case]
        await lane.suspend("key-1", *calls)
        for call, approve in decisions.items():
            assert not await lane.decide("key-1", call, approve=approve)
        assert (await lane.see("key-1")).state == "suspended"
        assert await lane.unmoved(lane.try_claim()) is None
        assert len((await lane.snapshot("key-1")).approvals) == len(decisions)

    @pytest.mark.rule("LED-12")
    @pytest.mark.parametrize("state", UNSETTLED)
    async def test_a_decision_is_kept_whatever_the_work_does(
        self, storage: Storage, clock: VirtualClock, state: State
    ) -> None:
        """With resolver, reason and instant; only a covering one changes the state."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        clock.advance(77)
        recorded = await storage.ledger.record_approval_decision(
            THREAD,
            submission,
            ToolCallId("elsewhere"),
            decision="denied",
            resolver="me",
            reason="no\nway",
        )
        decision = ApprovalDecision(ToolCallId("elsewhere"), "denied", "me", "no\nway", clock.now)
        assert recorded == ApprovalRecorded(decision, woken=False, replayed=False)
        assert (await lane.snapshot("key-1")).approvals == (decision,)
        assert (await lane.see("key-1")).state == state

    @pytest.mark.rule("LED-12", "LED-11")
    @pytest.mark.parametrize("state", [state for state in UNSETTLED if state != "suspended"])
    async def test_what_is_not_suspended_is_not_woken(self, storage: Storage, state: State) -> None:
        """Even a denial changes the state of nothing else."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        assert not await lane.decide("key-1", approve=False)
        assert (await lane.see("key-1")).state == state

    @pytest.mark.rule("LED-12")
    @pytest.mark.parametrize("decision", DECISIONS)
    async def test_the_first_decision_stands(
        self, storage: Storage, clock: VirtualClock, decision: Decision
    ) -> None:
        """The same again replays it, the opposite is a conflict, suspended or woken."""
        lane = await running(storage)
        submission = lane.id("key-1")
        await lane.suspend("key-1", "a", "b", "c")
        calls = {"a": "approved", "b": decision}
        for call, made in calls.items():
            await lane.decide("key-1", call, approve=made == "approved")
        clock.advance(1_000)
        record = storage.ledger.record_approval_decision
        for held in (await lane.snapshot("key-1")).approvals:
            opposite = DECISIONS[held.decision == "approved"]
            again = record(
                THREAD,
                submission,
                held.tool_call_id,
                decision=held.decision,
                resolver="somebody else",
                reason="for another reason",
            )
            assert await lane.unmoved(again) == ApprovalRecorded(held, woken=False, replayed=True)
            other = record(
                THREAD,
                submission,
                held.tool_call_id,
                decision=opposite,
                resolver=held.resolver,
                reason=held.reason,
            )
            conflict = await lane.refuses(ApprovalConflict, other)
            assert (conflict.submission, conflict.call) == (submission, held.tool_call_id)
            assert conflict.decision == held.decision

    @pytest.mark.rule("LED-12")
    async def test_settled_work_takes_no_decision(self, storage: Storage) -> None:
        """Neither a new one nor a repeat nor the opposite: SettlementConflict."""
        lane = await running(storage)
        await lane.decide("key-1", "a")
        await lane.settle("key-1")
        for call, approve in (("a", True), ("a", False), ("b", True)):
            late = lane.decide("key-1", call, approve=approve)
            assert (await lane.refuses(SettlementConflict, late)).outcome == "completed"

    @pytest.mark.rule("LED-12")
    async def test_decisions_belong_to_their_submission(self, storage: Storage) -> None:
        """The same call of another submission is another call."""
        lane = await running(storage)
        await lane.ready("key-2")
        await lane.suspend("key-1")
        assert not await lane.decide("key-2", approve=False)
        assert await lane.decide("key-1", approve=True)
        one, two = [(await lane.snapshot(key)).approvals for key in ("key-1", "key-2")]
        assert [each.decision for each in (*one, *two)] == ["approved", "denied"]

    @pytest.mark.rule("LED-12", "LED-16")
    async def test_opposite_decisions_race(self, storage: Storage) -> None:
        """Of 16 one is made, its kind replays it, the others conflict with it; one wakes."""
        lane = await running(storage)
        await lane.suspend("key-1")
        outcomes = await asyncio.gather(
            *(
                storage.ledger.record_approval_decision(
                    THREAD,
                    lane.id("key-1"),
                    CALL,
                    decision=DECISIONS[number % 2],
                    resolver=f"resolver-{number}",
                    reason="",
                )
                for number in range(16)
            ),
            return_exceptions=True,
        )
        made = [each for each in outcomes if isinstance(each, ApprovalRecorded)]
        lost = [each for each in outcomes if isinstance(each, ApprovalConflict)]
        assert (len(made), len(lost)) == (8, 8)
        assert sorted(each.replayed for each in made) == [False, *[True] * 7]
        assert sorted(each.woken for each in made) == [*[False] * 7, True]
        (decision,) = {each.decision for each in made}
        assert {each.decision for each in lost} == {decision.decision}


class WakingRaces:
    """LED-11: what comes before the suspension commits is never missed."""

    @pytest.mark.rule("LED-11", "LED-12", "LED-16")
    @pytest.mark.parametrize("approve", [True, False])
    async def test_suspension_and_decision_race(self, storage: Storage, *, approve: bool) -> None:
        """The suspension resumes at once, or the decision wakes it; never neither."""
        lane = await running(storage)
        for number in range(16):
            call = f"call-{number}"
            pair = [lane.suspend("key-1", call), lane.decide("key-1", call, approve=approve)]
            answers = await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            answer, woken = answers if number % 2 else answers[::-1]
            assert (answer, woken) in {("suspended", True), ("resume-immediately", False)}
            assert (await lane.see("key-1")).state == "running"
            if woken:
                await lane.claim()

    @pytest.mark.rule("LED-11", "LED-12", "LED-16")
    async def test_the_last_of_several_decisions_wakes(self, storage: Storage) -> None:
        """Of four at once exactly one covers the batch, whichever comes last."""
        lane = await running(storage)
        for number in range(6):
            calls = [f"call-{number}-{at}" for at in range(4)]
            await lane.suspend("key-1", *calls)
            woken = await asyncio.gather(*(lane.decide("key-1", call) for call in calls))
            assert sorted(woken) == [False, False, False, True]
            await lane.claim()

    @pytest.mark.rule("LED-11", "LED-9", "LED-16")
    async def test_suspension_and_abort_race(self, storage: Storage, clock: VirtualClock) -> None:
        """Whoever is first, the work is claimable afterwards."""
        lane = await LaneScript.begin(storage)
        for number in range(8):
            key = f"key-{number}"
            await lane.run(key)
            pair = [lane.suspend(key), lane.abort(key)]
            await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            assert (await lane.see(key)).state == "running"
            clock.advance(LEASE)
            await lane.claim()
            await lane.settle(key, "aborted")

    @pytest.mark.rule("LED-11", "LED-4", "LED-16")
    async def test_suspension_and_claim_race(self, storage: Storage, clock: VirtualClock) -> None:
        """After its lease ran out: suspended and not granted, or granted and not suspended."""
        lane = await running(storage)
        for number in range(8):
            clock.advance(LEASE)
            other = lane.another(f"w{number}")
            pair = [lane.suspend("key-1", f"call-{number}"), other.try_claim()]
            await asyncio.gather(*(pair if number % 2 else pair[::-1]), return_exceptions=True)
            state = (await lane.see("key-1")).state
            assert (state == "suspended") == (not other.grants)
            if state == "suspended":
                await lane.decide("key-1", f"call-{number}")
                await lane.claim()
            else:
                lane.name, lane.grants = other.name, other.grants
