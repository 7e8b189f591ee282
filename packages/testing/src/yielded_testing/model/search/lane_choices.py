"""Which commands about lanes and logs are tried: with parts that fit, or with one thing wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_testing.model.commands.lanes import (
    Admit,
    Claim,
    ClaimJoining,
    ClaimPast,
    MarkInputApplied,
    MarkJoined,
    MarkReady,
    Release,
    Renew,
    RevertJoining,
)
from yielded_testing.model.commands.store import Advance, Append, Materialize
from yielded_testing.model.search.chooser import CALLS, LEASES

if TYPE_CHECKING:
    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.commands.store import Content
    from yielded_testing.model.reference.world import Queue, Work
    from yielded_testing.model.search.chooser import Chooser

_MOST_OPEN: Final = 4
"""As many unsettled submissions a lane may have, so that commands meet each other."""


def admit(choose: Chooser) -> Command:
    """Offer new work, or a known one again, or other work under its key."""
    queue = choose.one(choose.queues())
    open_work = [work for work in queue.work.values() if work.open]
    if queue.work and (len(open_work) >= _MOST_OPEN or choose.chance(2)):
        return _again(choose, queue)
    return new_work(choose, queue)


def new_work(choose: Chooser, queue: Queue, group: str | None = None) -> Admit:
    """Offer new work to a lane, in a certain group where one is given."""
    return Admit(
        queue.thread,
        f"k{len(queue.work) + 1}",
        choose.one(("p", "q")),
        group or choose.one((None, "g", "h")),
        choose.one((0, 1)),
        choose.one((None, None, "l")),
        choose.one((None, None, "m")),
    )


def _again(choose: Chooser, queue: Queue) -> Admit:
    work = choose.one([*queue.work.values()])
    parts = [work.group, int(str(work.input)[-2]), work.linkage, work.message]
    others = ["g", 2, "l", "m"]
    for index in range(len(parts)):
        if choose.chance(8):
            parts[index] = others[index] if parts[index] != others[index] else None
    group, given, linkage, message = parts
    principal = work.principal if not choose.chance(10) else "r"
    return Admit(
        queue.thread,
        work.key,
        principal,
        _text(group),
        given if isinstance(given, int) else 0,
        _text(linkage),
        _text(message),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def mark_ready(choose: Chooser) -> Command:
    """Make work ready: admitted to a materialized thread or not, or something else already."""
    label = choose.work(
        lambda work: work.state == "admitted" and bool(choose.queue_of(work).epoch),
        lambda work: not choose.queue_of(work).epoch,
        lambda work: work.state != "admitted",
    )[2]
    return MarkReady(label)


def materialize(choose: Chooser) -> Command:
    """Register a thread, or take one over, or try to at a lower epoch."""
    taken_over = choose.chance(2)
    queue = choose.lane(lambda each: each.epoch > 1 if taken_over else not each.epoch)
    lower = max(1, queue.epoch - 1)
    epochs = (lower, lower, max(1, queue.epoch), queue.epoch + 1) if queue.epoch else (1,)
    return Materialize(queue.thread, choose.one(epochs))


def claim(choose: Chooser) -> Command:
    """Claim a lane, rather one that has something, or repeat its owner's claim."""
    now = choose.world.now

    def offers(queue: Queue) -> bool:
        since = choose.world.runnable_since(queue)
        return since is not None and since <= now

    queue = choose.lane(offers)
    lease = choose.one(LEASES)
    held = queue.held
    if held is not None and choose.chance(3):
        token = choose.rather([held.token], [choose.fresh_token(queue)])
        return Claim(queue.thread, token, choose.rather([held.attempt], ["x0"]), lease)
    token = choose.rather([choose.fresh_token(queue)], [*choose.world.tokens, "t0"])
    return Claim(queue.thread, token, choose.one((f"x{queue.epoch + 1}", "x0")), lease)


def claim_past(choose: Chooser) -> Command:
    """Claim past a deferred head, where that is granted or with one thing wrong."""

    def offers(queue: Queue) -> bool:
        heads = queue.heads
        return len(heads) > 1 and heads[0].state == "input-applied" and heads[1].claimable

    def is_free(queue: Queue) -> bool:
        return offers(queue) and not queue.is_live(choose.world.now)

    queue = choose.lane(is_free if any(map(is_free, choose.queues())) else offers)
    labels = [work.label for work in queue.heads] + [f"{queue.thread}0"] * 3
    wrong = choose.one(("nothing", "epoch", "target", "deferred"))
    behind = 2 if wrong == "deferred" else 1
    deferred, target = tuple(labels[:behind]), labels[behind]
    if wrong == "target":
        target = choose.one((labels[2], labels[0]))
    epoch = max(1, queue.epoch)
    if wrong == "epoch":
        epoch = choose.one((max(1, epoch - 1), epoch + 1))
    token, attempt = choose.fresh_token(queue), f"x{queue.epoch + 1}"
    return ClaimPast(queue.thread, token, attempt, choose.one(LEASES), epoch, deferred, target)


def renew(choose: Chooser) -> Command:
    """Renew, rather by the owner."""
    queue = choose.lane(lambda each: each.held is not None)
    return Renew(queue.thread, choose.held_token(queue), choose.one(LEASES))


