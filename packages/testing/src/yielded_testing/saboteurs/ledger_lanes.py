"""Saboteurs of owning a lane: claims and handoffs (LED-4, LED-5, LED-16)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core.ledger import lane as lanes
from yielded_core.ledger.operations import ownership
from yielded_testing.saboteurs.ledger_units import WrongUnit, in_unit
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ledger.lane import LaneState, Ownership
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import ClaimHandoff, Grant, State, Submission
    from yielded_core.records.identifiers import (
        AttemptId,
        OwnershipToken,
        ThreadId,
    )
    from yielded_testing.saboteurs.ledger_units import Rule


class LeaseOfTheHead(WrongUnit):
    """A claim looks at the lease of the submission that it takes, not at that of the lane."""

    def lane(self, thread: ThreadId) -> LaneState | None:
        found = self.inner.lane(thread)
        if found is None or found.owner is None:
            return found
        heads = self.inner.heads(found, 1)
        other = heads and heads[0].submission_id != found.owner.submission_id
        return found._replace(ownership=None) if other else found


class HeadReadBefore(Ledger):
    """A claim reads the head first, and takes that one once the lease was found to be free."""

    async def claim(self, thread: ThreadId, **named: Any) -> Grant | None:  # noqa: ANN401
        seen = await self.inner.scan_nonterminal(after=(thread, 0), limit=1)
        await asyncio.sleep(0)
        grant = await self.inner.claim(thread, **named)
        if grant is None or grant.replayed or ("handoff" in named and named["handoff"] is not None):
            return grant
        passed = seen and seen[0].thread_id == thread and seen[0].state in {"ready", "running"}
        return replace(grant, submission=replace(seen[0], state="running")) if passed else grant


class GrantsTogether(Ledger):
    """Claims that run at the same time are all granted what the first one got."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - any ledger
        super().__init__(inner)
        self._running = 0
        self._granted: dict[ThreadId, Grant] = {}

    async def claim(
        self,
        thread: ThreadId,
        *,
        attempt: AttemptId,
        token: OwnershipToken,
        **named: Any,  # noqa: ANN401
    ) -> Grant | None:
        self._running += 1
        try:
            grant = await self.inner.claim(thread, attempt=attempt, token=token, **named)
            if grant is not None:
                self._granted[thread] = grant
            await asyncio.sleep(0)
            if grant is None and self._running > 1 and thread in self._granted:
                grant = replace(self._granted[thread], attempt_id=attempt)
            return grant
        finally:
            self._running -= 1
            if self._running == 0:
                self._granted.clear()


def _skipping(state: State, sentence: str) -> WrongRule:
    def wrong(right: Rule) -> Rule:
        def skipped(submission: Submission) -> bool:
            return submission.state == state or right(submission)

        return skipped

    wrong.__doc__ = sentence
    return WrongRule(lanes, "is_skipped", wrong)


def _skips_aborted(_right: Rule) -> Rule:
    """A claim passes over unknown work although its abort is asked for."""

    def wrong(submission: Submission) -> bool:
        return submission.state == "unknown"

    return wrong


def _same_epoch(right: Rule) -> Rule:
    """A claim leaves the epoch as it is where it takes over from an owner whose lease ran out."""

    def wrong(found: LaneState, *arguments: object) -> LaneState:
        taken: LaneState = right(found, *arguments)
        if found.owner is None:
            return taken
        held = taken.ownership
        return taken._replace(
            epoch=found.epoch, ownership=None if held is None else held._replace(epoch=found.epoch)
        )

    return wrong


def _two_epochs(right: Rule) -> Rule:
    """A claim raises the epoch by two where it takes over: once for the end of the old lease."""

    def wrong(found: LaneState, *arguments: object) -> object:
        ended = found.owner is not None
        return right(found._replace(epoch=found.epoch + ended), *arguments)

    return wrong


