"""Saboteurs of keeping a lane: leases, tokens, markers (LED-6, LED-7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.errors import MarkerConflict, OwnershipLost
from yielded_core.ledger import lane as lanes
from yielded_core.ledger.lane import token_digest
from yielded_core.ledger.operations import evidence, ownership, reading
from yielded_testing.saboteurs.ledger_units import WrongUnit, in_unit
from yielded_testing.saboteurs.model import Saboteur, WrongRule

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState, Ownership
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import Lane, Submission
    from yielded_core.records.identifiers import OwnershipToken, SubmissionId, ThreadId
    from yielded_testing.saboteurs.ledger_units import Rule


def _equal_is_live(right: Rule) -> Rule:
    """A lease is shown as live at the very instant at which it ends."""

    def wrong(unit: LedgerUnit, thread: ThreadId) -> object:
        seen: Lane | None = right(unit, thread)
        if seen is None or seen.owner is None or seen.owner.expires_at != unit.moment.store:
            return seen
        return replace(seen, owner=replace(seen.owner, live=True))

    return wrong


def _shortens(_right: Rule) -> Rule:
    """A renewal ends the lease when it says, even where that is earlier."""

    def wrong(found: LaneState, token: OwnershipToken, until: int) -> LaneState:
        owner = lanes.owns(found, token)
        if owner is None:
            raise OwnershipLost(found.thread_id, found.epoch)
        return found._replace(version=found.version + 1, ownership=owner._replace(expires_at=until))

    return wrong


def _anybody_renews(_right: Rule) -> Rule:
    """A renewal is the lane's, whoever asks for it."""

    def wrong(found: LaneState, _token: OwnershipToken, until: int) -> LaneState:
        owner = found.owner
        if owner is None:
            raise OwnershipLost(found.thread_id, found.epoch)
        longer = owner._replace(expires_at=max(owner.expires_at, until))
        return found._replace(version=found.version + 1, ownership=longer)

    return wrong


def _lapsed_is_lost(right: Rule) -> Rule:
    """A lease that ran out cannot be renewed, though nobody claimed since."""

    def wrong(unit: LedgerUnit, thread: ThreadId, token: OwnershipToken, lease: int) -> object:
        found = unit.lane(thread)
        if found is not None and found.owner is not None and not found.is_owned(unit.moment.store):
            raise OwnershipLost(thread, found.epoch)
        return right(unit, thread, token, lease)

    return wrong


class KeepsTheOwner(WrongUnit):
    """A release ends the lease at once, but its token goes on owning the lane."""

    def save_lane(self, found: LaneState) -> None:
        before = self.inner.lane(found.thread_id)
        held = None if before is None else before.ownership
        ended = held and held._replace(expires_at=self.inner.moment.store)
        self.inner.save_lane(found._replace(ownership=ended))


def _anybody_releases(_right: Rule) -> Rule:
    """A release frees the lane, whoever asks for it."""

    def wrong(unit: LedgerUnit, thread: ThreadId, _token: OwnershipToken) -> None:
        unit.save_lane(evidence.owned_lane(unit, thread).released())

    return wrong


def _of_any_submission(_right: Rule) -> Rule:
    """A token of the lane serves for every submission of it."""

    def wrong(found: LaneState, _submission: SubmissionId, token: OwnershipToken | None) -> bool:
        return lanes.owns(found, token) is not None

    return wrong


def _survives_takeover(_right: Rule) -> Rule:
    """A token owns the lane although the thread was taken over at a higher epoch."""

    def wrong(found: LaneState, token: OwnershipToken | None) -> Ownership | None:
        held = found.ownership
        same = held is not None and token is not None and held.token == token_digest(token)
        return held if same else None

    return wrong


# --- Markers -------------------------------------------------------------------------------------


def _marker_agrees(_right: Rule) -> Rule:
    """A different marker is answered as if it were the same."""

    def wrong(_submission: Submission, _sequence: int) -> None:
        return None

    return wrong


class MarkerReplaced(WrongUnit):
    """A second marker of an input is taken for its first."""

    def submission(self, found: LaneState, submission: SubmissionId) -> Submission | None:
        known = self.inner.submission(found, submission)
        if known is None or known.state != "input-applied":
            return known
        return replace(known, state="running", input_sequence=None)


def _same_marker_conflicts(_right: Rule) -> Rule:
    """A repeated marker is a conflict with itself."""

    def wrong(submission: Submission, _sequence: int) -> MarkerConflict | None:
        marked = submission.input_sequence
        if marked is None:
            return None
        return MarkerConflict(submission.thread_id, submission.submission_id, marked)

    return wrong


def _marker_trusted(_right: Rule) -> Rule:
    """A marker is recorded without a look at the log."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


_LOST: Final = "test_a_token_that_lost_the_lane_does_nothing"

SABOTEURS: Final = (
    Saboteur(
        "equal-time-is-live",
        ("LED-6",),
        "test_equal_time_is_expired",
        WrongRule(reading, "lane_view", _equal_is_live),
    ),
    Saboteur(
        "renewal-shortens",
        ("LED-6",),
        "test_a_renewal_never_shortens_the_lease",
        WrongRule(lanes, "renewed", _shortens),
    ),
    Saboteur("anybody-renews", ("LED-6",), _LOST, WrongRule(lanes, "renewed", _anybody_renews)),
    Saboteur(
        "lapsed-lease-is-lost",
        ("LED-6",),
        "test_a_lapsed_lease_is_renewed_if_nobody_claimed",
        WrongRule(ownership, "renew", _lapsed_is_lost),
    ),
    Saboteur(
        "release-keeps-the-owner",
        ("LED-5", "LED-6", "LED-17"),
        _LOST,
        in_unit(ownership, "release", KeepsTheOwner),
    ),
    Saboteur(
        "anybody-releases", ("LED-6",), _LOST, WrongRule(ownership, "release", _anybody_releases)
    ),
    Saboteur(
        "token-of-any-submission",
        ("LED-6", "LED-8"),
        "test_a_lane_is_owned_for_one_submission",
        WrongRule(lanes, "owns_submission", _of_any_submission),
    ),
    Saboteur(
        "token-outlives-a-takeover",
        ("LED-4", "LED-6"),
        "test_taking_the_thread_over_ends_the_ownership",
        WrongRule(lanes, "owns", _survives_takeover),
    ),
    Saboteur(
        "other-marker-agrees",
        ("LED-7", "LED-10"),
        "test_another_marker_is_a_conflict",
        WrongRule(ownership, "other_marker", _marker_agrees),
    ),
    Saboteur(
        "marker-overwritten",
        ("LED-7",),
        "test_another_marker_is_a_conflict",
        in_unit(ownership, "mark_input_applied", MarkerReplaced),
    ),
    Saboteur(
        "same-marker-conflicts",
        ("LED-7", "LED-10"),
        "test_the_same_marker_again_changes_nothing",
        WrongRule(ownership, "other_marker", _same_marker_conflicts),
    ),
    Saboteur(
        "marker-trusted",
        ("LED-7", "LED-10"),
        "test_the_log_must_bear_the_marker_out",
        WrongRule(evidence, "require_input_at", _marker_trusted),
    ),
)
