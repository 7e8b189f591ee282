"""The search finds adapters that are wrong in one small thing, within a bounded number of tries."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from yielded_core.errors import AdmissionRefused, OwnershipLost
from yielded_core.ledger import lane as lanes
from yielded_core.ledger import recovery_evidence
from yielded_core.ledger.operations import admission, joining, unknown, waiting
from yielded_core.ledger.operations.evidence import lane_and_submission
from yielded_core.log import append, placement
from yielded_core.ports.work import Suspension
from yielded_storage_memory import open_storage
from yielded_storage_memory.unit import MemoryUnit
from yielded_testing.model import Adapter, Disagreement, check_ledger, commands, replay
from yielded_testing.saboteurs.model import WrongRule

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import ModuleType

    from yielded_core.ledger.lane import LaneState, Ownership
    from yielded_core.ledger.operations.admission import PreparedAdmission
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import (
        AbortAccepted,
        Admitted,
        ApprovalDecision,
        ClaimHandoff,
        JoiningGuard,
        RevertAnswer,
        Submission,
    )
    from yielded_core.records.identifiers import OwnershipToken, SubmissionId, ThreadId
    from yielded_core.storage import Storage
    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.search.chooser import Theme

EXAMPLES: Final = 200
BEGIN: Final = 1
"""Where every search begins, so that it tries the same sequences in every run."""


def _open(folder: Path, clock: Callable[[], int]) -> Storage:
    del folder
    return open_storage(clock=clock)


RIGHT: Final = Adapter(_open, survives_reopening=False)


@contextmanager
def _replaced(owner: type, name: str, wrong: object) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, wrong)
        yield


# --- rules ---


def _is_owned(lane: LaneState, now: int) -> bool:
    """A lease is live at the instant of its end."""
    return lane.owner is not None and lane.owner.expires_at >= now


def _owner(lane: LaneState) -> Ownership | None:
    """A takeover leaves the owner in place."""
    return lane.ownership


def _passes_suspended(right: Callable[[Submission], bool]) -> Callable[[Submission], bool]:
    """A claim passes over suspended work."""
    return lambda submission: right(submission) or submission.state == "suspended"


def _renews_shorter(_right: object) -> Callable[..., LaneState]:
    """A renewal ends the lease when it says, also where it ran longer."""

    def wrong(lane: LaneState, token: OwnershipToken, until: int) -> LaneState:
        held = lanes.owns(lane, token)
        if held is None:
            raise OwnershipLost(lane.thread_id, lane.epoch)
        changed = lane.changed()
        return changed._replace(ownership=held._replace(expires_at=until))

    return wrong


def _keeps_epoch(right: Callable[..., LaneState]) -> Callable[..., LaneState]:
    """A claim leaves the epoch as it is, so that nobody is fenced."""

    def wrong(lane: LaneState, *arguments: object) -> LaneState:
        after = right(lane, *arguments)
        held = None if after.ownership is None else after.ownership._replace(epoch=lane.epoch)
        return after._replace(epoch=lane.epoch, ownership=held)

    return wrong


def _any_epoch(right: Callable[..., Submission | None]) -> Callable[..., Submission | None]:
    """A handoff is granted whatever epoch it names."""

    def wrong(
        lane: LaneState, heads: tuple[Submission, ...], handoff: ClaimHandoff | None
    ) -> Submission | None:
        current = None if handoff is None else replace(handoff, epoch=lane.epoch)
        return right(lane, heads, current)

    return wrong


def _no_fence(_right: object) -> Callable[..., None]:
    """An append is accepted under any epoch."""
    return lambda *_: None


def _anywhere(_right: object) -> Callable[..., None]:
    """What a thread is may be said anywhere in its log."""
    return lambda *_: None


def _waits_for_nothing(_right: object) -> Callable[..., Suspension]:
    """Recovery does not see what suspended work waits for."""
    return lambda *_: Suspension()


def _all_approved(_right: object) -> Callable[..., bool]:
    """A denial does not cover a batch while a call of it is undecided."""

    def wrong(calls: tuple[str, ...], decisions: tuple[ApprovalDecision, ...]) -> bool:
        return set(calls) <= {each.tool_call_id for each in decisions}

    return wrong


def _any_result(_right: object) -> Callable[..., bool]:
    """What is told need not agree with the committed result."""
    return lambda *_: True


# --- operations ---


def _group_first(right: Callable[..., Admitted]) -> Callable[..., Admitted]:
    """The group is looked at before a replay is answered."""

    def wrong(unit: LedgerUnit, work: PreparedAdmission) -> Admitted:
        lane, group = unit.lane(work.thread_id), work.admission.group
        occupant = None if lane is None or group is None else unit.occupant(lane, group)
        if occupant is not None:
            raise AdmissionRefused(work.thread_id, occupant, "occupied")
        return right(unit, work)

    return wrong


def _last_author(right: Callable[..., AbortAccepted]) -> Callable[..., AbortAccepted]:
    """The last author of an abort is kept, not the first."""

    def wrong(
        unit: LedgerUnit, thread: ThreadId, submission: SubmissionId, *said: str
    ) -> AbortAccepted:
        lane, found = lane_and_submission(unit, thread, submission)
        if found.abort is not None and found.state != "settled":
            unit.save_submission(lane, replace(found, abort=None))
        return right(unit, thread, submission, *said)

    return wrong


def _unguarded(right: Callable[..., RevertAnswer]) -> Callable[..., RevertAnswer]:
    """The guard of a reversal is not looked at."""

    def wrong(
        unit: LedgerUnit, thread: ThreadId, submission: SubmissionId, _guard: JoiningGuard | None
    ) -> RevertAnswer:
        return right(unit, thread, submission, None)

    return wrong


# --- the store ---


class _Everyone:
    """Equal to the digest of every token."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _publisher(_unit: MemoryUnit, _lane: LaneState, _submission: Submission) -> object:
    """Whoever asks published the settlement."""
    return _Everyone()


