"""The values of accepted work: what crosses the ports of the ledger and the settlement publisher.

Instants are whole milliseconds since 1970 UTC. Tokens appear only where their owner gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.ports.values import Tail
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import (
        AttemptId,
        Digest,
        IdempotencyKey,
        OwnershipToken,
        Principal,
        ReceiptId,
        RecordId,
        RunId,
        SettlementId,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )

State: TypeAlias = Literal[
    "admitted",
    "ready",
    "joining",
    "joined",
    "running",
    "input-applied",
    "suspended",
    "unknown",
    "settled",
]
Outcome: TypeAlias = Literal["completed", "failed", "aborted"]
Decision: TypeAlias = Literal["approved", "denied"]
ResolutionKind: TypeAlias = Literal["execution", "factual"]
Resolution: TypeAlias = Literal[
    "safe-to-retry", "abort-submission", "completed-with-result", "never-happened"
]
RESOLUTION_KINDS: Final[Mapping[Resolution, ResolutionKind]] = MappingProxyType(
    {
        "safe-to-retry": "execution",
        "abort-submission": "execution",
        "completed-with-result": "factual",
        "never-happened": "factual",
    }
)
"""Whether a resolution decides what to do, or tells what happened (LED-13)."""
Authority: TypeAlias = Literal["owned", "joined", "queued-abort"]
ReservationStatus: TypeAlias = Literal["reserved", "attached", "releasing", "released"]
ChildWake: TypeAlias = Literal["woken", "still-waiting", "not-waiting"]
SuspendAnswer: TypeAlias = Literal["suspended", "resume-immediately"]
RevertAnswer: TypeAlias = Literal["reverted", "not-joining", "other-host", "in-log", "host-at-work"]
FactSection: TypeAlias = Literal["admissions", "abortCommands", "approvals", "resolutions"]
"""The facts of accepted work that an archive carries, in the order of its pages (ARC-2)."""

LEASE_MILLISECONDS: Final = 30_000
"""How long a claim owns its lane unless it is renewed (LED-4)."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Work that a client offers to a lane (LED-1)."""

    thread_id: ThreadId
    principal: Principal
    idempotency_key: IdempotencyKey
    input: JsonValue
    group: str | None = None
    """At most one unsettled submission of a thread may carry it (LED-2)."""
    linkage: JsonValue = None
    """How the work is linked to other work, such as a parent's run; None for none."""
    message: JsonValue = None
    """Metadata of the message that brought the work; None for none."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The receipt of accepted work; a replay returns the first one (LED-1)."""

    thread_id: ThreadId
    submission_id: SubmissionId
    receipt_id: ReceiptId
    queue_sequence: int
    """Place in the lane, from 1."""
    admitted_at: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class AbortIntent:
    """Who asked first that a submission be aborted, and why (LED-9)."""

    author: str
    reason: str
    requested_at: int


@dataclass(frozen=True, slots=True)
class AwaitedChild:
    """A child on a lane of its own whose settlement its parent waits for (LED-11)."""

    thread_id: ThreadId
    submission_id: SubmissionId


