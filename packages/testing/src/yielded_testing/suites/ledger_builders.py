"""Lanes that the cases of accepted work are about, brought to their states through the ports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from yielded_core.errors import ThreadNotMaterialized
from yielded_core.ports.values import Batch, Tail
from yielded_core.ports.work import AwaitedChild, JoiningGuard, Suspension
from yielded_core.records.identifiers import (
    AttemptId,
    BatchId,
    RunId,
    SettlementId,
    SubmissionId,
    ThreadId,
    ToolCallId,
)
from yielded_testing.suites.builders import PRODUCER, THREAD
from yielded_testing.suites.ledger_values import (
    CALL,
    LEASE,
    input_record,
    settlement_of,
    token,
    work,
)
from yielded_testing.suites.support import refused

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from yielded_core.ports.ledger import SubmissionLedger
    from yielded_core.ports.values import CapturedThread
    from yielded_core.ports.work import (
        Admitted,
        Authority,
        ClaimHandoff,
        Grant,
        Lane,
        Outcome,
        Published,
        RecoverySnapshot,
        RunnableLane,
        State,
        Submission,
    )
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import OwnershipToken
    from yielded_core.storage import Storage
    from yielded_testing.suites.support import Answer, Refusal


class Seen(NamedTuple):
    """Everything about a lane that the ports show, so that a case can tell that nothing changed."""

    lane: Lane | None
    log: CapturedThread | None
    work: tuple[RecoverySnapshot, ...]
    runnable: tuple[RunnableLane, ...]


@dataclass
class LaneScript:
    """Works on one lane as a worker does, always with the token of its newest claim."""

    storage: Storage
    thread: ThreadId = THREAD
    name: str = "1"
    """Names attempts and tokens, so that workers on one lane do not share them."""
    receipts: dict[str, Admitted] = field(default_factory=dict[str, "Admitted"])
    grants: list[Grant] = field(default_factory=list["Grant"])

    @staticmethod
    async def begin(storage: Storage, thread: ThreadId = THREAD, *, epoch: int = 1) -> LaneScript:
        """Materialize a thread and work on its lane."""
        await storage.threads.materialize(thread, epoch=epoch)
        return LaneScript(storage, thread)

    @property
    def ledger(self) -> SubmissionLedger:
        """The ledger that the lane is in."""
        return self.storage.ledger

    @property
    def token(self) -> OwnershipToken:
        """The token of the newest claim."""
        return token(f"{self.name}-{len(self.grants)}")

    @property
    def grant(self) -> Grant:
        """What the newest claim gave."""
        assert self.grants, f"nothing was granted to worker {self.name}"
        return self.grants[-1]

    def id(self, key: str) -> SubmissionId:
        """Return the submission that was admitted under a key."""
        return self.receipts[key].submission_id

    def another(self, name: str) -> LaneScript:
        """Return another worker on the same lane, who knows the same submissions."""
        return LaneScript(self.storage, self.thread, name, self.receipts)

    # --- accepting and owning work ---

    async def admit(self, *keys: str, group: str | None = None) -> Admitted:
        """Admit work under each key and return the last receipt."""
        for key in keys:
            given = work(key, thread=self.thread, group=group)
            self.receipts[key] = await self.ledger.admit(given)
        return self.receipts[keys[-1]]

    async def ready(self, *keys: str, group: str | None = None) -> SubmissionId:
        """Admit work under each key, let it be claimed, and return the last submission."""
        for key in keys:
            await self.admit(key, group=group)
            await self.ledger.mark_ready(self.thread, self.id(key))
        return self.id(keys[-1])

    async def try_claim(
        self, *, lease: int = LEASE, handoff: ClaimHandoff | None = None
    ) -> Grant | None:
        """Claim the lane with an attempt and a token of its own."""
        name = f"{self.name}-{len(self.grants) + 1}"
        grant = await self.ledger.claim(
            self.thread,
            attempt=AttemptId(f"attempt-{name}"),
            token=token(name),
            lease=lease,
            handoff=handoff,
        )
        if grant is not None:
            self.grants.append(grant)
        return grant

    async def claim(self, *, lease: int = LEASE, handoff: ClaimHandoff | None = None) -> Grant:
        """Claim the lane, which must be granted."""
        grant = await self.try_claim(lease=lease, handoff=handoff)
        assert grant is not None
        assert not grant.replayed
        return grant

    async def run(self, key: str, *, group: str | None = None) -> SubmissionId:
        """Admit work, let it be claimed, and claim it."""
        submission = await self.ready(key, group=group)
        assert (await self.claim()).submission.submission_id == submission
        return submission

    async def release(self) -> None:
        """End the ownership of the newest claim."""
        await self.ledger.release(self.thread, token=self.token)

    async def append(self, *records: Record, batch_id: str | None = None) -> Tail:
        """Append records at the tail, under the epoch of the newest claim."""
        at = await self.storage.threads.tail(self.thread)
        name = BatchId(batch_id or f"batch-{at.sequence + 1}")
        done = await self.storage.threads.append(
            self.thread,
            Batch(name, PRODUCER, records),
            expected=at.tail,
            epoch=self.grant.epoch if self.grants else at.epoch,
        )
        return done.tail

    async def append_input(self, key: str) -> int:
        """Append the record of a submission's input and return its sequence."""
        submission = self.id(key)
        batch_id = f"submission-input:{submission}"
        return (await self.append(input_record(submission), batch_id=batch_id)).sequence

    async def apply_input(self, key: str) -> int:
        """Append the input of the owned submission and mark it."""
        sequence = await self.append_input(key)
        await self.ledger.mark_input_applied(
            self.thread, self.id(key), token=self.token, sequence=sequence
        )
        return sequence

    # --- leaving a lane in a state ---

    async def defer(self, key: str) -> SubmissionId:
        """Leave work behind whose input is applied and which nobody owns."""
        submission = await self.run(key)
        await self.apply_input(key)
        await self.release()
        return submission

    async def suspend(self, key: str, *calls: str) -> str:
        """Suspend the owned submission until calls are decided."""
        approvals = tuple(ToolCallId(call) for call in calls or (CALL,))
        return await self.ledger.suspend(
            self.thread, self.id(key), token=self.token, waiting_for=Suspension(approvals)
        )

    async def await_children(
        self, key: str, *children: AwaitedChild, despite_abort: bool = False
    ) -> str:
        """Suspend the owned submission until children are published."""
        return await self.ledger.suspend(
            self.thread,
            self.id(key),
            token=self.token,
            waiting_for=Suspension(children=children),
            despite_abort=despite_abort,
        )

    async def decide(self, key: str, call: str = CALL, *, approve: bool = True) -> bool:
        """Record a decision, and say whether it woke the lane."""
        recorded = await self.ledger.record_approval_decision(
            self.thread,
            self.id(key),
            ToolCallId(call),
            decision="approved" if approve else "denied",
            resolver="resolver-1",
            reason="because",
        )
        return recorded.woken

    async def mark_unknown(self, key: str, *calls: str) -> Submission:
        """Park a submission on calls of unknown outcome."""
        submission = self.id(key)
        return await self.ledger.mark_unknown(
            self.thread,
            submission,
            run=RunId(f"run:{submission}"),
            calls=[(ToolCallId(call), f"why {call}") for call in calls or (CALL,)],
        )

    async def abort(self, key: str) -> None:
        """Ask that a submission be aborted."""
        await self.ledger.request_abort(
            self.thread, self.id(key), author="author-1", reason="enough"
        )

    async def join(self, key: str, host: str) -> int:
        """Append and mark the input of a joining submission, and return its sequence."""
        sequence = await self.append_input(key)
        await self.ledger.mark_joined(self.thread, self.id(key), sequence=sequence)
        assert (await self.see(key)).host == self.id(host)
        return sequence

    async def revert(self, key: str, host: str = "host") -> str:
        """Give a joining submission back, as the owner of its host."""
        guard = JoiningGuard(self.id(host), self.token)
        return await self.ledger.revert_joining(self.thread, self.id(key), guard=guard)

    async def publish(
        self,
        key: str,
        outcome: Outcome = "completed",
        *,
        authority: Authority = "owned",
        by: OwnershipToken | None = None,
        finalize: bool = False,
        **changes: object,
    ) -> Published:
        """Publish the settlement of a submission; `changes` are of its payload."""
        return await self.storage.settlements.publish(
            self.thread,
            settlement_of(self.receipts[key], outcome, **changes),
            producer=PRODUCER,
            token=self.token if by is None else by,
            authority=authority,
            finalize=finalize,
        )

    async def finalize(self, key: str) -> Submission:
        """Finalize the published settlement of a submission."""
        submission = self.id(key)
        name = SettlementId(f"settlement:{submission}")
        return await self.ledger.finalize_settlement(self.thread, submission, settlement=name)

    async def settle(self, key: str, outcome: Outcome = "completed") -> None:
        """Publish and finalize the settlement of the owned submission."""
        await self.publish(key, outcome, finalize=True)

    async def abort_queued(self, key: str) -> None:
        """Settle work that never ran as aborted."""
        await self.abort(key)
        await self.publish(
            key, "aborted", authority="queued-abort", by=token(f"aborts {key}"), finalize=True
        )

    async def bring(self, key: str, state: State, *, group: str | None = None) -> SubmissionId:
        """Admit work under a key and bring it to a state; other work of the lane must be settled.

        Running and applied work stays owned by the newest claim, joining and joined work has the
        host `host`, which stays owned.
        """
        if state == "admitted":
            return (await self.admit(key, group=group)).submission_id
        if state == "ready":
            return await self.ready(key, group=group)
        if state in {"joining", "joined"}:
            await self.run("host")
            await self.ready(key, group=group)
            await self.ledger.claim_joining(self.thread, self.id("host"), token=self.token)
            if state == "joined":
                await self.join(key, "host")
            return self.id(key)
        await self.run(key, group=group)
        if state == "input-applied":
            await self.apply_input(key)
        elif state == "suspended":
            await self.suspend(key)
        elif state == "unknown":
            await self.mark_unknown(key)
            await self.release()
        elif state == "settled":
            await self.settle(key)
        return self.id(key)

    # --- looking ---

    async def see(self, key: str) -> Submission:
        """Return the control fields of a submission."""
        found = await self.ledger.lookup(self.id(key))
        assert found is not None
        return found.submission

    async def snapshot(self, key: str) -> RecoverySnapshot:
        """Return what recovery sees of a submission."""
        return await self.ledger.load_recovery_snapshot(self.thread, self.id(key))

    async def version(self) -> int:
        """Return the version of the lane."""
        lane = await self.ledger.lane(self.thread)
        return 0 if lane is None else lane.version

    async def seen(self) -> Seen:
        """Return everything that can be seen of the lane, settled work included."""
        try:
            log = await self.storage.threads.capture(self.thread)
        except ThreadNotMaterialized:
            log = None
        return Seen(
            await self.ledger.lane(self.thread),
            log,
            tuple([await self.snapshot(key) for key in self.receipts]),
            await self.ledger.runnable(limit=1_024),
        )

    async def refuses(self, kind: type[Refusal], operation: Awaitable[object]) -> Refusal:
        """Return the error that an operation must raise, having changed nothing."""
        before = await self.seen()
        error = await refused(kind, operation)
        assert await self.seen() == before
        return error

    async def unmoved(self, operation: Awaitable[Answer]) -> Answer:
        """Return the answer of an operation that must change nothing."""
        before = await self.seen()
        answer = await operation
        assert await self.seen() == before
        return answer


async def child_lane(
    storage: Storage, name: str, *, published: bool = False, settled: bool = False
) -> tuple[LaneScript, AwaitedChild]:
    """Return a lane with one running submission `child`, perhaps published or settled."""
    lane = await LaneScript.begin(storage, ThreadId(name))
    child = AwaitedChild(lane.thread, await lane.run("child"))
    if published or settled:
        await lane.publish("child", finalize=settled)
    return lane, child
