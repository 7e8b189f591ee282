"""What recovery decides on: facts of the log, weighed with the ledger's snapshot (RCV-1 to RCV-11).

Where the two disagree the log wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from yielded_core.ledger.operations.unknown import kind_of, open_calls
from yielded_core.ledger.operations.waiting import approvals_covered
from yielded_core.ports.work import (
    AdmittedWork,
    AwaitedChild,
    Indeterminate,
    NotAdmitted,
    Suspension,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.ports.work import (
        AdmissionAnswer,
        ApprovalDecision,
        RecoverySnapshot,
        Reservation,
        State,
        Submission,
        UnknownResolution,
    )
    from yielded_core.records.identifiers import IdempotencyKey, Principal, ThreadId, ToolCallId

ChildAdmission: TypeAlias = Literal["not-asked", "not-admitted", "indeterminate"] | AwaitedChild
"""Whether a requested child was admitted; the child itself where it was. Only `not-admitted` is
absence (LED-3).
"""
Stage: TypeAlias = Literal[
    "declared",
    "unanswered",
    "admissible",
    "unlinked",
    "running",
    "finished",
    "accounting",
    "orphaned",
    "closed",
]
"""What the delegation of one call needs next.

`declared`: nothing was requested yet. `unanswered`: nobody knows whether the requested child was
admitted. `admissible`: it is proven not to be. `unlinked`: the child exists, and the parent's log
or reservation does not name it. `running`: it does. `finished`: the child's settlement is
published. `accounting`: the child is joined, its reservation still held. `orphaned`: a reservation
is held that no child can use any more. `closed`: nothing.
"""
_CHILDLESS: Final[frozenset[Stage]] = frozenset({"declared", "admissible", "orphaned"})


class ChildKey(NamedTuple):
    """Under which key a requested child is admitted, at most once (LED-1)."""

    thread_id: ThreadId
    principal: Principal
    idempotency_key: IdempotencyKey


@dataclass(frozen=True, slots=True)
class Delegation:
    """What the parent's log says about one call that delegates to a child (RCV-4, RCV-8)."""

    tool_call_id: ToolCallId
    turn: int
    """Turn of the response that declares the call; 0 where none does."""
    open: bool = True
    """The call has no result and its run goes on: only then can a child still be admitted."""
    request: ChildKey | None = None
    """The child that SubagentRequested asks for, None before."""
    admission: ChildAdmission = "not-asked"
    """The ledger's answer about that child; the log does not hold it."""
    started: AwaitedChild | None = None
    """The child that SubagentStarted names, None before."""
    joined: bool = False
    """SubagentJoined is recorded."""


@dataclass(frozen=True, slots=True)
class DeclaredBatch:
    """A model's response of which calls have no result (RCV-9)."""

    turn: int
    calls: tuple[ToolCallId, ...]
    """Those without a result, as declared."""


@dataclass(frozen=True, slots=True)
class CanonicalFacts:
    """What the log says about the run of one submission, beyond its recovery snapshot."""

    open_calls: tuple[ToolCallId, ...] = ()
    """Calls that may have happened, without a result or a resolution in the log; no call that was
    declared to delegate is among them (RCV-5, RCV-6).
    """
    closed_calls: frozenset[ToolCallId] = frozenset()
    """Calls that nobody waits for any more: they have a result, the log says how they were
    resolved, or their run ended (RCV-6, RCV-7).
    """
    retriable_calls: frozenset[ToolCallId] = frozenset()
    """Those of them that the log allows to be run again. People may still tell what happened, which
    is then to be applied (RCV-6).
    """
    approvals: tuple[ToolCallId, ...] = ()
    """Calls of the unfinished batch for which an approval was requested (RCV-7)."""
    decisions: tuple[ApprovalDecision, ...] = ()
    """What the log holds of decisions about that batch (RCV-7)."""
    delegations: tuple[Delegation, ...] = ()
    """Every call that delegates, in order of declaration (RCV-4, RCV-8)."""
    batch: DeclaredBatch | None = None
    """The oldest declared batch that is unfinished (RCV-9)."""
    awaits_lineage: bool = False
    """The submission works for a parent, and the log does not say so yet (RCV-10)."""

    @property
    def to_ask(self) -> tuple[Delegation, ...]:
        """The delegations of which only the ledger knows whether there is a child (RCV-4, RCV-8).

        Ask `resolve_admission` with their request before anything is decided.
        """
        return tuple(
            one
            for one in self.delegations
            if one.request is not None and one.started is None and not one.joined
        )

    def answered(self, answers: Mapping[ToolCallId, AdmissionAnswer]) -> CanonicalFacts:
        """Return the facts with what `resolve_admission` said about the children of calls."""
        asked = tuple(
            replace(one, admission=_admission(answers[one.tool_call_id]))
            if one.tool_call_id in answers
            else one
            for one in self.delegations
        )
        return replace(self, delegations=asked)


