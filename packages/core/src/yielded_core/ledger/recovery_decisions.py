"""What recovery decides about one submission, each decision a value of its own (RCV-1 to RCV-12).

A decision says what is to be done next and names what it is about. It grants nothing: whoever
carries it out does so through the operations of the ports, which check authority again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from yielded_core.ports.work import (
        ApprovalDecision,
        Authority,
        AwaitedChild,
        Reservation,
        UnknownResolution,
    )
    from yielded_core.records.identifiers import SubmissionId, ThreadId, ToolCallId

Kind: TypeAlias = Literal["nothing", "wait", "repair", "resume", "settle", "blocked"]
"""What a decision asks for. `wait`: somebody else has to act first. `repair`: writes that run no
agent. `resume`: an attempt goes on with the run. `settle`: the submission gets its outcome.
`blocked`: the evidence could not be read.
"""


class MissingLink(NamedTuple):
    """What the parent still lacks about a child that exists."""

    tool_call_id: ToolCallId
    child: AwaitedChild
    record: bool
    """The log holds no SubagentStarted of the call."""
    attachment: bool
    """The reservation of the call does not name the child yet."""


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Nothing is owed (RCV-1)."""

    kind: ClassVar[Kind] = "nothing"


@dataclass(frozen=True, slots=True)
class FinalizeFromHistory:
    """Project the settlement record of the log onto the ledger (RCV-2)."""

    kind: ClassVar[Kind] = "settle"


@dataclass(frozen=True, slots=True)
class RepairJoinMarker:
    """Mark the submission joined: its input stands in the log (RCV-3)."""

    sequence: int
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class RevertJoining:
    """Give the submission back to the lane: its input never reached the log (RCV-3)."""

    host: SubmissionId | None
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class SettleWithHost:
    """Settle the joined submission as its host was settled (RCV-3)."""

    host: SubmissionId | None
    kind: ClassVar[Kind] = "settle"


@dataclass(frozen=True, slots=True)
class AwaitHost:
    """Wait until the host of the joined submission is settled (RCV-3)."""

    host: SubmissionId | None
    kind: ClassVar[Kind] = "wait"


@dataclass(frozen=True, slots=True)
class AwaitChildAdmission:
    """Ask again whether the children of these calls were admitted (RCV-4, RCV-8)."""

    calls: tuple[ToolCallId, ...]
    kind: ClassVar[Kind] = "wait"


@dataclass(frozen=True, slots=True)
class RepairStartLink:
    """Record that children started, and attach them to their reservations (RCV-4, RCV-8)."""

    links: tuple[MissingLink, ...]
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class PropagateAbort:
    """Ask that the open children be aborted, which is idempotent, and wait for them (RCV-4).

    The parent waits suspended, `despite_abort`, so that the last child's settlement wakes it.
    """

    children: tuple[AwaitedChild, ...]
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class ResumeToJoinChildren:
    """Let an attempt join children that are settled (RCV-4, RCV-7, RCV-8)."""

    children: tuple[AwaitedChild, ...]
    kind: ClassVar[Kind] = "resume"


@dataclass(frozen=True, slots=True)
class ApplyJoinAccounting:
    """Release the reservations of joined children, with the accounting of the join (RCV-4, RCV-8).

    The accounting is that of the SubagentJoined record, or what the reservation froze.
    """

    reservations: tuple[Reservation, ...]
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class ReleaseOrphanReservation:
    """Release reservations that no child can use any more (RCV-4, RCV-8)."""

    reservations: tuple[Reservation, ...]
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class SettleAborted:
    """Settle the submission as aborted (RCV-4)."""

    authority: Authority
    """`queued-abort` for work that never ran, wherever it stands in the queue; else `owned`."""
    kind: ClassVar[Kind] = "settle"


@dataclass(frozen=True, slots=True)
class MarkCallsUnknown:
    """Park the submission: these calls may have happened and left no result (RCV-5)."""

    calls: tuple[ToolCallId, ...]
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class ApplyResolutions:
    """Let an attempt put into the log what people decided about unknown outcomes (RCV-6).

    One resolution a call: what happened, where that is told, counts before what to do.
    """

    resolutions: tuple[UnknownResolution, ...]
    closed: tuple[ToolCallId, ...]
    """Calls that the log closed in the meantime: resolving them on the ledger too wakes it."""
    kind: ClassVar[Kind] = "resume"


