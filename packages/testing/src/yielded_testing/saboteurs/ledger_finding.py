"""Saboteurs of looking: scans, snapshots, lanes with claimable work (LED-15, LED-17)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from yielded_core.ledger import lane as lanes
from yielded_core.ledger.operations import reading
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Ledger

if TYPE_CHECKING:
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerEvidence
    from yielded_core.ports.ledger import SubmissionLedger
    from yielded_core.ports.values import Tail
    from yielded_core.ports.work import (
        Admission,
        Admitted,
        Grant,
        RecoverySnapshot,
        RunnableLane,
        Submission,
    )
    from yielded_core.records.identifiers import OwnershipToken, SubmissionId, ThreadId
    from yielded_testing.saboteurs.ledger_units import Rule


class ScanByPlace(Ledger):
    """A scan is ordered by place in the lane, then by thread."""

    async def scan_nonterminal(self, **named: Any) -> tuple[Submission, ...]:  # noqa: ANN401
        page = await self.inner.scan_nonterminal(**named)
        return tuple(sorted(page, key=lambda one: (one.queue_sequence, one.thread_id.encode())))


class ScanOfTheSettled(Ledger):
    """A scan lists settled work too."""

    def __init__(self, inner: SubmissionLedger) -> None:
        super().__init__(inner)
        self._threads: dict[ThreadId, None] = {}

    async def admit(self, work: Admission) -> Admitted:
        receipt = await self.inner.admit(work)
        self._threads[receipt.thread_id] = None
        return receipt

    async def scan_nonterminal(self, **named: Any) -> tuple[Submission, ...]:  # noqa: ANN401
        page = await self.inner.scan_nonterminal(**named)
        if named:
            return page
        pages = [await self.inner.facts(thread) for thread in self._threads]
        listed = [one.submission for each in pages for one in each.facts]
        return (*page, *(one for one in listed if one.settled is not None))


class ScanRepeatsThePlace(Ledger):
    """A page of a scan begins with the place that it is asked to come after."""

    async def scan_nonterminal(
        self,
        *,
        after: tuple[ThreadId, int] | None = None,
        **named: Any,  # noqa: ANN401
    ) -> tuple[Submission, ...]:
        if after is not None and type(after[1]) is int and 0 < after[1] < 1_024:
            after = (after[0], after[1] - 1)
        return await self.inner.scan_nonterminal(after=after, **named)


class StaleTail(Ledger):
    """A snapshot has the tail of the first time that somebody looked."""

    def __init__(self, inner: SubmissionLedger) -> None:
        super().__init__(inner)
        self._tails: dict[ThreadId, Tail] = {}

    async def load_recovery_snapshot(
        self, thread: ThreadId, submission: SubmissionId
    ) -> RecoverySnapshot:
        found = await self.inner.load_recovery_snapshot(thread, submission)
        return replace(found, tail=self._tails.setdefault(thread, found.tail))


class ShowsTheToken(Ledger):
    """A snapshot names the owner by its token."""

    def __init__(self, inner: SubmissionLedger) -> None:
        super().__init__(inner)
        self._tokens: dict[ThreadId, OwnershipToken] = {}

    async def claim(
        self,
        thread: ThreadId,
        *,
        token: OwnershipToken,
        **named: Any,  # noqa: ANN401
    ) -> Grant | None:
        grant = await self.inner.claim(thread, token=token, **named)
        if grant is not None:
            self._tokens[thread] = token
        return grant

    async def load_recovery_snapshot(
        self, thread: ThreadId, submission: SubmissionId
    ) -> RecoverySnapshot:
        found = await self.inner.load_recovery_snapshot(thread, submission)
        owner, token = found.lane.owner, self._tokens.get(thread)
        if owner is None or token is None:
            return found
        shown = replace(owner, attempt_id=cast("Any", token))
        return replace(found, lane=replace(found.lane, owner=shown))


def _markers_trusted(right: Rule) -> Rule:
    """A snapshot says from the ledger's own markers what the log holds."""

    def wrong(unit: LedgerEvidence, thread: ThreadId, submission: SubmissionId) -> object:
        found: RecoverySnapshot = right(unit, thread, submission)
        known = found.submission
        return replace(
            found,
            input_sequence=known.input_sequence,
            settlement_published=known.settled is not None,
        )

    return wrong


