"""Operations staged behind a held lock decide on what is there once they have it (LOG-2, LED-16).

Another transaction holds the row of the thread, each operation waits for it, and what it had read
before is changed meanwhile: that is what two processes do to each other by chance.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from server_side import outcome, until

from yielded_core.errors import (
    AppendConflict,
    FenceRejected,
    OwnershipLost,
    RecordNotFound,
)
from yielded_core.ports.values import Appended
from yielded_core.ports.work import AwaitedChild, Grant, Submission
from yielded_core.records.identifiers import RecordId, ThreadId
from yielded_storage_postgres import open_storage
from yielded_testing.suites.builders import (
    EMPTY,
    OTHER,
    THREAD,
    batch,
    note,
)
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from server_side import Place

    from yielded_storage_postgres.store import PostgresStorage

ROW: Final = "SELECT 1 FROM yielded_threads WHERE thread_id = $1 FOR UPDATE"
RAISED: Final = "UPDATE yielded_threads SET epoch = epoch + 1"
MOVED: Final = (
    "UPDATE yielded_threads SET tail_sequence = 7, tail_digest = decode(repeat('ab', 32), 'hex')"
)
RELEASED: Final = (
    "UPDATE yielded_threads SET owner_submission = NULL, owner_attempt = NULL, owner_token = NULL,"
    " owner_epoch = NULL, lease_expires_at = NULL, lane_version = lane_version + 1"
)
CLAIMED: Final = (
    "UPDATE yielded_threads SET owner_submission = 'other', owner_attempt = 'other',"
    " owner_token = decode(repeat('ab', 32), 'hex'), owner_epoch = epoch + 1, epoch = epoch + 1,"
    " lease_expires_at = 9999999999999, lane_version = lane_version + 1"
)
SETTLED: Final = (
    "UPDATE yielded_submissions SET state = 'settled', outcome = 'completed', settled_at = 1,"
    " settlement_id = 'settlement:' || submission_id"
)
SUSPENDED: Final = "UPDATE yielded_submissions SET state = 'suspended'"
RUNNING: Final = "UPDATE yielded_submissions SET state = 'running'"
CHANGED: Final = "UPDATE yielded_threads SET lane_version = lane_version + 1"
"""What every change of the ledger does to the row of its thread."""
LEASE: Final = 500
"""Milliseconds of a lease that is to end while somebody waits."""


@pytest.fixture
async def storage(place: Place) -> AsyncGenerator[PostgresStorage]:
    async with open_storage(place.url()) as opened:
        yield opened


async def behind(
    place: Place, work: Coroutine[Any, Any, object], *statements: str, thread: ThreadId = THREAD
) -> object:
    """Return what an operation answers that waited for the row while statements changed it."""
    async with place.holding(ROW, thread) as holder:
        waiting = asyncio.create_task(outcome(work))
        await place.waiting(1)
        for statement in statements:
            await holder.execute(statement)
    return await waiting


class Change(NamedTuple):
    """What happens while an operation waits, and what that must come to."""

    statements: tuple[str, ...]
    kind: type[object]
    says: dict[str, object]


APPENDS: Final = {
    "nothing": Change((), Appended, {"first_sequence": 1}),
    "a takeover": Change((RAISED,), FenceRejected, {"actual": 2, "attempted": 1}),
    "a batch": Change((MOVED,), AppendConflict, {"reason": "tail", "sequence": 7}),
    "both": Change((MOVED, RAISED), FenceRejected, {"actual": 2, "attempted": 1}),
}
CLAIMS: Final = {
    "nothing": Change((), Grant, {"epoch": 2, "replayed": False}),
    "a takeover": Change((RAISED,), Grant, {"epoch": 3, "replayed": False}),
    "a claim": Change((CLAIMED,), type(None), {}),
    "a claim and its release": Change((CLAIMED, RELEASED), Grant, {"epoch": 3}),
    "a claim and a takeover": Change((CLAIMED, RAISED), Grant, {"epoch": 4}),
    "a settlement": Change((SETTLED, CHANGED), type(None), {}),
    "a suspension": Change((SUSPENDED, CHANGED), type(None), {}),
}
LOSSES: Final = {
    "a takeover": Change((RAISED,), OwnershipLost, {"actual": 3}),
    "a release": Change((RELEASED,), OwnershipLost, {"actual": 2}),
    "a claim": Change((RELEASED, CLAIMED), OwnershipLost, {"actual": 3}),
}


def check(found: object, change: Change) -> None:
    """An answer is of a kind and says some things."""
    assert isinstance(found, change.kind), found
    assert {name: getattr(found, name) for name in change.says} == change.says


@pytest.mark.rule("LOG-2", "LOG-3", "LOG-5")
@pytest.mark.parametrize("meanwhile", APPENDS)
async def test_an_append_meets_the_thread_as_it_is(
    place: Place, storage: PostgresStorage, meanwhile: str
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    change = APPENDS[meanwhile]
    append = storage.threads.append(THREAD, batch("one", note("one")), expected=EMPTY, epoch=1)
    check(await behind(place, append, *change.statements), change)
    assert await place.count("yielded_records") == (change.kind is Appended)


@pytest.mark.rule("LED-4", "LED-16")
@pytest.mark.parametrize("meanwhile", CLAIMS)
async def test_a_claim_grants_nothing_that_is_gone(
    place: Place, storage: PostgresStorage, meanwhile: str
) -> None:
    lane = await LaneScript.begin(storage)
    await lane.ready("key-1")
    change = CLAIMS[meanwhile]
    check(await behind(place, lane.try_claim(), *change.statements), change)


@pytest.mark.rule("LED-4", "LED-6")
async def test_the_lease_of_a_claim_begins_after_the_lock(
    place: Place, storage: PostgresStorage
) -> None:
    """It waited for longer than its lease lasts, and owns the lane all the same."""
    lane = await LaneScript.begin(storage)
    await lane.ready("key-1")
    async with place.holding(ROW, THREAD):
        claiming = asyncio.create_task(lane.claim(lease=LEASE))
        await place.waiting(1)
        await passed(place, LEASE)
        freed = await now(place)
    assert (await claiming).expires_at >= freed + LEASE


@pytest.mark.rule("LED-4", "LED-6")
async def test_a_lease_that_ends_behind_the_lock_has_ended(
    place: Place, storage: PostgresStorage
) -> None:
    lane = await LaneScript.begin(storage)
    await lane.ready("key-1")
    async with place.holding(ROW, THREAD) as holder:
        claiming = asyncio.create_task(lane.another("2").try_claim())
        await place.waiting(1)
        await holder.execute(CLAIMED)
        ends = await now(place) + LEASE
        await holder.execute(f"UPDATE yielded_threads SET lease_expires_at = {ends}")
        await passed(place, LEASE)
    grant = await claiming
    assert grant is not None
    assert grant.epoch == 3


@pytest.mark.rule("LED-6", "LED-16")
@pytest.mark.parametrize("meanwhile", LOSSES)
@pytest.mark.parametrize("operation", ["renew", "release", "publish", "suspend"])
async def test_an_owner_that_lost_the_lane_is_told_so(
    place: Place, storage: PostgresStorage, operation: str, meanwhile: str
) -> None:
    """And has changed nothing, not even the log."""
    lane = await LaneScript.begin(storage)
    submission = await lane.run("key-1")
    operations: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "renew": lambda: storage.ledger.renew(THREAD, token=lane.token),
        "release": lane.release,
        "publish": lambda: lane.publish("key-1", finalize=True),
        "suspend": lambda: lane.suspend("key-1"),
    }
    change = LOSSES[meanwhile]
    check(await behind(place, operations[operation](), *change.statements), change)
    assert (await lane.see("key-1")).state == "running"
    name = RecordId(f"settlement:{submission}")
    await refused(RecordNotFound, storage.threads.get_record(THREAD, name))


@pytest.mark.rule("LED-3")
@pytest.mark.parametrize("state", ["running", "suspended", "settled"])
async def test_readiness_takes_back_nothing(
    place: Place, storage: PostgresStorage, state: str
) -> None:
    lane = await LaneScript.begin(storage)
    await lane.admit("key-1")
    statement = {"running": RUNNING, "suspended": SUSPENDED, "settled": SETTLED}[state]
    found = await behind(place, storage.ledger.mark_ready(THREAD, lane.id("key-1")), statement)
    assert isinstance(found, Submission)
    assert found.state == state
    assert (await lane.see("key-1")).state == state


@pytest.mark.rule("LED-11", "LED-14")
async def test_a_publication_while_the_parent_waits_is_not_missed(
    place: Place, storage: PostgresStorage
) -> None:
    parent, child, awaited = await family(storage)
    async with place.holding(ROW, THREAD):
        suspending = asyncio.create_task(parent.await_children("key-1", awaited))
        await place.waiting(1)
        await child.publish("child")
    assert await suspending == "resume-immediately"


@pytest.mark.rule("LED-11", "LED-14")
async def test_a_publication_that_waits_finds_the_parent_suspended(
    place: Place, storage: PostgresStorage
) -> None:
    parent, child, awaited = await family(storage)
    async with place.holding(ROW, OTHER):
        publishing = asyncio.create_task(child.publish("child"))
        await place.waiting(1)
        assert await parent.await_children("key-1", awaited) == "suspended"
    await publishing
    woken = storage.ledger.record_child_settled(THREAD, parent.id("key-1"), child=awaited)
    assert await woken == "woken"


async def family(storage: PostgresStorage) -> tuple[LaneScript, LaneScript, AwaitedChild]:
    """Return two lanes that run, and what the first one waits for in the second."""
    parent, child = await LaneScript.begin(storage), await LaneScript.begin(storage, OTHER)
    await parent.run("key-1")
    return parent, child, AwaitedChild(OTHER, await child.run("child"))


async def now(place: Place) -> int:
    """Return the server's instant, in milliseconds."""
    query = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    return int(await place.raw.fetchval(query))


async def passed(place: Place, milliseconds: int) -> None:
    """Wait until so much time went by on the server."""
    ends = await now(place) + milliseconds

    async def over() -> bool:
        return await now(place) > ends

    await until(over, f"{milliseconds} milliseconds")
