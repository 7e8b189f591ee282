"""Saboteurs of waiting: suspension, approvals, unknown calls, children (LED-11 to LED-14)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.errors import SettlementConflict, ThreadDeleted
from yielded_core.ledger import transitions
from yielded_core.ledger.operations import children, unknown, waiting
from yielded_testing.saboteurs.ledger_units import WrongUnit, allowed, in_unit, told
from yielded_testing.saboteurs.model import Saboteur, WrongRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.transitions import Facts, Operation
    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.ports.work import (
        ApprovalDecision,
        AwaitedChild,
        Reservation,
        Submission,
        UnknownCall,
        UnknownResolution,
    )
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.identifiers import RecordId, RunId, SubmissionId, ThreadId, ToolCallId
    from yielded_testing.saboteurs.ledger_units import Rule


class MissesDecisions(WrongUnit):
    """A suspension does not see the decisions that came before it."""

    def approvals(self, _lane: LaneState, _submission: Submission) -> tuple[ApprovalDecision, ...]:
        return ()


class MissesChildren(WrongUnit):
    """A suspension does not see which children were published before it."""

    def sequence_of(self, _lane: LaneState, _record: RecordId) -> int | None:
        return None


class KeepsTheLane(WrongUnit):
    """Suspended work goes on owning its lane."""

    def save_lane(self, lane: LaneState) -> None:
        before = self.inner.lane(lane.thread_id)
        self.inner.save_lane(lane._replace(ownership=before and before.ownership))


def _aborted_work_waits(right: Rule) -> Rule:
    """Work is suspended although its abort is asked for."""

    def wrong(
        asked: Operation, lane: LaneState, found: Submission, facts: Facts, *rest: object
    ) -> object:
        if asked == "suspend" and found.abort is not None:
            facts = facts._replace(covered=False)
        return right(asked, lane, found, facts, *rest)

    return wrong


def _abort_ends_waiting(right: Rule) -> Rule:
    """Work that is to be aborted never waits, not even for the children that it aborts."""

    def wrong(*arguments: object, despite_abort: bool) -> object:
        del despite_abort
        return right(*arguments, despite_abort=False)

    return wrong


def _deleted_children_owe(right: Rule) -> Rule:
    """A child whose thread was deleted counts as one that is still to be settled."""

    def wrong(unit: LedgerEvidence, child: AwaitedChild) -> bool:
        try:
            unit.lane(child.thread_id)
        except ThreadDeleted:
            return False
        return bool(right(unit, child))

    return wrong


def _only_owners_give_back(right: Rule) -> Rule:
    """What a parent holds can be given back by its owner alone, which a settled one has not."""

    def wrong(*arguments: object, freeing: bool = False) -> object:
        del freeing
        return right(*arguments)

    return wrong


def _all_approved(_right: Rule) -> Rule:
    """A batch is covered once all of it is decided, a denial alone does not cover it."""

    def wrong(calls: Iterable[ToolCallId], decisions: Iterable[ApprovalDecision]) -> bool:
        return set(calls) <= {one.tool_call_id for one in decisions}

    return wrong


def _any_decision(_right: Rule) -> Rule:
    """Any decision about a batch covers it."""

    def wrong(calls: Iterable[ToolCallId], decisions: Iterable[ApprovalDecision]) -> bool:
        listed = set(calls)
        return not listed or any(one.tool_call_id in listed for one in decisions)

    return wrong


class LastDecisionWins(WrongUnit):
    """A second decision about a call replaces the first one."""

    def approvals(self, _lane: LaneState, _submission: Submission) -> tuple[ApprovalDecision, ...]:
        return ()


# --- Unknown outcomes ----------------------------------------------------------------------------


def _first_marks_alone(right: Rule) -> Rule:
    """Calls that are marked after the first resolution are not added to the others."""

    def wrong(
        unit: LedgerUnit,
        thread: ThreadId,
        name: SubmissionId,
        run: RunId,
        calls: Sequence[tuple[ToolCallId, str]],
    ) -> object:
        lane = unit.lane(thread)
        found = None if lane is None else unit.submission(lane, name)
        known = lane and found and unit.resolutions(lane, found)
        return right(unit, thread, name, run, () if known else calls)

    return wrong


def _first_word_wakes(right: Rule) -> Rule:
    """Whoever says what to do about one call wakes the work, though others are still open."""

    def wrong(
        asked: Operation, lane: LaneState, found: Submission, facts: Facts, *rest: object
    ) -> object:
        if asked == "record-unknown-resolution" and not facts.factual:
            facts = facts._replace(open_calls=False)
        return right(asked, lane, found, facts, *rest)

    return wrong


def _any_order(right: Rule) -> Rule:
    """A resolution that says what to do may follow one that says what happened."""

    def wrong(
        unit: LedgerUnit,
        lane: LaneState,
        found: Submission,
        calls: Sequence[UnknownCall],
        known: Sequence[UnknownResolution],
        made: UnknownResolution,
    ) -> object:
        kind = unknown.kind_of(made.resolution)
        same = [one for one in known if unknown.kind_of(one.resolution) == kind]
        return right(unit, lane, found, calls, same, made)

    return wrong


def _log_not_asked(_right: Rule) -> Rule:
    """What a person says happened is not compared with the committed result."""

    def wrong(*_arguments: object) -> bool:
        return True

    return wrong


def _result_ignored(_right: Rule) -> Rule:
    """Resolutions are the same whatever result they tell."""

    def wrong(resolution: UnknownResolution) -> tuple[str, bytes]:
        return resolution.resolution, b""

    return wrong


# --- Children ------------------------------------------------------------------------------------


def _by_id(right: Rule) -> Rule:
    """Reservations are the same when their ids are, whatever their digests."""

    def wrong(known: Reservation | None, wanted: Reservation) -> object:
        if known is not None and known.reservation_id == wanted.reservation_id:
            return known
        return right(known, wanted)

    return wrong


def _last_child(right: Rule) -> Rule:
    """A second child takes the place of the first one."""

    def wrong(known: Reservation | None, child: AwaitedChild) -> object:
        if known is not None and known.status == "attached":
            return replace(known, child=child)
        return right(known, child)

    return wrong


def _thawed(right: Rule) -> Rule:
    """The accounting of a release can be changed until it is released."""

    def wrong(known: Reservation | None, accounting: JsonValue) -> object:
        if known is not None and known.status == "releasing":
            return replace(known, accounting=accounting)
        return right(known, accounting)

    return wrong


def _freed_at_once(right: Rule) -> Rule:
    """A reservation is released before its release began."""

    def wrong(known: Reservation | None) -> object:
        return right(known and replace(known, status="releasing"))

    return wrong


class ChildTakenAtItsWord(WrongUnit):
    """A parent is woken for a child that has no settlement record."""

    def sequence_of(self, lane: LaneState, record: RecordId) -> int | None:
        return self.inner.sequence_of(lane, record) or 1


def _first_child_wakes(right: Rule) -> Rule:
    """A parent is woken by the first of its children."""

    def wrong(
        asked: Operation, lane: LaneState, found: Submission, facts: Facts, *rest: object
    ) -> object:
        if asked == "record-child-settled":
            facts = facts._replace(covered=facts.awaited)
        return right(asked, lane, found, facts, *rest)

    return wrong


_DECIDE: Final = "record_approval_decision"
_RESOLVE: Final = "record_unknown_resolution"
_STEPS: Final = "test_steps_are_idempotent_and_ordered"

SABOTEURS: Final = (
    Saboteur(
        "suspension-misses-decisions",
        ("LED-11",),
        "test_decisions_before_the_suspension_are_not_missed",
        in_unit(waiting, "suspend", MissesDecisions),
    ),
    Saboteur(
        "suspension-misses-children",
        ("LED-11",),
        "test_a_child_that_was_published_before_is_not_waited_for",
        in_unit(waiting, "suspend", MissesChildren),
    ),
    Saboteur(
        "suspended-work-owns",
        ("LED-11", "LED-12", "LED-17"),
        "test_suspended_work_waits_without_an_owner",
        in_unit(waiting, "suspend", KeepsTheLane),
    ),
    Saboteur(
        "aborted-work-is-suspended",
        ("LED-11",),
        "test_work_that_is_to_be_aborted_waits_for_nothing",
        WrongRule(transitions, "advance", _aborted_work_waits, ("suspend",)),
    ),
    Saboteur(
        "aborted-parent-never-waits",
        ("LED-9", "LED-11"),
        "test_an_aborted_parent_waits_for_its_children",
        WrongRule(waiting, "suspend", _abort_ends_waiting),
    ),
    Saboteur(
        "deleted-child-owes",
        ("LED-11", "LED-14"),
        "test_a_deleted_child_is_settled",
        WrongRule(waiting, "is_published", _deleted_children_owe),
    ),
    Saboteur(
        "reservation-outlives-its-parent",
        ("LED-14",),
        "test_a_settled_parent_gives_back_what_it_holds",
        WrongRule(children, "_change", _only_owners_give_back),
    ),
    Saboteur(
        "denial-does-not-cover",
        ("LED-11",),
        "test_decisions_before_the_suspension_are_not_missed",
        WrongRule(waiting, "approvals_covered", _all_approved),
    ),
    Saboteur(
        "any-decision-covers",
        ("LED-11",),
        "test_what_is_pending_is_waited_for",
        WrongRule(waiting, "approvals_covered", _any_decision),
    ),
    Saboteur(
        "last-decision-wins",
        ("LED-11", "LED-12"),
        "test_the_first_decision_stands",
        in_unit(waiting, _DECIDE, LastDecisionWins),
    ),
    Saboteur(
        "opposite-decision-replays",
        ("LED-12",),
        "test_the_first_decision_stands",
        told(
            "record-approval-decision",
            _DECIDE,
            "The opposite of a decision is answered with the first one, as if it were the same.",
            conflict=None,
        ),
    ),
    Saboteur(
        "decision-wakes-nobody",
        ("LED-11", "LED-12", "LED-17"),
        "test_the_covering_decision_wakes_the_lane",
        told(
            "record-approval-decision",
            _DECIDE,
            "The decision that covers what is waited for wakes nobody.",
            covered=False,
        ),
    ),
    Saboteur(
        "settled-work-decided",
        ("LED-12",),
        "test_settled_work_takes_no_decision",
        allowed(
            "record-approval-decision",
            _DECIDE,
            "A decision is recorded after the settlement.",
            SettlementConflict,
            "same",
        ),
    ),
    Saboteur(
        "marks-are-not-added",
        ("LED-13",),
        "test_work_is_parked_again_by_new_calls_alone",
        WrongRule(unknown, "mark_unknown", _first_marks_alone),
    ),
    Saboteur(
        "repeated-mark-parks-again",
        ("LED-13",),
        "test_work_is_parked_again_by_new_calls_alone",
        told(
            "mark-unknown",
            "mark_unknown",
            "A repeated mark parks work whose calls are all resolved.",
            open_calls=True,
        ),
    ),
    Saboteur(
        "execution-after-factual",
        ("LED-13",),
        "test_an_execution_resolution_does_not_follow_a_factual_one",
        WrongRule(unknown, "_conflict", _any_order),
    ),
    Saboteur(
        "committed-result-not-compared",
        ("LED-13",),
        "test_a_factual_resolution_agrees_with_the_log",
        WrongRule(unknown, "_agrees_with_log", _log_not_asked),
    ),
    Saboteur(
        "other-result-replays",
        ("LED-13",),
        "test_another_result_is_another_resolution",
        WrongRule(unknown, "_content", _result_ignored),
    ),
    Saboteur(
        "factual-refused-after-settlement",
        ("LED-13",),
        "test_settled_work_takes_factual_resolutions_alone",
        told(
            "record-unknown-resolution",
            _RESOLVE,
            "Settled work takes no resolution at all.",
            factual=False,
        ),
    ),
    Saboteur(
        "any-resolution-wakes",
        ("LED-13",),
        "test_every_open_call_must_be_covered",
        WrongRule(transitions, "advance", _first_word_wakes, (_RESOLVE,)),
    ),
    Saboteur("reservation-by-id", ("LED-14",), _STEPS, WrongRule(children, "reserve", _by_id)),
    Saboteur(
        "last-child-attached", ("LED-14",), _STEPS, WrongRule(children, "attach", _last_child)
    ),
    Saboteur("accounting-thaws", ("LED-14",), _STEPS, WrongRule(children, "begin", _thawed)),
    Saboteur(
        "released-before-begun", ("LED-14",), _STEPS, WrongRule(children, "free", _freed_at_once)
    ),
    Saboteur(
        "child-wakes-without-record",
        ("LED-14",),
        "test_a_child_without_record_is_no_news",
        in_unit(waiting, "record_child_settled", ChildTakenAtItsWord),
    ),
    Saboteur(
        "first-child-wakes",
        ("LED-14",),
        "test_a_parent_waits_for_all_its_children",
        WrongRule(transitions, "advance", _first_child_wakes, ("record_child_settled",)),
    ),
)
