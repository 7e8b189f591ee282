"""Which records of calls are tried, and what an owner does about the calls of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.records.identifiers import ToolCallId
from yielded_core.records.payloads import ModelResponseRecorded, SubagentRequested
from yielded_testing.model.commands.facts import DECLARED, Fact, Told, fact_id
from yielded_testing.model.commands.lanes import Admit, Release, RequestAbort
from yielded_testing.model.commands.settling import (
    AttachChild,
    BeginRelease,
    ReleaseChild,
    ReserveChild,
)
from yielded_testing.model.commands.store import AppendFact
from yielded_testing.model.commands.waiting import MarkUnknown, Suspend
from yielded_testing.model.search.chooser import CALLS
from yielded_testing.model.search.ending import end_child, result
from yielded_testing.model.search.lane_choices import in_log, where_in_log

if TYPE_CHECKING:
    from yielded_core.ports.work import Reservation
    from yielded_core.records.payloads import Payload
    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import Held, Queue, Work
    from yielded_testing.model.search.chooser import Chooser

_ORDINARY: Final[tuple[Told, ...]] = ("approval", "approved", "denied")
_DELEGATION: Final[tuple[Told, ...]] = ("requested", "started", "joined")
_TOLD: Final[tuple[Told, ...]] = (*_ORDINARY, *_DELEGATION)
_NEVER_RAN: Final = {"admitted", "ready"}


class Call(NamedTuple):
    """What the log and the ledger of the model know of one call of some work's run."""

    name: str
    delegates: bool | None
    """None until the call is declared."""
    told: tuple[Told, ...]
    answered: bool
    child: str | None
    """What commands call the child that is asked for, whether it is admitted or not."""
    reservation: Reservation | None

    @property
    def status(self) -> str:
        """Where its reservation stands."""
        return "none" if self.reservation is None else self.reservation.status

    @property
    def over(self) -> bool:
        """Whether nothing is left to do about it."""
        return self.answered and self.status in {"none", "released"}


def append_fact(choose: Chooser) -> Command:
    """Append a record of a call, rather the next one, or with one thing wrong."""
    queue, work, _ = choose.work(
        lambda each: each.active,
        lambda each: each.open and in_log(choose, each),
        lambda each: each.open,
    )
    wrong = choose.one(("nothing", "nothing", "epoch", "tail", "fact"))
    epoch, after = where_in_log(choose, queue, wrong)
    if work is None:
        return AppendFact(queue.thread, epoch, after, 0, choose.one(DECLARED), "c1")
    call = _next_call(choose, work)
    fact: Fact = _next_fact(choose, call)
    if wrong == "fact":
        fact = choose.one((*DECLARED, *_TOLD))
    child = _child_for(choose, call) if fact in _DELEGATION else None
    return AppendFact(queue.thread, epoch, after, work.place, fact, call.name, child)


def call_of_owner(choose: Chooser) -> Command:
    """Go on with the calls of a run that somebody owns, where there is one."""
    queue, work, _ = choose.work(lambda each: each.active and choose.owns(each))
    if work is None or queue.held is None or not (work.active and choose.owns(work)):
        return append_fact(choose)
    return call_step(choose, queue, queue.held, work)


def call_step(choose: Chooser, queue: Queue, held: Held, work: Work) -> Command:
    """Return what an owner does next about the calls of its run."""
    call = _next_call(choose, work)
    if work.abort is None and choose.chance(16):
        return RequestAbort(work.label)
    if call.delegates is None and call.reservation is None and choose.chance(4):
        return ReserveChild(work.label, held.token, call.name, "0")
    if call.delegates is None:
        kinds: tuple[Fact, ...] = ("delegation", "delegation", "delegation", *DECLARED)
        return _told(queue, work, call, choose.one(kinds))
    if call.delegates:
        return _delegation_step(choose, queue, held, work, call)
    steps: tuple[Command, ...] = (
        result(queue, work, call.name),
        MarkUnknown(work.label, (call.name,)),
        Suspend(work.label, held.token, approvals=(call.name,)),
        _told(queue, work, call, _next_fact(choose, call)),
        Release(queue.thread, held.token),
    )
    return choose.one(steps)


