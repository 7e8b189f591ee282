"""Saboteurs of joining the run of a host (LED-10)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.ledger import transitions
from yielded_core.ledger.operations import joining
from yielded_testing.saboteurs.ledger_settling import settlement_of_host
from yielded_testing.saboteurs.ledger_units import WrongUnit, in_unit, told
from yielded_testing.saboteurs.model import Saboteur, WrongRule

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.transitions import Facts, Operation
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import JoiningGuard, State, Submission
    from yielded_core.records.identifiers import OwnershipToken, SubmissionId, ThreadId
    from yielded_testing.saboteurs.ledger_units import Rule


class PastAGap(WrongUnit):
    """Joining takes what is ready beyond work that is not."""

    def behind(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        found = self.inner.behind(lane, sequence, count)
        return tuple(one for one in found if one.state != "admitted")


class ForgetsTheTaken(WrongUnit):
    """Joining gives what it takes now, and not what it took before."""

    def behind(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        found = self.inner.behind(lane, sequence, count)
        return tuple(one for one in found if one.state != "joining")


def _unlimited(right: Rule) -> Rule:
    """Joining takes everything that is ready, however little was asked for."""

    def wrong(
        unit: LedgerUnit, thread: ThreadId, host: SubmissionId, token: OwnershipToken, _limit: int
    ) -> object:
        return right(unit, thread, host, token, 1_024)

    return wrong


def _aborted_guests(right: Rule) -> Rule:
    """Joining takes ready work although its abort is asked for."""

    def wrong(asked: Operation, state: State, facts: Facts) -> object:
        if asked == "join":
            facts = facts._replace(aborted=False)
        return right(asked, state, facts)

    return wrong


def _any_host(right: Rule) -> Rule:
    """A guarded revert does not compare the host that it names."""

    def wrong(
        unit: LedgerUnit, thread: ThreadId, name: SubmissionId, guard: JoiningGuard | None
    ) -> object:
        lane = unit.lane(thread)
        found = None if lane is None else unit.submission(lane, name)
        if guard is not None and found is not None and found.host is not None:
            guard = replace(guard, host=found.host)
        return right(unit, thread, name, guard)

    return wrong


def _published_host(right: Rule) -> Rule:
    """A host counts as settled once its settlement is published."""

    def wrong(unit: LedgerUnit, lane: LaneState, guest: Submission) -> object:
        return right(unit, lane, guest) or settlement_of_host(unit, lane, guest) is not None

    return wrong


def _host_never_settles(_right: Rule) -> Rule:
    """A guest is left alone without its host's token, though the host is settled."""

    def wrong(_unit: LedgerUnit, _lane: LaneState, _guest: Submission) -> bool:
        return False

    return wrong


class KeepsTheHost(WrongUnit):
    """Reverted work is ready again, and still linked to its host."""

    def save_submission(self, lane: LaneState, found: Submission) -> None:
        before = self.inner.submission(lane, found.submission_id)
        self.inner.save_submission(lane, replace(found, host=before and before.host))


def _joining(name: str, caught_by: str, mistake: WrongRule) -> Saboteur:
    return Saboteur(name, ("LED-10",), caught_by, mistake)


SABOTEURS: Final = (
    _joining(
        "joins-past-a-gap",
        "test_an_admitted_row_breaks_the_prefix",
        in_unit(joining, "claim_joining", PastAGap),
    ),
    _joining(
        "joining-forgets-the-taken",
        "test_taken_work_waits_for_the_next_owner_of_its_host",
        in_unit(joining, "claim_joining", ForgetsTheTaken),
    ),
    _joining(
        "joining-limit-ignored",
        "test_no_more_are_taken_than_asked_for",
        WrongRule(joining, "claim_joining", _unlimited),
    ),
    _joining(
        "joins-aborted-work",
        "test_work_that_is_to_be_aborted_is_not_taken",
        WrongRule(transitions, "step", _aborted_guests, ("claim_joining",)),
    ),
    _joining(
        "revert-of-what-is-in-the-log",
        "test_work_whose_input_is_in_the_log_stays",
        told(
            "revert-joining",
            "revert_joining",
            "A guest is given back although the log holds its input.",
            in_log=False,
        ),
    ),
    _joining(
        "revert-under-a-host",
        "test_a_host_at_work_keeps_its_guests",
        told(
            "revert-joining",
            "revert_joining",
            "Recovery takes guests from a host that somebody works on.",
            host_at_work=False,
        ),
    ),
    _joining(
        "revert-of-any-host",
        "test_another_host_s_link_is_left_alone",
        WrongRule(joining, "revert_joining", _any_host),
    ),
    _joining(
        "revert-with-any-token",
        "test_an_unsettled_host_needs_its_current_token",
        told(
            "revert-joining",
            "revert_joining",
            "A guarded revert does not compare the token of the host.",
            owned=True,
        ),
    ),
    _joining(
        "published-host-is-settled",
        "test_a_published_host_is_not_a_settled_one",
        WrongRule(joining, "_host_settled", _published_host),
    ),
    _joining(
        "settled-host-needs-a-token",
        "test_a_settled_host_needs_no_token",
        WrongRule(joining, "_host_settled", _host_never_settles),
    ),
    _joining(
        "reverted-work-keeps-its-host",
        "test_joining_work_goes_back_to_the_lane",
        in_unit(joining, "revert_joining", KeepsTheHost),
    ),
)
