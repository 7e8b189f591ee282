"""What the owner of a lane does next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from yielded_core.ports.work import Outcome, Resolution
from yielded_core.records.identifiers import ToolCallId
from yielded_testing.model.commands.lanes import (
    ClaimJoining,
    MarkInputApplied,
    MarkJoined,
    MarkReady,
    Release,
    Renew,
    RequestAbort,
    RevertJoining,
)
from yielded_testing.model.commands.settling import (
    AttachChild,
    BeginRelease,
    Publish,
    ReleaseChild,
    ReserveChild,
)
from yielded_testing.model.commands.store import Advance, Append
from yielded_testing.model.commands.waiting import MarkUnknown, Resolve, Suspend
from yielded_testing.model.search.chooser import CALLS, LEASES
from yielded_testing.model.search.ending import result, settlement
from yielded_testing.model.search.fact_choices import call_step

if TYPE_CHECKING:
    from collections.abc import Collection

    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import Held, Queue, Work
    from yielded_testing.model.search.chooser import Chooser, Theme

_RESOLUTIONS: Final[tuple[Resolution, ...]] = get_args(Resolution)[::-1]
_OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)


def owned_step(choose: Chooser, queue: Queue, held: Held) -> Command:
    """Return what the owner of a lane does next."""
    if choose.chance(12):
        return Advance(held.expires_at - choose.world.now)
    work = queue.work[held.submission]
    waiting = [each for each in queue.work.values() if each.state == "admitted"]
    if waiting and not choose.chance(2):
        aborts = choose.theme == "abort" and waiting[0].abort is None
        return RequestAbort(waiting[0].label) if aborts else MarkReady(waiting[0].label)
    if work.state == "running":
        return _input_step(choose, queue, held, work)
    if work.state == "unknown":
        settled = Publish(work.label, held.token, "owned", choose.one(_OUTCOMES), finalize=True)
        return choose.one((resolution(choose, work), Release(queue.thread, held.token), settled))
    has_guests = any(each.state == "joining" for each in queue.work.values())
    guests_first = has_guests and not choose.chance(3)
    step = _guest_step if guests_first else _turn
    return step(choose, queue, held, work)


def _guest_step(choose: Chooser, queue: Queue, held: Held, host: Work) -> Command:
    guests = [each for each in queue.work.values() if each.state == "joining"]
    if choose.chance(5):
        return RevertJoining(guests[-1].label, host.label, held.token)
    return _input_step(choose, queue, held, guests[0])


def _input_step(choose: Chooser, queue: Queue, held: Held, work: Work) -> Command:
    place = queue.at(f"input:{work.name}")
    if place is None:
        return Append(queue.thread, queue.epoch, queue.tail.sequence, "input", work.place)
    if work.state == "joining":
        return MarkJoined(work.label, place)
    if choose.theme == "unknown" and choose.chance(4):
        return MarkUnknown(work.label, _some(choose, work.calls))
    if choose.chance(8):
        return Release(queue.thread, held.token)
    return MarkInputApplied(work.label, held.token, place)


def _turn(choose: Chooser, queue: Queue, held: Held, work: Work) -> Command:
    """Return one of the things that an owner does once the input is applied."""
    token, label = held.token, work.label
    turns: dict[Theme, Command] = {
        "settlement": settlement(choose, work, token, "owned", choose.one(_OUTCOMES)),
        "approvals": Suspend(label, token, approvals=_some(choose, work.approvals)),
        "unknown": MarkUnknown(label, _some(choose, work.calls)),
        "reservations": _reservation(choose, work, token),
        "calls": call_step(choose, queue, held, work),
        "handoff": Release(queue.thread, token),
    }
    if work.abort is None:
        turns["abort"] = RequestAbort(label)
    behind = next((each for each in queue.heads if each.place > work.place), None)
    if behind is not None and behind.state == "ready":
        turns["joining"] = ClaimJoining(label, token, choose.one((16, 1)))
    others = choose.works(lambda each: each.thread != work.thread and each.open)
    if others:
        children = dict.fromkeys((choose.one(others).label, choose.one(others).label))
        turns["children"] = Suspend(
            label, token, children=tuple(children), despite_abort=choose.chance(2)
        )
    if choose.chance(6):
        return Renew(queue.thread, token, choose.one(LEASES[::-1]))
    if choose.theme in turns and not choose.chance(3):
        return turns[choose.theme]
    return choose.one([*turns.values()])


def _reservation(choose: Chooser, work: Work, token: str) -> Command:
    """Return the next step of a reservation."""
    unfinished = [
        call
        for call in CALLS
        if call not in work.reservations or work.reservations[ToolCallId(call)].status != "released"
    ]
    call = (unfinished or CALLS)[0]
    known = work.reservations.get(ToolCallId(call))
    if known is None:
        return ReserveChild(work.label, token, call, "0")
    if known.status == "reserved" and not choose.chance(4):
        child = choose.one(choose.works(lambda _: True)).label
        return AttachChild(work.label, token, call, child)
    if known.status in {"reserved", "attached"}:
        return BeginRelease(work.label, token, call, 0)
    return ReleaseChild(work.label, token, call)


def _some(choose: Chooser, known: Collection[str]) -> tuple[str, ...]:
    """Return one or two calls, such as are not known yet where there are."""
    new = [call for call in CALLS if call not in known]
    return tuple((new or CALLS)[: choose.one((1, 2))])


def resolution(choose: Chooser, work: Work) -> Command:
    """Resolve a call of unknown outcome, or write down its result before."""
    call = (sorted(work.unresolved) or CALLS)[0]
    if choose.chance(4):
        return result(choose.queue_of(work), work, call, choose.one((0, 1)))
    said = choose.one(_RESOLUTIONS)
    return Resolve(work.label, call, said, 0 if said == "completed-with-result" else None)