class Obligation(NamedTuple):
    """One call's delegation with what the ledger holds for it."""

    tool_call_id: ToolCallId
    stage: Stage
    turn: int
    child: AwaitedChild | None
    reservation: Reservation | None
    started: bool

    @property
    def held(self) -> Reservation | None:
        """The reservation, unless it is released."""
        kept = self.reservation
        return kept if kept is not None and kept.status != "released" else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Snapshot and facts as the rows of the classifier look at them."""

    snapshot: RecoverySnapshot
    facts: CanonicalFacts
    unmarked: tuple[ToolCallId, ...]
    """Open calls for which the submission is not parked (RCV-5)."""
    unresolved: tuple[ToolCallId, ...]
    """Calls marked unknown that nobody resolved (RCV-6)."""
    resolutions: tuple[UnknownResolution, ...]
    """What counts of the resolutions that the log does not hold yet (RCV-6)."""
    closed: tuple[ToolCallId, ...]
    """Calls that the log closed, and that the ledger holds to be unknown (RCV-6)."""
    undecided: tuple[ToolCallId, ...]
    """Calls whose approval is pending (RCV-7); a denial in the batch leaves none."""
    obligations: tuple[Obligation, ...]
    """What each delegation needs next (RCV-4, RCV-8)."""

    @property
    def submission(self) -> Submission:
        """The submission as the ledger holds it."""
        return self.snapshot.submission

    @property
    def state(self) -> State:
        """Its state."""
        return self.submission.state

    @property
    def aborted(self) -> bool:
        """Somebody asked that it be aborted."""
        return self.submission.abort is not None

    @property
    def is_unknown(self) -> bool:
        """It is parked, or was, and the log does not show yet how its calls were resolved."""
        return self.state == "unknown" or bool(self.resolutions)

    @property
    def canonical_input(self) -> int:
        """Sequence of its input record; 0 while the log holds none."""
        return self.snapshot.input_sequence or 0

    @property
    def awaited(self) -> tuple[AwaitedChild, ...]:
        """The children for which it is suspended."""
        return _waits_for(self.submission).children

    @property
    def unpublished(self) -> tuple[AwaitedChild, ...]:
        """Those of them that are not settled."""
        published = self.snapshot.published_children
        return tuple(child for child in self.awaited if child not in published)

    @property
    def childless(self) -> tuple[Reservation, ...]:
        """Reservations that no child uses and none will, once no other obligation is left."""
        return self.held_at(*_CHILDLESS)

    @property
    def unrecorded(self) -> tuple[ApprovalDecision, ...]:
        """Decisions of the log about calls that it is suspended for, which the ledger lacks."""
        waiting = _waits_for(self.submission).approvals
        known = {decision.tool_call_id for decision in self.snapshot.approvals}
        return tuple(
            decision
            for decision in self.facts.decisions
            if decision.tool_call_id in waiting and decision.tool_call_id not in known
        )

    def at(self, *stages: Stage) -> tuple[Obligation, ...]:
        """Return the obligations at some stages, in order of declaration."""
        return tuple(one for one in self.obligations if one.stage in stages)

    def calls_at(self, stage: Stage) -> tuple[ToolCallId, ...]:
        """Return the calls at a stage."""
        return tuple(one.tool_call_id for one in self.at(stage))

    def children_at(self, *stages: Stage) -> tuple[AwaitedChild, ...]:
        """Return the children at some stages."""
        return tuple(one.child for one in self.at(*stages) if one.child is not None)

    def held_at(self, *stages: Stage) -> tuple[Reservation, ...]:
        """Return the reservations at some stages that are not released."""
        return tuple(held for one in self.at(*stages) if (held := one.held) is not None)


def weigh(snapshot: RecoverySnapshot, facts: CanonicalFacts) -> Evidence:
    """Bring the ledger's snapshot and the facts of the log together."""
    closed = facts.closed_calls.difference(facts.open_calls)
    unresolved = open_calls(snapshot.unknown_calls, snapshot.resolutions)
    return Evidence(
        snapshot,
        facts,
        _unmarked(snapshot, facts, unresolved),
        tuple(call for call in unresolved if call not in closed),
        _counting(snapshot, facts, closed),
        tuple(call for call in unresolved if call in closed),
        _undecided(snapshot, facts, closed),
        _obligations(snapshot, facts),
    )


