"""The model of work that joins the run of its host (LED-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_core.errors import MarkerConflict, OwnershipLost, TransitionRefused
from yielded_testing.model.reference.queueing import require_input

if TYPE_CHECKING:
    from yielded_core.ports.work import JoiningGuard, RevertAnswer, Submission
    from yielded_core.records.identifiers import OwnershipToken, SubmissionId, ThreadId
    from yielded_testing.model.reference.world import Queue, Work, World


def claim_joining(
    world: World, thread: ThreadId, host: SubmissionId, token: OwnershipToken, limit: int
) -> tuple[Submission, ...]:
    """Take the contiguous ready work behind the host; what joins it already does not end that."""
    queue, owner = world.find(thread, host)
    if not queue.holds(token, host):
        raise OwnershipLost(thread, queue.epoch)
    if not owner.active:
        raise TransitionRefused(thread, host, "claim-joining", owner.state)
    taken: list[Submission] = []
    for work in queue.work.values():
        if (
            work.place <= owner.place
            or not work.open
            or (work.host, work.state) == (host, "joined")
        ):
            continue
        if len(taken) == limit:
            break
        if work.state == "ready" and work.abort is None:
            work.state, work.host = "joining", host
        elif (work.host, work.state) != (host, "joining"):
            break
        taken.append(work.view())
    return tuple(taken)


def mark_joined(
    world: World,
    thread: ThreadId,
    submission: SubmissionId,
    sequence: int,
) -> Submission:
    """Record that the input of a joining submission stands in the log, which needs no token."""
    queue, work = world.find(thread, submission)
    if work.state == "joined" and work.marked is not None:
        if work.marked != sequence:
            raise MarkerConflict(thread, submission, work.marked)
        return work.view()
    if work.state != "joining":
        raise TransitionRefused(thread, submission, "mark-joined", work.state)
    require_input(queue, work, sequence)
    work.state, work.marked = "joined", sequence
    return work.view()


def revert_joining(
    world: World, thread: ThreadId, submission: SubmissionId, guard: JoiningGuard | None
) -> RevertAnswer:
    """Give joining work back to the lane."""
    queue, work = world.find(thread, submission)
    if guard is not None and work.host is not None:
        if work.host != guard.host:
            return "other-host"
        if work.open:
            _require_host(queue, work, guard.token)
    if work.state != "joining":
        return "not-joining"
    if queue.at(f"input:{work.name}") is not None:
        return "in-log"
    worked_on = queue.owned if queue.is_live(world.now) else None
    if guard is None and worked_on is not None and worked_on.name == work.host:
        return "host-at-work"
    work.state, work.host = "ready", None
    return "reverted"


def _require_host(queue: Queue, work: Work, token: OwnershipToken | None) -> None:
    """Ask for the current token of an unsettled host; a settled one needs none."""
    host = None if work.host is None else queue.work[work.host]
    if host is not None and host.open and not queue.holds(token, host.name):
        raise OwnershipLost(queue.thread, queue.epoch)
