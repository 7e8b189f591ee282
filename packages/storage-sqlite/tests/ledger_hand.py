"""A worker of lanes, as the tests of the ledger need one: it works, goes stale, and says it all.

`begins` is said before an operation, `done` or `refused` with the answer after it, so that a kill
between the two can be judged.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from worker_programs import insist

from yielded_core.errors import (
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
from yielded_testing.suites.builders import EMPTY, batch, notes, record

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from typing import Any

    from yielded_core.ports.values import Batch, Tail
    from yielded_core.ports.work import Admitted, Authority, Grant, Outcome
    from yielded_core.storage import Storage

CLIENT: Final = Principal("client")
SHORTEST_LEASE: Final = 300
LONGEST_LEASE: Final = 500
KEPT: Final = 2
"""Grants that a task keeps at most until somebody else has claimed their lanes."""


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
class Hand:
    """One task that does what a worker of lanes does, and says it."""

    say: Callable[..., None]
    storage: Storage
    name: str
    chance: random.Random
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    lanes: Sequence[ThreadId] = ()
    attempts: int = 0
    kept: list[Held] = field(default_factory=list[Held])

    # --- the course of things ---

    async def run(self) -> None:
        """Work until the end is asked for and nothing is owed any more."""
        while not self.ending.is_set() or await self._is_owed():
            await self._work_once()
        await self._return_to_kept()
        assert not self.kept, "nobody claimed a lane whose owner went stale"

    async def _is_owed(self) -> bool:
        """Say whether work is left; what a killed process admitted is made ready."""
        owed = await self.storage.ledger.scan_nonterminal(limit=1_024)
        for each in owed:
            if each.state == "admitted":
                await self.storage.ledger.mark_ready(each.thread_id, each.submission_id)
        return bool(owed)

    async def _work_once(self) -> None:
        hints = await self.storage.ledger.runnable()
        if hints:
            lane = self.chance.choice(hints).thread_id
            held = await self.claim(lane)
            if held is not None:
                with suppress(FenceRejected, OwnershipLost):  # too slow: said already
                    await self._carry_on(held)
        if not self.ending.is_set() and self.chance.random() < 0.03:
            await self._abort_an_owner()
        await self._return_to_kept()

    async def _carry_on(self, held: Held) -> None:
        """Do what is left of a submission, or a part of it and keep the grant."""
        name = held.work
        found = await self.storage.ledger.load_recovery_snapshot(name.lane, name.submission)
        if found.settlement_published:
            await self.finalize(held)
            return
        held.input_at = found.input_sequence
        steps: tuple[Callable[[Held], Coroutine[Any, Any, None]], ...]
        steps = (self._offer_more, self.apply_input, self._write_notes, self._settle)
        goes_stale = len(self.kept) < KEPT and self.chance.random() < 0.3
        left = self.chance.randrange(len(steps)) if goes_stale and not self.ending.is_set() else 4
        if left < len(steps):
            self.kept.append(held)
        for step in steps[:left]:
            await step(held)
        if left == 1 and self.chance.random() < 0.3:
            self.kept.remove(held)
            await self.release(held)

    async def _return_to_kept(self) -> None:
        """Act on each kept grant whose lane somebody else has claimed."""
        for held in tuple(self.kept):
            lane = await self.storage.ledger.lane(held.work.lane)
            if lane is not None and lane.epoch > held.epoch:
                self.kept.remove(held)
                await self.act_stale(held)

    async def _offer_more(self, held: Held) -> None:
        """Admit what comes next in the lane; whoever works on its neighbours does so as well."""
        if self.ending.is_set():
            return
        number = held.work.number
        offers = [self.offer(held.work.lane, number + more) for more in (1, 2)]
        for work in await asyncio.gather(*offers):
            if work.number % 2 == 0 and self.chance.random() < 0.2:
                await self.abort(work, settle=self.chance.random() < 0.7)

    async def _write_notes(self, held: Held) -> None:
        for number in range(self.chance.randrange(3)):
            await self.write_note(held, f"{held.attempt}/{number}")
            if self.chance.random() < 0.4:
                await self.renew(held)

    async def _settle(self, held: Held) -> None:
        name = held.work
        asked = await self.storage.ledger.read_abort_intent(name.lane, name.submission)
        outcome = "completed" if asked.intent is None else "aborted"
        await self.settle(held, outcome, together=self.chance.random() < 0.5)

    async def _abort_an_owner(self) -> None:
        lane = self.chance.choice(self.lanes)
        found = await self.storage.ledger.lane(lane)
        if found is not None and found.owner is not None:
            known = await self.storage.ledger.lookup(found.owner.submission_id)
            assert known is not None
            one = known.submission
            work = Work(lane, one.submission_id, one.receipt_id, _number_of(one.idempotency_key))
            await self.abort(work, settle=False)

    # --- single operations ---

    @contextmanager
    def _telling(self, operation: str, **what: object) -> Generator[dict[str, object]]:
        """Say that an operation begins, and what it answers: what is put into the dictionary."""
        answer: dict[str, object] = {}
        self.say(begins=operation, **what)
        try:
            yield answer
        except (AuthorityRefused, FenceRejected, OwnershipLost, SettlementConflict) as refusal:
            self.say(refused=operation, code=refusal.code, **what)
            raise
        self.say(done=operation, **what, **answer)

    async def offer(self, lane: ThreadId, number: int) -> Work:
        """Admit the work of a lane that bears this number, and make it ready."""
        key = IdempotencyKey(f"{lane}/{number}")
        with self._telling("admit", lane=lane, key=key) as answer:
            given = Admission(lane, CLIENT, key, {"number": number})
            done = await self.storage.ledger.admit(given)
            answer.update(receipt_of(done))
        await self.storage.ledger.mark_ready(lane, done.submission_id)
        return Work(lane, done.submission_id, done.receipt_id, number)

    async def claim(self, lane: ThreadId) -> Held | None:
        """Claim a lane as a new attempt, at times twice, as after a lost answer."""
        attempt, token = self._new_attempt()
        grant = await self._ask(lane, attempt, token)
        if grant is not None and self.chance.random() < 0.1:
            grant = await self._ask(lane, attempt, token)
        if grant is None:
            return None
        one = grant.submission
        work = Work(lane, one.submission_id, one.receipt_id, _number_of(one.idempotency_key))
        return Held(work, attempt, token, grant.epoch, grant.tail)

    async def _ask(self, lane: ThreadId, attempt: AttemptId, token: OwnershipToken) -> Grant | None:
        lease = self.chance.randint(SHORTEST_LEASE, LONGEST_LEASE)
        with self._telling("claim", lane=lane, attempt=attempt, lease=lease) as answer:
            grant = await self.storage.ledger.claim(lane, attempt=attempt, token=token, lease=lease)
            if grant is None:
                return None
            answer.update(
                submission=grant.submission.submission_id,
                place=grant.submission.queue_sequence,
                epoch=grant.epoch,
                expires=grant.expires_at,
                tail=grant.tail.sequence,
                digest=grant.tail.digest,
                replayed=grant.replayed,
            )
            return grant

    def _new_attempt(self) -> tuple[AttemptId, OwnershipToken]:
        self.attempts += 1
        name = f"{self.name}/{self.attempts}"
        return AttemptId(name), OwnershipToken(f"token of {name}")

    async def append(self, held: Held, given: Batch, *, stale: bool = False) -> int:
        """Append at whatever the tail is, under the granted epoch; return the first sequence."""
        lane = held.work.lane
        with self._telling(
            "append", lane=lane, batch=given.batch_id, attempt=held.attempt, stale=stale
        ) as answer:
            done = await insist(self.storage, lane, given, held.tail, held.epoch)
            held.tail = done.tail
            answer.update(
                first=done.first_sequence,
                last=done.tail.sequence,
                digest=done.tail.digest,
            )
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
        with self._telling(
            "mark", submission=submission, attempt=held.attempt, sequence=held.input_at
        ):
            await self.storage.ledger.mark_input_applied(
                lane, submission, token=held.token, sequence=held.input_at
            )

    async def write_note(self, held: Held, name: str, *, stale: bool = False) -> None:
        """Append a batch of one to three notes."""
        given = notes(name, self.chance.randint(1, 3), "x" * self.chance.randrange(300))
        producer = ProducerId(held.attempt)
        await self.append(held, batch(name, *given, producer=producer), stale=stale)

    async def renew(self, held: Held, *, stale: bool = False) -> None:
        """Extend the lease."""
        lease = self.chance.randint(SHORTEST_LEASE, LONGEST_LEASE)
        with self._telling("renew", attempt=held.attempt, stale=stale) as answer:
            answer["expires"] = await self.storage.ledger.renew(
                held.work.lane, token=held.token, lease=lease
            )

    async def release(self, held: Held) -> None:
        """End the ownership without settling."""
        with self._telling("release", attempt=held.attempt):
            await self.storage.ledger.release(held.work.lane, token=held.token)

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
        entry = record(settlement_record_id(submission), content)
        with self._telling(
            "publish",
            lane=lane,
            submission=submission,
            attempt=held.attempt,
            authority=authority,
            outcome=outcome,
            stale=stale,
        ) as answer:
            done = await self.storage.settlements.publish(
                lane,
                entry,
                producer=ProducerId(held.attempt),
                token=held.token,
                authority=authority,
                finalize=finalize,
            )
            answer.update(sequence=done.record.sequence, replayed=done.replayed)

    async def finalize(self, held: Held) -> None:
        """Project the settlement record onto the ledger."""
        lane, submission, _, _ = held.work
        with self._telling("finalize", submission=submission) as answer:
            done = await self.storage.ledger.finalize_settlement(
                lane, submission, settlement=settlement_id(submission)
            )
            assert done.settled is not None
            answer.update(outcome=done.settled.outcome, at=done.settled.settled_at)

    async def abort(self, work: Work, *, settle: bool) -> None:
        """Ask for an abort, and settle it if it never ran; any refusal is an answer too."""
        with suppress(SettlementConflict, AuthorityRefused, OwnershipLost):
            with self._telling("abort", submission=work.submission):
                await self.storage.ledger.request_abort(
                    work.lane, work.submission, author=self.name, reason="as a test"
                )
            if settle:
                held = Held(work, *self._new_attempt())
                together = self.chance.random() < 0.5
                await self.settle(held, "aborted", together=together, authority="queued-abort")

    async def act_stale(self, held: Held) -> None:
        """Append and publish under a lost right, where nothing but the right is wrong."""
        held.tail = (await self.storage.threads.tail(held.work.lane)).tail
        with suppress(FenceRejected):
            await self.write_note(held, f"{held.attempt}/stale", stale=True)
        with suppress(OwnershipLost):
            await self.publish(held, "completed", stale=True)
        with suppress(OwnershipLost):
            await self.renew(held, stale=True)


def _number_of(key: str) -> int:
    return int(key.rpartition("/")[2])


def receipt_of(done: Admitted) -> dict[str, object]:
    """Return the answer of an admission as it is said."""
    return {
        "submission": done.submission_id,
        "receipt": done.receipt_id,
        "place": done.queue_sequence,
        "replayed": done.replayed,
    }
