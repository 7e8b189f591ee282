"""Cases of recovery: what a store is found in decides, is carried out, and decides what follows.

Delegations are in `ledger_recovery_children`, faults and sweeps in `ledger_recovery_sweep`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.ledger import recovery_decisions as decisions
from yielded_core.ports.work import ApprovalDecision
from yielded_core.records.identifiers import RunId
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.recovering import assess
from yielded_testing.suites.archive_lanes import resolve
from yielded_testing.suites.builders import THREAD, record
from yielded_testing.suites.ledger_builders import LaneScript, child_lane
from yielded_testing.suites.ledger_joining import hosting, take
from yielded_testing.suites.ledger_values import CALL, LEASE, RESULTS, work
from yielded_testing.suites.recovery_builders import (
    CHILD_THREAD,
    DELEGATING,
    IN_DOUBT,
    REPEATABLE,
    SECOND,
    Delegated,
    RunLog,
    decided,
)

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock


async def running(storage: Storage) -> RunLog:
    """Return the run of a submission `key-1` whose input is applied."""
    return await RunLog.begin(await LaneScript.begin(storage), "key-1")


async def append_guest_input(lane: LaneScript, guest: str) -> int:
    """Append the input of joining work to the run of its host and return its sequence."""
    payload = UserInputRecorded(
        kind="steering",
        submission_id=lane.id(guest),
        run_id=RunId(f"run:{lane.id('host')}"),
        input="hello",
    )
    return (await lane.append(record(f"input:{lane.id(guest)}", payload))).sequence


class SettledRecoveryCases:
    """RCV-1 to RCV-3: what the ledger and the records of input and settlement decide alone."""

    @pytest.mark.rule("RCV-1")
    async def test_settled_work_needs_nothing(self, storage: Storage) -> None:
        """Whatever its run left open."""
        log = await running(storage)
        await log.declare(IN_DOUBT, DELEGATING)
        await log.lane.settle("key-1")
        assert await decided(log.lane, "key-1") == decisions.NothingToDo()

    @pytest.mark.rule("RCV-2", "RCV-1", "LED-8")
    @pytest.mark.parametrize("outcome", ["completed", "failed", "aborted"])
    async def test_a_published_settlement_is_finalized(
        self, storage: Storage, outcome: Outcome
    ) -> None:
        """Whatever its run left open, and whoever wants it aborted."""
        log = await running(storage)
        await log.declare(IN_DOUBT)
        await log.lane.abort("key-1")
        await log.lane.publish("key-1", outcome, result=RESULTS[outcome])
        assert await decided(log.lane, "key-1") == decisions.FinalizeFromHistory()
        settled = (await log.lane.finalize("key-1")).settled
        assert settled is not None
        assert settled.outcome == outcome
        assert await decided(log.lane, "key-1") == decisions.NothingToDo()

    @pytest.mark.rule("RCV-3", "RCV-1", "RCV-2", "LED-10", "LED-8")
    async def test_a_guest_settles_with_its_host(self, storage: Storage) -> None:
        """Its marker is repaired, it waits for its host, and is settled as that was."""
        lane = await hosting(storage, "guest")
        host = lane.id("host")
        await lane.apply_input("host")
        await take(lane)
        sequence = await append_guest_input(lane, "guest")
        assert await decided(lane, "guest") == decisions.RepairJoinMarker(sequence)
        await storage.ledger.mark_joined(THREAD, lane.id("guest"), sequence=sequence)
        assert await decided(lane, "guest") == decisions.AwaitHost(host)
        await lane.publish("host", "failed")
        assert await decided(lane, "guest") == decisions.SettleWithHost(host)
        await lane.publish("guest", "failed", authority="joined")
        assert await decided(lane, "guest") == decisions.FinalizeFromHistory()
        await lane.finalize("guest")
        assert await decided(lane, "guest") == decisions.NothingToDo()

    @pytest.mark.rule("RCV-3", "RCV-11", "LED-10")
    async def test_a_guest_without_input_is_given_back(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Once its host's lease is over; then it is work like any other."""
        lane = await hosting(storage, "guest")
        await take(lane)
        assert await decided(lane, "guest") == decisions.RevertJoining(lane.id("host"))
        clock.advance(LEASE)
        assert await storage.ledger.revert_joining(THREAD, lane.id("guest")) == "reverted"
        assert await decided(lane, "guest") == decisions.ApplyInput()


