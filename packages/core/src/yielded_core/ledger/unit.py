"""One transaction of a store, as the operations of the ledger see it.

Every operation is written once, over this: it reads its evidence, lets a rule decide, and writes.
An adapter runs it in a transaction of its own kind. Everything is of the thread's live generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState, Moment
    from yielded_core.ports.values import Appended, PreparedBatch, Tail
    from yielded_core.ports.work import (
        AbortState,
        AdmittedWork,
        ApprovalDecision,
        Reservation,
        ResolutionKind,
        RunnableLane,
        Submission,
        UnknownCall,
        UnknownResolution,
    )
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import (
        IdempotencyKey,
        Principal,
        RecordId,
        RunId,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )


class LedgerEvidence(Protocol):
    """What an operation reads, in one consistent snapshot."""

    @property
    def moment(self) -> Moment:
        """The store's clocks, read after the transaction had its lock."""
        ...

    # --- lanes ---

    def lane(self, thread: ThreadId) -> LaneState | None:
        """Return the lane, None where nothing was admitted or materialized.

        Raises ThreadDeleted.
        """
        ...

    def tail(self, lane: LaneState) -> Tail:
        """Return the tail of the log."""
        ...

    # --- questions about more than one lane ---

    def find_work(self, submission: SubmissionId) -> AdmittedWork | None:
        """Return a submission of any live thread by its id alone."""
        ...

    def abort_state(self, thread: ThreadId, submission: SubmissionId) -> AbortState | None:
        """Return the abort intent of a submission, None where there is no such submission.

        The rows that it touches are as many whatever else is stored (LED-9).
        """
        ...

    def nonterminal(self, after: tuple[ThreadId, int], limit: int) -> tuple[Submission, ...]:
        """Return unsettled submissions of live threads by (thread, sequence) (LED-15)."""
        ...

    def runnable(self, after: tuple[int, ThreadId], limit: int) -> tuple[RunnableLane, ...]:
        """Return lanes that are claimable now, by (since, thread) (LED-17)."""
        ...

    # --- submissions ---

    def submission(self, lane: LaneState, submission: SubmissionId) -> Submission | None:
        """Return one submission."""
        ...

    def by_key(
        self, lane: LaneState, principal: Principal, key: IdempotencyKey
    ) -> Submission | None:
        """Return the submission that was admitted under a key."""
        ...

    def occupant(self, lane: LaneState, group: str) -> SubmissionId | None:
        """Return the unsettled submission of a group (LED-2)."""
        ...

    def heads(self, lane: LaneState, count: int) -> tuple[Submission, ...]:
        """Return the first unsettled submissions that a claim does not skip, in lane order."""
        ...

    def behind(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        """Return the first unsettled submissions after a place in the lane."""
        ...

    def accepted(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        """Return the first submissions after a place in the lane, settled ones too."""
        ...

    def work(self, lane: LaneState, submission: Submission) -> AdmittedWork:
        """Return a submission with what was admitted."""
        ...

    def texts(self, lane: LaneState, submission: Submission) -> tuple[bytes, bytes, bytes]:
        """Return the canonical texts of its input, linkage and message, as stored."""
        ...

    # --- what belongs to a submission ---

    def approvals(self, lane: LaneState, submission: Submission) -> tuple[ApprovalDecision, ...]:
        """Return its decisions, by call."""
        ...

    def unknown_calls(self, lane: LaneState, submission: Submission) -> tuple[UnknownCall, ...]:
        """Return its calls of unknown outcome, by call."""
        ...

    def resolutions(self, lane: LaneState, submission: Submission) -> tuple[UnknownResolution, ...]:
        """Return its resolutions, by call, of both kinds."""
        ...

    def reservations(self, lane: LaneState, submission: Submission) -> tuple[Reservation, ...]:
        """Return its reservations, by call."""
        ...

    # --- the log, in the same transaction ---

    def sequence_of(self, lane: LaneState, record: RecordId) -> int | None:
        """Return where a record stands."""
        ...

    def record(self, lane: LaneState, record: RecordId) -> StoredRecord | None:
        """Return a record. Raises RecordUndecodable."""
        ...

    def tool_result(self, lane: LaneState, run: RunId, call: ToolCallId) -> StoredRecord | None:
        """Return the newest committed ToolCallSettled of a call."""
        ...

    def publisher(self, lane: LaneState, submission: Submission) -> bytes | None:
        """Return the digest of the token that published its settlement record."""
        ...


class LedgerUnit(LedgerEvidence, Protocol):
    """What an operation writes besides, in the same transaction."""

    def create_lane(self, thread: ThreadId) -> LaneState:
        """Create the lane of a thread that is not materialized yet."""
        ...

    def save_lane(self, lane: LaneState) -> None:
        """Write a lane, and keep `runnable` true to it and to its head (LED-17)."""
        ...

    def add_submission(
        self, lane: LaneState, submission: Submission, given: bytes, linkage: bytes, message: bytes
    ) -> None:
        """Write a submission with the canonical texts of what was admitted."""
        ...

    def save_submission(self, lane: LaneState, submission: Submission) -> None:
        """Write the control fields that can change."""
        ...

    def add_approval(
        self, lane: LaneState, submission: Submission, approval: ApprovalDecision
    ) -> None:
        """Write a decision."""
        ...

    def add_unknown_call(self, lane: LaneState, submission: Submission, call: UnknownCall) -> None:
        """Write a call of unknown outcome."""
        ...

    def add_resolution(
        self,
        lane: LaneState,
        submission: Submission,
        resolution: UnknownResolution,
        kind: ResolutionKind,
    ) -> None:
        """Write a resolution."""
        ...

    def save_reservation(
        self, lane: LaneState, submission: Submission, reservation: Reservation
    ) -> None:
        """Write a reservation, new or changed."""
        ...

    def append(self, lane: LaneState, batch: PreparedBatch) -> Appended:
        """Commit a batch at the current tail and epoch. Raises what an append raises."""
        ...

    def save_publisher(self, lane: LaneState, submission: Submission, token: bytes) -> None:
        """Keep the digest of the token that published its settlement record."""
        ...
