"""What one statement commits behind a lock that was held is right for what it finds (LED-16).

The engine looks at the locked row again, and at nothing else. Each case changes something meanwhile
that the statement has looked at, and each saboteur is a statement that forgets it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from server_side import outcome, until
from statement_saboteurs import SABOTEURS, applied

from yielded_core.errors import AppendConflict, FenceRejected, OwnershipLost
from yielded_core.ledger.transitions import ALL, Facts, step
from yielded_core.ports.values import Appended
from yielded_core.ports.work import Grant, Published
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.rendered import CLAIMED_STATE, IS_CLAIMABLE
from yielded_testing.suites.builders import EMPTY, THREAD, Writer, batch, note
from yielded_testing.suites.ledger_builders import LaneScript

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
    from typing import Any

    from server_side import Place

    from yielded_storage_postgres.store import PostgresStorage

ROW: Final = "SELECT 1 FROM yielded_threads WHERE thread_id = $1 FOR UPDATE"
CHANGED: Final = "UPDATE yielded_threads SET lane_version = lane_version + 1"
RAISED: Final = "UPDATE yielded_threads SET epoch = epoch + 1"
SETTLED: Final = (
    "UPDATE yielded_submissions SET state = 'settled', outcome = 'completed', settled_at = 1,"
    " settlement_id = 'settlement:' || submission_id"
)
LEASE: Final = 400
"""Milliseconds of a lease that is to end while somebody waits."""


@pytest.fixture
async def storage(place: Place) -> AsyncGenerator[PostgresStorage]:
    async with open_storage(place.url()) as opened:
        yield opened


async def behind(
    place: Place, work: Coroutine[Any, Any, object], *statements: str, wait: int = 0
) -> object:
    """Return what an operation answers that waited while statements ran, and so long besides."""
    async with place.holding(ROW, THREAD) as holder:
        waiting = asyncio.create_task(outcome(work))
        await place.waiting(1)
        for statement in statements:
            await holder.execute(statement)
        ends = await now(place) + wait

        async def over() -> bool:
            return await now(place) >= ends

        await until(over, f"{wait} milliseconds")
    return await waiting


async def now(place: Place) -> int:
    """Return the server's instant, in milliseconds."""
    query = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    return int(await place.raw.fetchval(query))


async def a_claim_of_what_was_settled_meanwhile(place: Place, storage: PostgresStorage) -> None:
    lane = await LaneScript.begin(storage)
    await lane.ready("key-1")
    assert await behind(place, lane.try_claim(), SETTLED, CHANGED) is None
    assert (await storage.threads.tail(THREAD)).epoch == 1


async def a_lease_begins_after_the_lock(place: Place, storage: PostgresStorage) -> None:
    lane = await LaneScript.begin(storage)
    await lane.ready("key-1")
    found = await behind(place, lane.try_claim(lease=LEASE), wait=LEASE)
    assert isinstance(found, Grant)
    assert found.expires_at > await now(place)


async def a_renewal_after_a_takeover(place: Place, storage: PostgresStorage) -> None:
    lane = await LaneScript.begin(storage)
    await lane.run("key-1")
    found = await behind(place, storage.ledger.renew(THREAD, token=lane.token), RAISED)
    assert isinstance(found, OwnershipLost)


async def a_record_that_is_archived_meanwhile_is_still_there(
    place: Place, storage: PostgresStorage
) -> None:
    """It leaves the table whose key would refuse it, and the tail stays where it was."""
    writer = await Writer.begin(storage)
    await writer.append(note("one"))
    again = storage.threads.append(THREAD, batch("two", note("one")), expected=writer.tail, epoch=1)
    found = await behind(
        place,
        again,
        "INSERT INTO yielded_archived_records"
        " SELECT thread_id, generation, record_id, sequence FROM yielded_records",
        "DELETE FROM yielded_records",
    )
    assert isinstance(found, AppendConflict)
    assert found.reason == "record-identity"


async def an_append_after_a_takeover(place: Place, storage: PostgresStorage) -> None:
    await Writer.begin(storage)
    append = storage.threads.append(THREAD, batch("one", note("one")), expected=EMPTY, epoch=1)
    assert isinstance(await behind(place, append, RAISED), FenceRejected)


