"""Saboteurs of settling: authority, replay, finalization (LED-8)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core.errors import OwnershipLost
from yielded_core.ledger import transitions
from yielded_core.ledger.lane import token_digest
from yielded_core.ledger.operations import settlement
from yielded_core.ports.work import Settled
from yielded_core.records.identifiers import settlement_record_id
from yielded_core.records.payloads import SubmissionSettled
from yielded_testing.saboteurs.ledger_units import WrongUnit, told
from yielded_testing.saboteurs.model import Saboteur, WrongRule

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.transitions import Operation
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.values import PreparedBatch
    from yielded_core.ports.work import Submission
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import (
        OwnershipToken,
        SettlementId,
        SubmissionId,
        ThreadId,
    )
    from yielded_testing.saboteurs.ledger_units import Rule


def _no_authority(_right: Rule) -> Rule:
    """A settlement is published without a look at who publishes it."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


def _any_receipt(right: Rule) -> Rule:
    """The receipt of a settlement is not compared with that of its submission."""

    def wrong(
        unit: LedgerUnit,
        lane: LaneState,
        found: Submission,
        content: SubmissionSettled,
        *rest: object,
    ) -> object:
        return right(
            unit, lane, found, content.model_copy(update={"receipt_id": found.receipt_id}), *rest
        )

    return wrong


def settlement_of_host(
    unit: LedgerUnit, lane: LaneState, guest: Submission
) -> SubmissionSettled | None:
    """Return the published settlement of a guest's host."""
    record = None if guest.host is None else unit.record(lane, settlement_record_id(guest.host))
    payload = None if record is None else record.record.payload
    return payload if isinstance(payload, SubmissionSettled) else None


def _host_is_enough(_right: Rule) -> Rule:
    """Joined work may settle in any way once its host's settlement is published."""

    def wrong(
        unit: LedgerUnit, lane: LaneState, guest: Submission, _content: SubmissionSettled
    ) -> bool:
        return settlement_of_host(unit, lane, guest) is not None

    return wrong


def _outcome_alone(_right: Rule) -> Rule:
    """Joined work must have its host's outcome, but may tell another diagnostic."""

    def wrong(
        unit: LedgerUnit, lane: LaneState, guest: Submission, content: SubmissionSettled
    ) -> bool:
        host = settlement_of_host(unit, lane, guest)
        return host is not None and host.outcome == content.outcome

    return wrong


def _ran_but_queued(right: Rule) -> Rule:
    """Work that ran may be settled as aborted in the queue."""

    def wrong(asked: Operation, lane: LaneState, found: Submission, *rest: object) -> object:
        if asked == "publish-queued-abort":
            found = replace(found, state="ready")
        return right(asked, lane, found, *rest)

    return wrong


def _anybody_repeats(right: Rule) -> Rule:
    """A settlement that is published is given to any token as its own."""

    def wrong(
        unit: LedgerUnit,
        thread: ThreadId,
        batch: PreparedBatch,
        token: OwnershipToken,
        *rest: object,
        **named: object,
    ) -> object:
        class Own(WrongUnit):
            def publisher(self, _lane: LaneState, _submission: Submission) -> bytes:
                return token_digest(token)

        return right(Own(unit), thread, batch, token, *rest, **named)

    return wrong


def _settled_is_over(right: Rule) -> Rule:
    """After finalization a settlement is not given back any more."""

    def wrong(
        unit: LedgerUnit,
        thread: ThreadId,
        batch: PreparedBatch,
        *rest: object,
        **named: object,
    ) -> object:
        lane, payload = unit.lane(thread), batch.records[0].record.payload
        if lane is not None and isinstance(payload, SubmissionSettled):
            found = unit.submission(lane, payload.submission_id)
            if found is not None and found.settled is not None:
                raise OwnershipLost(thread, lane.epoch)
        return right(unit, thread, batch, *rest, **named)

    return wrong


def _content_repeated(right: Rule) -> Rule:
    """A repeat must have the content of the first record."""

    def wrong(
        unit: LedgerUnit,
        thread: ThreadId,
        batch: PreparedBatch,
        *rest: object,
        **named: object,
    ) -> object:
        lane, given = unit.lane(thread), batch.records[0].record
        known = lane and lane.epoch and unit.record(lane, given.record_id)
        if lane and known and known.record.payload != given.payload:
            raise OwnershipLost(thread, lane.epoch)
        return right(unit, thread, batch, *rest, **named)

    return wrong


def _published_is_settled(right: Rule) -> Rule:
    """A publication always finalizes too."""

    def wrong(*arguments: object, finalize: bool) -> object:
        return right(*arguments, finalize=finalize or True)

    return wrong


