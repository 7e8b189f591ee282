"""Cases of calls whose outcome nobody knows: parked, resolved, woken (LED-13)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    SettlementConflict,
    TransitionRefused,
    UnknownCallNotFound,
    UnknownResolutionConflict,
)
from yielded_core.ports.work import ResolutionRecorded, UnknownCall, UnknownResolution
from yielded_core.records.identifiers import RunId, ToolCallId
from yielded_core.records.payloads import ToolCallSettled
from yielded_testing.suites.builders import THREAD, record
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import CALL, RESULTS

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome, Resolution, State
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

EXECUTION: Final[tuple[Resolution, ...]] = ("safe-to-retry", "abort-submission")
FACTUAL: Final[tuple[Resolution, ...]] = ("completed-with-result", "never-happened")
RESOLUTIONS: Final = (*EXECUTION, *FACTUAL)
PARKED: Final = ("running", "input-applied", "suspended")
NOT_PARKED: Final = ("admitted", "ready", "joining", "joined")
OUTCOMES: Final = tuple(RESULTS)


async def resolve(
    lane: LaneScript,
    resolution: Resolution,
    call: str = CALL,
    *,
    author: str = "me",
    reason: str = "I looked",
    result: JsonValue = None,
) -> ResolutionRecorded:
    """Resolve a call of the submission `key-1`."""
    return await lane.ledger.record_unknown_resolution(
        lane.thread,
        lane.id("key-1"),
        ToolCallId(call),
        resolution=resolution,
        author=author,
        reason=reason,
        result=result,
    )


async def parked(storage: Storage, *calls: str, applied: bool = False) -> LaneScript:
    """Return a lane whose released submission `key-1` is parked on calls."""
    lane = await LaneScript.begin(storage)
    await lane.run("key-1")
    if applied:
        await lane.apply_input("key-1")
    await lane.mark_unknown("key-1", *calls)
    await lane.release()
    return lane


def result_record(run: RunId, result: JsonValue, call: str = CALL) -> Record:
    """Return the committed result of a call."""
    payload = ToolCallSettled(
        run_id=run,
        tool_call_id=ToolCallId(call),
        tool_name="tool",
        result=result,
        is_failure=False,
    )
    return record(f"result:{run}:{call}", payload)


class ParkingCases:
    """LED-13: marking is additive, idempotent, and needs no token."""

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("state", PARKED)
    async def test_calls_of_unknown_outcome_park_their_work(
        self, storage: Storage, clock: VirtualClock, state: State
    ) -> None:
        """Whoever says so, token or not; each call is kept with run, reason and instant."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        version = await lane.version()
        clock.advance(9)
        run = RunId(f"run:{submission}")
        marked = await lane.mark_unknown("key-1", "b", "a")
        assert marked.state == "unknown"
        assert await lane.see("key-1") == marked
        assert await lane.version() > version
        assert (await lane.snapshot("key-1")).unknown_calls == (
            UnknownCall(ToolCallId("a"), run, "why a", clock.now),
            UnknownCall(ToolCallId("b"), run, "why b", clock.now),
        )

    @pytest.mark.rule("LED-13")
    async def test_marking_adds_and_repeats(self, storage: Storage, clock: VirtualClock) -> None:
        """A call that is known keeps its first reason and instant; a new one is added."""
        lane = await parked(storage, "a")
        (first,) = (await lane.snapshot("key-1")).unknown_calls
        clock.advance(5)
        assert (await lane.unmoved(lane.mark_unknown("key-1", "a"))).state == "unknown"
        again = storage.ledger.mark_unknown(
            THREAD,
            lane.id("key-1"),
            run=RunId("another run"),
            calls=[(ToolCallId("a"), "another reason")],
        )
        await lane.unmoved(again)
        await lane.mark_unknown("key-1", "b", "a")
        one, two = (await lane.snapshot("key-1")).unknown_calls
        assert (one, two.tool_call_id, two.marked_at) == (first, "b", clock.now)

    @pytest.mark.rule("LED-13", "LED-16")
    async def test_marks_of_many_tasks_are_all_kept(self, storage: Storage) -> None:
        """Twelve calls, each marked twice, at once."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        calls = [f"call-{number:02}" for number in range(12)]
        await asyncio.gather(*(lane.mark_unknown("key-1", call) for call in (*calls, *calls)))
        found = (await lane.snapshot("key-1")).unknown_calls
        assert [each.tool_call_id for each in found] == calls

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("state", NOT_PARKED)
    async def test_work_that_does_not_run_is_not_parked(
        self, storage: Storage, state: State
    ) -> None:
        """It has made no calls: TransitionRefused, and nothing is marked."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        refusal = await lane.refuses(TransitionRefused, lane.mark_unknown("key-1"))
        assert refusal.state == state

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_settled_work_is_not_parked(self, storage: Storage, outcome: Outcome) -> None:
        """SettlementConflict with the outcome, for calls known and new."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.mark_unknown("key-1", "a")
        await lane.settle("key-1", outcome)
        for call in ("a", "b"):
            late = lane.mark_unknown("key-1", call)
            assert (await lane.refuses(SettlementConflict, late)).outcome == outcome


class ResolutionCases:
    """LED-13: what a person decided about a call, once for each kind."""

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("applied", [False, True])
    @pytest.mark.parametrize("resolution", RESOLUTIONS)
    async def test_a_resolution_is_kept_and_wakes_the_lane(
        self, storage: Storage, clock: VirtualClock, resolution: Resolution, *, applied: bool
    ) -> None:
        """Any of the four covers its call; the work goes on in the state that it had."""
        lane = await parked(storage, applied=applied)
        version = await lane.version()
        clock.advance(33)
        result: JsonValue = {"ok": [1, None]} if resolution == "completed-with-result" else None
        recorded = await resolve(lane, resolution, result=result)
        made = UnknownResolution(CALL, resolution, "me", "I looked", result, clock.now)
        assert recorded == ResolutionRecorded(made, woken=True, replayed=False)
        assert (await lane.snapshot("key-1")).resolutions == (made,)
        assert await lane.version() > version
        after = await lane.see("key-1")
        assert after.state == ("input-applied" if applied else "running")
        assert [each.thread_id for each in await storage.ledger.runnable()] == [THREAD]
        assert (await lane.claim()).submission == after

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("resolution", RESOLUTIONS)
    async def test_the_same_resolution_again_is_a_replay(
        self, storage: Storage, clock: VirtualClock, resolution: Resolution
    ) -> None:
        """With the first author, reason and instant, parked as well as woken."""
        lane = await parked(storage, CALL, "open")
        given: JsonValue = {"a": 1, "b": 2} if resolution == "completed-with-result" else None
        same: JsonValue = {"b": 2.0, "a": 1} if resolution == "completed-with-result" else None
        first = await resolve(lane, resolution, result=given)
        assert not first.woken
        for _ in range(2):
            clock.advance(1_000)
            again = resolve(lane, resolution, author="you", reason="", result=same)
            expected = ResolutionRecorded(first.resolution, woken=False, replayed=True)
            assert await lane.unmoved(again) == expected
            await resolve(lane, "safe-to-retry", "open")

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize(
        ("first", "second"),
        [EXECUTION, EXECUTION[::-1], FACTUAL, FACTUAL[::-1]],
    )
    async def test_a_different_resolution_of_a_kind_is_a_conflict(
        self, storage: Storage, first: Resolution, second: Resolution
    ) -> None:
        """It names the one that stands, and changes nothing."""
        lane = await parked(storage, CALL, "open")
        await resolve(lane, first)
        conflict = await lane.refuses(UnknownResolutionConflict, resolve(lane, second))
        assert (conflict.submission, conflict.call) == (lane.id("key-1"), CALL)
        assert (conflict.reason, conflict.existing) == ("other-resolution", first)

    @pytest.mark.rule("LED-13")
    async def test_another_result_is_another_resolution(self, storage: Storage) -> None:
        """The result is part of what is compared."""
        lane = await parked(storage, CALL, "open")
        await resolve(lane, "completed-with-result", result={"n": 1})
        others: list[JsonValue] = [None, {"n": 2}, {"n": 1, "m": None}, [{"n": 1}], '{"n":1}']
        for other in others:
            work = resolve(lane, "completed-with-result", result=other)
            conflict = await lane.refuses(UnknownResolutionConflict, work)
            assert conflict.reason == "other-resolution"

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("factual", FACTUAL)
    @pytest.mark.parametrize("execution", EXECUTION)
    async def test_a_factual_resolution_may_follow_an_execution_one(
        self, storage: Storage, execution: Resolution, factual: Resolution
    ) -> None:
        """Both are kept, and both replay; the lane is woken once."""
        lane = await parked(storage)
        first, second = await resolve(lane, execution), await resolve(lane, factual)
        assert (first.woken, second.woken, second.replayed) == (True, False, False)
        kept = (await lane.snapshot("key-1")).resolutions
        assert {each.resolution for each in kept} == {execution, factual}
        for resolution in (execution, factual):
            assert (await lane.unmoved(resolve(lane, resolution))).replayed

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("factual", FACTUAL)
    @pytest.mark.parametrize("execution", EXECUTION)
    async def test_an_execution_resolution_does_not_follow_a_factual_one(
        self, storage: Storage, execution: Resolution, factual: Resolution
    ) -> None:
        """What happened is known: nothing is left to be decided."""
        lane = await parked(storage)
        assert (await resolve(lane, factual)).woken
        conflict = await lane.refuses(UnknownResolutionConflict, resolve(lane, execution))
        assert (conflict.reason, conflict.existing) == ("factual-first", factual)

    @pytest.mark.rule("LED-13")
    async def test_a_factual_resolution_agrees_with_the_log(self, storage: Storage) -> None:
        """With a committed result of that call only the same result can be told."""
        lane = await LaneScript.begin(storage)
        run = RunId(f"run:{await lane.run('key-1')}")
        await lane.append(
            result_record(run, {"n": 1}),
            result_record(run, "another call", "another"),
            result_record(RunId("another run"), "another run"),
            result_record(run, None, "nothing"),
        )
        await lane.mark_unknown("key-1", CALL, "free", "nothing")
        wrong: list[tuple[Resolution, JsonValue]] = [
            ("completed-with-result", {"n": 2}),
            ("completed-with-result", None),
            ("completed-with-result", "another run"),
            ("never-happened", None),
        ]
        for resolution, result in wrong:
            work = resolve(lane, resolution, result=result)
            conflict = await lane.refuses(UnknownResolutionConflict, work)
            assert conflict.reason == "committed-result"
        await lane.refuses(UnknownResolutionConflict, resolve(lane, "never-happened", "nothing"))
        assert not (await resolve(lane, "completed-with-result", "nothing")).replayed
        assert (await resolve(lane, "safe-to-retry")).woken is False
        assert not (await resolve(lane, "completed-with-result", result={"n": 1.0})).replayed
        assert (await resolve(lane, "never-happened", "free")).woken

    @pytest.mark.rule("LED-13")
    async def test_only_a_call_that_was_marked_is_resolved(self, storage: Storage) -> None:
        """Any other is UnknownCallNotFound, whatever the submission does."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        for resolution in RESOLUTIONS:
            await lane.refuses(UnknownCallNotFound, resolve(lane, resolution))
        await lane.mark_unknown("key-1", "a")
        for call in ("b", "A", "a "):
            error = await lane.refuses(UnknownCallNotFound, resolve(lane, "safe-to-retry", call))
            assert (error.submission, error.call) == (lane.id("key-1"), call)

    @pytest.mark.rule("LED-13")
    async def test_every_open_call_must_be_covered(self, storage: Storage) -> None:
        """By either kind; the last one wakes the lane, an earlier one does not."""
        lane = await parked(storage, "a", "b", "c")
        assert not (await resolve(lane, "never-happened", "b")).woken
        assert not (await resolve(lane, "abort-submission", "a")).woken
        assert (await lane.see("key-1")).state == "unknown"
        assert await lane.unmoved(lane.try_claim()) is None
        assert not (await resolve(lane, "never-happened", "a")).woken
        assert (await resolve(lane, "safe-to-retry", "c")).woken

    @pytest.mark.rule("LED-13")
    async def test_work_is_parked_again_by_new_calls_alone(self, storage: Storage) -> None:
        """Those that were resolved do not park it; a new one does, until it is resolved."""
        lane = await parked(storage, "a")
        await resolve(lane, "safe-to-retry", "a")
        assert (await lane.unmoved(lane.mark_unknown("key-1", "a"))).state == "running"
        assert (await lane.mark_unknown("key-1", "a", "b")).state == "unknown"
        assert (await resolve(lane, "safe-to-retry", "b")).woken

    @pytest.mark.rule("LED-13")
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_settled_work_takes_factual_resolutions_alone(
        self, storage: Storage, outcome: Outcome
    ) -> None:
        """They are kept, under the same rules, and the state stays settled."""
        lane = await LaneScript.begin(storage)
        run = RunId(f"run:{await lane.run('key-1')}")
        await lane.append(result_record(run, "done", "b"))
        await lane.mark_unknown("key-1", "a", "b", "c")
        await resolve(lane, "safe-to-retry", "c")
        await lane.settle("key-1", outcome)
        before = await lane.see("key-1")
        for resolution in EXECUTION:
            late = lane.refuses(SettlementConflict, resolve(lane, resolution, "a"))
            assert (await late).outcome == outcome
        await lane.refuses(UnknownCallNotFound, resolve(lane, "never-happened", "x"))
        await lane.refuses(UnknownResolutionConflict, resolve(lane, "never-happened", "b"))
        for call in ("a", "c"):
            recorded = await resolve(lane, "never-happened", call)
            assert (recorded.woken, recorded.replayed) == (False, False)
            assert (await lane.unmoved(resolve(lane, "never-happened", call))).replayed
        assert await lane.see("key-1") == before
        assert len((await lane.snapshot("key-1")).resolutions) == 3

    @pytest.mark.rule("LED-13", "LED-16")
    async def test_resolutions_race(self, storage: Storage) -> None:
        """Of opposite ones of a call one stands; of several calls one resolution wakes."""
        calls = [f"call-{number}" for number in range(4)]
        lane = await parked(storage, *calls)
        outcomes = await asyncio.gather(
            *(
                resolve(lane, EXECUTION[number % 2], call, author=f"author-{number}")
                for number in range(4)
                for call in calls
            ),
            return_exceptions=True,
        )
        made = [each for each in outcomes if isinstance(each, ResolutionRecorded)]
        lost = [each for each in outcomes if isinstance(each, UnknownResolutionConflict)]
        assert (len(made), len(lost)) == (8, 8)
        assert sorted(each.replayed for each in made) == [*[False] * 4, *[True] * 4]
        assert sorted(each.woken for each in made) == [*[False] * 7, True]
        kept = {each.tool_call_id: each.resolution for each in (await _kept(lane))}
        assert {each.call: each.existing for each in lost} == kept

    @pytest.mark.rule("LED-13", "LED-16")
    async def test_marking_and_resolving_race(self, storage: Storage) -> None:
        """A call that is added while the last open one is resolved is never overlooked."""
        lane = await parked(storage, "call-0")
        for number in range(10):
            pair = [
                resolve(lane, "safe-to-retry", f"call-{number}"),
                lane.mark_unknown("key-1", f"call-{number + 1}"),
            ]
            await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            assert (await lane.see("key-1")).state == "unknown"


async def _kept(lane: LaneScript) -> tuple[UnknownResolution, ...]:
    return (await lane.snapshot("key-1")).resolutions
