"""The operations that a store may have a way of its own for, as values that say what is asked.

Each does through a unit what its function in `ledger.operations` says. A store that does nothing
about them runs them like every other operation; one that can answer in a single statement looks at
what they ask for, and runs them through a unit where its statement does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yielded_core.ledger.operations import admission, ownership, reading, settlement

if TYPE_CHECKING:
    from yielded_core.ledger.operations.admission import PreparedAdmission
    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.ports.values import PreparedBatch
    from yielded_core.ports.work import (
        AbortState,
        Admitted,
        Authority,
        ClaimHandoff,
        Grant,
        Published,
    )
    from yielded_core.records.identifiers import (
        AttemptId,
        OwnershipToken,
        SubmissionId,
        ThreadId,
    )


@dataclass(frozen=True, slots=True)
class Admit:
    """Accept work once per (thread, principal, key) (LED-1, LED-2)."""

    work: PreparedAdmission

    def __call__(self, unit: LedgerUnit) -> Admitted:
        """Do it in a transaction."""
        return admission.admit(unit, self.work)


@dataclass(frozen=True, slots=True)
class Claim:
    """Own a lane and its head at the next epoch (LED-4, LED-5)."""

    thread_id: ThreadId
    attempt_id: AttemptId
    token: OwnershipToken
    lease: int
    """Milliseconds."""
    handoff: ClaimHandoff | None

    def __call__(self, unit: LedgerUnit) -> Grant | None:
        """Do it in a transaction."""
        return ownership.claim(
            unit, self.thread_id, self.attempt_id, self.token, self.lease, self.handoff
        )


@dataclass(frozen=True, slots=True)
class Renew:
    """Extend an ownership (LED-6)."""

    thread_id: ThreadId
    token: OwnershipToken
    lease: int
    """Milliseconds."""

    def __call__(self, unit: LedgerUnit) -> int:
        """Do it in a transaction."""
        return ownership.renew(unit, self.thread_id, self.token, self.lease)


@dataclass(frozen=True, slots=True)
class Publish:
    """Append a settlement record, and perhaps finalize it (LED-8)."""

    thread_id: ThreadId
    batch: PreparedBatch
    """As `prepare_settlement` makes it: of one record."""
    token: OwnershipToken
    authority: Authority
    finalize: bool

    def __call__(self, unit: LedgerUnit) -> Published:
        """Do it in a transaction."""
        return settlement.publish(
            unit, self.thread_id, self.batch, self.token, self.authority, finalize=self.finalize
        )


@dataclass(frozen=True, slots=True)
class ReadAbortIntent:
    """Tell whether somebody asked that work be aborted (LED-9)."""

    thread_id: ThreadId
    submission_id: SubmissionId

    def __call__(self, unit: LedgerEvidence) -> AbortState:
        """Ask in a snapshot."""
        return reading.read_abort_intent(unit, self.thread_id, self.submission_id)