def _admission(answer: AdmissionAnswer) -> ChildAdmission:
    match answer:
        case AdmittedWork():
            work = answer.submission
            return AwaitedChild(work.thread_id, work.submission_id)
        case NotAdmitted():
            return "not-admitted"
        case Indeterminate():
            return "indeterminate"


def _waits_for(submission: Submission) -> Suspension:
    waiting = submission.suspension if submission.state == "suspended" else None
    return waiting or Suspension()


def _unmarked(
    snapshot: RecoverySnapshot, facts: CanonicalFacts, unresolved: tuple[ToolCallId, ...]
) -> tuple[ToolCallId, ...]:
    marked = {call.tool_call_id for call in snapshot.unknown_calls}
    if snapshot.submission.state != "unknown":  # unresolved marks should have parked it
        marked.difference_update(unresolved)
    return tuple(call for call in facts.open_calls if call not in marked)


def _counting(
    snapshot: RecoverySnapshot, facts: CanonicalFacts, closed: frozenset[ToolCallId]
) -> tuple[UnknownResolution, ...]:
    counting: dict[ToolCallId, UnknownResolution] = {}
    for one in snapshot.resolutions:
        call, factual = one.tool_call_id, kind_of(one.resolution) == "factual"
        if call in closed and not (factual and call in facts.retriable_calls):
            continue
        if factual or call not in counting:
            counting[call] = one
    return tuple(counting.values())


def _undecided(
    snapshot: RecoverySnapshot, facts: CanonicalFacts, closed: frozenset[ToolCallId]
) -> tuple[ToolCallId, ...]:
    waiting = _waits_for(snapshot.submission).approvals
    calls = tuple(dict.fromkeys((*facts.approvals, *waiting)))
    decisions = (*snapshot.approvals, *facts.decisions)  # the log's come last, so they count
    if approvals_covered(calls, decisions):
        return ()
    decided = closed.union(decision.tool_call_id for decision in decisions)
    return tuple(call for call in calls if call not in decided)


def _obligations(snapshot: RecoverySnapshot, facts: CanonicalFacts) -> tuple[Obligation, ...]:
    held = {one.tool_call_id: one for one in snapshot.reservations}
    known = {one.tool_call_id for one in facts.delegations}
    undeclared = (Delegation(call, 0, open=False) for call in held if call not in known)
    return tuple(
        _obligation(one, held.get(one.tool_call_id), snapshot.published_children)
        for one in (*facts.delegations, *undeclared)
    )


def _obligation(
    one: Delegation, reservation: Reservation | None, published: frozenset[AwaitedChild]
) -> Obligation:
    child = one.started
    if child is None and reservation is not None:
        child = reservation.child
    if child is None and isinstance(one.admission, AwaitedChild):
        child = one.admission
    obligation = Obligation(
        one.tool_call_id, "closed", one.turn, child, reservation, one.started is not None
    )
    return obligation._replace(stage=_stage(one, obligation, published))


def _stage(one: Delegation, known: Obligation, published: frozenset[AwaitedChild]) -> Stage:
    status = None if known.reservation is None else known.reservation.status
    if one.joined:
        return "closed" if known.held is None else "accounting"
    if known.child is not None:
        if not known.started or status == "reserved":
            return "unlinked"
        return "finished" if known.child in published else "running"
    if one.request is not None and one.admission != "not-admitted":
        return "unanswered"
    if one.open and status not in {"releasing", "released"}:
        return "declared" if one.request is None else "admissible"
    return "closed" if known.held is None else "orphaned"
