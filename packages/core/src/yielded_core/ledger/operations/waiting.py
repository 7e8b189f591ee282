"""Waiting for approvals and for children, and being woken (LED-11, LED-12, LED-14).

A suspension and what ends it change the same row of the thread, so that neither misses the other:
whoever comes second sees what the first one did.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from yielded_core.errors import ApprovalConflict, EvidenceFault, ThreadDeleted
from yielded_core.ledger.lane import owns_submission
from yielded_core.ledger.operations.evidence import lane_and_submission, sequence_of
from yielded_core.ledger.transitions import Facts, advance, moved
from yielded_core.ports.work import ApprovalDecision, ApprovalRecorded
from yielded_core.records.identifiers import settlement_record_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.ports.work import (
        AwaitedChild,
        ChildWake,
        Decision,
        SuspendAnswer,
        Suspension,
    )
    from yielded_core.records.identifiers import (
        OwnershipToken,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )


def approvals_covered(calls: Iterable[ToolCallId], decisions: Iterable[ApprovalDecision]) -> bool:
    """Say whether one call of a batch is denied or all of them are decided (LED-11)."""
    made = {decision.tool_call_id: decision.decision for decision in decisions}
    found = [made.get(call) for call in calls]
    return "denied" in found or None not in found


def is_published(unit: LedgerEvidence, child: AwaitedChild) -> bool:
    """Say whether the canonical settlement record of a child exists (LED-8).

    It did if the child's thread was deleted: one that owes work cannot be (ARC-7).
    """
    try:
        lane = unit.lane(child.thread_id)
    except ThreadDeleted:
        return True
    if lane is None:
        return False
    return sequence_of(unit, lane, settlement_record_id(child.submission_id)) is not None


def suspend(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    waiting: Suspension,
    *,
    despite_abort: bool,
) -> SuspendAnswer:
    """End the ownership until what is waited for is there (LED-11).

    A submission that is to be aborted waits for nothing, so that its run learns of it; then for the
    children that it passed the abort on to.
    """
    lane, found = lane_and_submission(unit, thread, submission)
    covered = (found.abort is not None and not despite_abort) or (
        approvals_covered(waiting.approvals, unit.approvals(lane, found))
        and all(is_published(unit, child) for child in waiting.children)
    )
    facts = Facts(
        owned=owns_submission(lane, submission, token),
        aborted=found.abort is not None,
        covered=covered,
    )
    row = advance("suspend", lane, found, facts)
    if row.then == "none":
        return "resume-immediately"
    unit.save_submission(lane, replace(moved(row, found), suspension=waiting))
    unit.save_lane(lane.released())
    return "suspended"


def record_approval_decision(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    call: ToolCallId,
    decision: Decision,
    resolver: str,
    reason: str,
) -> ApprovalRecorded:
    """Record a decision; the one that covers what is waited for wakes the lane (LED-12)."""
    lane, found = lane_and_submission(unit, thread, submission)
    decisions = unit.approvals(lane, found)
    known = next((one for one in decisions if one.tool_call_id == call), None)
    made = known or ApprovalDecision(call, decision, resolver, reason, unit.moment.wall)
    waiting = found.suspension
    facts = Facts(
        covered=waiting is not None
        and bool(waiting.approvals)
        and approvals_covered(waiting.approvals, (*decisions, made)),
        conflict=None
        if made.decision == decision
        else ApprovalConflict(thread, submission, call, made.decision),
    )
    row = advance("record-approval-decision", lane, found, facts)
    if known is not None:
        return ApprovalRecorded(known, woken=False, replayed=True)
    unit.add_approval(lane, found, made)
    woken = moved(row, found)
    if woken is not found:
        unit.save_submission(lane, woken)
    unit.save_lane(lane.changed(facts=True))
    return ApprovalRecorded(made, woken=woken is not found, replayed=False)


def record_child_settled(
    unit: LedgerUnit, thread: ThreadId, submission: SubmissionId, child: AwaitedChild
) -> ChildWake:
    """Tell a parent that a child's settlement is published (LED-14)."""
    lane, found = lane_and_submission(unit, thread, submission)
    if not is_published(unit, child):
        detail = f"no settlement record of {child.submission_id}"
        raise EvidenceFault(child.thread_id, "evidence-missing", detail)
    children = () if found.suspension is None else found.suspension.children
    awaited = child in children
    covered = awaited and all(is_published(unit, one) for one in children)
    row = advance("record-child-settled", lane, found, Facts(awaited=awaited, covered=covered))
    if row.then == "none":
        return "not-waiting"
    if row.then == "same":
        return "still-waiting"
    unit.save_submission(lane, moved(row, found))
    unit.save_lane(lane.changed())
    return "woken"
