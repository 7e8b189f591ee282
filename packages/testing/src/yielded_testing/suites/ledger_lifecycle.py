"""Cases of lanes that go, storages that close, and operations that are cancelled midway."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    OwnershipLost,
    StorageClosed,
    StorageMisused,
    SubmissionNotFound,
    ThreadDeleted,
    ThreadInUse,
)
from yielded_core.records.identifiers import AttemptId, SubmissionId, ThreadId
from yielded_testing.suites.builders import THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_operations import (
    lane_operations,
    store_operations,
    submission_operations,
)
from yielded_testing.suites.ledger_values import CALL, UNSETTLED, USER, token, work
from yielded_testing.suites.support import cancelled_at, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ports.work import State
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

DELAYS: Final = (0, 1, 4, 40)


class LaneLifecycleCases:
    """What the ledger says of threads that are gone, and of submissions that never were."""

    @pytest.mark.rule("LED-3", "ARC-7")
    async def test_every_operation_tells_that_a_thread_was_deleted(self, storage: Storage) -> None:
        """ThreadDeleted with the last sequence, to whatever is asked of its lane."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", "settled")
        await lane.append(note("one"))
        await storage.threads.delete_thread(THREAD)
        operations = lane_operations(storage, THREAD)
        key = work("key-1").idempotency_key
        operations["resolve_admission"] = lambda: storage.ledger.resolve_admission(
            THREAD, USER, key
        )
        for name in (SubmissionId("nobody"), submission):
            operations |= submission_operations(storage, THREAD, name)
            for operation, call in operations.items():
                with pytest.raises(ThreadDeleted) as caught:
                    await call()
                assert (caught.value.thread, caught.value.sequence) == (THREAD, 2), operation

    @pytest.mark.rule("LED-8", "ARC-7")
    @pytest.mark.parametrize("state", UNSETTLED)
    async def test_a_thread_that_owes_work_is_not_deleted(
        self, storage: Storage, state: State
    ) -> None:
        """ThreadInUse in every unsettled state, owned or not."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        error = await lane.refuses(ThreadInUse, storage.threads.delete_thread(THREAD))
        assert error.thread == THREAD

    @pytest.mark.rule("LED-8", "ARC-7")
    async def test_a_thread_can_be_deleted_once_its_work_is_settled(self, storage: Storage) -> None:
        """Published is not enough; the id of the thread takes no work ever after."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.publish("key-1")
        await lane.refuses(ThreadInUse, storage.threads.delete_thread(THREAD))
        await lane.finalize("key-1")
        await storage.threads.delete_thread(THREAD)
        await refused(ThreadDeleted, storage.ledger.admit(work("key-2")))

    @pytest.mark.rule("LED-3")
    async def test_an_unknown_submission_is_told_by_every_operation(self, storage: Storage) -> None:
        """SubmissionNotFound comes first, whatever else is wrong; and nothing changes."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        for thread in (THREAD, ThreadId("nowhere")):
            name = SubmissionId("nobody")
            for operation, call in submission_operations(storage, thread, name).items():
                before = await lane.seen()
                with pytest.raises(SubmissionNotFound) as caught:
                    await call()
                assert (caught.value.thread, caught.value.submission) == (thread, name), operation
                assert await lane.seen() == before, operation

    @pytest.mark.rule("STO-3")
    async def test_a_storage_that_is_not_open_does_nothing(
        self, open_again: Callable[[], Storage]
    ) -> None:
        """Before it is opened and after it was closed every operation is StorageClosed."""
        async with open_again() as ended:
            await (await LaneScript.begin(ended)).ready("key-1")
        for storage in (ended, open_again()):
            operations = lane_operations(storage, THREAD) | store_operations(storage)
            for call in operations.values():
                with pytest.raises(StorageClosed):
                    await call()

    @pytest.mark.rule("STO-3")
    async def test_another_event_loop_is_told_at_once(self, storage: Storage) -> None:
        """An operation from another loop is StorageMisused, not a wait for ever."""
        await (await LaneScript.begin(storage)).ready("key-1")
        operations = lane_operations(storage, THREAD) | store_operations(storage)
        told: list[str] = []

        async def elsewhere() -> None:
            for name, call in operations.items():
                try:
                    await call()
                except StorageMisused:
                    told.append(name)

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert told == list(operations)


class LedgerCancellationCases:
    """LOG-7 for the ledger: cancelled anywhere, an operation happened whole or not at all."""

    @pytest.mark.rule("LED-4", "LOG-7")
    @pytest.mark.parametrize("delay", DELAYS)
    async def test_a_cancelled_claim_is_all_or_nothing(
        self, storage: Storage, clock: VirtualClock, delay: int
    ) -> None:
        """Repeated with the same attempt and token it is granted once, now or as a replay."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1

            attempt, owner = AttemptId(f"attempt-{point}"), token(f"c-{point}")
            claim = partial(storage.ledger.claim, THREAD, attempt=attempt, token=owner)
            epoch = (await storage.threads.tail(THREAD)).epoch
            outcome = await cancelled_at(claim(), point, delay=delay)
            assert (await storage.threads.tail(THREAD)).epoch in {epoch, epoch + 1}
            grant = await claim()
            assert grant is not None
            assert grant.epoch == epoch + 1
            clock.now = grant.expires_at

    @pytest.mark.rule("LED-8", "LOG-7")
    @pytest.mark.parametrize("delay", DELAYS)
    async def test_a_cancelled_settlement_is_all_or_nothing(
        self, storage: Storage, delay: int
    ) -> None:
        """Record and settled state are there together, or neither; the repeat settles once."""
        lane = await LaneScript.begin(storage)
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            key = f"key-{point}"
            await lane.run(key)
            outcome = await cancelled_at(lane.publish(key, finalize=True), point, delay=delay)
            seen = await lane.snapshot(key)
            assert seen.settlement_published == (seen.submission.state == "settled")
            assert (seen.lane.owner is None) == seen.settlement_published
            again = await lane.publish(key, finalize=True)
            assert again.replayed or not seen.settlement_published
            assert (await storage.threads.tail(THREAD)).sequence == point

    @pytest.mark.rule("LED-11", "LOG-7")
    @pytest.mark.parametrize("delay", DELAYS)
    async def test_a_cancelled_suspension_is_all_or_nothing(
        self, storage: Storage, delay: int
    ) -> None:
        """Suspended without an owner, or running with one."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            call = f"call-{point}"
            outcome = await cancelled_at(lane.suspend("key-1", call), point, delay=delay)
            seen = await lane.snapshot("key-1")
            suspended = seen.submission.state == "suspended"
            assert (seen.submission.suspension is not None) == suspended
            assert (seen.lane.owner is None) == suspended
            if not suspended:
                with suppress(OwnershipLost):  # which what was cancelled may end even now
                    await lane.suspend("key-1", call)
            assert await lane.decide("key-1", call)
            await lane.claim()

    @pytest.mark.rule("LED-12", "LOG-7")
    @pytest.mark.parametrize("delay", DELAYS)
    async def test_a_cancelled_decision_is_all_or_nothing(
        self, storage: Storage, delay: int
    ) -> None:
        """Decided and awake, or neither."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            call = f"{CALL}-{point}"
            await lane.suspend("key-1", call)
            outcome = await cancelled_at(lane.decide("key-1", call), point, delay=delay)
            seen = await lane.snapshot("key-1")
            assert (len(seen.approvals) == point) == (seen.submission.state == "running")
            await lane.decide("key-1", call)
            await lane.claim()
