"""Saboteurs of accepting work: keys, digests, groups, readiness, aborts (LED-1 to LED-3, LED-9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.errors import AdmissionRefused, JoinedToHost, SettlementConflict
from yielded_core.ledger import transitions
from yielded_core.ledger.operations import admission, evidence, reading
from yielded_core.ports.work import AbortState, Indeterminate, NotAdmitted
from yielded_core.records.identifiers import abort_record_id, settlement_record_id
from yielded_testing.saboteurs.ledger_units import WrongUnit, allowed, in_unit
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Ledger

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.operations.admission import PreparedAdmission
    from yielded_core.ledger.transitions import Operation
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import AdmissionAnswer, Submission
    from yielded_core.records.identifiers import (
        Digest,
        IdempotencyKey,
        Principal,
        SubmissionId,
        ThreadId,
    )
    from yielded_testing.saboteurs.ledger_units import Rule

_MANY: Final = 1_024


class JoinedKey(WrongUnit):
    """Principal and key are compared as one text, with a colon between them."""

    def by_key(
        self, lane: LaneState, principal: Principal, key: IdempotencyKey
    ) -> Submission | None:
        found = self.inner.accepted(lane, 0, _MANY)
        wanted = f"{principal}:{key}"
        same = (one for one in found if f"{one.principal}:{one.idempotency_key}" == wanted)
        return next(same, None)


class AnyPrincipal(WrongUnit):
    """A key is that of the thread, whoever gave it."""

    def by_key(
        self, lane: LaneState, _principal: Principal, key: IdempotencyKey
    ) -> Submission | None:
        found = self.inner.accepted(lane, 0, _MANY)
        return next((one for one in found if one.idempotency_key == key), None)


class FreedAtPublication(WrongUnit):
    """A group is free as soon as the settlement of its work is published."""

    def occupant(self, lane: LaneState, group: str) -> SubmissionId | None:
        found = self.inner.occupant(lane, group)
        if found is None or lane.epoch == 0:
            return found
        published = self.inner.sequence_of(lane, settlement_record_id(found))
        return None if published is not None else found


class FreedWhenParked(WrongUnit):
    """A group is occupied by running work alone, so that waiting work lets a second one in."""

    def occupant(self, lane: LaneState, group: str) -> SubmissionId | None:
        found = self.inner.occupant(lane, group)
        known = None if found is None else self.inner.submission(lane, found)
        return None if known is not None and known.state in {"suspended", "unknown"} else found


def _group_first(right: Rule) -> Rule:
    """The group is looked at before the key, so that a replay is refused by its own work."""

    def wrong(unit: LedgerUnit, work: PreparedAdmission) -> object:
        lane, group = unit.lane(work.thread_id), work.admission.group
        occupant = None if lane is None or group is None else unit.occupant(lane, group)
        if occupant is not None:
            raise AdmissionRefused(work.thread_id, occupant, "occupied")
        return right(unit, work)

    return wrong


def _new_instant(right: Rule) -> Rule:
    """A replay is answered with the instant of the repeat, not with the first one."""

    def wrong(unit: LedgerUnit, work: PreparedAdmission) -> object:
        receipt = right(unit, work)
        return replace(receipt, admitted_at=unit.moment.wall)

    return wrong


def _without_group(right: Rule) -> Rule:
    """The digest of an admission does not cover its group."""

    def wrong(_group: str | None, given: Digest, linkage: bytes, message: bytes) -> object:
        return right(None, given, linkage, message)

    return wrong


def _without_linkage(right: Rule) -> Rule:
    """The digest of an admission does not cover its linkage."""

    def wrong(group: str | None, given: Digest, _linkage: bytes, message: bytes) -> object:
        return right(group, given, b"null", message)

    return wrong


def _without_message(right: Rule) -> Rule:
    """The digest of an admission does not cover its message metadata."""

    def wrong(group: str | None, given: Digest, linkage: bytes, _message: bytes) -> object:
        return right(group, given, linkage, b"null")

    return wrong


def _ready_before_the_thread(_right: Rule) -> Rule:
    """Work becomes ready, and settles, before its thread is materialized."""

    def wrong(_lane: LaneState) -> None:
        return None

    return wrong


def _ready_again(right: Rule) -> Rule:
    """Marking running work ready puts it back into the queue."""

    def wrong(asked: Operation, lane: LaneState, found: Submission, *rest: object) -> object:
        if asked == "mark-ready" and found.state == "running":
            found = replace(found, state="admitted")
        return right(asked, lane, found, *rest)

    return wrong


class AbsenceGuessed(Ledger):
    """A store that cannot answer is taken for one where nothing was admitted."""

    async def resolve_admission(
        self, thread: ThreadId, principal: Principal, key: IdempotencyKey
    ) -> AdmissionAnswer:
        answer = await self.inner.resolve_admission(thread, principal, key)
        return NotAdmitted() if isinstance(answer, Indeterminate) else answer


class LastAuthorWins(WrongUnit):
    """A second request for an abort replaces author, reason and instant of the first."""

    def submission(self, lane: LaneState, submission: SubmissionId) -> Submission | None:
        found = self.inner.submission(lane, submission)
        return found and replace(found, abort=None)


def _leaves_it_suspended(right: Rule) -> Rule:
    """An abort is recorded on suspended work, which goes on waiting."""

    def wrong(asked: Operation, lane: LaneState, found: Submission, *rest: object) -> object:
        if asked == "request-abort" and found.state == "suspended":
            found = replace(found, state="ready")
        return right(asked, lane, found, *rest)

    return wrong


def _derived_record(right: Rule) -> Rule:
    """The canonical record of an intent is named without a look at the log."""

    def wrong(unit: LedgerUnit, thread: ThreadId, submission: SubmissionId) -> object:
        found: AbortState = right(unit, thread, submission)
        known = None if found.intent is None else abort_record_id(submission)
        return AbortState(found.intent, known)

    return wrong


_DIGEST: Final = "test_other_content_under_a_key_conflicts"

SABOTEURS: Final = (
    Saboteur(
        "key-as-joined-text",
        ("LED-1",),
        "test_keys_are_compared_part_by_part",
        in_unit(admission, "admit", JoinedKey),
    ),
    Saboteur(
        "principal-ignored",
        ("LED-1",),
        "test_keys_and_principals_are_exact",
        in_unit(admission, "admit", AnyPrincipal),
    ),
    Saboteur(
        "new-instant-for-a-replay",
        ("LED-1",),
        "test_a_repeat_gives_the_first_receipt",
        WrongRule(admission, "admit", _new_instant),
    ),
    Saboteur(
        "digest-without-group",
        ("LED-1",),
        _DIGEST,
        WrongRule(admission, "content_digest", _without_group),
    ),
    Saboteur(
        "digest-without-linkage",
        ("LED-1",),
        _DIGEST,
        WrongRule(admission, "content_digest", _without_linkage),
    ),
    Saboteur(
        "digest-without-message",
        ("LED-1",),
        _DIGEST,
        WrongRule(admission, "content_digest", _without_message),
    ),
    Saboteur(
        "group-before-replay",
        ("LED-1", "LED-2"),
        "test_the_key_is_looked_at_before_the_group",
        WrongRule(admission, "admit", _group_first),
    ),
    Saboteur(
        "group-freed-at-publication",
        ("LED-2",),
        "test_only_finalization_frees_a_group",
        in_unit(admission, "admit", FreedAtPublication),
    ),
    Saboteur(
        "group-freed-while-parked",
        ("LED-2",),
        "test_a_group_is_occupied_until_its_work_is_settled",
        in_unit(admission, "admit", FreedWhenParked),
    ),
    Saboteur(
        "ready-before-its-thread",
        ("LED-3",),
        "test_only_work_of_a_materialized_thread_becomes_ready",
        WrongRule(evidence, "require_materialized", _ready_before_the_thread),
    ),
    Saboteur(
        "ready-again",
        ("LED-3",),
        "test_readiness_is_idempotent",
        WrongRule(transitions, "advance", _ready_again, ("mark_ready",)),
    ),
    Saboteur(
        "absence-guessed",
        ("LED-3",),
        "test_a_store_that_cannot_answer_is_indeterminate",
        AbsenceGuessed,
    ),
    Saboteur(
        "last-abort-wins",
        ("LED-9",),
        "test_the_first_intent_is_kept",
        in_unit(admission, "request_abort", LastAuthorWins),
    ),
    Saboteur(
        "settled-work-aborted",
        ("LED-9",),
        "test_settled_work_is_not_aborted",
        allowed(
            "request-abort",
            "request_abort",
            "An abort is accepted after the settlement.",
            SettlementConflict,
            "same",
        ),
    ),
    Saboteur(
        "joined-work-aborted-alone",
        ("LED-9",),
        "test_joined_work_is_aborted_with_its_host",
        allowed(
            "request-abort",
            "request_abort",
            "An abort of joined work is accepted without a word about its host.",
            JoinedToHost,
            "same",
        ),
    ),
    Saboteur(
        "aborted-work-waits-on",
        ("LED-9", "LED-17"),
        "test_suspended_work_is_woken_by_an_abort",
        WrongRule(transitions, "advance", _leaves_it_suspended, ("request_abort",)),
    ),
    Saboteur(
        "abort-record-assumed",
        ("LED-9",),
        "test_the_canonical_record_comes_from_the_log",
        WrongRule(reading, "read_abort_intent", _derived_record),
    ),
)
