"""Cases of recovery: faults of one thread, and the sweep over all of them (RCV-12)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from yielded_core.errors import (
    EvidenceFault,
    InvalidArgument,
    InvalidIdentifier,
    RecordUndecodable,
    StorageClosed,
    StorageUnavailable,
    SubmissionNotFound,
    ThreadDeleted,
)
from yielded_core.ledger import recovery_decisions as decisions
from yielded_core.records.identifiers import SubmissionId, ThreadId
from yielded_core.recovering import assess, sweep
from yielded_testing.suites.builders import OTHER, THREAD, prepared_as_is, record_bytes
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import CALL, UNSETTLED
from yielded_testing.suites.recovery_builders import (
    IN_DOUBT,
    REPEATABLE,
    RunLog,
    decided,
    replacing,
)
from yielded_testing.suites.support import refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yielded_core.ledger.recovery_decisions import RecoveryDecision
    from yielded_core.ports.values import Tail
    from yielded_core.ports.work import RecoverySnapshot, State
    from yielded_core.storage import Storage

Swept: TypeAlias = "tuple[str, int, RecoveryDecision]"
"""Thread, place in the lane, and what is decided about the submission there."""

NAMES: Final = (ThreadId("a"), ThreadId("b"), ThreadId("c"))
"""Threads in the order of a sweep."""


async def lanes_of(storage: Storage) -> dict[ThreadId, RunLog]:
    """Return the runs of three threads; each has more work behind it."""
    found: dict[ThreadId, RunLog] = {}
    for name in reversed(NAMES):
        lane = await LaneScript.begin(storage, name)
        found[name] = await RunLog.begin(lane, "key-1")
        await lane.ready("key-2")
    return found


async def swept(storage: Storage, limit: int = 256) -> list[Swept]:
    """Return what a sweep decides, with the places of what it decides about, each once."""
    found: list[Swept] = []
    async with aclosing(sweep(storage, limit=limit)) as swept_so_far:
        async for one, decision in swept_so_far:
            place = one.thread_id, one.queue_sequence
            assert place not in [each[:2] for each in found]
            found.append((*place, decision))
    return found


def with_blocked(blocked: decisions.Blocked) -> list[Swept]:
    """Return what a sweep over `lanes_of` decides where the middle thread has a fault."""
    healthy = (decisions.ResumeFromBoundary(), decisions.ApplyInput())
    return [
        (name, place, blocked if name == "b" else decision)
        for name in NAMES
        for place, decision in enumerate(healthy, start=1)
    ]


async def damage(log: RunLog) -> decisions.Blocked:
    """Append a fact of a run that does not decode, and return what blocks its thread."""
    threads, thread = log.lane.storage.threads, log.lane.thread
    fact = log.fact("RunPolicyUsageReserved")
    wire = record_bytes(fact).replace(b'"RunPolicy', b'"RunPolecy')
    at = await threads.tail(thread)
    batch = prepared_as_is("damaged", [(fact, wire)])
    await threads.append(thread, batch, expected=at.tail, epoch=at.epoch)
    fault = await refused(RecordUndecodable, threads.get_record(thread, fact.record_id))
    return decisions.Blocked(thread, "record-undecodable", str(fault), retryable=False)


def failing(read: Callable[..., Awaitable[object]], fault: BaseException, thread: str) -> object:
    """Return a read that fails for one thread."""

    async def replaced(of: ThreadId, *arguments: object, **named: object) -> object:
        if of == thread:
            raise fault
        return await read(of, *arguments, **named)

    return replaced


class FaultCases:
    """RCV-12: evidence that cannot be read blocks its thread and permits nothing."""

    @pytest.mark.rule("RCV-12", "LED-15", "LOG-8")
    async def test_a_record_that_does_not_decode_blocks_its_thread(self, storage: Storage) -> None:
        """Every submission of it; the other threads of the sweep are decided about."""
        logs = await lanes_of(storage)
        blocked = await damage(logs[NAMES[1]])
        assert await decided(logs[NAMES[1]].lane, "key-1") == blocked
        assert await swept(storage) == with_blocked(blocked)

    @pytest.mark.rule("RCV-12", "RCV-5", "LED-15", "LOG-17")
    async def test_an_index_that_is_not_complete_blocks_its_thread(self, storage: Storage) -> None:
        """Until it is rebuilt: what it does not hold is never taken for nothing."""
        logs = await lanes_of(storage)
        middle = logs[NAMES[1]]
        await middle.declare(IN_DOUBT)
        rebuild = storage.threads.rebuild_indexes
        reached = await rebuild(NAMES[1], restart=True, limit=1)
        assert not reached.complete
        through = (await storage.threads.tail(NAMES[1])).sequence
        run = middle.subject().run
        read = storage.threads.read_run_evidence(NAMES[1], run, after=0, through=through)
        fault = await refused(EvidenceFault, read)
        blocked = decisions.Blocked(NAMES[1], "evidence-fault", str(fault), retryable=False)
        assert await swept(storage) == with_blocked(blocked)
        await rebuild(NAMES[1])
        assert await decided(middle.lane, "key-1") == decisions.MarkCallsUnknown((CALL,))

    @pytest.mark.rule("RCV-12", "RCV-8")
    async def test_a_log_that_contradicts_itself_blocks_its_thread(self, storage: Storage) -> None:
        """A child that started and that nobody requested."""
        log = await RunLog.begin(await LaneScript.begin(storage), "key-1")
        await log.tell("SubagentStarted")
        decision = await decided(log.lane, "key-1")
        assert isinstance(decision, decisions.Blocked)
        assert (decision.thread_id, decision.code) == (THREAD, "evidence-fault")

    @pytest.mark.rule("RCV-12", "LED-15")
    @pytest.mark.parametrize("port", ["threads", "ledger"])
    async def test_a_store_that_does_not_answer_blocks_for_now(
        self, storage: Storage, port: str
    ) -> None:
        """The fault says that reading again may succeed, and then it does."""
        await lanes_of(storage)
        fault = StorageUnavailable("no answer")
        if port == "threads":
            read = failing(storage.threads.read_run_evidence, fault, "b")
            broken = replacing(storage, threads={"read_run_evidence": read})
        else:
            read = failing(storage.ledger.load_recovery_snapshot, fault, "b")
            broken = replacing(storage, ledger={"load_recovery_snapshot": read})
        blocked = decisions.Blocked(NAMES[1], "storage-unavailable", str(fault), retryable=True)
        assert await swept(broken) == with_blocked(blocked)
        assert blocked not in [decision for _, _, decision in await swept(storage)]

    @pytest.mark.rule("RCV-12", "RCV-1", "RCV-2", "LED-8")
    async def test_what_the_log_settled_is_decided_without_its_run(self, storage: Storage) -> None:
        """A published settlement is taken over, however the rest of the run is damaged."""
        log = await RunLog.begin(await LaneScript.begin(storage), "key-1")
        await damage(log)
        await log.lane.publish("key-1")
        assert await decided(log.lane, "key-1") == decisions.FinalizeFromHistory()
        await log.lane.finalize("key-1")
        assert await decided(log.lane, "key-1") == decisions.NothingToDo()

    @pytest.mark.rule("RCV-12", "ARC-7")
    async def test_a_mistake_of_the_caller_is_no_fault_of_a_thread(self, storage: Storage) -> None:
        """Ids that are none, work that is not there, a thread that was deleted, a closed store."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", "settled")
        name = lane.id("key-1")
        await refused(InvalidIdentifier, assess(storage, ThreadId(""), name))
        await refused(SubmissionNotFound, assess(storage, THREAD, SubmissionId("nobody")))
        await refused(SubmissionNotFound, assess(storage, OTHER, name))
        await storage.threads.delete_thread(THREAD)
        await refused(ThreadDeleted, assess(storage, THREAD, name))
        lost = failing(storage.ledger.load_recovery_snapshot, StorageClosed("left"), OTHER)
        closed = replacing(storage, ledger={"load_recovery_snapshot": lost})
        await refused(StorageClosed, assess(closed, OTHER, name))
        for limit in (0, 1_025):
            await refused(InvalidArgument, swept(storage, limit))

    @pytest.mark.rule("RCV-12")
    async def test_a_cancellation_is_no_fault_of_a_thread(self, storage: Storage) -> None:
        """It goes through, and nothing is decided."""
        logs = await lanes_of(storage)
        read = failing(storage.threads.read_run_evidence, asyncio.CancelledError(), "b")
        stopped = replacing(storage, threads={"read_run_evidence": read})
        with pytest.raises(asyncio.CancelledError):
            await decided(logs[NAMES[1]].lane, "key-1", stopped)
        with pytest.raises(asyncio.CancelledError):
            await swept(stopped)