async def what_a_publication_lists_is_what_is_there(place: Place, storage: PostgresStorage) -> None:
    """The next one in turn was claimable when the statement began, and waits when it ends."""
    lane = await LaneScript.begin(storage)
    await lane.run("key-1")
    await lane.ready("key-2")
    suspended = "UPDATE yielded_submissions SET state = 'suspended' WHERE idempotency_key = 'key-2'"
    published = await behind(place, lane.publish("key-1", finalize=True), suspended, CHANGED)
    assert isinstance(published, Published)
    assert await storage.ledger.runnable() == ()


CHECKS: Final[dict[str, Callable[[Place, PostgresStorage], Awaitable[None]]]] = {
    check.__name__: check
    for check in (
        a_claim_of_what_was_settled_meanwhile,
        a_lease_begins_after_the_lock,
        a_renewal_after_a_takeover,
        a_record_that_is_archived_meanwhile_is_still_there,
        an_append_after_a_takeover,
        what_a_publication_lists_is_what_is_there,
    )
}
CAUGHT_BY: Final = {
    "claim-that-looks-before-the-lock": a_claim_of_what_was_settled_meanwhile,
    "claim-that-locks-first-and-then-looks": a_claim_of_what_was_settled_meanwhile,
    "claim-whose-clock-stands-still": a_lease_begins_after_the_lock,
    "claim-that-reads-the-clock-before-the-lock": a_lease_begins_after_the_lock,
    "renewal-of-whoever-asks": a_renewal_after_a_takeover,
    "append-that-looks-at-hot-records-only": a_record_that_is_archived_meanwhile_is_still_there,
    "append-that-believes-its-memory": an_append_after_a_takeover,
    "publication-that-lists-what-it-saw": what_a_publication_lists_is_what_is_there,
}


@pytest.mark.rule("LOG-2", "LOG-3", "LED-4", "LED-6", "LED-8", "LED-16", "LED-17")
@pytest.mark.parametrize("check", CHECKS)
async def test_a_statement_that_waited_is_right_about_what_it_finds(
    place: Place, storage: PostgresStorage, check: str
) -> None:
    await CHECKS[check](place, storage)


def test_every_saboteur_names_what_catches_it() -> None:
    assert CAUGHT_BY.keys() == SABOTEURS.keys()


@pytest.mark.parametrize("saboteur", SABOTEURS)
async def test_a_saboteur_is_caught(place: Place, storage: PostgresStorage, saboteur: str) -> None:
    with applied(saboteur), pytest.raises(AssertionError):
        await CAUGHT_BY[saboteur](place, storage)


@pytest.mark.rule("LED-4")
async def test_the_statement_claims_what_the_table_of_transitions_says(place: Place) -> None:
    """For each state, aborted or not: what may be claimed, and what it becomes."""
    for state in ALL:
        for aborted in (False, True):
            row = step("claim", state, Facts(aborted=aborted))
            said = await place.raw.fetchrow(
                f"SELECT {IS_CLAIMABLE}, {CLAIMED_STATE}"
                " FROM (SELECT $1::text AS state, $2::bigint AS abort_at) AS s",
                state,
                1 if aborted else None,
            )
            assert said is not None
            claimable, claimed = said
            assert claimable == (row.then != "none")
            assert claimed == (state if row.then in {"none", "same"} else row.then)


@pytest.mark.rule("LOG-4", "LOG-5")
async def test_two_writers_of_one_process_share_what_it_knows(storage: PostgresStorage) -> None:
    """One of them wins at each tail; the other is told, and nothing is written twice."""
    await Writer.begin(storage)
    tail = EMPTY
    for number in range(8):
        appends = (
            storage.threads.append(
                THREAD, batch(f"{name}-{number}", note(f"{name}-{number}")), expected=tail, epoch=1
            )
            for name in ("a", "b")
        )
        found = await asyncio.gather(*appends, return_exceptions=True)
        won = [one for one in found if isinstance(one, Appended)]
        assert len(won) == 1
        assert sum(isinstance(one, AppendConflict) for one in found) == 1
        tail = won[0].tail
    assert len(await storage.threads.read(THREAD)) == 8