class OpenCallRecoveryCases:
    """RCV-5, RCV-6, RCV-9: calls of which the log holds no result."""

    @pytest.mark.rule("RCV-5", "RCV-6", "RCV-9", "LED-13")
    async def test_a_call_in_doubt_is_resolved_by_a_person(self, storage: Storage) -> None:
        """Marked, awaited, applied, and run again with the rest of its batch."""
        log = await running(storage)
        lane = log.lane
        await log.declare(IN_DOUBT, REPEATABLE)
        assert await decided(lane, "key-1") == decisions.MarkCallsUnknown((CALL,))
        await lane.mark_unknown("key-1", CALL)
        await lane.release()
        assert await decided(lane, "key-1") == decisions.AwaitResolutions((CALL,))
        made = await storage.ledger.record_unknown_resolution(
            THREAD,
            lane.id("key-1"),
            CALL,
            resolution="safe-to-retry",
            author="author-1",
            reason="because",
        )
        applied = decisions.ApplyResolutions((made.resolution,), ())
        assert await decided(lane, "key-1") == applied
        await lane.claim()
        await log.tell("ToolCallResolved", resolution="safe-retry")
        assert await decided(lane, "key-1") == decisions.ResumeBatch(1)

    @pytest.mark.rule("RCV-5", "RCV-6", "LED-13")
    async def test_every_call_in_doubt_is_awaited(self, storage: Storage) -> None:
        """One that is found later is marked too, and the ones without an answer are awaited."""
        log = await running(storage)
        lane = log.lane
        await log.declare(IN_DOUBT, IN_DOUBT)
        await lane.mark_unknown("key-1", SECOND)
        assert await decided(lane, "key-1") == decisions.MarkCallsUnknown((CALL,))
        await lane.mark_unknown("key-1", CALL)
        await resolve(lane, "key-1", SECOND)
        assert await decided(lane, "key-1") == decisions.AwaitResolutions((CALL,))

    @pytest.mark.rule("RCV-6", "RCV-11", "LED-13")
    async def test_a_call_that_the_log_closed_meanwhile_wakes_its_work(
        self, storage: Storage
    ) -> None:
        """A result came after all: telling the ledger the same is all that is left to do."""
        log = await running(storage)
        lane = log.lane
        await log.declare(IN_DOUBT)
        await lane.mark_unknown("key-1", CALL)
        await log.tell("ToolCallSettled")
        assert await decided(lane, "key-1") == decisions.ApplyResolutions((), (CALL,))
        await resolve(lane, "key-1", CALL, result={"text": "done"})
        assert (await lane.see("key-1")).state == "input-applied"
        assert await decided(lane, "key-1") == decisions.ResumeFromBoundary()

    @pytest.mark.rule("RCV-9", "RCV-11")
    async def test_an_unfinished_batch_goes_on(self, storage: Storage) -> None:
        """The oldest one, until each of its calls has a result."""
        log = await running(storage)
        await log.declare(REPEATABLE, REPEATABLE)
        await log.declare(REPEATABLE, turn=2, first=3)
        for call in (CALL, SECOND):
            assert await decided(log.lane, "key-1") == decisions.ResumeBatch(1)
            await log.tell("ToolCallSettled", call)
        assert await decided(log.lane, "key-1") == decisions.ResumeBatch(2)
        await log.tell("ToolCallSettled", "call-3")
        assert await decided(log.lane, "key-1") == decisions.ResumeFromBoundary()

    @pytest.mark.rule("RCV-5", "RCV-9", "LOG-15")
    @pytest.mark.parametrize("between", [0, 4, 5, 6, 20])
    async def test_the_whole_run_counts(self, storage: Storage, between: int) -> None:
        """However many pages its evidence takes: the last result is as good as the first."""
        log = await running(storage)
        await log.declare(IN_DOUBT, IN_DOUBT)
        await log.tell("ToolCallSettled")
        for _ in range(between):
            await log.tell("RunPolicyUsageReserved")
        assert await decided(log.lane, "key-1") == decisions.MarkCallsUnknown((SECOND,))
        await log.tell("ToolCallSettled", SECOND)
        assert await decided(log.lane, "key-1") == decisions.ResumeFromBoundary()

    @pytest.mark.rule("RCV-5", "RCV-9", "RCV-11", "LED-5")
    async def test_only_its_own_run_counts(self, storage: Storage) -> None:
        """What another run of the thread left open, or closed under the same name, is nothing."""
        log = await running(storage)
        lane = log.lane
        await log.declare(IN_DOUBT, REPEATABLE)
        await lane.settle("key-1", "failed")
        other = await RunLog.begin(lane, "key-2")
        assert await decided(lane, "key-2") == decisions.ResumeFromBoundary()
        await other.declare(REPEATABLE, IN_DOUBT)
        await log.tell("ToolCallSettled", SECOND)
        assert await decided(lane, "key-2") == decisions.MarkCallsUnknown((SECOND,))
        await other.tell("ToolCallSettled", SECOND)
        assert await decided(lane, "key-2") == decisions.ResumeBatch(1)


