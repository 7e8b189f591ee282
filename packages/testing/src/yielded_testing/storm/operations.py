"""The single operations of a worker of lanes, each of which says what it begins and is answered.

`begins` is said before an operation, `done` or `refused` with the answer after it, so that a kill
between the two can be judged; `lost` is said where the server ended before it answered, and the
operation begins again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from yielded_core.errors import (
    AppendConflict,
    AuthorityRefused,
    FenceRejected,
    OwnershipLost,
    SettlementConflict,
)
from yielded_core.ports.work import Admission
from yielded_core.records.identifiers import (
    AttemptId,
    IdempotencyKey,
    OwnershipToken,
    Principal,
    ProducerId,
    ReceiptId,
    SubmissionId,
    ThreadId,
    input_batch_id,
    input_record_id,
    run_id,
    settlement_id,
    settlement_record_id,
)
from yielded_core.records.payloads import SubmissionSettled, UserInputRecorded
from yielded_testing.suites.builders import EMPTY, actual_tail, batch, notes, record

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from yielded_core.errors import StorageError
    from yielded_core.ports.values import Appended, Batch, Tail
    from yielded_core.ports.work import Admitted, Authority, Grant, Outcome, Submission
    from yielded_core.storage import Storage
    from yielded_testing.storm.channel import Message

Answer = TypeVar("Answer")

CLIENT: Final = Principal("client")
LEASE: Final = (300, 500)
"""Milliseconds that a lease has at least and at most: about as long as work on a lane takes."""
BACK_OFF_SECONDS: Final = 0.05
"""Between two tries of an operation while the server is away, or two looks for work."""


class Work(NamedTuple):
    """A submission, as whoever settles it names it."""

    lane: ThreadId
    submission: SubmissionId
    receipt: ReceiptId
    number: int
    """Its number among the keys of its lane; its place in the queue can be another one."""


@dataclass
class Held:
    """The right to a lane that an attempt was granted, or to no lane in order to abort."""

    work: Work
    attempt: AttemptId
    token: OwnershipToken
    epoch: int = 0
    tail: Tail = EMPTY
    input_at: int | None = None


@dataclass
class Operations:
    """What one task asks of a store, told as it goes."""

    say: Callable[..., None]
    storage: Storage
    name: str
    chance: random.Random
    outlasted: tuple[type[StorageError], ...] = ()
    """Errors after which an operation is asked again: what the end of a server looks like."""
    lease: tuple[int, int] = LEASE
    attempts: int = 0

    async def ask(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask what changes nothing."""
        while True:
            try:
                return await question()
            except self.outlasted:
                await asyncio.sleep(BACK_OFF_SECONDS)

    async def _tell(
        self,
        operation: str,
        work: Callable[[], Awaitable[Answer]],
        told: Callable[[Answer], Message] | None = None,
        /,
        **what: object,
    ) -> Answer:
        """Say that an operation begins, and what it answers."""
        while True:
            self.say(begins=operation, **what)
            try:
                answer = await work()
            except (AuthorityRefused, FenceRejected, OwnershipLost, SettlementConflict) as refusal:
                self.say(refused=operation, code=refusal.code, **what)
                raise
            except self.outlasted:
                self.say(lost=operation, **what)
                await asyncio.sleep(BACK_OFF_SECONDS)
            else:
                self.say(done=operation, **what, **({} if told is None else told(answer)))
                return answer

    # --- accepting ---

    async def offer(self, lane: ThreadId, number: int) -> Work:
        """Admit the work of a lane that bears this number, and make it ready."""
        key = IdempotencyKey(f"{lane}/{number}")
        given = Admission(lane, CLIENT, key, {"number": number})
        ledger = self.storage.ledger
        done = await self._tell(
            "admit", lambda: ledger.admit(given), receipt_of, lane=lane, key=key
        )
        await self.ask(lambda: ledger.mark_ready(lane, done.submission_id))
        return Work(lane, done.submission_id, done.receipt_id, number)

    async def abort(self, work: Work, *, settle: bool) -> None:
        """Ask for an abort, and settle it if it never ran; any refusal is an answer too."""
        lane, submission = work.lane, work.submission
        request = partial(self.storage.ledger.request_abort, lane, submission)
        with suppress(SettlementConflict, AuthorityRefused, OwnershipLost):
            await self._tell(
                "abort",
                lambda: request(author=self.name, reason="as a test"),
                submission=submission,
            )
            if settle:
                held = Held(work, *self._new_attempt())
                together = self.chance.random() < 0.5
                await self.settle(held, "aborted", together=together, authority="queued-abort")

    # --- owning ---

    async def claim(self, lane: ThreadId) -> Held | None:
        """Claim a lane as a new attempt, at times twice, as after a lost answer."""
        attempt, token = self._new_attempt()
        grant = await self._claim_as(lane, attempt, token)
        if grant is not None and self.chance.random() < 0.1:
            grant = await self._claim_as(lane, attempt, token)
        if grant is None:
            return None
        one = grant.submission
        work = Work(lane, one.submission_id, one.receipt_id, number_of(one.idempotency_key))
        return Held(work, attempt, token, grant.epoch, grant.tail)

    async def _claim_as(
        self, lane: ThreadId, attempt: AttemptId, token: OwnershipToken
    ) -> Grant | None:
        lease = self.chance.randint(*self.lease)
        claim = partial(self.storage.ledger.claim, lane, attempt=attempt, token=token, lease=lease)
        return await self._tell("claim", claim, _grant, lane=lane, attempt=attempt, lease=lease)

    def _new_attempt(self) -> tuple[AttemptId, OwnershipToken]:
        self.attempts += 1
        name = f"{self.name}/{self.attempts}"
        return AttemptId(name), OwnershipToken(f"token of {name}")

    async def renew(self, held: Held, *, stale: bool = False) -> None:
        """Extend the lease."""
        lane, lease = held.work.lane, self.chance.randint(*self.lease)
        await self._tell(
            "renew",
            partial(self.storage.ledger.renew, lane, token=held.token, lease=lease),
            lambda expires: {"expires": expires},
            attempt=held.attempt,
            stale=stale,
        )

    async def release(self, held: Held) -> None:
        """End the ownership without settling."""
        release = partial(self.storage.ledger.release, held.work.lane, token=held.token)
        await self._tell("release", release, attempt=held.attempt)

    # --- the log ---

    async def append(self, held: Held, given: Batch, *, stale: bool = False) -> int:
        """Append at whatever the tail is, under the granted epoch; return the first sequence."""
        lane = held.work.lane
        done = await self._tell(
            "append",
            lambda: insist(self.storage, lane, given, held.tail, held.epoch),
            _appended,
            lane=lane,
            batch=given.batch_id,
            attempt=held.attempt,
            stale=stale,
        )
        held.tail = done.tail
        return done.first_sequence

    async def apply_input(self, held: Held) -> None:
        """Append the input unless a former attempt did, and mark where it stands."""
        lane, submission, _, number = held.work
        if held.input_at is None:
            payload = UserInputRecorded(
                submission_id=submission,
                kind="user",
                run_id=run_id(submission),
                input={"number": number},
            )
            entry = record(input_record_id(submission), payload)
            given = batch(input_batch_id(submission), entry, producer=ProducerId(held.attempt))
            held.input_at = await self.append(held, given)
        at = held.input_at
        mark = partial(self.storage.ledger.mark_input_applied, lane, submission)
        await self._tell(
            "mark",
            lambda: mark(token=held.token, sequence=at),
            submission=submission,
            attempt=held.attempt,
            sequence=at,
        )

    async def write_note(self, held: Held, name: str, *, stale: bool = False) -> None:
        """Append a batch of one to three notes."""
        given = notes(name, self.chance.randint(1, 3), "x" * self.chance.randrange(300))
        producer = ProducerId(held.attempt)
        await self.append(held, batch(name, *given, producer=producer), stale=stale)

    # --- settling ---

    async def settle(
        self, held: Held, outcome: Outcome, *, together: bool, authority: Authority = "owned"
    ) -> None:
        """Publish and finalize, in one call or in two; at times publish again before that."""
        await self.publish(held, outcome, authority=authority, finalize=together)
        if self.chance.random() < 0.1:
            await self.publish(held, outcome, authority=authority)
        if not together:
            await self.finalize(held)

    async def publish(
        self,
        held: Held,
        outcome: Outcome,
        *,
        authority: Authority = "owned",
        finalize: bool = False,
        stale: bool = False,
    ) -> None:
        """Publish the settlement record."""
        lane, submission, receipt, number = held.work
        content = SubmissionSettled(
            submission_id=submission,
            settlement_id=settlement_id(submission),
            receipt_id=receipt,
            outcome=outcome,
            result=None if outcome == "aborted" else {"number": number},
        )
        publish = partial(
            self.storage.settlements.publish,
            lane,
            record(settlement_record_id(submission), content),
            producer=ProducerId(held.attempt),
            token=held.token,
            authority=authority,
            finalize=finalize,
        )
        await self._tell(
            "publish",
            publish,
            lambda done: {"sequence": done.record.sequence, "replayed": done.replayed},
            lane=lane,
            submission=submission,
            attempt=held.attempt,
            authority=authority,
            outcome=outcome,
            stale=stale,
        )

    async def finalize(self, held: Held) -> None:
        """Project the settlement record onto the ledger."""
        lane, submission, _, _ = held.work
        finalize = partial(self.storage.ledger.finalize_settlement, lane, submission)
        await self._tell(
            "finalize",
            lambda: finalize(settlement=settlement_id(submission)),
            _settled,
            submission=submission,
        )


