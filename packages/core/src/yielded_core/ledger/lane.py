"""A lane as the rules see it: its one ownership, its lease, its head (LED-4 to LED-6, LED-17).

Everything that a concurrent transaction could change is part of the one row of the thread.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.errors import EpochExhausted, InvalidArgument, OwnershipLost
from yielded_core.ledger.transitions import Facts, step
from yielded_core.ports.work import Lane, Owner
from yielded_core.records.bounds import LAST_EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ports.work import ClaimHandoff, Submission
    from yielded_core.records.identifiers import (
        AttemptId,
        OwnershipToken,
        SubmissionId,
        ThreadId,
    )

MOST_LEASE_MILLISECONDS: Final = 86_400_000
"""24 hours."""


class Moment(NamedTuple):
    """The two clocks of a store, read once in a transaction, in milliseconds since 1970 UTC."""

    store: int
    """The clock that leases follow: it never goes back and always ticks."""
    wall: int
    """The clock that people read: instants that are kept."""


class Ownership(NamedTuple):
    """Who owns a lane. The token itself is not kept, only its digest."""

    submission_id: SubmissionId
    attempt_id: AttemptId
    token: bytes
    epoch: int
    """The epoch it was granted with: a thread that was taken over since has no owner."""
    expires_at: int


class LaneState(NamedTuple):
    """The row of a thread as the ledger reads and writes it."""

    thread_id: ThreadId
    generation: int
    epoch: int
    """0 while the thread is not materialized."""
    version: int
    last_queue_sequence: int
    fact_revision: int
    """Raised by every fact that an export carries (ARC-2)."""
    ownership: Ownership | None = None

    @property
    def owner(self) -> Ownership | None:
        """The ownership that counts, its lease expired or not."""
        held = self.ownership
        return held if held is not None and held.epoch == self.epoch else None

    def is_owned(self, now: int) -> bool:
        """Say whether somebody's lease is live; equal time is expired (LED-6)."""
        owner = self.owner
        return owner is not None and owner.expires_at > now

    def changed(self, *, facts: bool = False) -> LaneState:
        """Return the lane after a change of anything in it, of what an export carries too."""
        return self._replace(version=self.version + 1, fact_revision=self.fact_revision + facts)

    def released(self) -> LaneState:
        """Return the lane without an owner."""
        return self._replace(version=self.version + 1, ownership=None)

    def view(self, now: int) -> Lane:
        """Return what others may see of the lane."""
        owner = self.owner
        seen = owner and Owner(
            owner.submission_id, owner.attempt_id, owner.expires_at, owner.expires_at > now
        )
        return Lane(self.thread_id, self.epoch, self.version, seen)


def token_digest(token: OwnershipToken) -> bytes:
    """Return what is kept of a token: whoever reads a store cannot act as its owners."""
    return hashlib.sha256(token.encode()).digest()


def owns(lane: LaneState, token: OwnershipToken | None) -> Ownership | None:
    """Return the ownership that a token holds: neither superseded nor released (LED-6)."""
    owner = lane.owner
    if owner is None or token is None or owner.token != token_digest(token):
        return None
    return owner


def owns_submission(
    lane: LaneState, submission: SubmissionId, token: OwnershipToken | None
) -> bool:
    """Say whether a token owns the lane for this submission."""
    owner = owns(lane, token)
    return owner is not None and owner.submission_id == submission


def check_lease(lease: int) -> int:
    """Return the length of a lease unchanged; else InvalidArgument."""
    if type(lease) is not int or not 1 <= lease <= MOST_LEASE_MILLISECONDS:
        reason = f"it is not a whole number of milliseconds from 1 to {MOST_LEASE_MILLISECONDS}"
        raise InvalidArgument("lease", reason)
    return lease


def replayed_claim(lane: LaneState, attempt: AttemptId, token: OwnershipToken) -> Ownership | None:
    """Return the ownership that a repeated claim asks for again (LED-4)."""
    owner = owns(lane, token)
    return owner if owner is not None and owner.attempt_id == attempt else None


def claimed(
    lane: LaneState, submission: SubmissionId, attempt: AttemptId, token: OwnershipToken, until: int
) -> LaneState:
    """Return the lane under a new owner, at the next epoch. Raises EpochExhausted."""
    if lane.epoch >= LAST_EPOCH:
        raise EpochExhausted(lane.thread_id, LAST_EPOCH)
    epoch = lane.epoch + 1
    ownership = Ownership(submission, attempt, token_digest(token), epoch, until)
    return lane._replace(version=lane.version + 1, epoch=epoch, ownership=ownership)


def renewed(lane: LaneState, token: OwnershipToken, until: int) -> LaneState:
    """Return the lane with a lease that ends no earlier than before (LED-6)."""
    owner = owns(lane, token)
    if owner is None:
        raise OwnershipLost(lane.thread_id, lane.epoch)
    longer = owner._replace(expires_at=max(owner.expires_at, until))
    return lane._replace(version=lane.version + 1, ownership=longer)


def is_skipped(submission: Submission) -> bool:
    """Say whether a claim passes over a submission: unknown, and nobody wants it aborted."""
    return submission.state == "unknown" and submission.abort is None


def is_claimable(submission: Submission) -> bool:
    """Say whether a submission at the head may be claimed; every other state is a barrier."""
    facts = Facts(aborted=submission.abort is not None)
    return step("claim", submission.state, facts).then != "none"


def claim_target(
    lane: LaneState, heads: Sequence[Submission], handoff: ClaimHandoff | None
) -> Submission | None:
    """Return what a claim would own, if nobody's lease is live (LED-4, LED-5).

    `heads` are the first unsettled submissions that are not skipped, in lane order: one, and one
    more for each deferred submission of a handoff. A deferred one must be released: a lease of its
    own that ran out is not enough.
    """
    at = 0
    if handoff is not None:
        at = len(handoff.deferred)
        deferred = heads[:at]
        owner = lane.owner
        if (
            handoff.epoch != lane.epoch
            or (owner is not None and owner.submission_id in handoff.deferred)
            or tuple(one.submission_id for one in deferred) != handoff.deferred
            or any(one.state != "input-applied" or one.abort is not None for one in deferred)
        ):
            return None
    if at >= len(heads) or not is_claimable(heads[at]):
        return None
    if handoff is not None and heads[at].submission_id != handoff.target:
        return None
    return heads[at]


def runnable_since(
    lane: LaneState, head: Submission | None, before: int | None, now: int
) -> int | None:
    """Return since when, or from when on, the lane is claimable; None while it is not (LED-17).

    `before` is what was kept for it until now: a lane that waits already keeps its place.
    """
    if head is None or not is_claimable(head):
        return None
    owner = lane.owner
    if owner is not None:
        return max(owner.expires_at, now if before is None else before)
    return now if before is None else min(before, now)