class WaitingRecoveryCases:
    """RCV-7: suspended for decisions or children, or about to be."""

    @pytest.mark.rule("RCV-7", "RCV-9", "LED-11", "LED-12")
    async def test_a_pending_approval_is_waited_for(self, storage: Storage) -> None:
        """Suspended or not, until the last call is decided; then the batch goes on."""
        log = await running(storage)
        lane = log.lane
        await log.declare(IN_DOUBT, IN_DOUBT)
        await log.tell("ToolApprovalRequested")
        await log.tell("ToolApprovalRequested", SECOND)
        assert await decided(lane, "key-1") == decisions.AwaitApproval((CALL, SECOND))
        assert await lane.suspend("key-1", CALL, SECOND) == "suspended"
        assert await decided(lane, "key-1") == decisions.AwaitApproval((CALL, SECOND))
        await lane.decide("key-1", CALL)
        assert await decided(lane, "key-1") == decisions.AwaitApproval((SECOND,))
        assert await lane.decide("key-1", SECOND)
        assert await decided(lane, "key-1") == decisions.ResumeBatch(1)

    @pytest.mark.rule("RCV-7", "LED-12")
    async def test_a_decision_that_only_the_log_holds_wakes(self, storage: Storage) -> None:
        """Recording it on the ledger is how the suspended work is resumed."""
        log = await running(storage)
        lane = log.lane
        await log.declare(REPEATABLE)
        await log.tell("ToolApprovalRequested")
        await lane.suspend("key-1", CALL)
        await log.tell("ToolApprovalDecided", decision="denied")
        decision = await decided(lane, "key-1")
        instant = 1_767_323_045_678
        made = ApprovalDecision(CALL, "denied", "operator", "harmless", instant)
        assert decision == decisions.ResumeSuspended((made,))
        assert await lane.decide("key-1", CALL, approve=False)
        assert await decided(lane, "key-1") == decisions.ResumeBatch(1)

    @pytest.mark.rule("RCV-7", "RCV-11", "LED-11", "LED-14")
    async def test_a_wake_that_was_lost_is_made_up_for(self, storage: Storage) -> None:
        """Every child is published and nobody told the parent: it resumes by being told."""
        log = await running(storage)
        lane = log.lane
        pairs = [await child_lane(storage, f"child-{number}") for number in range(2)]
        children = tuple(child for _, child in pairs)
        await lane.await_children("key-1", *children)
        assert await decided(lane, "key-1") == decisions.AwaitChildren(children)
        await pairs[0][0].publish("child")
        assert await decided(lane, "key-1") == decisions.AwaitChildren(children[1:])
        await pairs[1][0].publish("child")
        assert await decided(lane, "key-1") == decisions.ResumeToJoinChildren(children)
        told = storage.ledger.record_child_settled
        assert await told(THREAD, lane.id("key-1"), child=children[0]) == "woken"
        assert await decided(lane, "key-1") == decisions.ResumeFromBoundary()