def _no_replay(_right: Rule) -> Rule:
    """A repeated claim is not told from a new one, so that its own lease bars it."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


def _mints_again(right: Rule) -> Rule:
    """A repeated claim is granted anew, at another epoch."""

    def wrong(
        unit: LedgerUnit, thread: ThreadId, attempt: AttemptId, token: OwnershipToken, *rest: object
    ) -> object:
        class Repeated(WrongUnit):
            def lane(self, thread: ThreadId) -> LaneState | None:
                found = self.inner.lane(thread)
                if found is None or lanes.replayed_claim(found, attempt, token) is None:
                    return found
                return found._replace(ownership=None)

        return right(Repeated(unit), thread, attempt, token, *rest)

    return wrong


def _any_attempt(_right: Rule) -> Rule:
    """A claim is a replay when its token is known, whatever attempt it is."""

    def wrong(found: LaneState, _attempt: AttemptId, token: OwnershipToken) -> Ownership | None:
        return lanes.owns(found, token)

    return wrong


def _any_token(_right: Rule) -> Rule:
    """A claim is a replay when its attempt is known, whatever its token."""

    def wrong(found: LaneState, attempt: AttemptId, _token: OwnershipToken) -> Ownership | None:
        owner = found.owner
        return owner if owner is not None and owner.attempt_id == attempt else None

    return wrong


# --- Handoff -------------------------------------------------------------------------------------


def _any_epoch(right: Rule) -> Rule:
    """A handoff is granted whatever epoch it names."""

    def wrong(
        found: LaneState, heads: Sequence[Submission], handoff: ClaimHandoff | None
    ) -> object:
        return right(found, heads, handoff and replace(handoff, epoch=found.epoch))

    return wrong


def _any_target(right: Rule) -> Rule:
    """A handoff takes what is next, whatever target it names."""

    def wrong(
        found: LaneState, heads: Sequence[Submission], handoff: ClaimHandoff | None
    ) -> object:
        if handoff is not None and len(heads) > len(handoff.deferred):
            target = heads[len(handoff.deferred)].submission_id
            handoff = replace(handoff, target=target)
        return right(found, heads, handoff)

    return wrong


def _any_order(right: Rule) -> Rule:
    """The deferred submissions of a handoff are compared as a set, not in their order."""

    def wrong(
        found: LaneState, heads: Sequence[Submission], handoff: ClaimHandoff | None
    ) -> object:
        if handoff is not None:
            names = tuple(one.submission_id for one in heads[: len(handoff.deferred)])
            same = sorted(names) == sorted(handoff.deferred)
            handoff = replace(handoff, deferred=names) if same else handoff
        return right(found, heads, handoff)

    return wrong


def _deferred_as(sentence: str, **fields: Any) -> WrongRule:  # noqa: ANN401 - of a submission
    def wrong(right: Rule) -> Rule:
        def target(
            found: LaneState, heads: Sequence[Submission], handoff: ClaimHandoff | None
        ) -> object:
            count = 0 if handoff is None else len(handoff.deferred)
            seen = (*(replace(one, **fields) for one in heads[:count]), *heads[count:])
            return right(found, seen, handoff)

        return target

    wrong.__doc__ = sentence
    return WrongRule(lanes, "claim_target", wrong)


def _forgets_deferrals(_right: Rule) -> Rule:
    """Nothing says which submissions a handoff passed."""

    def wrong(_unit: LedgerUnit, found: LaneState, _handoff: ClaimHandoff) -> LaneState:
        return found

    return wrong


def _not_released(right: Rule) -> Rule:
    """A deferred head need not be released, a lease of its own that ran out is enough."""

    def wrong(
        found: LaneState, heads: Sequence[Submission], handoff: ClaimHandoff | None
    ) -> object:
        return right(found._replace(ownership=None), heads, handoff)

    return wrong


_BARRIER: Final = "test_a_barrier_stops_every_claim"
_REPLAY: Final = "test_repeating_a_claim_replays_its_grant"
_LIVE: Final = "test_a_live_lease_admits_no_other_claim"

SABOTEURS: Final = (
    Saboteur(
        "lease-of-the-head",
        ("LED-4", "LED-5"),
        "test_a_live_lease_counts_wherever_it_is",
        in_unit(ownership, "claim", LeaseOfTheHead),
    ),
    Saboteur(
        "head-read-before-the-lease",
        ("LED-4", "LED-16"),
        "test_settlement_and_claim_race",
        HeadReadBefore,
    ),
    Saboteur(
        "grants-together", ("LED-16",), "test_each_of_many_lanes_has_one_owner", GrantsTogether
    ),
    Saboteur(
        "suspended-head-skipped",
        ("LED-4", "LED-17"),
        _BARRIER,
        _skipping("suspended", "A claim passes over a suspended head."),
    ),
    Saboteur(
        "admitted-gap-skipped",
        ("LED-4", "LED-17"),
        _BARRIER,
        _skipping("admitted", "A claim passes over work that is not ready yet."),
    ),
    Saboteur(
        "joining-head-skipped",
        ("LED-4", "LED-17"),
        _BARRIER,
        _skipping("joining", "A claim passes over a joining head."),
    ),
    Saboteur(
        "joined-head-skipped",
        ("LED-4", "LED-17"),
        _BARRIER,
        _skipping("joined", "A claim passes over a joined head."),
    ),
    Saboteur(
        "aborted-unknown-skipped",
        ("LED-4", "LED-17"),
        "test_unknown_work_that_is_to_be_aborted_is_claimed",
        WrongRule(lanes, "is_skipped", _skips_aborted),
    ),
    Saboteur(
        "epoch-not-raised",
        ("LED-4", "LED-16"),
        "test_a_claim_raises_the_epoch_by_one",
        WrongRule(lanes, "claimed", _same_epoch),
    ),
    Saboteur(
        "epoch-raised-by-two",
        ("LED-4", "LED-16"),
        "test_a_claim_raises_the_epoch_by_one",
        WrongRule(lanes, "claimed", _two_epochs),
    ),
    Saboteur(
        "claim-not-repeatable",
        ("LED-4",),
        _REPLAY,
        WrongRule(lanes, "replayed_claim", _no_replay),
    ),
    Saboteur(
        "replay-mints-a-grant", ("LED-4",), _REPLAY, WrongRule(ownership, "claim", _mints_again)
    ),
    Saboteur(
        "replay-of-any-attempt", ("LED-4",), _LIVE, WrongRule(lanes, "replayed_claim", _any_attempt)
    ),
    Saboteur(
        "replay-of-any-token", ("LED-4",), _LIVE, WrongRule(lanes, "replayed_claim", _any_token)
    ),
    Saboteur(
        "handoff-of-any-epoch",
        ("LED-5",),
        "test_the_epoch_must_be_the_current_one",
        WrongRule(lanes, "claim_target", _any_epoch),
    ),
    Saboteur(
        "handoff-to-any-target",
        ("LED-5",),
        "test_the_target_is_exactly_the_next",
        WrongRule(lanes, "claim_target", _any_target),
    ),
    Saboteur(
        "handoff-in-any-order",
        ("LED-5",),
        "test_several_heads_are_deferred_in_order",
        WrongRule(lanes, "claim_target", _any_order),
    ),
    Saboteur(
        "handoff-of-any-state",
        ("LED-5",),
        "test_a_head_that_is_not_applied_is_not_deferred",
        _deferred_as("A head of any state may be deferred.", state="input-applied"),
    ),
    Saboteur(
        "handoff-past-an-abort",
        ("LED-5",),
        "test_a_head_that_is_to_be_aborted_is_not_deferred",
        _deferred_as("A head that is to be aborted may be deferred.", abort=None),
    ),
    Saboteur(
        "handoff-of-an-owned-head",
        ("LED-5",),
        "test_an_owned_head_is_not_deferred",
        WrongRule(lanes, "claim_target", _not_released),
    ),
    Saboteur(
        "handoff-not-kept",
        ("LED-5", "CRT-6", "ARC-2", "ARC-4"),
        "test_a_deferred_head_says_since_when",
        WrongRule(ownership, "_defer", _forgets_deferrals),
    ),
)