def _forgets_group(unit: MemoryUnit, lane: LaneState, group: str) -> SubmissionId | None:
    """A group is free once the settlement of its work is published."""
    for one in unit.behind(lane, 0, 256):
        if one.group == group and unit.publisher(lane, one) is None:
            return one.submission_id
    return None


class Wrong(NamedTuple):
    """A wrong adapter."""

    active: Callable[[], AbstractContextManager[None]]
    theme: Theme
    """What its owners do most where the mistake shows."""
    shows: str
    """What the disagreement must be about, as a pattern."""


def _rule(
    module: ModuleType, name: str, wrong: Callable[[Any], Any]
) -> Callable[[], AbstractContextManager[None]]:
    return WrongRule(module, name, wrong).active


def _member(owner: type, name: str, wrong: object) -> Callable[[], AbstractContextManager[None]]:
    return partial(_replaced, owner, name, wrong)


WRONG: Final = {
    "equal-time-is-live": Wrong(
        _member(lanes.LaneState, "is_owned", _is_owned),
        "settlement",
        "Claim|queue after Advance",
    ),
    "takeover-keeps-owner": Wrong(
        _member(lanes.LaneState, "owner", property(_owner)),
        "handoff",
        "after (Materialize|NewIncarnation)",
    ),
    "claim-passes-suspended": Wrong(
        _rule(lanes, "is_skipped", _passes_suspended),
        "approvals",
        "runnable|queue|the answer to Claim",
    ),
    "renewal-shortens": Wrong(
        _rule(lanes, "renewed", _renews_shorter),
        "settlement",
        "the answer to Renew",
    ),
    "claim-keeps-epoch": Wrong(
        _rule(lanes, "claimed", _keeps_epoch),
        "settlement",
        "the answer to Claim",
    ),
    "handoff-at-any-epoch": Wrong(
        _rule(lanes, "claim_target", _any_epoch),
        "handoff",
        "the answer to ClaimPast",
    ),
    "append-at-any-epoch": Wrong(
        _rule(append, "check_fence", _no_fence),
        "settlement",
        "the answer to Append",
    ),
    "identity-stands-anywhere": Wrong(
        _rule(placement, "check_placement", _anywhere),
        "calls",
        "the answer to Append",
    ),
    "recovery-waits-for-nothing": Wrong(
        _rule(recovery_evidence, "_waits_for", _waits_for_nothing),
        "calls",
        "assessment of",
    ),
    "denial-does-not-cover": Wrong(
        _rule(waiting, "approvals_covered", _all_approved),
        "approvals",
        "the answer to (Suspend|Decide)",
    ),
    "result-is-not-compared": Wrong(
        _rule(unknown, "_agrees_with_log", _any_result),
        "unknown",
        "the answer to Resolve",
    ),
    "group-before-replay": Wrong(
        _rule(admission, "admit", _group_first),
        "settlement",
        "the answer to Admit",
    ),
    "last-author-of-abort": Wrong(
        _rule(admission, "request_abort", _last_author),
        "abort",
        "the answer to RequestAbort",
    ),
    "reversal-without-guard": Wrong(
        _rule(joining, "revert_joining", _unguarded),
        "joining",
        "the answer to RevertJoining",
    ),
    "anybody-published": Wrong(
        _member(MemoryUnit, "publisher", _publisher),
        "settlement",
        "the answer to Publish",
    ),
    "publication-frees-group": Wrong(
        _member(MemoryUnit, "occupant", _forgets_group),
        "settlement",
        "the answer to Admit",
    ),
}


@pytest.mark.rule("CRT-11")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_adapter_is_found(name: str) -> None:
    wrong = WRONG[name]
    with wrong.active(), pytest.raises(Disagreement, match=wrong.shows):
        check_ledger(RIGHT, examples=EXAMPLES, themes=[wrong.theme], at=BEGIN, shorten=False)


@pytest.mark.rule("CRT-11")
def test_a_store_that_forgets_when_it_is_opened_again_is_found() -> None:
    forgetful = replace(RIGHT, survives_reopening=True)
    with pytest.raises(Disagreement, match="after Reopen"):
        check_ledger(forgetful, examples=EXAMPLES, at=BEGIN, shorten=False)


@pytest.mark.rule("CRT-11")
def test_what_is_printed_fails_again_and_nothing_can_be_left_out() -> None:
    with WrongRule(lanes, "renewed", _renews_shorter).active():
        with pytest.raises(Disagreement) as caught:
            check_ledger(RIGHT, examples=EXAMPLES, at=BEGIN)
        (printed,) = caught.value.__notes__
        program, at = printed.removeprefix("await replay(adapter, ").split(")\n", maxsplit=1)
        assert at == f"It is found again with at={BEGIN}."
        listed: list[Command] = eval(program, dict(vars(commands)))  # noqa: S307 - what was printed
        assert 5 <= len(listed) <= 12
        for left_out in range(len(listed)):
            asyncio.run(replay(RIGHT, [*listed[:left_out], *listed[left_out + 1 :]]))
        with pytest.raises(Disagreement) as again:
            asyncio.run(replay(RIGHT, listed))
        assert str(again.value) == str(caught.value)
    asyncio.run(replay(RIGHT, listed))
