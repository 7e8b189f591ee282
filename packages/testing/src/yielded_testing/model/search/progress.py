"""What a lane waits for: the next command of whoever works on it, so that states get deep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_testing.model.commands.lanes import (
    Claim,
    ClaimPast,
    MarkReady,
    RevertJoining,
)
from yielded_testing.model.commands.settling import Finalize
from yielded_testing.model.commands.store import Advance, Materialize
from yielded_testing.model.commands.waiting import Decide, RecordChildSettled
from yielded_testing.model.reference.settling import settlement_of
from yielded_testing.model.search.chooser import LEASES
from yielded_testing.model.search.ending import end_child, result, settlement
from yielded_testing.model.search.lane_choices import new_work
from yielded_testing.model.search.owning import owned_step, resolution

if TYPE_CHECKING:
    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import Queue, Work
    from yielded_testing.model.search.chooser import Chooser, Theme

_ENOUGH: Final = 3
"""Unsettled submissions of a lane from which on none is added."""
_SEVERAL: Final[tuple[Theme, ...]] = ("joining", "handoff")
"""What needs ready work behind the head."""


def next_step(choose: Chooser) -> Command:
    """Return what some lane waits for."""
    first, second, third = choose.queues()
    queue = choose.one((first, first, second, first, first, third, first, second))
    open_work = [work for work in queue.work.values() if work.open]
    return _preparation(choose, queue, open_work) or _work_step(choose, queue, open_work)


def _preparation(choose: Chooser, queue: Queue, open_work: list[Work]) -> Command | None:
    """Return what must be done before anybody works, None when nothing must."""
    if not open_work or (len(open_work) < _ENOUGH and choose.chance(6)):
        return new_work(choose, queue)
    if not queue.epoch:
        return Materialize(queue.thread, 1)
    published = [work for work in open_work if choose.is_published(work)]
    if published:
        group = published[0].group
        again = group is not None and choose.chance(4)
        return new_work(choose, queue, group) if again else Finalize(published[0].label)
    if choose.theme not in _SEVERAL or choose.chance(6):
        return None
    waiting = [work for work in open_work if work.state == "admitted"]
    if waiting:
        return MarkReady(waiting[0].label)
    return new_work(choose, queue) if len(open_work) < _ENOUGH else None


def _work_step(choose: Chooser, queue: Queue, open_work: list[Work]) -> Command:
    held = queue.held
    if held is not None and queue.is_live(choose.world.now):
        return owned_step(choose, queue, held)
    never_ran = [work for work in open_work if work.state in {"admitted", "ready"} and work.abort]
    if never_ran and not choose.chance(3):
        return settlement(choose, never_ran[0], "canceller", "queued-abort", "aborted")
    stuck = [work for work in open_work if work.state in {"joining", "joined", "unknown"}]
    if stuck and choose.chance(2):
        return _unowned_step(choose, queue, choose.one(stuck))
    return _unowned_step(choose, queue, (queue.heads or open_work)[0])


def _unowned_step(choose: Chooser, queue: Queue, work: Work) -> Command:
    if work.state == "admitted":
        return MarkReady(work.label)
    if work.claimable:
        return _claim(choose, queue, work)
    if work.state == "joining":
        return RevertJoining(work.label)
    if work.state == "joined":
        return _guest_settlement(choose, queue, work)
    if work.state == "unknown":
        return resolution(choose, work)
    return _wake(choose, work)


def _guest_settlement(choose: Chooser, queue: Queue, work: Work) -> Command:
    host = None if work.host is None else settlement_of(queue, work.host)
    outcome = "completed" if host is None else host.outcome
    return settlement(choose, work, "guest", "joined", outcome)


def _claim(choose: Chooser, queue: Queue, work: Work) -> Command:
    token, attempt = choose.fresh_token(queue), f"x{queue.epoch + 1}"
    lease = choose.one(LEASES)
    behind = queue.heads[1:]
    passes = not choose.chance(3) if choose.theme == "handoff" else choose.chance(3)
    if work.state == "input-applied" and behind and behind[0].claimable and passes:
        epoch = max(1, queue.epoch - choose.chance(4))
        past = (epoch, (work.label,), behind[0].label)
        return ClaimPast(queue.thread, token, attempt, lease, *past)
    return Claim(queue.thread, token, attempt, lease)


def _wake(choose: Chooser, work: Work) -> Command:
    waits = work.waits
    if waits is None:
        return Advance(1)
    undecided = [call for call in waits.approvals if call not in work.approvals]
    if undecided and choose.chance(6):
        return result(choose.queue_of(work), work, undecided[0])  # nobody needs to decide any more
    if undecided:
        return Decide(work.label, undecided[0], choose.one(("approved", "approved", "denied")))
    published = [child for child in waits.children if choose.is_settled(child)]
    if len(published) == len(waits.children) or (published and choose.chance(3)):
        return RecordChildSettled(work.label, choose.label_of(choose.one(published)))
    child = next(each for each in waits.children if each not in published)
    return end_child(
        choose, work, choose.world.queue(child.thread_id).work.get(child.submission_id)
    )
