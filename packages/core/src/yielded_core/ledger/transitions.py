"""The state machine of accepted work as one table (LED-3 to LED-14).

Each row says what an operation does to a submission in some states when a guard holds; the first
row that fits decides. The code and the table in `docs/contract/transitions.md` both come from here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from yielded_core.errors import (
    AuthorityRefused,
    EvidenceFault,
    JoinedToHost,
    OwnershipLost,
    SettlementConflict,
    SubmissionError,
    TransitionRefused,
)
from yielded_core.ports.work import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.errors import YieldedError
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ports.work import Outcome, Submission

Operation: TypeAlias = Literal[
    "mark-ready",
    "claim",
    "mark-input-applied",
    "request-abort",
    "claim-joining",
    "join",
    "mark-joined",
    "revert-joining",
    "suspend",
    "record-approval-decision",
    "mark-unknown",
    "record-unknown-resolution",
    "change-reservation",
    "record-child-settled",
    "publish-owned",
    "publish-joined",
    "publish-queued-abort",
    "finalize-settlement",
]
Refusal: TypeAlias = Literal[
    "ownership-lost",
    "transition-refused",
    "conflict",
    "settlement-conflict",
    "joined-to-host",
    "authority-refused",
    "evidence-fault",
]
Next: TypeAlias = State | Literal["same", "resumed", "none"]
"""The next state. `same` leaves it, `resumed` is what it was before it waited: input-applied once
the input is marked, else running. `none` answers that there is nothing to do, and changes nothing.
"""

ALL: Final[tuple[State, ...]] = get_args(State)
UNSETTLED: Final[tuple[State, ...]] = tuple(state for state in ALL if state != "settled")
_QUEUED: Final[tuple[State, ...]] = ("admitted", "ready")
_GUESTS: Final[tuple[State, ...]] = ("joining", "joined")
_ACTIVE: Final[tuple[State, ...]] = ("running", "input-applied")


class Facts(NamedTuple):
    """What the guards look at, read in the transaction that the decision is part of."""

    owned: bool = False
    """The token owns the lane for this submission, or for the host where a guest is concerned."""
    aborted: bool = False
    """An abort intent is recorded."""
    marked: bool = False
    """The marker that is asked for is the one that is set."""
    covered: bool = False
    """Everything that is waited for is there."""
    awaited: bool = False
    """The suspension waits for this child."""
    open_calls: bool = False
    """A call of unknown outcome would be left without a resolution."""
    factual: bool = False
    """The resolution says what happened, not what to do."""
    host_settled: bool = False
    """The host is finalized, so that it has no owner."""
    host_at_work: bool = False
    """Somebody else's lease on the host is live."""
    in_log: bool = False
    """The log holds the input."""
    freeing: bool = False
    """The change gives back what is reserved."""
    agrees: bool = False
    """The content is that of the host's published settlement, or the id is the canonical one."""
    published: bool = False
    """The canonical settlement record exists."""
    conflict: SubmissionError | None = None
    """What speaks against the operation in the rows that belong to the submission."""


class Guard(NamedTuple):
    """A condition with its name in the table: what each fact has to be."""

    name: str
    wanted: tuple[tuple[str, bool], ...] = ()

    def holds(self, facts: Facts) -> bool:
        """Say whether every fact is as wanted."""
        return all(bool(getattr(facts, fact)) is wanted for fact, wanted in self.wanted)


class Transition(NamedTuple):
    """One row of the table."""

    operation: Operation
    states: tuple[State, ...]
    guard: Guard
    then: Next | None = None
    refusal: Refusal | None = None


def _guard(name: str, **wanted: bool) -> Guard:
    return Guard(name, tuple(wanted.items()))


