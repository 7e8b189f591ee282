"""The model of accepting work and owning a lane (LED-1 to LED-7, LED-9, LOG-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from yielded_core.errors import (
    AdmissionConflict,
    AdmissionRefused,
    EvidenceFault,
    FenceRejected,
    JoinedToHost,
    MarkerConflict,
    OwnershipLost,
    SettlementConflict,
    ThreadNotMaterialized,
    TransitionRefused,
)
from yielded_core.ports.values import ThreadTail
from yielded_core.ports.work import AbortAccepted, AbortIntent, Admitted, Grant
from yielded_testing.model.reference.world import (
    ANYTHING,
    Disagreement,
    Held,
    Unlike,
    Work,
    digest_of,
    text_of,
)

if TYPE_CHECKING:
    from yielded_core.ports.work import Admission, ClaimHandoff, Submission
    from yielded_core.records.identifiers import (
        AttemptId,
        OwnershipToken,
        SubmissionId,
        ThreadId,
    )
    from yielded_testing.model.reference.world import Queue, World


def materialize(world: World, thread: ThreadId, epoch: int) -> ThreadTail:
    """Register a thread, or take it over at a higher epoch, which ends every ownership."""
    queue = world.queue(thread)
    if epoch < queue.epoch:
        raise FenceRejected(thread, queue.epoch, epoch)
    if epoch > queue.epoch:
        queue.end_ownership(world.now)
        queue.epoch = epoch if queue.epoch else world.restores * 2**32 + epoch
    return ThreadTail(thread, queue.tail.sequence, queue.tail.digest, queue.epoch)


def new_incarnation(world: World) -> None:
    """Raise every epoch by 2^32, which ends every ownership."""
    world.restores += 1
    for queue in world.queues.values():
        if queue.epoch:
            queue.end_ownership(world.now)
            queue.epoch += 2**32


def known_by_key(world: World, admission: Admission) -> Work | None:
    """Return what was admitted under exactly the key of an admission."""
    for work in world.queue(admission.thread_id).work.values():
        if (work.principal, work.key) == (admission.principal, admission.idempotency_key):
            return work
    return None


def admit(world: World, admission: Admission) -> Admitted:
    """Accept work once per (thread, principal, key), under ids that no other work has."""
    thread = admission.thread_id
    queue = world.queue(thread)
    known = known_by_key(world, admission)
    if known is not None:
        if content_of(known) != content_of(admission):
            attempted = world.digests.get(content_of(admission)) or Unlike(known.digest)
            raise AdmissionConflict(thread, known.name, known.digest, cast("str", attempted))
        return Admitted(
            thread, known.name, known.receipt, known.place, known.admitted_at, replayed=True
        )
    if admission.group is not None:
        for work in queue.work.values():
            if work.group == admission.group and work.open:
                raise AdmissionRefused(thread, work.name, "occupied")
    name, receipt = world.minted
    if any(name in each.work for each in world.queues.values()):
        raise Disagreement(f"{name} is the id of other work")
    place = 1 + len(queue.work)
    queue.work[name] = Work(
        thread,
        name,
        receipt,
        place,
        admission.principal,
        admission.idempotency_key,
        admission.group,
        admission.input,
        admission.linkage,
        admission.message,
        digest_of(admission.input),
        world.now,
    )
    return Admitted(thread, name, receipt, place, world.now, replayed=False)


def content_of(work: Work | Admission) -> bytes:
    """Return everything that a replay repeats."""
    return text_of([work.group, work.input, work.linkage, work.message])


def mark_ready(world: World, thread: ThreadId, submission: SubmissionId) -> Submission:
    """Let admitted work be claimed."""
    queue, work = world.find(thread, submission)
    if queue.epoch == 0:
        raise ThreadNotMaterialized(thread)
    if work.state == "admitted":
        work.state = "ready"
    return work.view()


def request_abort(
    world: World, thread: ThreadId, submission: SubmissionId, author: str, reason: str
) -> AbortAccepted:
    """Keep the first author, reason and instant; suspended work is woken."""
    _, work = world.find(thread, submission)
    if work.settled is not None:
        raise SettlementConflict(thread, submission, work.settled.outcome)
    if work.state == "joined":
        raise JoinedToHost(thread, submission, work.host or ANYTHING)
    if work.abort is not None:
        return AbortAccepted(work.abort, replayed=True)
    work.abort = AbortIntent(author, reason, world.now)
    if work.state == "suspended":
        work.resume()
    return AbortAccepted(work.abort, replayed=False)


def claim(
    world: World,
    thread: ThreadId,
    attempt: AttemptId,
    token: OwnershipToken,
    lease: int,
    handoff: ClaimHandoff | None,
) -> Grant | None:
    """Own the lane and its head at the next epoch."""
    queue = world.queue(thread)
    held = queue.held
    if held is not None and (held.attempt, held.token) == (attempt, token):
        return _grant(queue, replayed=True)
    if queue.is_live(world.now):
        return None
    work = _next(queue, handoff)
    if work is None:
        return None
    if work.state == "ready":
        work.state = "running"
    for name in () if handoff is None else handoff.deferred:
        passed = queue.work[name]
        passed.deferred_at = world.now if passed.deferred_at is None else passed.deferred_at
    queue.epoch += 1
    queue.held = Held(work.name, attempt, token, world.now + lease)
    world.tokens.append(token)
    return _grant(queue, replayed=False)


def _next(queue: Queue, handoff: ClaimHandoff | None) -> Work | None:
    """Return what a claim takes: the head, or what a handoff names behind deferred heads."""
    heads = queue.heads
    if handoff is not None:
        deferred = heads[: len(handoff.deferred)]
        if handoff.epoch != queue.epoch or [one.name for one in deferred] != [*handoff.deferred]:
            return None
        if any(one.state != "input-applied" or one.abort is not None for one in deferred):
            return None
        if queue.held is not None and queue.held.submission in handoff.deferred:
            return None  # not released
        heads = heads[len(deferred) :]
    if not heads or not heads[0].claimable:
        return None
    if handoff is not None and heads[0].name != handoff.target:
        return None
    return heads[0]


def _grant(queue: Queue, *, replayed: bool) -> Grant | None:
    held, work = queue.held, queue.owned
    if held is None or work is None:
        return None
    return Grant(work.view(), held.attempt, queue.epoch, held.expires_at, queue.tail, replayed)


def renew(world: World, thread: ThreadId, token: OwnershipToken, lease: int) -> int:
    """Extend the ownership, never shorten it."""
    queue = world.queue(thread)
    if queue.held is None or queue.held.token != token:
        raise OwnershipLost(thread, queue.epoch)
    expires_at = max(queue.held.expires_at, world.now + lease)
    queue.held = queue.held._replace(expires_at=expires_at)
    return expires_at


def release(world: World, thread: ThreadId, token: OwnershipToken) -> None:
    """End the ownership without settling."""
    queue = world.queue(thread)
    if not queue.holds(token):
        raise OwnershipLost(thread, queue.epoch)
    queue.end_ownership(world.now)


def mark_input_applied(
    world: World, thread: ThreadId, submission: SubmissionId, token: OwnershipToken, sequence: int
) -> Submission:
    """Record where the input stands in the log."""
    queue, work = world.find(thread, submission)
    if not queue.holds(token, submission):
        raise OwnershipLost(thread, queue.epoch)
    if work.marked is not None and work.marked != sequence:
        raise MarkerConflict(thread, submission, work.marked)
    if work.marked == sequence:
        return work.view()
    if work.state != "running":
        raise TransitionRefused(thread, submission, "mark-input-applied", work.state)
    require_input(queue, work, sequence)
    work.state, work.marked = "input-applied", sequence
    return work.view()


def require_input(queue: Queue, work: Work, sequence: int) -> None:
    """Refuse a position at which the log does not hold the input of a submission."""
    if queue.at(f"input:{work.name}") != sequence:
        raise EvidenceFault(queue.thread, "evidence-missing", ANYTHING)
