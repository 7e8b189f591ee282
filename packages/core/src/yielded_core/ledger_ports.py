"""The ports of accepted work over an adapter's transactions: input checked, one operation run.

An adapter brings its transactions and its `LedgerUnit`; everything else about the ledger is here
and in `ledger.operations`, once.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol, TypeVar, get_args

from yielded_core.errors import InvalidArgument, StorageError
from yielded_core.ledger import inputs
from yielded_core.ledger.lane import check_lease
from yielded_core.ledger.operations import (
    admission,
    children,
    joining,
    ownership,
    reading,
    unknown,
    waiting,
)
from yielded_core.ledger.operations.settlement import finalize_settlement, prepare_settlement
from yielded_core.ledger.requests import Admit, Claim, Publish, ReadAbortIntent, Renew
from yielded_core.log.reads import check_limit, check_sequence
from yielded_core.ports.work import (
    LEASE_MILLISECONDS,
    Authority,
    Decision,
    Indeterminate,
    Resolution,
    UnknownResolution,
)
from yielded_core.records.bounds import (
    BATCH_RECORDS,
    PAGE_RECORDS,
    TRANSFER_FACTS,
)
from yielded_core.records.canonical import canonical_json
from yielded_core.records.identifiers import (
    ReceiptId,
    SubmissionId,
    ThreadId,
    check_digest,
    check_identifier,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.ports.work import (
        AbortAccepted,
        AbortState,
        Admission,
        AdmissionAnswer,
        Admitted,
        AdmittedWork,
        ApprovalRecorded,
        AwaitedChild,
        ChildWake,
        ClaimHandoff,
        FactSection,
        FactsPage,
        Grant,
        JoiningGuard,
        Lane,
        Published,
        QueuePage,
        RecoverySnapshot,
        Reservation,
        ResolutionRecorded,
        RevertAnswer,
        RunnableLane,
        Submission,
        SuspendAnswer,
        Suspension,
    )
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import (
        AttemptId,
        Digest,
        IdempotencyKey,
        OwnershipToken,
        Principal,
        ProducerId,
        RunId,
        SettlementId,
        ToolCallId,
    )

Result = TypeVar("Result")


class LedgerTransactions(Protocol):
    """What an adapter brings."""

    async def mutate(
        self, operation: Callable[[LedgerUnit], Result], *, touches: ThreadId | None = None
    ) -> Result:
        """Run an operation in one transaction and return once that is committed.

        After a commit the observers of the thread that it touches are woken.
        """
        ...

    async def inspect(self, question: Callable[[LedgerEvidence], Result]) -> Result:
        """Answer a question from one consistent snapshot."""
        ...


class LedgerPort:
    """SubmissionLedger over an adapter's transactions."""

    def __init__(self, transactions: LedgerTransactions) -> None:
        self._in = transactions

    # --- questions ---

    async def lookup(self, submission: SubmissionId) -> AdmittedWork | None:
        """Return a submission of any thread by its id (LED-3)."""
        check_identifier(submission, "submission id")
        return await self._in.inspect(lambda unit: unit.find_work(submission))

    async def lookup_key(
        self, thread: ThreadId, principal: Principal, key: IdempotencyKey
    ) -> AdmittedWork | None:
        """Return the submission that was admitted under exactly this key (LED-3)."""
        inputs.check_key(thread, principal, key)
        return await self._in.inspect(lambda unit: reading.lookup_key(unit, thread, principal, key))

    async def resolve_admission(
        self, thread: ThreadId, principal: Principal, key: IdempotencyKey
    ) -> AdmissionAnswer:
        """Say whether work was admitted under a key, or that the store cannot say (LED-3)."""
        inputs.check_key(thread, principal, key)
        try:
            return await self._in.inspect(
                lambda unit: reading.resolve_admission(unit, thread, principal, key)
            )
        except StorageError as error:
            return Indeterminate(error.code)

    async def read_abort_intent(self, thread: ThreadId, submission: SubmissionId) -> AbortState:
        """Return the abort intent of one submission (LED-9)."""
        inputs.check_place(thread, submission)
        return await self._in.inspect(ReadAbortIntent(thread, submission))

    async def lane(self, thread: ThreadId) -> Lane | None:
        """Return the lane of a thread."""
        check_identifier(thread, "thread id")
        return await self._in.inspect(lambda unit: reading.lane_view(unit, thread))

    async def scan_nonterminal(
        self, *, after: tuple[ThreadId, int] | None = None, limit: int = 256
    ) -> tuple[Submission, ...]:
        """Return unsettled submissions by (thread, sequence) (LED-15)."""
        place = inputs.check_scan(after, limit)
        return await self._in.inspect(lambda unit: unit.nonterminal(place, limit))

    async def queue(
        self, *, after: tuple[ThreadId, int] | None = None, limit: int = 256
    ) -> QueuePage:
        """Return unsettled submissions with their lanes and the store's instants (LED-15)."""
        place = inputs.check_scan(after, limit)
        return await self._in.inspect(lambda unit: reading.queue_page(unit, place, limit))

    async def runnable(
        self, *, after: RunnableLane | None = None, limit: int = 64
    ) -> tuple[RunnableLane, ...]:
        """Return lanes with claimable work, oldest first (LED-17)."""
        check_limit(limit, PAGE_RECORDS)
        place: tuple[int, ThreadId] = (0, inputs.BEFORE_ALL)
        if after is not None:
            place = (
                check_sequence(after.since, "after"),
                check_identifier(after.thread_id, "thread id"),
            )
        return await self._in.inspect(lambda unit: unit.runnable(place, limit))

    async def load_recovery_snapshot(
        self, thread: ThreadId, submission: SubmissionId
    ) -> RecoverySnapshot:
        """Return all that recovery decides on (LED-15)."""
        inputs.check_place(thread, submission)
        return await self._in.inspect(
            lambda unit: reading.load_recovery_snapshot(unit, thread, submission)
        )

    async def facts(
        self,
        thread: ThreadId,
        *,
        after: int = 0,
        limit: int = TRANSFER_FACTS,
        only: FactSection | None = None,
    ) -> FactsPage:
        """Return submissions after a place in the lane, settled ones too (ARC-2)."""
        check_identifier(thread, "thread id")
        check_sequence(after, "after")
        check_limit(limit, TRANSFER_FACTS)
        return await self._in.inspect(
            lambda unit: reading.facts_page(unit, thread, after, limit, only)
        )

    # --- accepting work ---

    async def admit(self, work: Admission) -> Admitted:
        """Accept work once per (thread, principal, key) (LED-1, LED-2)."""
        prepared = admission.prepare_admission(
            work, SubmissionId(uuid.uuid4().hex), ReceiptId(uuid.uuid4().hex)
        )
        return await self._in.mutate(Admit(prepared))

    async def mark_ready(self, thread: ThreadId, submission: SubmissionId) -> Submission:
        """Let admitted work be claimed (LED-3)."""
        inputs.check_place(thread, submission)
        return await self._in.mutate(lambda unit: admission.mark_ready(unit, thread, submission))

    async def request_abort(
        self, thread: ThreadId, submission: SubmissionId, *, author: str, reason: str
    ) -> AbortAccepted:
        """Ask that a submission be aborted (LED-9)."""
        inputs.check_place(thread, submission)
        inputs.check_words("author", author, reason)
        return await self._in.mutate(
            lambda unit: admission.request_abort(unit, thread, submission, author, reason)
        )

    # --- owning a lane ---

    async def claim(
        self,
        thread: ThreadId,
        *,
        attempt: AttemptId,
        token: OwnershipToken,
        lease: int = LEASE_MILLISECONDS,
        handoff: ClaimHandoff | None = None,
    ) -> Grant | None:
        """Own the lane and its head at the next epoch (LED-4, LED-5)."""
        check_identifier(thread, "thread id")
        check_identifier(attempt, "attempt id")
        check_identifier(token, "ownership token")
        check_lease(lease)
        if handoff is not None:
            inputs.check_handoff(handoff)
        return await self._in.mutate(Claim(thread, attempt, token, lease, handoff))

    async def renew(
        self, thread: ThreadId, *, token: OwnershipToken, lease: int = LEASE_MILLISECONDS
    ) -> int:
        """Extend the ownership and return when it expires (LED-6)."""
        check_identifier(thread, "thread id")
        check_identifier(token, "ownership token")
        check_lease(lease)
        return await self._in.mutate(Renew(thread, token, lease))

    async def release(self, thread: ThreadId, *, token: OwnershipToken) -> None:
        """End the ownership without settling (LED-6)."""
        check_identifier(thread, "thread id")
        check_identifier(token, "ownership token")
        await self._in.mutate(lambda unit: ownership.release(unit, thread, token))

    async def mark_input_applied(
        self, thread: ThreadId, submission: SubmissionId, *, token: OwnershipToken, sequence: int
    ) -> Submission:
        """Record where the input stands in the log (LED-7)."""
        inputs.check_owned(thread, submission, token)
        check_sequence(sequence, "sequence")
        return await self._in.mutate(
            lambda unit: ownership.mark_input_applied(unit, thread, submission, token, sequence)
        )

    # --- joining ---

    async def claim_joining(
        self, thread: ThreadId, host: SubmissionId, *, token: OwnershipToken, limit: int = 16
    ) -> tuple[Submission, ...]:
        """Take the contiguous ready submissions behind the host (LED-10)."""
        inputs.check_owned(thread, host, token)
        check_limit(limit, BATCH_RECORDS)
        return await self._in.mutate(
            lambda unit: joining.claim_joining(unit, thread, host, token, limit)
        )

    async def mark_joined(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        sequence: int,
    ) -> Submission:
        """Record that the input of a joining submission stands in the log (LED-10)."""
        inputs.check_place(thread, submission)
        check_sequence(sequence, "sequence")
        return await self._in.mutate(
            lambda unit: joining.mark_joined(unit, thread, submission, sequence)
        )

    async def revert_joining(
        self, thread: ThreadId, submission: SubmissionId, *, guard: JoiningGuard | None = None
    ) -> RevertAnswer:
        """Give a joining submission back to the lane (LED-10)."""
        inputs.check_place(thread, submission)
        if guard is not None:
            inputs.check_place(thread, guard.host, guard.token)
        return await self._in.mutate(
            lambda unit: joining.revert_joining(unit, thread, submission, guard)
        )

    # --- waiting ---

    async def suspend(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken,
        waiting_for: Suspension,
        despite_abort: bool = False,
    ) -> SuspendAnswer:
        """End the ownership until approvals or children are there (LED-11)."""
        inputs.check_owned(thread, submission, token)
        inputs.check_suspension(waiting_for, despite_abort=despite_abort)
        return await self._in.mutate(
            lambda unit: waiting.suspend(
                unit, thread, submission, token, waiting_for, despite_abort=despite_abort
            )
        )

    async def record_approval_decision(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        call: ToolCallId,
        *,
        decision: Decision,
        resolver: str,
        reason: str,
    ) -> ApprovalRecorded:
        """Record a decision about one call (LED-12)."""
        inputs.check_place(thread, submission)
        check_identifier(call, "tool call id")
        inputs.check_choice("decision", decision, get_args(Decision))
        inputs.check_words("resolver", resolver, reason)
        return await self._in.mutate(
            lambda unit: waiting.record_approval_decision(
                unit, thread, submission, call, decision, resolver, reason
            )
        )

    async def record_child_settled(
        self, thread: ThreadId, submission: SubmissionId, *, child: AwaitedChild
    ) -> ChildWake:
        """Tell a parent that a child's settlement is published (LED-14)."""
        inputs.check_place(thread, submission)
        inputs.check_place(child.thread_id, child.submission_id)
        return await self._in.mutate(
            lambda unit: waiting.record_child_settled(unit, thread, submission, child)
        )

    # --- unknown outcomes ---

    async def mark_unknown(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        run: RunId,
        calls: Sequence[tuple[ToolCallId, str]],
    ) -> Submission:
        """Park a submission until its calls are resolved (LED-13)."""
        inputs.check_place(thread, submission)
        check_identifier(run, "run id")
        inputs.check_count("calls", len(calls))
        for call, reason in calls:
            check_identifier(call, "tool call id")
            inputs.check_text("reason", reason)
        listed = tuple(calls)
        return await self._in.mutate(
            lambda unit: unknown.mark_unknown(unit, thread, submission, run, listed)
        )

    async def record_unknown_resolution(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        call: ToolCallId,
        *,
        resolution: Resolution,
        author: str,
        reason: str,
        result: JsonValue = None,
    ) -> ResolutionRecorded:
        """Record what a person decided about a call (LED-13)."""
        inputs.check_place(thread, submission)
        check_identifier(call, "tool call id")
        inputs.check_choice("resolution", resolution, get_args(Resolution))
        inputs.check_words("author", author, reason)
        canonical_json(result)
        if result is not None and resolution != "completed-with-result":
            raise InvalidArgument("result", f"{resolution} has none")
        wanted = UnknownResolution(call, resolution, author, reason, result, 0)
        return await self._in.mutate(
            lambda unit: unknown.record_unknown_resolution(unit, thread, submission, wanted)
        )

    # --- children ---

    async def reserve_child(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken,
        call: ToolCallId,
        reservation_id: str,
        digest: Digest,
    ) -> Reservation:
        """Reserve for the one child of a call (LED-14)."""
        inputs.check_owned(thread, submission, token)
        check_identifier(call, "tool call id")
        inputs.check_name("reservation_id", reservation_id)
        check_digest("digest", digest)
        return await self._in.mutate(
            lambda unit: children.reserve_child(
                unit, thread, submission, token, call, reservation_id, digest
            )
        )

    async def attach_child(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken,
        call: ToolCallId,
        child: AwaitedChild,
    ) -> Reservation:
        """Name the child of a reservation, once (LED-14)."""
        inputs.check_owned(thread, submission, token)
        check_identifier(call, "tool call id")
        inputs.check_place(child.thread_id, child.submission_id)
        return await self._in.mutate(
            lambda unit: children.attach_child(unit, thread, submission, token, call, child)
        )

    async def begin_release(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken | None,
        call: ToolCallId,
        accounting: JsonValue,
    ) -> Reservation:
        """Freeze the accounting of a reservation, once (LED-14)."""
        inputs.check_place(thread, submission, token)
        check_identifier(call, "tool call id")
        canonical_json(accounting)
        return await self._in.mutate(
            lambda unit: children.begin_release(unit, thread, submission, token, call, accounting)
        )

    async def release_child(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken | None,
        call: ToolCallId,
    ) -> Reservation:
        """Free a reservation whose release began (LED-14)."""
        inputs.check_place(thread, submission, token)
        check_identifier(call, "tool call id")
        return await self._in.mutate(
            lambda unit: children.release_child(unit, thread, submission, token, call)
        )

    # --- settlement ---

    async def finalize_settlement(
        self, thread: ThreadId, submission: SubmissionId, *, settlement: SettlementId
    ) -> Submission:
        """Project the canonical settlement record onto the ledger (LED-8)."""
        inputs.check_place(thread, submission)
        check_identifier(settlement, "settlement id")
        return await self._in.mutate(
            lambda unit: finalize_settlement(unit, thread, submission, settlement)
        )


class SettlementPort:
    """SettlementPublisher over an adapter's transactions."""

    def __init__(self, transactions: LedgerTransactions) -> None:
        self._in = transactions

    async def publish(
        self,
        thread: ThreadId,
        record: Record,
        *,
        producer: ProducerId,
        token: OwnershipToken,
        authority: Authority,
        finalize: bool = False,
    ) -> Published:
        """Append the one settlement record if the authority allows it (LED-8)."""
        check_identifier(thread, "thread id")
        check_identifier(token, "ownership token")
        inputs.check_choice("authority", authority, get_args(Authority))
        batch = prepare_settlement(record, producer)
        asked = Publish(thread, batch, token, authority, finalize)
        return await self._in.mutate(asked, touches=thread)