async def insist(
    storage: Storage, thread: ThreadId, given: Batch, tail: Tail, epoch: int
) -> Appended:
    """Append at whatever the tail is: others may have appended to the same thread."""
    while True:
        try:
            return await storage.threads.append(thread, given, expected=tail, epoch=epoch)
        except AppendConflict as conflict:
            if conflict.reason != "tail":
                raise
            tail = actual_tail(conflict)


def number_of(key: str) -> int:
    """Return the number that the key of a submission ends with."""
    return int(key.rpartition("/")[2])


# --- answers, as they are said -------------------------------------------------------------------


def receipt_of(done: Admitted) -> Message:
    """Return the answer of an admission."""
    return {
        "submission": done.submission_id,
        "receipt": done.receipt_id,
        "place": done.queue_sequence,
        "replayed": done.replayed,
    }


def _grant(grant: Grant | None) -> Message:
    if grant is None:
        return {}
    return {
        "submission": grant.submission.submission_id,
        "place": grant.submission.queue_sequence,
        "epoch": grant.epoch,
        "expires": grant.expires_at,
        "tail": grant.tail.sequence,
        "digest": grant.tail.digest,
        "replayed": grant.replayed,
    }


def _appended(done: Appended) -> Message:
    return {
        "first": done.first_sequence,
        "last": done.tail.sequence,
        "digest": done.tail.digest,
        "replayed": done.replayed,
    }


def _settled(done: Submission) -> Message:
    assert done.settled is not None
    return {"outcome": done.settled.outcome, "at": done.settled.settled_at}