def _last_instant(right: Rule) -> Rule:
    """Every finalization keeps its own instant."""

    def wrong(unit: LedgerUnit, lane: LaneState, found: Submission, *rest: object) -> object:
        if found.settled is not None:
            found = replace(found, state="running", settled=None)
        return right(unit, lane, found, *rest)

    return wrong


def _without_record(right: Rule) -> Rule:
    """A settlement is finalized as completed though there is no record of it."""

    def wrong(
        unit: LedgerUnit,
        lane: LaneState,
        found: Submission,
        record: StoredRecord | None,
        name: SettlementId,
    ) -> object:
        if record is not None:
            return right(unit, lane, found, record, name)
        final = replace(found, state="settled", settled=Settled(name, "completed", 0))
        unit.save_submission(lane, final)
        unit.save_lane(lane.released())
        return final

    return wrong


def _any_settlement_id(right: Rule) -> Rule:
    """A settlement is finalized whatever id is named."""

    def wrong(
        unit: LedgerUnit,
        lane: LaneState,
        found: Submission,
        record: StoredRecord | None,
        name: SettlementId,
    ) -> object:
        payload = None if record is None else record.record.payload
        if isinstance(payload, SubmissionSettled):
            name = payload.settlement_id
        return right(unit, lane, found, record, name)

    return wrong


def _frees_any_owner(right: Rule) -> Rule:
    """A finalization ends the ownership of the lane, whichever submission that is of."""

    def wrong(unit: LedgerUnit, *rest: object) -> object:
        class Ended(WrongUnit):
            def save_lane(self, lane: LaneState) -> None:
                self.inner.save_lane(lane._replace(ownership=None))

        return right(Ended(unit), *rest)

    return wrong


def _counted_batch(right: Rule) -> Rule:
    """The batch of a settlement has a counted name, not the one that its submission gives it."""

    def wrong(submission: SubmissionId) -> str:
        return f"{right(submission)}:1"

    return wrong


_FIRST: Final = "test_the_first_record_wins"


def _settling(name: str, caught_by: str, rule: str, wrong: Any) -> Saboteur:  # noqa: ANN401
    return Saboteur(name, ("LED-8",), caught_by, WrongRule(settlement, rule, wrong))


SABOTEURS: Final = (
    _settling(
        "settles-without-authority",
        "test_only_joined_work_settles_as_joined",
        "_check_authority",
        _no_authority,
    ),
    _settling(
        "receipt-not-compared",
        "test_the_receipt_is_the_submission_s",
        "_check_authority",
        _any_receipt,
    ),
    _settling(
        "joined-content-not-compared",
        "test_joined_work_has_the_outcome_of_its_host",
        "_as_host",
        _host_is_enough,
    ),
    _settling(
        "joined-diagnostic-not-compared",
        "test_joined_work_fails_only_as_its_host",
        "_as_host",
        _outcome_alone,
    ),
    Saboteur(
        "queued-abort-of-what-ran",
        ("LED-8",),
        "test_work_that_ran_is_not_a_queued_abort",
        WrongRule(transitions, "advance", _ran_but_queued, ("publish",)),
    ),
    Saboteur(
        "queued-abort-unasked",
        ("LED-8",),
        "test_a_queued_abort_needs_intent_and_outcome",
        told(
            "publish-queued-abort",
            "publish",
            "Queued work is settled though nobody asked for its abort.",
            aborted=True,
        ),
    ),
    _settling(
        "anybody-repeats-a-settlement",
        "test_any_other_token_is_refused_after_the_first_record",
        "publish",
        _anybody_repeats,
    ),
    _settling("settled-is-not-repeated", _FIRST, "publish", _settled_is_over),
    _settling("repeat-with-equal-content-only", _FIRST, "publish", _content_repeated),
    _settling(
        "published-is-settled", "test_published_is_not_settled", "publish", _published_is_settled
    ),
    _settling("last-instant-kept", "test_the_first_instant_is_kept", "_finalize", _last_instant),
    _settling(
        "finalized-without-record",
        "test_without_a_record_nothing_is_finalized",
        "_finalize",
        _without_record,
    ),
    _settling(
        "finalized-under-any-id",
        "test_another_settlement_id_is_a_conflict",
        "_finalize",
        _any_settlement_id,
    ),
    Saboteur(
        "finalization-ends-any-ownership",
        ("LED-8", "LED-10"),
        "test_one_settlement_leaves_another_owner_alone",
        WrongRule(settlement, "_finalize", _frees_any_owner),
    ),
    Saboteur(
        "settlement-batch-counted",
        ("REC-2",),
        "test_the_owner_publishes_its_settlement",
        WrongRule(settlement, "settlement_batch_id", _counted_batch),
    ),
)
