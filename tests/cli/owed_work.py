"""Work in every state, brought there through the ports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.ports.values import Batch
from yielded_core.ports.work import Admission, AwaitedChild, Suspension
from yielded_core.records.envelope import Record
from yielded_core.records.identifiers import (
    AttemptId,
    DeploymentId,
    Digest,
    IdempotencyKey,
    OwnershipToken,
    Principal,
    ProducerId,
    RecordId,
    RunId,
    SubmissionId,
    ThreadId,
    ToolCallId,
    input_batch_id,
    input_record_id,
    run_id,
    settlement_id,
    settlement_record_id,
)
from yielded_core.records.payloads import SubmissionSettled, UserInputRecorded

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome, Submission
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.payloads import Payload
    from yielded_core.storage import Storage

PRODUCER: Final = ProducerId("worker")
TOKEN: Final = OwnershipToken("a token that nobody may see")
DAY: Final = 86_400_000


class Owed(NamedTuple):
    """A store with work in it."""

    url: str
    work: dict[str, SubmissionId]
    """The submissions by the names that the tests give them."""


class LaneOf:
    """Works on the lane of one thread."""

    def __init__(self, storage: Storage, thread: str, principal: str = "somebody") -> None:
        self.thread = ThreadId(thread)
        self._storage = storage
        self._ledger = storage.ledger
        self._principal = Principal(principal)
        self._epoch = 1

    async def admit(
        self, key: str, *, group: str | None = None, given: JsonValue = None
    ) -> SubmissionId:
        """Accept work."""
        work = Admission(
            self.thread, self._principal, IdempotencyKey(key), given or {"say": key}, group=group
        )
        return (await self._ledger.admit(work)).submission_id

    async def ready(
        self, key: str, *, group: str | None = None, given: JsonValue = None
    ) -> SubmissionId:
        """Accept work that may be claimed."""
        submission = await self.admit(key, group=group, given=given)
        await self._storage.threads.materialize(self.thread, epoch=self._epoch)
        await self._ledger.mark_ready(self.thread, submission)
        return submission

    async def claim(self, attempt: str = "attempt", lease: int = DAY) -> Submission:
        """Own the lane."""
        grant = await self._ledger.claim(
            self.thread, attempt=AttemptId(attempt), token=TOKEN, lease=lease
        )
        assert grant is not None
        self._epoch = grant.epoch
        return grant.submission

    async def append_input(self, submission: SubmissionId, *, epoch: int | None = None) -> int:
        """Append the input of a submission and return where it stands."""
        given = UserInputRecorded(
            submission_id=submission, kind="user", run_id=run_id(submission), input={}
        )
        tail = (await self._storage.threads.tail(self.thread)).tail
        records = (_record(input_record_id(submission), given),)
        batch = Batch(input_batch_id(submission), PRODUCER, records)
        done = await self._storage.threads.append(
            self.thread, batch, expected=tail, epoch=epoch or self._epoch
        )
        return done.tail.sequence

    async def apply_input(self, submission: SubmissionId) -> None:
        """Append the input of the owned submission and mark it."""
        sequence = await self.append_input(submission)
        await self._ledger.mark_input_applied(
            self.thread, submission, token=TOKEN, sequence=sequence
        )

    async def suspend(self, submission: SubmissionId, *calls: str) -> None:
        """Let the owned submission wait for decisions about calls."""
        waiting = Suspension(tuple(map(ToolCallId, calls)))
        await self._ledger.suspend(self.thread, submission, token=TOKEN, waiting_for=waiting)

    async def await_child(self, submission: SubmissionId, call: str, child: AwaitedChild) -> None:
        """Let the owned submission wait for a child that it reserved for."""
        place, name = (self.thread, submission), ToolCallId(call)
        digest = Digest("0" * 64)
        await self._ledger.reserve_child(
            *place, token=TOKEN, call=name, reservation_id="reserved", digest=digest
        )
        await self._ledger.attach_child(*place, token=TOKEN, call=name, child=child)
        await self._ledger.suspend(*place, token=TOKEN, waiting_for=Suspension(children=(child,)))

    async def park(self, submission: SubmissionId, *calls: str, reason: str = "lost") -> None:
        """Mark calls of unknown outcome, and leave the lane."""
        named = [(ToolCallId(call), reason) for call in calls]
        await self._ledger.mark_unknown(self.thread, submission, run=RunId("run"), calls=named)
        await self._ledger.release(self.thread, token=TOKEN)

    async def join(self, host: SubmissionId) -> None:
        """Take what is ready behind the owned host."""
        await self._ledger.claim_joining(self.thread, host, token=TOKEN)

    async def settle(self, submission: SubmissionId, outcome: Outcome = "completed") -> None:
        """Settle the owned submission."""
        work = await self._ledger.lookup(submission)
        assert work is not None
        content = SubmissionSettled(
            submission_id=submission,
            settlement_id=settlement_id(submission),
            receipt_id=work.submission.receipt_id,
            outcome=outcome,
        )
        await self._storage.settlements.publish(
            self.thread,
            _record(settlement_record_id(submission), content),
            producer=PRODUCER,
            token=TOKEN,
            authority="owned",
            finalize=True,
        )


def _record(name: RecordId, payload: Payload) -> Record:
    return Record(
        record_id=name,
        created_at=datetime(2030, 1, 2, tzinfo=UTC),
        deployment_id=DeploymentId("test"),
        payload=payload,
    )


async def work_in_every_state(storage: Storage) -> dict[str, SubmissionId]:
    """Fill lanes, and return the submissions by the names that the tests give them."""
    found: dict[str, SubmissionId] = {}
    early = LaneOf(storage, "early")
    found["early"] = await early.admit("early")

    busy = LaneOf(storage, "busy")
    found["host"] = await busy.ready("host")
    await busy.claim("busy-attempt")
    found["guest"] = await busy.ready("guest", group="group")
    found["behind"] = await busy.admit("behind")
    await busy.apply_input(found["host"])
    await busy.join(found["host"])

    asking = LaneOf(storage, "asking")
    found["asking"] = await asking.ready("asking")
    await asking.claim()
    await asking.suspend(found["asking"], "call-1", "call-2")

    parent = LaneOf(storage, "parent")
    found["parent"] = await parent.ready("parent")
    await parent.claim()
    child = AwaitedChild(busy.thread, found["host"])
    await parent.await_child(found["parent"], "call-3", child)

    lost = LaneOf(storage, "lost")
    found["lost"] = await lost.ready("lost")
    await lost.claim()
    await lost.park(found["lost"], "call-4", "call-5")
    found["next"] = await lost.ready("next")

    over = LaneOf(storage, "over")
    found["settled"] = await over.ready("settled")
    await over.claim()
    await over.apply_input(found["settled"])
    await over.settle(found["settled"])
    return found