class SweepCases:
    """RCV-12, LED-15: everything that is owed, one decision each, and nothing changed."""

    @pytest.mark.rule("RCV-12", "LED-15")
    @pytest.mark.parametrize("limit", [1, 2, 5, 6, 7])
    async def test_a_sweep_assesses_each_submission(self, storage: Storage, limit: int) -> None:
        """By thread and place, whatever the size of a page."""
        logs = await lanes_of(storage)
        found = await swept(storage, limit)
        assert [place for *place, _ in found] == [[name, at] for name in NAMES for at in (1, 2)]
        for thread, place, decision in found:
            lane = logs[ThreadId(thread)].lane
            assert await decided(lane, f"key-{place}") == decision

    @pytest.mark.rule("RCV-12", "LED-15")
    @pytest.mark.parametrize("limit", [1, 2, 3, 256])
    async def test_a_blocked_thread_stays_blocked_over_pages(
        self, storage: Storage, limit: int
    ) -> None:
        """Where a page ends in it, and where it is the last of its page."""
        logs = await lanes_of(storage)
        blocked = await damage(logs[NAMES[1]])
        assert await swept(storage, limit) == with_blocked(blocked)

    @pytest.mark.rule("RCV-12")
    @pytest.mark.parametrize("state", UNSETTLED)
    async def test_a_sweep_changes_nothing(self, storage: Storage, state: State) -> None:
        """In no state, and whoever owns the lane."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        decisions_made = await lane.unmoved(swept(storage))
        assert len(decisions_made) == len(lane.receipts)

    @pytest.mark.rule("RCV-12", "LED-15", "ARC-7")
    async def test_a_thread_that_is_deleted_meanwhile_is_left_out(self, storage: Storage) -> None:
        """It owes nothing any more; the sweep goes on."""
        await lanes_of(storage)
        gone = failing(storage.ledger.load_recovery_snapshot, ThreadDeleted("b", 2), "b")
        found = await swept(replacing(storage, ledger={"load_recovery_snapshot": gone}))
        assert [name for name, *_ in found] == ["a", "a", "c", "c"]

    @pytest.mark.rule("RCV-12", "RCV-1", "LED-15")
    async def test_what_is_settled_meanwhile_needs_nothing(self, storage: Storage) -> None:
        """A sweep decides on what it reads, not on what was listed."""
        logs = await lanes_of(storage)
        async with aclosing(sweep(storage)) as found:
            await anext(found)
            await logs[NAMES[2]].lane.settle("key-1")
            rest = {(one.thread_id, one.queue_sequence): made async for one, made in found}
        assert rest[NAMES[2], 1] == decisions.NothingToDo()
        assert rest[NAMES[2], 2] == decisions.ApplyInput()

    @pytest.mark.rule("RCV-9", "LED-15")
    async def test_evidence_ends_at_the_tail_of_the_snapshot(self, storage: Storage) -> None:
        """What is appended after it was taken is for the next assessment."""
        log = await RunLog.begin(await LaneScript.begin(storage), "key-1")
        await log.declare(REPEATABLE)
        tails: list[Tail] = []

        async def overtaken(thread: ThreadId, submission: SubmissionId) -> RecoverySnapshot:
            taken = await storage.ledger.load_recovery_snapshot(thread, submission)
            tails.append(taken.tail)
            await log.tell("ToolCallSettled")
            return taken

        late = replacing(storage, ledger={"load_recovery_snapshot": overtaken})
        assert await decided(log.lane, "key-1", late) == decisions.ResumeBatch(1)
        assert (await storage.threads.tail(THREAD)).sequence == tails[0].sequence + 1
        assert await decided(log.lane, "key-1") == decisions.ResumeFromBoundary()