@dataclass(frozen=True, slots=True)
class Suspension:
    """What a suspended submission waits for: the calls of one batch, or children (LED-11)."""

    approvals: tuple[ToolCallId, ...] = ()
    children: tuple[AwaitedChild, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The finalized settlement of a submission (LED-8)."""

    settlement_id: SettlementId
    outcome: Outcome
    settled_at: int


@dataclass(frozen=True, slots=True)
class Submission:
    """The control fields of one submission; its input is no part of them (LED-15)."""

    thread_id: ThreadId
    submission_id: SubmissionId
    receipt_id: ReceiptId
    queue_sequence: int
    principal: Principal
    idempotency_key: IdempotencyKey
    group: str | None
    input_digest: Digest
    admission_digest: Digest
    """Digest of everything that an exact replay repeats: input, group, linkage and message."""
    admitted_at: int
    state: State = "admitted"
    input_sequence: int | None = None
    """Sequence of the record that holds its input, once the marker is set (LED-7, LED-10)."""
    host: SubmissionId | None = None
    """The submission that it joins or joined."""
    suspension: Suspension | None = None
    abort: AbortIntent | None = None
    settled: Settled | None = None
    deferred_at: int | None = None
    """When a later submission was first claimed past it, which may then be settled first (LED-5).
    """


@dataclass(frozen=True, slots=True)
class AdmittedWork:
    """A submission with what was admitted."""

    submission: Submission
    input: JsonValue
    linkage: JsonValue
    message: JsonValue


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """The store answered: nothing was admitted under the key (LED-3)."""


@dataclass(frozen=True, slots=True)
class Indeterminate:
    """The store could not answer, which is never absence (LED-3)."""

    reason: str


AdmissionAnswer: TypeAlias = "NotAdmitted | AdmittedWork | Indeterminate"


@dataclass(frozen=True, slots=True)
class ClaimHandoff:
    """A claim past a deferred head (LED-5)."""

    epoch: int
    """The thread's epoch as the claimant knows it."""
    deferred: tuple[SubmissionId, ...]
    """The heads that wait, in order."""
    target: SubmissionId
    """The submission that must be next behind them."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Ownership of a lane: what a claim gives (LED-4)."""

    submission: Submission
    attempt_id: AttemptId
    epoch: int
    """The epoch that the owner's appends carry."""
    expires_at: int
    """On the store's clock; equal time is expired."""
    tail: Tail
    replayed: bool


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a lane, without the token."""

    submission_id: SubmissionId
    attempt_id: AttemptId
    expires_at: int
    live: bool


@dataclass(frozen=True, slots=True)
class AbortState:
    """The answer of `read_abort_intent` (LED-9)."""

    intent: AbortIntent | None
    record_id: RecordId | None
    """The canonical AbortRequested record, where the log holds it."""


@dataclass(frozen=True, slots=True)
class AbortAccepted:
    """The intent that counts, which is the first one (LED-9)."""

    intent: AbortIntent
    replayed: bool


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """A decision about one tool call (LED-12)."""

    tool_call_id: ToolCallId
    decision: Decision
    resolver: str
    reason: str
    decided_at: int


@dataclass(frozen=True, slots=True)
class ApprovalRecorded:
    """The decision that counts, and whether the lane was woken by it."""

    decision: ApprovalDecision
    woken: bool
    replayed: bool


@dataclass(frozen=True, slots=True)
class UnknownCall:
    """A tool call whose outcome nobody knows (LED-13)."""

    tool_call_id: ToolCallId
    run_id: RunId
    reason: str
    marked_at: int


@dataclass(frozen=True, slots=True)
class UnknownResolution:
    """What a person decided about a call of unknown outcome (LED-13)."""

    tool_call_id: ToolCallId
    resolution: Resolution
    author: str
    reason: str
    result: JsonValue
    """The result of `completed-with-result`; None otherwise."""
    resolved_at: int


@dataclass(frozen=True, slots=True)
class ResolutionRecorded:
    """The resolution that counts, and whether the lane was woken by it."""

    resolution: UnknownResolution
    woken: bool
    replayed: bool


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """A submission as stored, with what belongs to it: the evidence of export and verify (ARC-2).

    The texts of what was admitted are canonical JSON, undecoded.
    """

    submission: Submission
    input: bytes
    linkage: bytes
    message: bytes
    approvals: tuple[ApprovalDecision, ...] = ()
    unknown_calls: tuple[UnknownCall, ...] = ()
    resolutions: tuple[UnknownResolution, ...] = ()


@dataclass(frozen=True, slots=True)
class FactsPage:
    """Submissions of one thread by their places, settled ones too, in one consistent read."""

    fact_revision: int
    """The revision that the thread's facts had when they were read."""
    facts: tuple[SubmissionFacts, ...]
    """Empty at the end of the lane."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a parent holds for one child (LED-14)."""

    tool_call_id: ToolCallId
    reservation_id: str
    digest: Digest
    """Canonical digest of what is reserved; the same call with another one is a conflict."""
    status: ReservationStatus = "reserved"
    child: AwaitedChild | None = None
    accounting: JsonValue = None
    """Frozen once, when the release begins."""


@dataclass(frozen=True, slots=True)
class JoiningGuard:
    """Whose joining may be reverted, and by which right (LED-10)."""

    host: SubmissionId
    token: OwnershipToken | None


@dataclass(frozen=True, slots=True)
class Published:
    """The canonical settlement record, and the tail after it (LED-8)."""

    record: StoredRecord
    tail: Tail
    """The thread's current tail."""
    replayed: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """The queue of one thread, as `queue` and recovery see it."""

    thread_id: ThreadId
    epoch: int
    """0 while the thread is not materialized."""
    version: int
    """Raised by every change that the ledger makes; taking the thread over in the log is none."""
    owner: Owner | None


@dataclass(frozen=True, slots=True)
class RunnableLane:
    """A hint that a lane has claimable work; it grants nothing (LED-17)."""

    thread_id: ThreadId
    since: int
    """When its head became claimable: a lapsed lease counts from its expiry."""


@dataclass(frozen=True, slots=True)
class QueuedLane:
    """A lane that holds unsettled work, and what a claim would own now."""

    lane: Lane
    claimable: SubmissionId | None
    """What a claim without a handoff would be granted at this instant; None for nothing (LED-4)."""


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A part of all that is owed, with its lanes, in one consistent read (LED-15)."""

    submissions: tuple[Submission, ...]
    """By (thread, sequence), as `scan_nonterminal` returns them."""
    lanes: tuple[QueuedLane, ...]
    """The lanes that they are in, by thread."""
    store_clock: int
    """When it was read, on the clock that leases follow."""
    wall_clock: int
    """When it was read, on the clock of the instants that are kept."""


@dataclass(frozen=True, slots=True)
class RecoverySnapshot:
    """Everything that the ledger knows about a submission, in one consistent read (LED-15)."""

    lane: Lane
    tail: Tail
    submission: Submission
    approvals: tuple[ApprovalDecision, ...]
    unknown_calls: tuple[UnknownCall, ...]
    resolutions: tuple[UnknownResolution, ...]
    reservations: tuple[Reservation, ...]
    published_children: frozenset[AwaitedChild]
    """Those awaited or attached whose settlement record exists."""
    input_sequence: int | None
    """Sequence of the canonical input record, whatever the marker says."""
    settlement_published: bool
    host_published: bool
    """Whether the settlement record of its host exists; False without a host."""
