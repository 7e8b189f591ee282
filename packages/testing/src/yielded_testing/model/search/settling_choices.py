"""Which commands about waiting and settling are tried: fitting, too early, too late, or again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from yielded_core.ports.work import Authority, Outcome, Resolution
from yielded_testing.model.commands.lanes import RequestAbort
from yielded_testing.model.commands.settling import (
    AttachChild,
    BeginRelease,
    Finalize,
    Publish,
    ReleaseChild,
    ReserveChild,
)
from yielded_testing.model.commands.waiting import (
    Decide,
    MarkUnknown,
    RecordChildSettled,
    Resolve,
    Suspend,
)
from yielded_testing.model.reference.settling import settlement_of
from yielded_testing.model.search.chooser import CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import Work
    from yielded_testing.model.search.chooser import Chooser

_AUTHORITIES: Final[tuple[Authority, ...]] = get_args(Authority)
_OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
_RESOLUTIONS: Final[tuple[Resolution, ...]] = get_args(Resolution)


def suspend(choose: Chooser) -> Command:
    """Suspend what is owned and active, what cannot be suspended, or what is not owned."""
    queue, _, label = choose.work(
        lambda work: choose.owns(work) and work.active,
        lambda work: choose.owns(work) and not work.active,
        lambda work: work.active and not choose.owns(work),
    )
    token = choose.held_token(queue)
    children = [each.label for each in choose.works(lambda work: work.thread != queue.thread)]
    if children and choose.chance(2):
        named = dict.fromkeys((choose.one(children), choose.one(children)))
        return Suspend(label, token, children=tuple(named), despite_abort=choose.chance(2))
    calls = dict.fromkeys((choose.one(CALLS), choose.one(CALLS)))
    return Suspend(label, token, approvals=tuple(calls))


def decide(choose: Chooser) -> Command:
    """Decide about a call that is waited for, that is decided, that nobody knows, or too late."""
    _, work, label = choose.work(
        lambda each: bool(each.waits and each.waits.approvals),
        lambda each: each.open and bool(each.approvals),
        lambda each: each.open and not each.approvals,
        lambda each: not each.open,
    )
    waited = () if work is None or work.waits is None else work.waits.approvals
    decided = [] if work is None else sorted(work.approvals)
    call = choose.rather(waited or decided, CALLS)
    decision = choose.one(("approved", "denied", "approved"))
    return Decide(label, call, decision, choose.one(("ann", "bob")))


def record_child_settled(choose: Chooser) -> Command:
    """Tell a parent of a child that it waits for, or of another one, published or not."""
    _, work, label = choose.work(
        lambda each: bool(each.waits and each.waits.children),
        lambda each: not each.waits,
    )
    children = () if work is None or work.waits is None else work.waits.children
    others = choose.works(choose.is_published) + choose.works(lambda _: True)
    labels = [each.label for each in others] or ["a0"]
    return RecordChildSettled(
        label, choose.rather([choose.label_of(child) for child in children], labels)
    )


def mark_unknown(choose: Chooser) -> Command:
    """Park what is active, or has such calls already, or what cannot be parked."""
    label = choose.work(
        lambda work: work.active,
        lambda work: work.open and bool(work.unresolved),
        lambda work: work.open and bool(work.calls) and not work.unresolved,
        lambda work: work.state in {"admitted", "ready", "joining", "joined"},
        lambda work: not work.open,
    )[2]
    calls = dict.fromkeys((choose.one(CALLS), choose.one(CALLS)))
    return MarkUnknown(label, tuple(calls), choose.one(("", "lost")))


def resolve(choose: Chooser) -> Command:
    """Resolve a call of unknown outcome, a resolved one, an unknown one, or too late."""
    _, work, label = choose.work(
        lambda each: each.open and bool(each.unresolved),
        lambda each: each.open and bool(each.resolutions),
        lambda each: not each.open and bool(each.calls),
        lambda each: not each.open,
    )
    marked = [] if work is None else sorted(work.calls)
    unresolved = [] if work is None else sorted(work.unresolved)
    call = choose.rather(choose.one((unresolved or marked, marked)), CALLS)
    resolution = choose.one(_RESOLUTIONS)
    result = choose.one((0, 1, None)) if resolution == "completed-with-result" else None
    return Resolve(label, call, resolution, result, choose.one(("ann", "bob")))


def request_abort(choose: Chooser) -> Command:
    """Ask for an abort, for the first time, again, of a guest, or too late."""
    label = choose.work(
        lambda work: work.open and work.abort is None,
        lambda work: work.open and work.abort is not None,
        lambda work: work.state in {"suspended", "unknown"},
        lambda work: work.state in {"joining", "joined"},
        lambda work: not work.open,
    )[2]
    return RequestAbort(label, choose.one(("ann", "bob")))


def publish(choose: Chooser) -> Command:
    """Publish a settlement, by the authority that there is, or with one thing wrong, or again."""
    queue, work, label = choose.work(
        choose.owns,
        lambda each: each.state == "joined" and _host_of(choose, each) is not None,
        lambda each: each.state == "joined",
        lambda each: each.state in {"admitted", "ready"} and each.abort is not None,
        lambda each: each.state in {"admitted", "ready"} and each.abort is None,
        choose.is_published,
        lambda each: each.open and not choose.owns(each),
    )
    again = work is not None and choose.is_published(work)
    others = ("authority", "outcome", "receipt")
    wrong = choose.one(("nothing", "token") if again else ("nothing", "token", *others))
    authority: Authority = "owned"
    outcomes: Sequence[Outcome] = _OUTCOMES
    if work is not None and work.state in {"admitted", "ready"}:
        authority, outcomes = "queued-abort", ("aborted",)
    elif work is not None and work.state == "joined":
        host = _host_of(choose, work)
        authority, outcomes = "joined", _OUTCOMES if host is None else (host,)
    publisher = None if work is None else work.publisher
    token = publisher or (None if queue.held is None else queue.held.token)
    return Publish(
        label,
        choose.token() if wrong == "token" else choose.token(token),
        choose.one(_AUTHORITIES) if wrong == "authority" else authority,
        choose.one(_OUTCOMES if wrong == "outcome" else outcomes),
        choose.one((0, 0, 1)),
        finalize=choose.chance(2),
        wrong_receipt=wrong == "receipt",
    )


def _host_of(choose: Chooser, work: Work) -> Outcome | None:
    """Return how the host of some work was settled, None where that is not published."""
    found = None if work.host is None else settlement_of(choose.queue_of(work), work.host)
    return None if found is None else found.outcome


def finalize(choose: Chooser) -> Command:
    """Finalize what is published, what is finalized, or what is neither."""
    label = choose.work(
        lambda work: work.open and choose.is_published(work),
        lambda work: not work.open,
        lambda work: not choose.is_published(work),
    )[2]
    return Finalize(label, another=choose.chance(3))


def reservation(choose: Chooser) -> Command:
    """Change a reservation, by its owner or not."""
    queue, work, label = choose.work(
        choose.owns,
        lambda each: choose.owns(each) and bool(each.reservations),
        lambda each: bool(each.reservations),
        lambda each: not each.open and bool(each.reservations),
    )
    token = choose.held_token(queue)
    call = choose.rather([] if work is None else sorted(work.reservations), CALLS)
    step = choose.one(("reserve", "attach", "begin", "release"))
    if step == "reserve":
        return ReserveChild(label, token, call, choose.one(("0", "1")))
    if step == "attach":
        children = [each.label for each in choose.works(lambda _: True)] or ["a0"]
        return AttachChild(label, token, call, choose.one(children))
    if step == "begin":
        return BeginRelease(label, token, call, choose.one((0, 0, 1)))
    return ReleaseChild(label, token, call)
