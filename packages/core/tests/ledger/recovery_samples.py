"""Evidence for the recovery classifier, small enough to be read at a glance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from yielded_core.ledger.recovery_evidence import (
    CanonicalFacts,
    ChildKey,
    DeclaredBatch,
    Delegation,
)
from yielded_core.ports.values import Tail
from yielded_core.ports.work import (
    AbortIntent,
    ApprovalDecision,
    AwaitedChild,
    Lane,
    RecoverySnapshot,
    Reservation,
    Settled,
    Submission,
    Suspension,
    UnknownCall,
    UnknownResolution,
)
from yielded_core.records.identifiers import (
    Digest,
    IdempotencyKey,
    Principal,
    ReceiptId,
    SubmissionId,
    ThreadId,
    ToolCallId,
    run_id,
    settlement_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_core.ledger.recovery_evidence import Stage
    from yielded_core.ports.work import Decision, Owner, ReservationStatus, Resolution, State

THREAD: Final = ThreadId("thread-1")
SUBMISSION: Final = SubmissionId("submission-1")
HOST: Final = SubmissionId("submission-0")
RUN: Final = run_id(SUBMISSION)
DIGEST: Final = Digest("0" * 64)
A: Final = ToolCallId("call-a")
B: Final = ToolCallId("call-b")
SEQUENCE: Final = 2
"""Where the log holds the input."""
TURN: Final = 3
BATCH: Final = DeclaredBatch(TURN, (A,))


class Seen(TypedDict, total=False):
    """What a snapshot shows beyond the state; by default nothing but applied input."""

    new: bool
    """Neither the log nor the ledger knows of its input."""
    epoch: int
    owner: Owner | None
    canonical_input: int | None
    marker: int | None
    host: SubmissionId | None
    aborted: bool
    waits_for: Suspension | None
    approvals: Iterable[ApprovalDecision]
    unknown: Iterable[ToolCallId]
    resolutions: Iterable[UnknownResolution]
    reservations: Iterable[Reservation]
    published: Iterable[AwaitedChild]
    settlement: bool
    host_settlement: bool


def snapshot(state: State = "input-applied", **seen: Unpack[Seen]) -> RecoverySnapshot:
    """Return the snapshot of a submission that ran and owes nothing but its next turn."""
    applied = None if seen.get("new") else SEQUENCE
    submission = Submission(
        THREAD,
        SUBMISSION,
        ReceiptId("receipt-1"),
        2,
        Principal("principal-1"),
        IdempotencyKey("key-1"),
        None,
        DIGEST,
        DIGEST,
        1_000,
        state,
        seen.get("marker", applied),
        seen.get("host"),
        seen.get("waits_for"),
        AbortIntent("author", "reason", 2_000) if seen.get("aborted") else None,
        Settled(settlement_id(SUBMISSION), "completed", 3_000) if state == "settled" else None,
    )
    return RecoverySnapshot(
        lane=Lane(THREAD, seen.get("epoch", 1), 7, seen.get("owner")),
        tail=Tail(9, DIGEST),
        submission=submission,
        approvals=tuple(seen.get("approvals", ())),
        unknown_calls=tuple(
            UnknownCall(call, RUN, "lost", 1_500) for call in seen.get("unknown", ())
        ),
        resolutions=tuple(seen.get("resolutions", ())),
        reservations=tuple(seen.get("reservations", ())),
        published_children=frozenset(seen.get("published", ())),
        input_sequence=seen.get("canonical_input", applied),
        settlement_published=seen.get("settlement", False),
        host_published=seen.get("host_settlement", False),
    )


def decided(call: ToolCallId, decision: Decision = "approved") -> ApprovalDecision:
    """Return a decision about a call."""
    return ApprovalDecision(call, decision, "resolver", "reason", 1_600)


def resolved(call: ToolCallId, resolution: Resolution = "safe-to-retry") -> UnknownResolution:
    """Return a resolution of a call."""
    return UnknownResolution(call, resolution, "author", "reason", None, 1_700)


def child_of(call: ToolCallId) -> AwaitedChild:
    """Return the child of a call."""
    return AwaitedChild(ThreadId(f"thread-of-{call}"), SubmissionId(f"submission-of-{call}"))


def key_of(call: ToolCallId) -> ChildKey:
    """Return the key under which the child of a call is admitted."""
    return ChildKey(
        ThreadId(f"thread-of-{call}"), Principal("principal-1"), IdempotencyKey(f"key-of-{call}")
    )


def reserved(call: ToolCallId, status: ReservationStatus = "reserved") -> Reservation:
    """Return the reservation of a call; its child is known from its attachment on."""
    child = child_of(call) if status == "attached" else None
    return Reservation(call, f"reservation-of-{call}", DIGEST, status, child)


def at_stage(stage: Stage, call: ToolCallId = A) -> tuple[Delegation, Reservation]:
    """Return a delegation at a stage, with a reservation that it holds if it can."""
    child = child_of(call)
    declared = Delegation(call, TURN)
    requested = replace(declared, request=key_of(call))
    started = replace(requested, started=child)
    joined = replace(started, open=False, joined=True)
    stages: dict[Stage, tuple[Delegation, ReservationStatus]] = {
        "declared": (declared, "reserved"),
        "unanswered": (requested, "reserved"),
        "admissible": (replace(requested, admission="not-admitted"), "reserved"),
        "unlinked": (replace(requested, admission=child), "reserved"),
        "running": (started, "attached"),
        "finished": (started, "attached"),
        "accounting": (joined, "attached"),
        "orphaned": (replace(declared, open=False), "reserved"),
        "closed": (joined, "released"),
    }
    delegation, status = stages[stage]
    return delegation, reserved(call, status)


def delegating(*stages: Stage, aborted: bool = False) -> tuple[RecoverySnapshot, CanonicalFacts]:
    """Return evidence of calls A and B at these stages, in a batch that is unfinished."""
    named = [at_stage(stage, call) for stage, call in zip(stages, (A, B), strict=False)]
    published = [
        child_of(one.tool_call_id)
        for stage, (one, _) in zip(stages, named, strict=True)
        if stage == "finished"
    ]
    held = [reservation for _, reservation in named]
    seen = snapshot(aborted=aborted, reservations=held, published=published)
    return seen, CanonicalFacts(delegations=tuple(one for one, _ in named), batch=BATCH)
