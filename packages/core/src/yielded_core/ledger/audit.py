"""Whether accepted work and the log agree, and whether its order was kept (CRT-6).

Submissions are taken in the order of their lane, once the whole log was seen, in bounded memory.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from yielded_core.ledger.traces import submission_of
from yielded_core.log.identities import IdentitySet
from yielded_core.ports.values import Finding

if TYPE_CHECKING:
    from types import TracebackType

    from yielded_core.ledger.traces import Trace

INPUT_ORDER: Final = "fifo-input-order"
SETTLEMENT_ORDER: Final = "fifo-settlement-order"
AGREEMENT: Final = "ledger-log-agreement"
ALL_SETTLED: Final = "all-settled"
INVARIANTS: Final = (INPUT_ORDER, SETTLEMENT_ORDER, AGREEMENT)


class Claims(NamedTuple):
    """What the ledger of a store says about a submission beyond its facts."""

    fault: str = ""
    """What is wrong with its own rows."""
    input_sequence: int = 0
    outcome: str = ""
    settlement_id: str = ""


class Accepted(NamedTuple):
    """One submission as the audit looks at it."""

    place: int
    submission_id: str
    receipt_id: str
    key: tuple[str, str]
    """Principal and idempotency key."""
    group: str | None
    input_digest: str
    was_unknown: bool
    """A call of it was known to be unknown, now or earlier."""
    deferred: bool
    """A claim handoff passed it (LED-5)."""
    claims: Claims = Claims()


class WorkFault(NamedTuple):
    """Where an invariant first fails, and why."""

    invariant: str
    place: int
    detail: str


class _Parked(NamedTuple):
    """A submission that may have been passed by while it was parked or deferred."""

    place: int
    since: int
    """Only what became active after this sequence may have passed it."""
    settled: int
    """Sequence of its settlement; 0 without one."""


class WorkAudit:
    """Takes the submissions of one lane in order; a context manager, for its temporary files."""

    def __init__(self) -> None:
        self._faults: dict[str, WorkFault] = {}
        self._count = 0
        self._last_input = 0
        self._host = ""
        self._group_settled = self._group_owed = 0
        self._settled = self._owed = 0
        self._parked: list[_Parked] = []
        self._resources = ExitStack()
        self._identities = self._resources.enter_context(IdentitySet())
        self._groups = self._resources.enter_context(IdentitySet())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def fault(self, invariant: str) -> WorkFault | None:
        """Return the first fault of an invariant found so far."""
        return self._faults.get(invariant)

    def take(self, work: Accepted, trace: Trace) -> None:
        """Take the next submission, with what the log tells about it."""
        self._count += 1
        place = work.place
        if place != self._count:
            self._fail(AGREEMENT, self._count, f"place {place} stands there")
            self._count = place
        for identity in (
            ("submission", work.submission_id),
            ("receipt", work.receipt_id),
            ("key", *work.key),
        ):
            self._identities.add(repr(identity), place)
        if work.group is not None and not trace.settled_sequence:
            self._groups.add(work.group, place)
        self._check_agreement(work, trace)
        self._check_host(place, work.submission_id, trace)
        self._check_order(work, trace)

    def finish(self) -> tuple[Finding, ...]:
        """Say what was found."""
        if (place := self._identities.faults().repeated) is not None:
            self._fail(AGREEMENT, place, "an identity or a key stands here a second time")
        if (place := self._groups.faults().repeated) is not None:
            self._fail(AGREEMENT, place, "its group has unsettled work before it")
        found = (self._finding(name) for name in INVARIANTS)
        return (*found, Finding(ALL_SETTLED, "skipped", "nobody asked whether all is settled"))

    def _finding(self, name: str) -> Finding:
        fault = self._faults.get(name)
        if fault is not None:
            return Finding(name, "failed", f"submission {fault.place}: {fault.detail}")
        return Finding(name, "passed", f"{self._count} submissions")

    def _fail(self, invariant: str, place: int, detail: str) -> None:
        self._faults.setdefault(invariant, WorkFault(invariant, place, detail))

    def _check_agreement(self, work: Accepted, trace: Trace) -> None:
        claims = work.claims
        wrong = claims.fault
        if trace.input_sequence and trace.input_digest != work.input_digest:
            wrong = f"its input at sequence {trace.input_sequence} is not what was admitted"
        elif trace.settled_sequence and trace.receipt_id != work.receipt_id:
            wrong = f"its settlement at sequence {trace.settled_sequence} has another receipt"
        elif claims.input_sequence not in {0, trace.input_sequence}:
            wrong = f"its input is marked at sequence {claims.input_sequence}, where it is not"
        elif claims.outcome and (claims.outcome, claims.settlement_id) != (
            trace.outcome,
            trace.settlement_id,
        ):
            wrong = "the log does not hold the settlement that it has"
        if wrong:
            self._fail(AGREEMENT, work.place, wrong)

    def _check_host(self, place: int, name: str, trace: Trace) -> None:
        """Refuse an input in a run that is not its own, nor that of what stands before it."""
        host = host_of(name, trace)
        if host is not None:
            if host != self._host:
                detail = "its input stands in a run that no submission before it is host of"
                self._fail(AGREEMENT, place, detail)
        elif not trace.never_ran:
            self._host = name
            self._settled = max(self._settled, self._group_settled)
            self._owed = self._owed or self._group_owed
            self._group_settled = self._group_owed = 0

    def _check_order(self, work: Accepted, trace: Trace) -> None:
        place, at, settled = work.place, trace.input_sequence, trace.settled_sequence
        if at:
            if at < self._last_input:
                detail = f"its input at sequence {at} comes before that of an earlier one"
                self._fail(INPUT_ORDER, place, detail)
            self._last_input = max(self._last_input, at)
        if trace.never_ran:
            return
        self._parked = [one for one in self._parked if not at or one.since >= at]
        if settled:
            passed = [one for one in self._parked if not one.settled or settled < one.settled]
            if self._owed or settled < self._settled or (at and passed):
                detail = f"it settled at sequence {settled}, before an earlier one"
                self._fail(SETTLEMENT_ORDER, place, detail)
        if work.deferred:
            self._parked.append(_Parked(place, at, settled))
        elif trace.in_doubt_from or work.was_unknown:
            self._parked.append(_Parked(place, trace.in_doubt_from, settled))
        elif settled:
            self._group_settled = max(self._group_settled, settled)
        else:
            self._group_owed = self._group_owed or place


def host_of(name: str, trace: Trace) -> str | None:
    """Return the submission in whose run the input of another one stands; None for its own."""
    host = submission_of(trace.input_run) if trace.input_sequence else None
    return None if host is None or host == name else host