def _no_children(right: Rule) -> Rule:
    """A snapshot tells of the children of a suspension, not of those that are attached."""

    def wrong(suspended: object, _reservations: object) -> object:
        return right(suspended, ())

    return wrong


# --- Runnable ------------------------------------------------------------------------------------


class NewestFirst(Ledger):
    """Lanes with claimable work are found newest first."""

    async def runnable(self, **named: Any) -> tuple[RunnableLane, ...]:  # noqa: ANN401
        return tuple(reversed(await self.inner.runnable(**named)))


class FirstPageAgain(Ledger):
    """Finding lanes forgets the place to begin after where two waited equally long."""

    async def runnable(
        self,
        *,
        after: RunnableLane | None = None,
        **named: Any,  # noqa: ANN401
    ) -> tuple[RunnableLane, ...]:
        found = await self.inner.runnable(after=after, **named)
        return tuple(one for one in found if after is None or one.since != after.since)


def _leased_too(right: Rule) -> Rule:
    """A lane with a live lease is found as if nobody owned it."""

    def wrong(lane: LaneState, head: Submission | None, before: int | None, now: int) -> object:
        return right(lane._replace(ownership=None), head, before, now)

    return wrong


def _parked_too(right: Rule) -> Rule:
    """A lane is found whatever bars its head."""

    def wrong(lane: LaneState, head: Submission | None, before: int | None, now: int) -> object:
        return right(lane, head and replace(head, state="ready"), before, now)

    return wrong


def _place_lost(right: Rule) -> Rule:
    """A lane that waits gets younger with everything that happens to it."""

    def wrong(lane: LaneState, head: Submission | None, _before: int | None, now: int) -> object:
        return right(lane, head, None, now)

    return wrong


_OLDEST: Final = "test_lanes_are_found_oldest_first"

SABOTEURS: Final = (
    Saboteur("scan-by-place", ("LED-15",), "test_pages_give_each_submission_once", ScanByPlace),
    Saboteur(
        "scan-of-the-settled",
        ("LED-15",),
        "test_a_scan_shows_what_a_lookup_shows",
        ScanOfTheSettled,
    ),
    Saboteur(
        "scan-repeats-a-place",
        ("LED-15",),
        "test_pages_give_each_submission_once",
        ScanRepeatsThePlace,
    ),
    Saboteur(
        "snapshot-of-an-old-tail",
        ("LED-15", "RCV-4", "RCV-5", "RCV-8", "RCV-9", "RCV-10"),
        "test_a_snapshot_has_everything",
        StaleTail,
    ),
    Saboteur("snapshot-shows-the-token", ("LED-15",), "test_no_read_shows_a_token", ShowsTheToken),
    Saboteur(
        "snapshot-trusts-markers",
        ("LED-8", "LED-15", "RCV-2", "RCV-3", "RCV-11"),
        "test_a_snapshot_asks_the_log",
        WrongRule(reading, "load_recovery_snapshot", _markers_trusted),
    ),
    Saboteur(
        "snapshot-without-attached-children",
        ("LED-15", "RCV-4", "RCV-8"),
        "test_recovery_sees_which_children_are_published",
        WrongRule(reading, "_children", _no_children),
    ),
    Saboteur("newest-lane-first", ("LED-17",), _OLDEST, NewestFirst),
    Saboteur("equally-old-lanes-lost", ("LED-17",), _OLDEST, FirstPageAgain),
    Saboteur(
        "leased-lanes-found",
        ("LED-17",),
        "test_an_owned_lane_is_found_when_its_lease_ends",
        WrongRule(lanes, "runnable_since", _leased_too),
    ),
    Saboteur(
        "barred-lanes-found",
        ("LED-17",),
        "test_a_barred_lane_is_not_found",
        WrongRule(lanes, "runnable_since", _parked_too),
    ),
    Saboteur(
        "waiting-lanes-get-younger",
        ("LED-17",),
        "test_waiting_lanes_keep_their_places",
        WrongRule(lanes, "runnable_since", _place_lost),
    ),
)