@dataclass(frozen=True, slots=True)
class AwaitResolutions:
    """Wait until these calls of unknown outcome are resolved (RCV-6)."""

    calls: tuple[ToolCallId, ...]
    kind: ClassVar[Kind] = "wait"


@dataclass(frozen=True, slots=True)
class AwaitChildren:
    """Wait until these children are settled (RCV-7)."""

    children: tuple[AwaitedChild, ...]
    kind: ClassVar[Kind] = "wait"


@dataclass(frozen=True, slots=True)
class AwaitApproval:
    """Wait until somebody decides about these calls (RCV-7)."""

    calls: tuple[ToolCallId, ...]
    kind: ClassVar[Kind] = "wait"


@dataclass(frozen=True, slots=True)
class ResumeSuspended:
    """Wake the suspended submission: no approval is pending (RCV-7)."""

    unrecorded: tuple[ApprovalDecision, ...]
    """Decisions of the log about what it waits for that the ledger lacks: recording them wakes."""
    kind: ClassVar[Kind] = "resume"


@dataclass(frozen=True, slots=True)
class CompleteChildAdmission:
    """Admit the children of these calls, which are proven not to be admitted (RCV-8)."""

    calls: tuple[ToolCallId, ...]
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class ResumeBatch:
    """Let an attempt finish a declared batch without asking the model again (RCV-8, RCV-9)."""

    turn: int
    kind: ClassVar[Kind] = "resume"


@dataclass(frozen=True, slots=True)
class EnsureSuspension:
    """Suspend the submission until these children, which were started, are settled (RCV-8)."""

    children: tuple[AwaitedChild, ...]
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class AwaitParentLineage:
    """Wait until the parent records for whom the child's thread works (RCV-10)."""

    kind: ClassVar[Kind] = "wait"


@dataclass(frozen=True, slots=True)
class RepairReadiness:
    """Mark the submission ready: its thread is materialized (RCV-10)."""

    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class CompleteMaterialization:
    """Materialize the thread and mark the submission ready (RCV-4, RCV-10)."""

    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class ApplyInput:
    """Append the input to the log and mark it (RCV-11)."""

    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class RepairInputMarker:
    """Mark the input where the log holds it (RCV-11)."""

    sequence: int
    kind: ClassVar[Kind] = "repair"


@dataclass(frozen=True, slots=True)
class ResumeFromBoundary:
    """Let an attempt go on after the last turn that the log holds completely (RCV-11)."""

    kind: ClassVar[Kind] = "resume"


@dataclass(frozen=True, slots=True)
class Blocked:
    """Leave the thread alone: its evidence could not be read (RCV-12).

    Settles nothing, repairs nothing and authorizes no replay; other threads go on.
    """

    thread_id: ThreadId
    code: str
    """Code of the fault."""
    message: str
    """The fault in one line; it holds no payload."""
    retryable: bool
    """Whether reading again can succeed without anything being changed."""
    kind: ClassVar[Kind] = "blocked"


RecoveryDecision: TypeAlias = (
    NothingToDo
    | FinalizeFromHistory
    | RepairJoinMarker
    | RevertJoining
    | SettleWithHost
    | AwaitHost
    | AwaitChildAdmission
    | RepairStartLink
    | PropagateAbort
    | ResumeToJoinChildren
    | ApplyJoinAccounting
    | ReleaseOrphanReservation
    | SettleAborted
    | MarkCallsUnknown
    | ApplyResolutions
    | AwaitResolutions
    | AwaitChildren
    | AwaitApproval
    | ResumeSuspended
    | CompleteChildAdmission
    | ResumeBatch
    | EnsureSuspension
    | AwaitParentLineage
    | RepairReadiness
    | CompleteMaterialization
    | ApplyInput
    | RepairInputMarker
    | ResumeFromBoundary
    | Blocked
)