class InputRecoveryCases:
    """RCV-10, RCV-11: from the admission to the last boundary of a turn."""

    @pytest.mark.rule("RCV-10", "RCV-11", "LED-3")
    async def test_admitted_work_comes_to_its_input(self, storage: Storage) -> None:
        """Its thread is materialized, its readiness repaired, its input applied and marked."""
        lane = LaneScript(storage)
        await lane.admit("key-1")
        assert await decided(lane, "key-1") == decisions.CompleteMaterialization()
        await storage.threads.materialize(THREAD, epoch=1)
        assert await decided(lane, "key-1") == decisions.RepairReadiness()
        await storage.ledger.mark_ready(THREAD, lane.id("key-1"))
        assert await decided(lane, "key-1") == decisions.ApplyInput()
        await lane.claim()
        assert await decided(lane, "key-1") == decisions.ApplyInput()
        sequence = await lane.append_input("key-1")
        assert await decided(lane, "key-1") == decisions.RepairInputMarker(sequence)
        await storage.ledger.mark_input_applied(
            THREAD, lane.id("key-1"), token=lane.token, sequence=sequence
        )
        assert await decided(lane, "key-1") == decisions.ResumeFromBoundary()

    @pytest.mark.rule("RCV-10", "LED-3")
    @pytest.mark.parametrize("materialized", [False, True])
    async def test_a_child_waits_for_its_lineage(
        self, storage: Storage, *, materialized: bool
    ) -> None:
        """Its parent materializes the thread and says in it for whom it works."""
        family = await Delegated.begin(storage)
        child = family.child
        await family.admit()
        if materialized:
            await storage.threads.materialize(CHILD_THREAD, epoch=1)
        assert await decided(child, "child") == decisions.AwaitParentLineage()
        await storage.threads.materialize(CHILD_THREAD, epoch=1)
        await child.append(family.log.fact("ThreadCreated"))
        assert await decided(child, "child") == decisions.AwaitParentLineage()
        await child.append(family.log.fact("SubagentLineageRecorded"))
        assert await decided(child, "child") == decisions.RepairReadiness()

    @pytest.mark.rule("RCV-10", "LED-3")
    async def test_who_is_a_child_can_be_told_otherwise(self, storage: Storage) -> None:
        """Work may be linked to other work that is no parent of it."""
        lane = await LaneScript.begin(storage)
        given = work("key-1", linkage={"reply-to": "message-1"})
        lane.receipts["key-1"] = await storage.ledger.admit(given)
        assert await decided(lane, "key-1") == decisions.AwaitParentLineage()
        told = await assess(
            storage, THREAD, lane.id("key-1"), is_child=lambda work: work.linkage != given.linkage
        )
        assert told == decisions.RepairReadiness()

    @pytest.mark.rule("RCV-11", "LED-7")
    async def test_the_input_is_that_of_its_own_run(self, storage: Storage) -> None:
        """Work behind another one has neither its input nor its marker."""
        log = await running(storage)
        await log.lane.ready("behind")
        assert await decided(log.lane, "key-1") == decisions.ResumeFromBoundary()
        assert await decided(log.lane, "behind") == decisions.ApplyInput()


class RecoveryCases(
    SettledRecoveryCases,
    OpenCallRecoveryCases,
    WaitingRecoveryCases,
    InputRecoveryCases,
):
    """RCV-1 to RCV-3, RCV-5 to RCV-7, RCV-9 to RCV-11: one submission without children."""