_ALWAYS: Final = Guard("")
_NOT_OWNED: Final = _guard("the token does not own it", owned=False)
_ABORTED: Final = _guard("an abort is asked for", aborted=True)
_NOT_ABORTED: Final = _guard("no abort is asked for", aborted=False)
_MARKED: Final = _guard("the same position is marked", marked=True)
_CONFLICT: Final = _guard("what is recorded says otherwise", conflict=True)
_COVERED: Final = _guard("everything waited for is there", covered=True)
_ABORTED_COVERED: Final = _guard(
    "an abort is asked for, everything waited for is there", aborted=True, covered=True
)
_OPEN_CALLS: Final = _guard("a call stays unresolved", open_calls=True)
_TO_DO: Final = _guard("it says what to do", factual=False)
_AWAITED: Final = _guard("the child is waited for", awaited=True)
_UNGUARDED: Final = _guard(
    "neither the host's token nor a settled host", owned=False, host_settled=False
)
_IN_LOG: Final = _guard("the log holds the input", in_log=True)
_AT_WORK: Final = _guard("somebody else's lease on the host is live", host_at_work=True)
_TAKING: Final = _guard("it takes, or names a child", freeing=False)
_AS_HOST: Final = _guard("equal to the host's published settlement", agrees=True)
_NOT_PUBLISHED: Final = _guard("no canonical record exists", published=False)
_ANOTHER_ID: Final = _guard("another settlement id", agrees=False)


def _row(
    operation: Operation,
    states: tuple[State, ...],
    then: Next | None = None,
    *,
    guard: Guard = _ALWAYS,
    refusal: Refusal | None = None,
) -> Transition:
    return Transition(operation, states, guard, then, refusal)


TRANSITIONS: Final[tuple[Transition, ...]] = (
    _row("mark-ready", ("admitted",), "ready"),
    _row("mark-ready", ALL, "same"),
    _row("claim", ("ready",), "running"),
    _row("claim", _ACTIVE, "same"),
    _row("claim", ("unknown",), "same", guard=_ABORTED),
    _row("claim", ALL, "none"),
    _row("mark-input-applied", ALL, guard=_NOT_OWNED, refusal="ownership-lost"),
    _row("mark-input-applied", ALL, guard=_CONFLICT, refusal="conflict"),
    _row("mark-input-applied", ("running",), "input-applied"),
    _row("mark-input-applied", ALL, "same", guard=_MARKED),
    _row("mark-input-applied", ALL, refusal="transition-refused"),
    _row("request-abort", ("settled",), refusal="settlement-conflict"),
    _row("request-abort", ("joined",), refusal="joined-to-host"),
    _row("request-abort", ("suspended",), "resumed", guard=_NOT_ABORTED),
    _row("request-abort", ALL, "same"),
    _row("claim-joining", ALL, guard=_NOT_OWNED, refusal="ownership-lost"),
    _row("claim-joining", _ACTIVE, "same"),
    _row("claim-joining", ALL, refusal="transition-refused"),
    _row("join", ("ready",), "joining", guard=_NOT_ABORTED),
    _row("join", ALL, "none"),
    _row("mark-joined", _GUESTS, guard=_CONFLICT, refusal="conflict"),
    _row("mark-joined", ("joined",), "same", guard=_MARKED),
    _row("mark-joined", ("joining",), "joined"),
    _row("mark-joined", ALL, refusal="transition-refused"),
    _row("revert-joining", _GUESTS, guard=_UNGUARDED, refusal="ownership-lost"),
    _row("revert-joining", ("joining",), "none", guard=_IN_LOG),
    _row("revert-joining", ("joining",), "none", guard=_AT_WORK),
    _row("revert-joining", ("joining",), "ready"),
    _row("revert-joining", ALL, "none"),
    _row("suspend", ALL, guard=_NOT_OWNED, refusal="ownership-lost"),
    _row("suspend", _ACTIVE, "none", guard=_COVERED),
    _row("suspend", _ACTIVE, "suspended"),
    _row("suspend", ("unknown",), "none", guard=_ABORTED_COVERED),
    _row("suspend", ("unknown",), "suspended", guard=_ABORTED),
    _row("suspend", ALL, refusal="transition-refused"),
    _row("record-approval-decision", ("settled",), refusal="settlement-conflict"),
    _row("record-approval-decision", ALL, guard=_CONFLICT, refusal="conflict"),
    _row("record-approval-decision", ("suspended",), "resumed", guard=_COVERED),
    _row("record-approval-decision", ALL, "same"),
    _row("mark-unknown", ("settled",), refusal="settlement-conflict"),
    _row("mark-unknown", (*_QUEUED, *_GUESTS), refusal="transition-refused"),
    _row("mark-unknown", ALL, "unknown", guard=_OPEN_CALLS),
    _row("mark-unknown", ALL, "same"),
    _row("record-unknown-resolution", ("settled",), guard=_TO_DO, refusal="settlement-conflict"),
    _row("record-unknown-resolution", ALL, guard=_CONFLICT, refusal="conflict"),
    _row("record-unknown-resolution", ("unknown",), "same", guard=_OPEN_CALLS),
    _row("record-unknown-resolution", ("unknown",), "resumed"),
    _row("record-unknown-resolution", ALL, "same"),
    _row("change-reservation", UNSETTLED, guard=_NOT_OWNED, refusal="ownership-lost"),
    _row("change-reservation", ("settled",), guard=_TAKING, refusal="ownership-lost"),
    _row("change-reservation", ALL, guard=_CONFLICT, refusal="conflict"),
    _row("change-reservation", ALL, "same"),
    _row("record-child-settled", ("suspended",), "resumed", guard=_COVERED),
    _row("record-child-settled", ("suspended",), "same", guard=_AWAITED),
    _row("record-child-settled", ALL, "none"),
    _row("publish-owned", ALL, guard=_NOT_OWNED, refusal="ownership-lost"),
    _row("publish-owned", ALL, "same"),
    _row("publish-joined", ("joined",), "same", guard=_AS_HOST),
    _row("publish-joined", ALL, refusal="authority-refused"),
    _row("publish-queued-abort", _QUEUED, "same", guard=_ABORTED),
    _row("publish-queued-abort", ALL, refusal="authority-refused"),
    _row("finalize-settlement", ALL, guard=_NOT_PUBLISHED, refusal="evidence-fault"),
    _row("finalize-settlement", ALL, guard=_ANOTHER_ID, refusal="settlement-conflict"),
    _row("finalize-settlement", UNSETTLED, "settled"),
    _row("finalize-settlement", ("settled",), "same"),
)