def _delegation_step(choose: Chooser, queue: Queue, held: Held, work: Work, call: Call) -> Command:
    label, token, name = work.label, held.token, call.name
    if call.answered:
        begun = call.status == "releasing"
        return ReleaseChild(label, token, name) if begun else BeginRelease(label, token, name, 0)
    if call.reservation is None and not choose.chance(3):
        return ReserveChild(label, token, name, "0")
    if choose.chance(12):
        return result(queue, work, call.name)  # without a child
    if call.child is None:
        return _told(queue, work, call, "requested", _child_for(choose, call))
    child = _admitted(choose, call.child)
    if child is None:
        return Admit(call.child[0], f"k{call.child[1:]}")
    return _child_step(choose, queue, held, work, call, child)


def _child_step(
    choose: Chooser, queue: Queue, held: Held, work: Work, call: Call, child: Work
) -> Command:
    """Link a child that exists, wait for it or bring it to its end, and join it."""
    label, token = work.label, held.token
    if work.abort is None and choose.chance(4):
        return RequestAbort(label)
    unattached, unrecorded = call.status == "reserved", "started" not in call.told
    if unattached and (choose.chance(2) or not unrecorded):
        return AttachChild(label, token, call.name, child.label)
    if unrecorded:
        return _told(queue, work, call, "started", child.label)
    if choose.is_published(child):
        joined = _told(queue, work, call, "joined", child.label)
        return choose.one((joined, joined, Release(queue.thread, token)))
    waits = Suspend(label, token, children=(child.label,), despite_abort=work.abort is not None)
    end = end_child(choose, work, child)
    return choose.one((end, waits, end, Release(queue.thread, token)))


def _told(queue: Queue, work: Work, call: Call, fact: Fact, child: str | None = None) -> AppendFact:
    after = queue.tail.sequence
    return AppendFact(queue.thread, queue.epoch, after, work.place, fact, call.name, child)


def _next_call(choose: Chooser, work: Work) -> Call:
    """Return the first call about which something is left to do, now and then another one."""
    calls = [_call(choose, work, name) for name in CALLS]
    unfinished = [call for call in calls if not call.over] or calls
    return choose.one(unfinished) if choose.chance(4) else unfinished[0]


def _next_fact(choose: Chooser, call: Call) -> Fact:
    """Return what is told next: how it is declared, then what is missing, in order."""
    if call.delegates is None:
        return choose.one(DECLARED)
    if not call.delegates:
        ordinary: tuple[Fact, ...] = _ORDINARY if "approval" in call.told else ("approval",)
        return choose.one(ordinary)
    missing: list[Fact] = [fact for fact in _DELEGATION if fact not in call.told]
    return missing[0] if missing else "joined"


def _child_for(choose: Chooser, call: Call) -> str:
    """Return the child that is asked for, else one that is settled, that never ran, or nobody."""
    if call.child is not None and not choose.chance(6):
        return call.child
    queue = choose.one(choose.queues())
    unborn = f"{queue.thread}{len(queue.work) + 1}"
    published = [work.label for work in choose.works(choose.is_published)]
    waiting = [work.label for work in choose.works(lambda work: work.state in _NEVER_RAN)]
    labels = (published, published, waiting, [unborn])
    return choose.one(choose.one([each for each in labels if each]))


def _call(choose: Chooser, work: Work, name: str) -> Call:
    queue = choose.queue_of(work)

    def payload(fact: Fact) -> Payload | None:
        found = queue.records.get(fact_id(work.name, fact, name))
        return None if found is None else found[1].payload

    response, request = payload("delegation"), payload("requested")
    told: tuple[Told, ...] = tuple(fact for fact in _TOLD if payload(fact) is not None)
    delegates = child = None
    if isinstance(response, ModelResponseRecorded):
        delegates = response.tool_operations[0].execution_kind == "delegation"
    if isinstance(request, SubagentRequested):
        child = _requested(choose, request)
    results = (queue.at(f"result:{work.name}:{name}:{value}") for value in (0, 1))
    return Call(
        name,
        delegates,
        told,
        any(at is not None for at in results),
        child,
        work.reservations.get(ToolCallId(name)),
    )


def _requested(choose: Chooser, request: SubagentRequested) -> str:
    key = request.child_principal, request.child_idempotency_key
    for work in choose.world.queue(request.child_thread_id).work.values():
        if (work.principal, work.key) == key:
            return work.label
    return f"{request.child_thread_id}{request.child_idempotency_key[1:]}"


def _admitted(choose: Chooser, label: str) -> Work | None:
    return next(iter(choose.works(lambda work: work.label == label)), None)
