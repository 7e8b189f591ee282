"""The recovery classifier: one table of rows, of which the first that fits decides (RCV-1 to -12).

Leases are ignored: whoever carries a decision out claims the lane first where an operation asks for
a token, and leaves a lane alone that somebody owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yielded_core.ledger.recovery_decisions import (
    ApplyInput,
    ApplyJoinAccounting,
    ApplyResolutions,
    AwaitApproval,
    AwaitChildAdmission,
    AwaitChildren,
    AwaitHost,
    AwaitParentLineage,
    AwaitResolutions,
    Blocked,
    CompleteChildAdmission,
    CompleteMaterialization,
    EnsureSuspension,
    FinalizeFromHistory,
    MarkCallsUnknown,
    MissingLink,
    NothingToDo,
    PropagateAbort,
    ReleaseOrphanReservation,
    RepairInputMarker,
    RepairJoinMarker,
    RepairReadiness,
    RepairStartLink,
    ResumeBatch,
    ResumeFromBoundary,
    ResumeSuspended,
    ResumeToJoinChildren,
    RevertJoining,
    SettleAborted,
    SettleWithHost,
)
from yielded_core.ledger.recovery_evidence import weigh
from yielded_core.ledger.transitions import Facts, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.errors import YieldedError
    from yielded_core.ledger.recovery_decisions import RecoveryDecision
    from yielded_core.ledger.recovery_evidence import CanonicalFacts, Evidence, Stage
    from yielded_core.ports.work import RecoverySnapshot, State
    from yielded_core.records.identifiers import ThreadId


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """One row of the table."""

    rule: str
    """The rule of the contract."""
    situation: str
    """What holds, in the words of the table."""
    decision: type[RecoveryDecision]
    """What is decided."""
    holds: Callable[[Evidence], bool]
    decide: Callable[[Evidence], RecoveryDecision]


def classify(snapshot: RecoverySnapshot, facts: CanonicalFacts) -> RecoveryDecision:
    """Decide what is to be done next for one submission (RCV-1 to RCV-11).

    Total: it never raises, and never gives Blocked, which is for evidence that cannot be read.
    """
    evidence = weigh(snapshot, facts)
    return _row_of(evidence).decide(evidence)


def deciding_row(snapshot: RecoverySnapshot, facts: CanonicalFacts) -> RecoveryRow:
    """Return the row by which `classify` decides."""
    return _row_of(weigh(snapshot, facts))


def blocked(thread: ThreadId, fault: YieldedError) -> Blocked:
    """Turn a fault in reading one thread's evidence into the decision to leave it alone (RCV-12).

    The sweep over other threads goes on.
    """
    return Blocked(thread, fault.code, str(fault), fault.retryable)


def _row_of(evidence: Evidence) -> RecoveryRow:
    return next(row for row in RECOVERY if row.holds(evidence))


def _in(state: State) -> Callable[[Evidence], bool]:
    return lambda seen: seen.state == state


def _at(*stages: Stage) -> Callable[[Evidence], bool]:
    return lambda seen: bool(seen.at(*stages))


def _aborted_at(*stages: Stage) -> Callable[[Evidence], bool]:
    return lambda seen: seen.aborted and bool(seen.at(*stages))


def _await_admission(seen: Evidence) -> AwaitChildAdmission:
    return AwaitChildAdmission(seen.calls_at("unanswered"))


def _repair_link(seen: Evidence) -> RepairStartLink:
    return RepairStartLink(
        tuple(
            MissingLink(
                one.tool_call_id,
                one.child,
                record=not one.started,
                attachment=one.reservation is not None and one.reservation.status == "reserved",
            )
            for one in seen.at("unlinked")
            if one.child is not None
        )
    )


def _join(seen: Evidence) -> ResumeToJoinChildren:
    return ResumeToJoinChildren(seen.children_at("finished"))


def _account(seen: Evidence) -> ApplyJoinAccounting:
    return ApplyJoinAccounting(seen.held_at("accounting"))


def _release(seen: Evidence) -> ReleaseOrphanReservation:
    return ReleaseOrphanReservation(seen.childless)


def _finish_batch(seen: Evidence) -> ResumeBatch:
    turns = [one.turn for one in seen.at("declared")]
    if seen.facts.batch is not None:
        turns.append(seen.facts.batch.turn)
    return ResumeBatch(min(turns))


def _settle_aborted(seen: Evidence) -> SettleAborted:
    queued = step("publish-queued-abort", seen.state, Facts(aborted=True))
    return SettleAborted("owned" if queued.refusal else "queued-abort")


RECOVERY: Final[tuple[RecoveryRow, ...]] = (
    RecoveryRow("RCV-1", "settled", NothingToDo, _in("settled"), lambda _: NothingToDo()),
    RecoveryRow(
        "RCV-2",
        "the settlement record is in the log",
        FinalizeFromHistory,
        lambda seen: seen.snapshot.settlement_published,
        lambda _: FinalizeFromHistory(),
    ),
    RecoveryRow(
        "RCV-3",
        "joining, the input is in the log",
        RepairJoinMarker,
        lambda seen: seen.state == "joining" and seen.canonical_input > 0,
        lambda seen: RepairJoinMarker(seen.canonical_input),
    ),
    RecoveryRow(
        "RCV-3",
        "joining",
        RevertJoining,
        _in("joining"),
        lambda seen: RevertJoining(seen.submission.host),
    ),
    RecoveryRow(
        "RCV-3",
        "joined, the host's settlement record is in the log",
        SettleWithHost,
        lambda seen: seen.state == "joined" and seen.snapshot.host_published,
        lambda seen: SettleWithHost(seen.submission.host),
    ),
    RecoveryRow(
        "RCV-3", "joined", AwaitHost, _in("joined"), lambda seen: AwaitHost(seen.submission.host)
    ),
    RecoveryRow(
        "RCV-4",
        "abort asked for, whether a child was admitted is not known",
        AwaitChildAdmission,
        _aborted_at("unanswered"),
        _await_admission,
    ),
    RecoveryRow(
        "RCV-4",
        "abort asked for, a child exists that the parent does not name",
        RepairStartLink,
        _aborted_at("unlinked"),
        _repair_link,
    ),
    RecoveryRow(
        "RCV-4",
        "abort asked for, a child is open",
        PropagateAbort,
        _aborted_at("running"),
        lambda seen: PropagateAbort(seen.children_at("running")),
    ),
    RecoveryRow(
        "RCV-4",
        "abort asked for, a settled child is not joined",
        ResumeToJoinChildren,
        _aborted_at("finished"),
        _join,
    ),
    RecoveryRow(
        "RCV-4",
        "abort asked for, a joined child's reservation is held",
        ApplyJoinAccounting,
        _aborted_at("accounting"),
        _account,
    ),
    RecoveryRow(
        "RCV-4",
        "abort asked for, a reservation without a child is held",
        ReleaseOrphanReservation,
        lambda seen: seen.aborted and bool(seen.childless),
        _release,
    ),
    RecoveryRow(
        "RCV-4",
        "abort asked for, the thread is not materialized",
        CompleteMaterialization,
        lambda seen: seen.aborted and seen.snapshot.lane.epoch == 0,
        lambda _: CompleteMaterialization(),
    ),
    RecoveryRow(
        "RCV-4", "abort asked for", SettleAborted, lambda seen: seen.aborted, _settle_aborted
    ),
    RecoveryRow(
        "RCV-5",
        "an ordinary call is open and not unknown",
        MarkCallsUnknown,
        lambda seen: bool(seen.unmarked),
        lambda seen: MarkCallsUnknown(seen.unmarked),
    ),
    RecoveryRow(
        "RCV-6",
        "unknown, every open call is resolved",
        ApplyResolutions,
        lambda seen: seen.is_unknown and not seen.unresolved,
        lambda seen: ApplyResolutions(seen.resolutions, seen.closed),
    ),
    RecoveryRow(
        "RCV-6",
        "unknown",
        AwaitResolutions,
        lambda seen: seen.is_unknown,
        lambda seen: AwaitResolutions(seen.unresolved),
    ),
    RecoveryRow(
        "RCV-7",
        "suspended for children, all of them are settled",
        ResumeToJoinChildren,
        lambda seen: bool(seen.awaited) and not seen.unpublished,
        lambda seen: ResumeToJoinChildren(seen.awaited),
    ),
    RecoveryRow(
        "RCV-7",
        "suspended for children",
        AwaitChildren,
        lambda seen: bool(seen.awaited),
        lambda seen: AwaitChildren(seen.unpublished),
    ),
    RecoveryRow(
        "RCV-7",
        "an approval is pending",
        AwaitApproval,
        lambda seen: bool(seen.undecided),
        lambda seen: AwaitApproval(seen.undecided),
    ),
    RecoveryRow(
        "RCV-7",
        "suspended",
        ResumeSuspended,
        _in("suspended"),
        lambda seen: ResumeSuspended(seen.unrecorded),
    ),
    RecoveryRow(
        "RCV-8",
        "a joined child's reservation is held",
        ApplyJoinAccounting,
        _at("accounting"),
        _account,
    ),
    RecoveryRow(
        "RCV-8",
        "a requested child is proven not to be admitted",
        CompleteChildAdmission,
        _at("admissible"),
        lambda seen: CompleteChildAdmission(seen.calls_at("admissible")),
    ),
    RecoveryRow(
        "RCV-8",
        "a child exists that the parent does not name",
        RepairStartLink,
        _at("unlinked"),
        _repair_link,
    ),
    RecoveryRow(
        "RCV-8",
        "whether a child was admitted is not known",
        AwaitChildAdmission,
        _at("unanswered"),
        _await_admission,
    ),
    RecoveryRow(
        "RCV-8",
        "a delegation was declared and nothing requested",
        ResumeBatch,
        _at("declared"),
        _finish_batch,
    ),
    RecoveryRow(
        "RCV-8",
        "a child is open",
        EnsureSuspension,
        _at("running"),
        lambda seen: EnsureSuspension(seen.children_at("running", "finished")),
    ),
    RecoveryRow(
        "RCV-8",
        "a settled child is not joined",
        ResumeToJoinChildren,
        _at("finished"),
        _join,
    ),
    RecoveryRow(
        "RCV-8",
        "a reservation without a child is held",
        ReleaseOrphanReservation,
        lambda seen: bool(seen.childless),
        _release,
    ),
    RecoveryRow(
        "RCV-9",
        "a declared batch is unfinished",
        ResumeBatch,
        lambda seen: seen.facts.batch is not None,
        _finish_batch,
    ),
    RecoveryRow(
        "RCV-10",
        "admitted, a child of which the lineage is not recorded",
        AwaitParentLineage,
        lambda seen: seen.state == "admitted" and seen.facts.awaits_lineage,
        lambda _: AwaitParentLineage(),
    ),
    RecoveryRow(
        "RCV-10",
        "admitted, the thread is materialized",
        RepairReadiness,
        lambda seen: seen.state == "admitted" and seen.snapshot.lane.epoch > 0,
        lambda _: RepairReadiness(),
    ),
    RecoveryRow(
        "RCV-10",
        "admitted",
        CompleteMaterialization,
        _in("admitted"),
        lambda _: CompleteMaterialization(),
    ),
    RecoveryRow(
        "RCV-11",
        "the input is not in the log",
        ApplyInput,
        lambda seen: seen.canonical_input == 0,
        lambda _: ApplyInput(),
    ),
    RecoveryRow(
        "RCV-11",
        "the input is not marked where the log holds it",
        RepairInputMarker,
        lambda seen: seen.submission.input_sequence != seen.canonical_input,
        lambda seen: RepairInputMarker(seen.canonical_input),
    ),
    RecoveryRow(
        "RCV-11", "nothing else", ResumeFromBoundary, lambda _: True, lambda _: ResumeFromBoundary()
    ),
)
"""Every row, in the order of the contract; the last one always holds."""
