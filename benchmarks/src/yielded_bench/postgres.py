"""PostgreSQL: appends, claims and settlements, opening, observing, beside the driver and peers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_bench.children import measured_by
from yielded_bench.figures import Figure, Results, at_least, at_most, median, quantile
from yielded_bench.long_thread import BATCH_RECORDS, LongThread
from yielded_bench.observing import delays, observed
from yielded_bench.peers import peers
from yielded_bench.postgres_subjects import BareQueue, RawPostgres, Settling
from yielded_bench.race import race, ratio
from yielded_bench.records import PRODUCER
from yielded_bench.subjects import Yielded
from yielded_bench.wire import Wire
from yielded_bench.work import queued, settlement
from yielded_core.records.identifiers import AttemptId, OwnershipToken, ThreadId
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from yielded_bench.effort import Effort
    from yielded_bench.figures import Row
    from yielded_bench.race import Lane
    from yielded_bench.server import Server
    from yielded_core.records.identifiers import SubmissionId
    from yielded_core.storage import Storage

_MANY: Final = 16
_BATCH: Final = 100
_SETTLING_SHARE: Final = 4
"""A side is measured for so much shorter, as accepting the work takes far longer than doing it."""
_DISPUTED_LANES: Final = 4
_DISPUTED_WORK: Final = 8
"""Submissions in each lane that all workers want."""


async def measure(effort: Effort, folder: Path, server: Server) -> Results:
    """Measure one after the other, each beside what it is held against."""
    parts = (
        await _appending(effort, folder, server),
        await _settling(effort, folder, server),
        await _observing(effort, server),
        await _opening(effort, server),
    )
    rows = tuple(row for part in parts for row in part.rows)
    return Results(rows, tuple(figure for part in parts for figure in part.figures))


async def _appending(effort: Effort, folder: Path, server: Server) -> Results:
    lanes = await race(
        (
            RawPostgres("raw PostgreSQL, 1 connection", server),
            RawPostgres(f"raw PostgreSQL, {_MANY} connections", server, tasks=_MANY),
            Yielded("PostgreSQL, 1 task", server.store("one")),
            Yielded(f"PostgreSQL, {_MANY} tasks", server.store("many"), tasks=_MANY),
            Yielded(
                f"PostgreSQL, batches of {_BATCH}, 1 task", server.store("batches"), size=_BATCH
            ),
            *peers(server, _MANY),
        ),
        effort,
        _made(folder / "appending"),
    )
    base, broad, alone, many, batched, *theirs = lanes
    rows = (
        at_least(
            "PostgreSQL append, 1 task, to a raw one-row insert",
            ratio(alone, base),
            0.75,
            detail=_rates(alone, base),
        ),
        at_least(
            f"PostgreSQL append, {_MANY} tasks, to raw at {_MANY} connections",
            ratio(many, broad),
            0.5,
            detail=_rates(many, broad),
        ),
        at_least(
            f"PostgreSQL batches of {_BATCH}, records/s to batches of one",
            ratio(batched, alone),
            10,
            detail=f"{median(batched.records):,.0f}/s",
        ),
        *_to_the_best(many, theirs),
    )
    return Results(rows, tuple(lane.figure() for lane in lanes))


def _to_the_best(lane: Lane, peers: Sequence[Lane]) -> Sequence[Row]:
    """Hold a lane against the fastest of the peers, where there are any."""
    if not peers:
        return ()
    best = max(peers, key=lambda peer: median(peer.records))
    row = at_least(
        f"PostgreSQL append, {_MANY} tasks, to a step of the best peer",
        ratio(lane, best),
        5,
        detail=f"{best.subject.name}: {median(best.records):,.0f}/s",
    )
    return (row,)


async def _settling(effort: Effort, folder: Path, server: Server) -> Results:
    counts = (1, _MANY)
    lanes = await race(
        (
            *(BareQueue(_named("bare queue", count), server, tasks=count) for count in counts),
            *(
                Settling(_named("claim and settle", count), server.store("settled"), tasks=count)
                for count in counts
            ),
        ),
        effort._replace(seconds=effort.seconds / _SETTLING_SHARE),
        _made(folder / "settling"),
    )
    bare, bare_many, ours, ours_many = lanes
    async with open_storage(server.store("disputed")) as storage:
        grants = await _disputed(storage)
    twice = len(grants) - len(set(grants))
    rows = (
        at_least(
            "claim and settle, PostgreSQL, 1 worker, to a bare SKIP LOCKED queue",
            ratio(ours, bare),
            0.7,
            detail=_rates(ours, bare),
        ),
        at_least(
            f"the same, {_MANY} workers",
            ratio(ours_many, bare_many),
            0.5,
            detail=_rates(ours_many, bare_many),
        ),
        at_most(
            f"{_MANY} workers over {_DISPUTED_LANES} lanes, claimed twice",
            twice,
            0,
            "submissions",
            detail=f"of {len(grants)}",
        ),
    )
    return Results(rows, tuple(lane.figure("a second") for lane in lanes))


class _Work(NamedTuple):
    """What the workers share."""

    lanes: Sequence[ThreadId]
    grants: list[SubmissionId]


async def _disputed(storage: Storage) -> list[SubmissionId]:
    """Return every submission that was granted, where all workers claim in the same few lanes."""
    lanes = [ThreadId(f"disputed-{number}") for number in range(_DISPUTED_LANES)]
    for lane in lanes:
        await storage.threads.materialize(lane, epoch=1)
        for number in range(_DISPUTED_WORK):
            await queued(storage, lane, f"key-{number}")
    work = _Work(lanes, [])
    workers = (_dispute(storage, work, f"worker-{number}") for number in range(_MANY))
    await asyncio.gather(*workers)
    assert len(set(work.grants)) == _DISPUTED_LANES * _DISPUTED_WORK, "everything was settled"
    return work.grants


async def _dispute(storage: Storage, work: _Work, worker: str) -> None:
    """Claim wherever there is work, and settle what was granted, until all of it is."""
    token, turn = OwnershipToken(worker), 0
    while len(set(work.grants)) < _DISPUTED_LANES * _DISPUTED_WORK:
        lane, turn = work.lanes[turn % len(work.lanes)], turn + 1
        attempt = AttemptId(f"{worker}-{turn}")
        grant = await storage.ledger.claim(lane, attempt=attempt, token=token)
        if grant is None:
            continue
        work.grants.append(grant.submission.submission_id)
        await storage.settlements.publish(
            lane,
            settlement(grant),
            producer=PRODUCER,
            token=token,
            authority="owned",
            finalize=True,
        )


async def _observing(effort: Effort, server: Server) -> Results:
    """Observe one thread through a proxy, first in silence, then while another process commits."""
    names = [ThreadId("observed-0"), ThreadId("observed-1")]
    async with (
        Wire(server.url).serving() as wire,
        open_storage(f"{wire.url}?schema=observed") as storage,
        observed(storage, names) as heard,
    ):
        before = wire.trips()
        await asyncio.sleep(effort.idle_seconds)
        idle = (wire.trips() - before) * 60 / effort.idle_seconds
        found = await delays(server.store("observed"), names, effort.commits, heard)
    rows = (
        at_most(
            "idle process with 2 observers, PostgreSQL, round trips a minute",
            idle,
            4,
            "",
            detail=f"in {effort.idle_seconds:g} s",
        ),
        at_most(
            "commit of another process until observed, PostgreSQL, median", median(found), 30, "ms"
        ),
    )
    late = Figure(
        "commit of another process until observed, PostgreSQL, 99th percentile",
        f"{quantile(found, 0.99):,.0f} ms",
    )
    return Results(rows, (late,))


async def _opening(effort: Effort, server: Server) -> Results:
    """Open an existing store in fresh processes."""
    url = server.store("existing")
    async with open_storage(url) as storage:
        long = await LongThread.begin(storage, "thread")
        await long.grow(storage, 4 * BATCH_RECORDS)
    opens = [
        (await measured_by("open", url, server.store("another")))["seconds"] * 1e3
        for _ in range(effort.children)
    ]
    work = "open of an existing PostgreSQL store, imports apart"
    return Results((at_most(work, median(opens), 120, "ms"),))


def _named(work: str, workers: int) -> str:
    return f"{work}, PostgreSQL, {workers} worker{'s' if workers > 1 else ''}"


def _rates(lane: Lane, base: Lane) -> str:
    return f"{median(lane.records):,.0f}/s to {median(base.records):,.0f}/s"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
