"""The ports of accepted work: the submission ledger and the settlement publisher (contract 2).

Every operation checks its identifiers and bounds before any I/O (InvalidInput). One on a thread
that was deleted raises ThreadDeleted, one on a submission that the thread does not hold raises
SubmissionNotFound. Every operation can raise the StorageError family. A mutation is one
transaction: after an error nothing has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from yielded_core.ports.work import LEASE_MILLISECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ports.work import (
        AbortAccepted,
        AbortState,
        Admission,
        AdmissionAnswer,
        Admitted,
        AdmittedWork,
        ApprovalRecorded,
        Authority,
        AwaitedChild,
        ChildWake,
        ClaimHandoff,
        Decision,
        FactSection,
        FactsPage,
        Grant,
        JoiningGuard,
        Lane,
        Published,
        QueuePage,
        RecoverySnapshot,
        Reservation,
        Resolution,
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
        SubmissionId,
        ThreadId,
        ToolCallId,
    )


class LedgerReader(Protocol):
    """What the ledger answers without changing anything."""

    async def lookup(self, submission: SubmissionId) -> AdmittedWork | None:
        """Return a submission of any thread by its id, strongly consistent (LED-3)."""
        ...

    async def lookup_key(
        self, thread: ThreadId, principal: Principal, key: IdempotencyKey
    ) -> AdmittedWork | None:
        """Return the submission that was admitted under exactly this key (LED-3)."""
        ...

    async def resolve_admission(
        self, thread: ThreadId, principal: Principal, key: IdempotencyKey
    ) -> AdmissionAnswer:
        """Say whether work was admitted under a key; only NotAdmitted permits an attempt (LED-3).

        A store that cannot answer gives Indeterminate instead of a StorageError.
        """
        ...

    async def read_abort_intent(self, thread: ThreadId, submission: SubmissionId) -> AbortState:
        """Return the abort intent of one submission; grants nothing (LED-9).

        Touches only rows of that submission, whatever else is stored.
        """
        ...

    async def lane(self, thread: ThreadId) -> Lane | None:
        """Return the lane of a thread, None where nothing was admitted or materialized."""
        ...

    async def scan_nonterminal(
        self, *, after: tuple[ThreadId, int] | None = None, limit: int = 256
    ) -> tuple[Submission, ...]:
        """Return unsettled submissions by (thread, sequence), 1 to 1,024 at a time (LED-15)."""
        ...

    async def queue(
        self, *, after: tuple[ThreadId, int] | None = None, limit: int = 256
    ) -> QueuePage:
        """Return what `scan_nonterminal` does, with the lanes and the store's instants (LED-15).

        Grants nothing: what is claimable may be claimed by somebody else right after.
        """
        ...

    async def runnable(
        self, *, after: RunnableLane | None = None, limit: int = 64
    ) -> tuple[RunnableLane, ...]:
        """Return lanes with claimable work, oldest first, 1 to 1,024 at a time (LED-17)."""
        ...

    async def load_recovery_snapshot(
        self, thread: ThreadId, submission: SubmissionId
    ) -> RecoverySnapshot:
        """Return all that recovery decides on, in one consistent read (LED-15)."""
        ...

    async def facts(
        self,
        thread: ThreadId,
        *,
        after: int = 0,
        limit: int = 256,
        only: FactSection | None = None,
    ) -> FactsPage:
        """Return submissions after a place in the lane, settled ones too (ARC-2).

        At least one, then as many as `limit` (1 to 256) and about 4 MiB of text hold; none is the
        end. With `only` no more is read of each than one section of an archive needs; the rest of
        it is empty.
        """
        ...


class SubmissionLedger(LedgerReader, Protocol):
    """What is still owed, and who may advance it (LED-1 to LED-17)."""

    async def admit(self, work: Admission) -> Admitted:
        """Accept work once per (thread, principal, key) (LED-1, LED-2).

        Raises AdmissionConflict for other content under the key, then AdmissionRefused
        (`occupied`) where the group has unsettled work.
        """
        ...

    async def mark_ready(self, thread: ThreadId, submission: SubmissionId) -> Submission:
        """Let admitted work be claimed; idempotent (LED-3). Raises ThreadNotMaterialized."""
        ...

    async def claim(
        self,
        thread: ThreadId,
        *,
        attempt: AttemptId,
        token: OwnershipToken,
        lease: int = LEASE_MILLISECONDS,
        handoff: ClaimHandoff | None = None,
    ) -> Grant | None:
        """Own the lane and its head, at the next epoch, for `lease` milliseconds (LED-4, LED-5).

        The lease is 1 to 86,400,000. None when there is nothing to claim or somebody owns the
        lane. Repeating with the same attempt and token returns the same grant.
        """
        ...

    async def renew(
        self, thread: ThreadId, *, token: OwnershipToken, lease: int = LEASE_MILLISECONDS
    ) -> int:
        """Extend the ownership, never shorten it, and return when it expires (LED-6).

        Works after expiry if nobody claimed since. Raises OwnershipLost.
        """
        ...

    async def release(self, thread: ThreadId, *, token: OwnershipToken) -> None:
        """End the ownership without settling (LED-6). Raises OwnershipLost."""
        ...

    async def mark_input_applied(
        self, thread: ThreadId, submission: SubmissionId, *, token: OwnershipToken, sequence: int
    ) -> Submission:
        """Record where the input of the owned submission stands in the log (LED-7).

        Repeating is a no-op. Raises OwnershipLost, MarkerConflict for another position,
        EvidenceFault when the log does not hold the input there.
        """
        ...

    async def request_abort(
        self, thread: ThreadId, submission: SubmissionId, *, author: str, reason: str
    ) -> AbortAccepted:
        """Ask that a submission be aborted; the first author and reason are kept (LED-9).

        Raises SettlementConflict after settlement, JoinedToHost for a joined submission.
        """
        ...

    async def claim_joining(
        self, thread: ThreadId, host: SubmissionId, *, token: OwnershipToken, limit: int = 16
    ) -> tuple[Submission, ...]:
        """Take the contiguous ready submissions behind the owned host, 1 to 256 (LED-10).

        Those that it took before and did not join yet are among them again, in lane order.
        """
        ...

    async def mark_joined(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        sequence: int,
    ) -> Submission:
        """Record that the input of a joining submission stands in the log (LED-10).

        Idempotent. The log is the proof, so no token is asked for. Raises MarkerConflict,
        EvidenceFault, TransitionRefused.
        """
        ...

    async def revert_joining(
        self, thread: ThreadId, submission: SubmissionId, *, guard: JoiningGuard | None = None
    ) -> RevertAnswer:
        """Give a joining submission back to the lane (LED-10).

        With a guard: another host's link is left alone; an unsettled host needs its current token
        (OwnershipLost), a settled one none. Without: `host-at-work` while somebody's lease on the
        host is live. A submission whose input the log holds stays, `in-log`: mark it joined.
        """
        ...

    async def suspend(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken,
        waiting_for: Suspension,
        despite_abort: bool = False,
    ) -> SuspendAnswer:
        """End the ownership until approvals or children are there (LED-11).

        Answers `resume-immediately`, and changes nothing, when they are there already, and when an
        abort is asked for. Once it was passed on to the children, wait for them `despite_abort`;
        work that is to be aborted waits for no approval.
        """
        ...

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
        """Record a decision; the covering one wakes the lane (LED-12).

        Raises ApprovalConflict for the opposite one, SettlementConflict after settlement.
        """
        ...

    async def mark_unknown(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        run: RunId,
        calls: Sequence[tuple[ToolCallId, str]],
    ) -> Submission:
        """Park a submission whose calls, each with a reason, have unknown outcomes (LED-13).

        Additive, idempotent, needs no token. 1 to 256 calls.
        """
        ...

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
        """Record what a person decided; covering every open call wakes the lane (LED-13).

        Raises UnknownResolutionConflict, UnknownCallNotFound, SettlementConflict.
        """
        ...

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
        """Reserve for the one child of a call (LED-14). Raises ChildReservationConflict."""
        ...

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
        ...

    async def begin_release(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken | None,
        call: ToolCallId,
        accounting: JsonValue,
    ) -> Reservation:
        """Freeze the accounting of a reservation, once (LED-14).

        The token of its owner, or none where the parent is settled.
        """
        ...

    async def release_child(
        self,
        thread: ThreadId,
        submission: SubmissionId,
        *,
        token: OwnershipToken | None,
        call: ToolCallId,
    ) -> Reservation:
        """Free a reservation whose release began, by the same right (LED-14)."""
        ...

    async def record_child_settled(
        self, thread: ThreadId, submission: SubmissionId, *, child: AwaitedChild
    ) -> ChildWake:
        """Tell a parent that a child's settlement is published (LED-14).

        Raises EvidenceFault when the child's log does not hold its settlement record.
        """
        ...

    async def finalize_settlement(
        self, thread: ThreadId, submission: SubmissionId, *, settlement: SettlementId
    ) -> Submission:
        """Project the canonical settlement record; frees the lane and the group (LED-8).

        Idempotent, the first instant is kept. Raises EvidenceFault without a record,
        SettlementConflict for another settlement id.
        """
        ...


class SettlementPublisher(Protocol):
    """Appends the one settlement record of a submission (LED-8)."""

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
        """Append a SubmissionSettled record at the current tail, checking the authority (LED-8).

        `owned` needs the current token of the lane and this submission as its owner. `joined` and
        `queued-abort` need no ownership: their token only recognizes a repeat. `finalize` projects
        the record in the same transaction. Raises OwnershipLost, AuthorityRefused, InvalidRecord.
        """
        ...