def release(choose: Chooser) -> Command:
    """Release, rather by the owner."""
    queue = choose.lane(lambda each: each.held is not None)
    return Release(queue.thread, choose.held_token(queue))


def mark_input_applied(choose: Chooser) -> Command:
    """Mark an input that the log holds or does not, for the first time or again."""
    queue, work, label = choose.work(
        lambda each: choose.owns(each) and each.state == "running" and in_log(choose, each),
        lambda each: choose.owns(each) and each.state == "running" and not in_log(choose, each),
        lambda each: choose.owns(each) and each.marked is not None,
        lambda each: choose.owns(each) and not each.active,
        lambda each: each.active and not choose.owns(each),
    )
    place = None if work is None else work.marked or queue.at(f"input:{work.name}")
    return MarkInputApplied(label, choose.held_token(queue), _sequence(choose, queue, place))


def _sequence(choose: Chooser, queue: Queue, place: int | None) -> int:
    """Draw a position in a log, rather the right one."""
    others = (1, 2, queue.tail.sequence + 1)
    return choose.one(others) if place is None or choose.chance(3) else place


def in_log(choose: Chooser, work: Work) -> bool:
    """Say whether the log holds the input of some work."""
    return choose.queue_of(work).at(f"input:{work.name}") is not None


def append(choose: Chooser) -> Command:
    """Append a record, rather such as is missing, where that is granted or with one thing wrong."""
    queue = choose.lane(lambda each: bool(each.epoch))
    wrong = choose.one(("nothing", "nothing", "epoch", "tail", "batch"))
    epoch, after = where_in_log(choose, queue, wrong)
    batch = "another batch" if wrong == "batch" else None
    content, about = _missing(choose, queue)
    call, value = choose.one(CALLS), choose.one((0, 0, 1))
    if content in {"input", "abort"}:
        value = 0
    return Append(queue.thread, epoch, after, content, about, call, value, batch)


def where_in_log(choose: Chooser, queue: Queue, wrong: str) -> tuple[int, int]:
    """Return the epoch and the tail that an append names, perhaps a wrong one of them."""
    epoch, after = max(1, queue.epoch), queue.tail.sequence
    if wrong == "epoch":
        epoch = choose.one((max(1, epoch - 1), epoch + 1))
    if wrong == "tail":
        after = choose.one((max(0, after - 1), after + 1, 0))
    return epoch, after


def _missing(choose: Chooser, queue: Queue) -> tuple[Content, int]:
    """Return what a record holds, and the place of its submission or the number of a note."""
    works = [*queue.work.values()]
    wanted: dict[Content, list[Work]] = {
        "input": [one for one in works if one.active or one.state == "joining"],
        "abort": [one for one in works if one.abort is not None],
        "result": [one for one in works if one.calls],
        "settlement": [one for one in works if one.active and choose.chance(4)],
    }
    contents: list[Content] = [content for content, some in wanted.items() if some]
    if not contents or choose.chance(3):
        identity: Content = "lineage" if queue.tail.sequence else "created"
        return choose.one(("note", "note", identity)), choose.one((1, 2, 3))
    drawn: Content = choose.one(contents)
    content: Content = "result" if choose.theme == "unknown" and wanted["result"] else drawn
    return content, choose.one(wanted[content]).place


def claim_joining(choose: Chooser) -> Command:
    """Take guests, where a host has some, has none, cannot have any, or is not owned."""

    def has_guests(work: Work) -> bool:
        behind = [each for each in choose.queue_of(work).heads if each.place > work.place]
        return choose.owns(work) and work.active and bool(behind) and behind[0].state == "ready"

    queue, _, label = choose.work(
        has_guests,
        lambda work: choose.owns(work) and work.active,
        lambda work: choose.owns(work) and not work.active,
        lambda work: work.active and not choose.owns(work),
    )
    return ClaimJoining(label, choose.held_token(queue), choose.one((16, 1, 2)))


def mark_joined(choose: Chooser) -> Command:
    """Mark a guest's input that the log holds or does not, for the first time or again."""
    queue, work, label = choose.work(
        lambda each: each.state == "joining" and in_log(choose, each),
        lambda each: each.state == "joining" and not in_log(choose, each),
        lambda each: each.state == "joined",
    )
    place = None if work is None else work.marked or queue.at(f"input:{work.name}")
    return MarkJoined(label, _sequence(choose, queue, place))


def revert_joining(choose: Chooser) -> Command:
    """Give a guest back, with the guard of its host, without, or with a wrong one."""
    queue, work, label = choose.work(
        lambda each: each.state == "joining",
        lambda each: each.state == "joined",
    )
    if choose.chance(5):
        return RevertJoining(label)
    hosts = [each.label for each in queue.work.values()] or [f"{queue.thread}0"]
    host = None if work is None or work.host is None else queue.work[work.host].label
    tokens = (choose.held_token(queue), choose.token(), None)
    return RevertJoining(
        label, choose.rather([] if host is None else [host], hosts), choose.one(tokens)
    )


def advance(choose: Chooser) -> Command:
    """Let time pass: a little, or to just before, at or after the end of a lease."""
    now = choose.world.now
    ends = [queue.held.expires_at - now for queue in choose.queues() if queue.held is not None]
    exact = [end + by for end in ends for by in (-1, 0, 1) if end + by > 0]
    return Advance(choose.rather(exact, (1, 7)))
