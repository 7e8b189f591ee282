"""What a store must answer to every question that changes nothing, asked after every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.errors import ThreadNotMaterialized
from yielded_core.ports.values import StoredBatch, ThreadTail
from yielded_core.ports.work import (
    AbortState,
    AdmittedWork,
    AwaitedChild,
    Indeterminate,
    NotAdmitted,
    QueuedLane,
    QueuePage,
    RecoverySnapshot,
    RunnableLane,
)
from yielded_core.records.identifiers import IdempotencyKey, RecordId
from yielded_core.recovering import assess
from yielded_testing.model.reference.recovering import decision
from yielded_testing.model.reference.world import ANYTHING
from yielded_testing.suites.recovery_builders import replacing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from yielded_core.storage import Storage
    from yielded_testing.model.reference.world import Queue, Work, World

_BYTES: Final = 1_048_576
_PAGES: Final = (1, 2, 256)
_SELDOM: Final = 4
_SILENCE: Final = 7
_UNUSED: Final = IdempotencyKey("never used")


async def _unanswered(*_key: object) -> Indeterminate:
    return Indeterminate("the store does not say")


_SILENT: Final[dict[str, object]] = {"resolve_admission": _unanswered}


class Question(NamedTuple):
    """One question, what the store says, and what it must say."""

    about: str
    answer: Awaitable[object]
    expected: object


def questions(storage: Storage, world: World, turn: int) -> Iterator[Question]:
    """Ask for everything that can be seen of the store.

    Settled work, which nothing changes any more, is asked about in some turns only, and what a
    snapshot says too is asked in another way about one submission; `turn` says about which and how.
    What recovery decides about it is asked too, now and then as if the store could not say what was
    admitted to it.
    """
    page = _PAGES[turn % len(_PAGES)]
    if turn % 2:
        owed = [work.view() for work in _owed(world)]
        yield Question("scan_nonterminal", _scan(storage, page), owed)
    else:
        yield Question("queue", storage.ledger.queue(), _queue_page(world))
    yield Question("runnable", _runnable(storage, page), _claimable(world))
    yield Question("threads", _threads(storage, page), _materialized(world))
    for _, queue in sorted(world.queues.items()):
        yield Question(f"log of {queue.thread}", _log(storage, queue), _written(queue))
        for work in queue.work.values():
            if work.open or turn % _SELDOM == 0:
                expected = _snapshot(world, queue, work)
                asked = storage.ledger.load_recovery_snapshot(work.thread, work.name)
                yield Question(f"recovery snapshot of {work.label}", asked, expected)
    every = [work for _, queue in sorted(world.queues.items()) for work in queue.work.values()]
    if every:
        again, place = divmod(turn, len(every))
        work = every[place]
        yield _WAYS[(again + place) % len(_WAYS)](storage, world.queue(work.thread), work)
        yield _assessment(storage, world, every, turn)


def _assessment(storage: Storage, world: World, every: list[Work], turn: int) -> Question:
    """Ask what recovery decides about some work, more often about such as somebody began."""
    begun = [work for work in every if work.open and work.state not in {"admitted", "ready"}]
    some = begun if begun and turn % _SELDOM else every
    work = some[turn % len(some)]
    expected = decision(world, world.queue(work.thread), work)
    told = replacing(storage, ledger=_SILENT) if turn % _SILENCE == 0 else storage
    asked = assess(told, work.thread, work.name)
    return Question(f"assessment of {work.label}", asked, expected)


def _owed(world: World) -> Iterator[Work]:
    for _, queue in sorted(world.queues.items()):
        yield from (work for work in queue.work.values() if work.open)


def _queue_page(world: World) -> QueuePage:
    owed = tuple(work.view() for work in _owed(world))
    lanes: list[QueuedLane] = []
    for thread in dict.fromkeys(work.thread_id for work in owed):
        queue = world.queue(thread)
        since = world.runnable_since(queue)
        is_claimable = since is not None and since <= world.now
        head = queue.heads[0].name if is_claimable else None
        lanes.append(QueuedLane(queue.view(world.now), head))
    return QueuePage(owed, tuple(lanes), world.now, world.now)


async def _scan(storage: Storage, page: int) -> list[object]:
    found: list[object] = []
    after = None
    while True:
        listed = await storage.ledger.scan_nonterminal(after=after, limit=page)
        found.extend(listed)
        if len(listed) < page:
            return found
        after = (listed[-1].thread_id, listed[-1].queue_sequence)


async def _runnable(storage: Storage, page: int) -> list[object]:
    found: list[object] = []
    after = None
    while True:
        listed = await storage.ledger.runnable(after=after, limit=page)
        found.extend(listed)
        if len(listed) < page:
            return found
        after = listed[-1]


def _claimable(world: World) -> list[RunnableLane]:
    since = ((world.runnable_since(queue), queue.thread) for queue in world.queues.values())
    found = sorted((at, thread) for at, thread in since if at is not None and at <= world.now)
    return [RunnableLane(thread, at) for at, thread in found]


async def _threads(storage: Storage, page: int) -> list[ThreadTail]:
    found: list[ThreadTail] = []
    after = None
    while True:
        listed = await storage.threads.threads(after=after, limit=page)
        found.extend(listed)
        if len(listed) < page:
            return found
        after = listed[-1].thread_id


def _materialized(world: World) -> list[ThreadTail]:
    return [
        ThreadTail(queue.thread, queue.tail.sequence, queue.tail.digest, queue.epoch)
        for _, queue in sorted(world.queues.items())
        if queue.epoch
    ]


async def _log(storage: Storage, queue: Queue) -> list[StoredBatch] | str:
    through = queue.tail.sequence
    found: list[StoredBatch] = []
    try:
        while not found or found[-1].last_sequence < through:
            after = found[-1].last_sequence if found else 0
            page = await storage.threads.read_batches(
                queue.thread, after=after, through=through, byte_limit=_BYTES
            )
            if not page:
                return found
            found.extend(page)
    except ThreadNotMaterialized as error:
        return error.code
    return found


def _written(queue: Queue) -> list[StoredBatch] | str:
    if queue.epoch == 0:
        return ThreadNotMaterialized.code
    return [
        StoredBatch(
            written.batch,
            written.producer,
            written.epoch,
            written.first,
            written.tail.sequence,
            ANYTHING,
            written.tail.digest,
            written.records,
            ANYTHING,
        )
        for written in queue.log
    ]


def _lookup(storage: Storage, queue: Queue, work: Work) -> Question:
    del queue
    return Question(f"lookup of {work.label}", storage.ledger.lookup(work.name), _admitted(work))


def _lookup_key(storage: Storage, queue: Queue, work: Work) -> Question:
    asked = storage.ledger.lookup_key(queue.thread, work.principal, work.key)
    return Question(f"lookup_key of {work.label}", asked, _admitted(work))


def _resolve(storage: Storage, queue: Queue, work: Work) -> Question:
    asked = storage.ledger.resolve_admission(queue.thread, work.principal, work.key)
    return Question(f"resolve_admission of {work.label}", asked, _admitted(work))


def _resolve_another(storage: Storage, queue: Queue, work: Work) -> Question:
    asked = storage.ledger.resolve_admission(queue.thread, work.principal, _UNUSED)
    return Question(f"resolve_admission beside {work.label}", asked, NotAdmitted())


def _abort(storage: Storage, queue: Queue, work: Work) -> Question:
    record = RecordId(f"abort:{work.name}")
    expected = AbortState(work.abort, None if queue.at(record) is None else record)
    asked = storage.ledger.read_abort_intent(queue.thread, work.name)
    return Question(f"read_abort_intent of {work.label}", asked, expected)


def _admitted(work: Work) -> AdmittedWork:
    return AdmittedWork(work.view(), work.input, work.linkage, work.message)


_WAYS: Final = (_lookup, _abort, _lookup_key, _resolve, _resolve_another)


def _snapshot(world: World, queue: Queue, work: Work) -> RecoverySnapshot:
    children: set[AwaitedChild] = set() if work.waits is None else {*work.waits.children}
    children |= {one.child for one in work.reservations.values() if one.child is not None}
    return RecoverySnapshot(
        lane=queue.view(world.now),
        tail=queue.tail,
        submission=work.view(),
        approvals=tuple(work.approvals[call] for call in sorted(work.approvals)),
        unknown_calls=tuple(work.calls[call] for call in sorted(work.calls)),
        resolutions=tuple(work.resolutions[each] for each in sorted(work.resolutions)),
        reservations=tuple(work.reservations[call] for call in sorted(work.reservations)),
        published_children=frozenset(
            child for child in children if world.is_published(child.thread_id, child.submission_id)
        ),
        input_sequence=queue.at(f"input:{work.name}"),
        settlement_published=world.is_published(work.thread, work.name),
        host_published=work.host is not None and world.is_published(work.thread, work.host),
    )