def step(operation: Operation, state: State, facts: Facts) -> Transition:
    """Return the row that decides. Total: the last row of each operation has no guard."""
    for row in _BY_PLACE[operation, state]:
        if row.guard.holds(facts):
            return row
    message = f"no transition for {operation} in {state}"
    raise AssertionError(message)


def advance(
    operation: Operation,
    lane: LaneState,
    submission: Submission,
    facts: Facts,
    outcome: Outcome | None = None,
) -> Transition:
    """Return the row that decides, or raise what it refuses with.

    `outcome` is that of the canonical settlement, where the operation is about one.
    """
    row = step(operation, submission.state, facts)
    if row.refusal is not None:
        raise _refusal(row, lane, submission, facts, outcome)
    return row


def moved(row: Transition, submission: Submission) -> Submission:
    """Return the submission after a row that did not refuse: itself where nothing changes."""
    if row.then == "resumed":
        state: State = "running" if submission.input_sequence is None else "input-applied"
        return replace(submission, state=state, suspension=None)
    entered = _STATES.get(row.then, submission.state)
    return submission if entered == submission.state else replace(submission, state=entered)


def _refusal(
    row: Transition,
    lane: LaneState,
    submission: Submission,
    facts: Facts,
    outcome: Outcome | None,
) -> YieldedError:
    thread, name, state = submission.thread_id, submission.submission_id, submission.state
    settled = submission.settled
    errors: dict[Refusal | None, YieldedError | None] = {
        "conflict": facts.conflict,
        "ownership-lost": OwnershipLost(thread, lane.epoch),
        "settlement-conflict": SettlementConflict(
            thread, name, (settled.outcome if settled is not None else outcome) or "unknown"
        ),
        "joined-to-host": JoinedToHost(thread, name, submission.host or "(none)"),
        "authority-refused": AuthorityRefused(
            thread, name, row.operation.removeprefix("publish-"), f"it is {state}"
        ),
        "evidence-fault": EvidenceFault(
            thread, "evidence-missing", f"there is no settlement record of {name}"
        ),
    }
    return errors.get(row.refusal) or TransitionRefused(thread, name, row.operation, state)


_STATES: Final[Mapping[str | None, State]] = {state: state for state in ALL}
_BY_PLACE: Final = {
    (operation, state): tuple(
        row for row in TRANSITIONS if row.operation == operation and state in row.states
    )
    for operation in get_args(Operation)
    for state in ALL
}
