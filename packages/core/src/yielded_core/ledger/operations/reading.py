"""What the ledger answers without changing anything (LED-3, LED-9, LED-15, LED-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.errors import SubmissionNotFound
from yielded_core.ledger.lane import claim_target
from yielded_core.ledger.operations.evidence import lane_and_submission, sequence_of
from yielded_core.ledger.operations.waiting import is_published
from yielded_core.ports.work import (
    FactsPage,
    NotAdmitted,
    QueuedLane,
    QueuePage,
    RecoverySnapshot,
    SubmissionFacts,
)
from yielded_core.records.identifiers import input_record_id, settlement_record_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerEvidence
    from yielded_core.ports.work import (
        AbortState,
        AdmittedWork,
        AwaitedChild,
        FactSection,
        Lane,
        Reservation,
        Submission,
    )
    from yielded_core.records.identifiers import (
        IdempotencyKey,
        Principal,
        SubmissionId,
        ThreadId,
    )


_FACT_BYTES: Final = 4 * 1_048_576
"""Text of admitted work that one page of facts holds; one submission may have more."""


def lookup_key(
    unit: LedgerEvidence, thread: ThreadId, principal: Principal, key: IdempotencyKey
) -> AdmittedWork | None:
    """Return the submission that was admitted under exactly this key (LED-3)."""
    lane = unit.lane(thread)
    found = None if lane is None else unit.by_key(lane, principal, key)
    return None if lane is None or found is None else unit.work(lane, found)


def resolve_admission(
    unit: LedgerEvidence, thread: ThreadId, principal: Principal, key: IdempotencyKey
) -> AdmittedWork | NotAdmitted:
    """Say whether work was admitted under a key (LED-3)."""
    return lookup_key(unit, thread, principal, key) or NotAdmitted()


def read_abort_intent(
    unit: LedgerEvidence, thread: ThreadId, submission: SubmissionId
) -> AbortState:
    """Return the abort intent of one submission (LED-9)."""
    found = unit.abort_state(thread, submission)
    if found is None:
        unit.lane(thread)  # which tells whether the thread was deleted
        raise SubmissionNotFound(thread, submission)
    return found


def lane_view(unit: LedgerEvidence, thread: ThreadId) -> Lane | None:
    """Return what others may see of a lane."""
    lane = unit.lane(thread)
    return None if lane is None else lane.view(unit.moment.store)


def queue_page(unit: LedgerEvidence, after: tuple[ThreadId, int], limit: int) -> QueuePage:
    """Return unsettled submissions with their lanes and the store's instants (LED-15)."""
    submissions = unit.nonterminal(after, limit)
    found = (unit.lane(thread) for thread in dict.fromkeys(one.thread_id for one in submissions))
    now, wall = unit.moment
    lanes = tuple(_queued(unit, lane, now) for lane in found if lane is not None)
    return QueuePage(submissions, lanes, now, wall)


def _queued(unit: LedgerEvidence, lane: LaneState, now: int) -> QueuedLane:
    target = None if lane.is_owned(now) else claim_target(lane, unit.heads(lane, 1), None)
    return QueuedLane(lane.view(now), None if target is None else target.submission_id)


def load_recovery_snapshot(
    unit: LedgerEvidence, thread: ThreadId, submission: SubmissionId
) -> RecoverySnapshot:
    """Return all that recovery decides on, without a token (LED-15)."""
    lane, found = lane_and_submission(unit, thread, submission)
    reservations = unit.reservations(lane, found)
    suspended = () if found.suspension is None else found.suspension.children
    host = found.host
    return RecoverySnapshot(
        lane=lane.view(unit.moment.store),
        tail=unit.tail(lane),
        submission=found,
        approvals=unit.approvals(lane, found),
        unknown_calls=unit.unknown_calls(lane, found),
        resolutions=unit.resolutions(lane, found),
        reservations=reservations,
        published_children=frozenset(
            child for child in _children(suspended, reservations) if is_published(unit, child)
        ),
        input_sequence=sequence_of(unit, lane, input_record_id(submission)),
        settlement_published=sequence_of(unit, lane, settlement_record_id(submission)) is not None,
        host_published=host is not None
        and sequence_of(unit, lane, settlement_record_id(host)) is not None,
    )


def facts_page(
    unit: LedgerEvidence, thread: ThreadId, after: int, limit: int, only: FactSection | None
) -> FactsPage:
    """Return submissions of a thread after a place in its lane (ARC-2)."""
    lane = unit.lane(thread)
    if lane is None:
        return FactsPage(0, ())
    return FactsPage(lane.fact_revision, lane_facts(unit, lane, after, limit, only))


def lane_facts(
    unit: LedgerEvidence,
    lane: LaneState,
    after: int,
    limit: int,
    only: FactSection | None = None,
) -> tuple[SubmissionFacts, ...]:
    """Return submissions of a lane of any generation, as `LedgerReader.facts` bounds them."""
    return tuple(_bounded(unit, lane, unit.accepted(lane, after, limit), only))


def _bounded(
    unit: LedgerEvidence,
    lane: LaneState,
    submissions: tuple[Submission, ...],
    only: FactSection | None,
) -> Iterator[SubmissionFacts]:
    size = 0
    for found in submissions:
        texts = unit.texts(lane, found) if only in {None, "admissions"} else (b"", b"", b"")
        size += sum(map(len, texts))
        if size > _FACT_BYTES and found is not submissions[0]:
            return
        approvals = unit.approvals(lane, found) if only in {None, "approvals"} else ()
        resolutions = unit.resolutions(lane, found) if only in {None, "resolutions"} else ()
        calls = unit.unknown_calls(lane, found) if only is None or resolutions else ()
        yield SubmissionFacts(found, *texts, approvals, calls, resolutions)


def _children(
    suspended: tuple[AwaitedChild, ...], reservations: tuple[Reservation, ...]
) -> set[AwaitedChild]:
    attached = (one.child for one in reservations)
    return {*suspended, *(child for child in attached if child is not None)}
