"""What the server and its driver fail with, as typed errors that tell nothing else (STO-3)."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Final

import pytest
from server_side import PASSWORD, Failure, outcome
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from yielded_core.errors import (
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.faults import storage_fault, typed
from yielded_testing.suites.builders import EMPTY, THREAD, Writer, batch, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import refused, stored_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine
    from typing import Any

    from server_side import Place

    from yielded_core.ports.values import Appended
    from yielded_storage_postgres.store import PostgresStorage

ROW: Final = "SELECT 1 FROM yielded_threads WHERE thread_id = $1 FOR UPDATE"
STATES: Final[dict[str, type[StorageError]]] = {
    "08003": StorageUnavailable,
    "08006": StorageUnavailable,
    "22021": StorageError,
    "22P05": StorageError,
    "23505": StorageError,
    "25006": StorageReadOnly,
    "25P03": StorageBusy,
    "25P04": StorageBusy,
    "28P01": StorageUnavailable,
    "3D000": StorageUnavailable,
    "40001": StorageBusy,
    "40P01": StorageBusy,
    "42501": StorageReadOnly,
    "42P01": StorageError,
    "53100": StorageFull,
    "53200": StorageBusy,
    "53300": StorageBusy,
    "53400": StorageBusy,
    "55P03": StorageBusy,
    "57014": StorageBusy,
    "57P01": StorageUnavailable,
    "57P03": StorageUnavailable,
    "58030": StorageUnavailable,
    "XX000": StorageError,
    "XX001": StorageCorrupt,
    "XX002": StorageCorrupt,
}
SHORT: Final = (
    "ALTER TABLE yielded_records ADD CONSTRAINT short CHECK (length(record_id) < 9)",
    "ALTER TABLE yielded_submissions ADD CONSTRAINT low CHECK (idempotency_key < 'k')",
)
"""What makes the server refuse a row, and say which."""
TIMEOUTS: Final = ("lock_timeout", "statement_timeout")


@pytest.fixture
async def storage(place: Place) -> AsyncGenerator[PostgresStorage]:
    async with open_storage(place.url()) as opened:
        yield opened


def append(storage: PostgresStorage, name: str = "one") -> Coroutine[Any, Any, Appended]:
    """Append one note to the empty thread."""
    return storage.threads.append(THREAD, batch(name, note(name)), expected=EMPTY, epoch=1)


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("state", STATES)
def test_a_state_of_the_server_has_an_error(state: str) -> None:
    found = storage_fault(DBAPIError("SELECT 1", None, Failure(state)))
    assert type(found) is STATES[state]
    assert "words" not in f"{found}"


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("error", [OSError("words"), DBAPIError("x", None, Failure(None))])
def test_without_a_state_the_connection_failed(error: Exception) -> None:
    with pytest.raises(StorageUnavailable) as caught, typed():
        raise error
    assert caught.value.__cause__ is None


def test_a_pool_without_a_free_connection_is_busy() -> None:
    with pytest.raises(StorageBusy), typed():
        raise PoolTimeout


@pytest.mark.rule("STO-3", "LOG-7")
async def test_connections_killed_between_operations_cost_one_try(
    place: Place, storage: PostgresStorage
) -> None:
    """The pool held several; the one that is noticed takes the others with it."""
    threads = [ThreadId(f"thread-{number}") for number in range(6)]
    await asyncio.gather(*(storage.threads.materialize(each, epoch=1) for each in threads))
    assert len(await place.backends()) > 1
    await place.raw.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
        place.schema,
    )
    await place.gone()
    assert (await refused(StorageUnavailable, storage.threads.tail(threads[0]))).retryable
    found = await asyncio.gather(*(storage.threads.tail(each) for each in threads))
    assert [each.epoch for each in found] == [1] * 6


@pytest.mark.rule("STO-3", "LOG-7")
@pytest.mark.parametrize("function", ["pg_terminate_backend", "pg_cancel_backend"])
async def test_an_append_whose_connection_is_killed_can_be_repeated(
    place: Place, storage: PostgresStorage, function: str
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with place.holding(ROW, THREAD):
        appending = asyncio.create_task(outcome(append(storage)))
        await place.waiting(1)
        (waiting,) = await place.backends("%UPDATE %yielded_threads%")
        await place.raw.execute(f"SELECT {function}($1)", waiting)
        error = await appending
    assert isinstance(error, StorageUnavailable if "terminate" in function else StorageBusy)
    assert error.retryable
    assert await storage.threads.read(THREAD) == ()
    assert not (await append(storage)).replayed


@pytest.mark.rule("STO-3")
async def test_a_server_that_only_reads_is_told_from_one_that_fails(
    place: Place, storage: PostgresStorage
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with place.role("default_transaction_read_only = on") as role:
        await place.grant(role)
        async with open_storage(place.url(role=role)) as reading:
            await refused(StorageReadOnly, append(reading))
            assert (await reading.threads.tail(THREAD)).sequence == 0


@pytest.mark.rule("STO-3")
async def test_a_role_without_a_privilege_is_told_so(
    place: Place, storage: PostgresStorage
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with place.role() as role:
        with pytest.raises(StorageReadOnly, match="privilege"):
            await open_storage(place.url(role=role)).__aenter__()
        await place.grant(role, "SELECT, UPDATE")
        async with open_storage(place.url(role=role)) as reading:
            error = await refused(StorageReadOnly, append(reading))
            assert "privilege" in error.detail
            assert await reading.threads.read(THREAD) == ()


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("setting", TIMEOUTS)
@pytest.mark.parametrize("of", ["url", "role"])
async def test_a_lock_that_is_not_given_in_time_is_busy(
    place: Place, storage: PostgresStorage, of: str, setting: str
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with place.role(*([f"{setting} = '1s'"] if of == "role" else [])) as role:
        await place.grant(role)
        options = [f"{setting}=1s"] if of == "url" else []
        async with open_storage(place.url(*options, role=role)) as impatient:
            async with place.holding(ROW, THREAD):
                assert (await refused(StorageBusy, append(impatient))).retryable
            assert not (await append(impatient)).replayed


@pytest.mark.rule("STO-3")
async def test_connections_that_the_server_does_not_give_are_busy(
    place: Place, storage: PostgresStorage
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with place.role(attributes="CONNECTION LIMIT 2") as role:
        await place.grant(role)
        async with open_storage(place.url("pool=8", role=role)) as many:
            reads = (outcome(many.threads.tail(THREAD)) for _ in range(8))
            found = await asyncio.gather(*reads)
            errors = [each for each in found if isinstance(each, BaseException)]
            assert 0 < len(errors) < 8
            assert {type(each) for each in errors} == {StorageBusy}
            assert (await many.threads.tail(THREAD)).sequence == 0


@pytest.mark.rule("STO-3")
async def test_a_pool_that_is_used_up_is_busy_at_the_deadline(
    place: Place, storage: PostgresStorage
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with open_storage(place.url("pool=1", "deadline=0.2")) as small:
        async with place.holding(ROW, THREAD):
            appending = asyncio.create_task(append(small))
            await place.waiting(1)
            await refused(StorageBusy, small.threads.tail(THREAD))
        await appending
        assert (await small.threads.tail(THREAD)).sequence == 1


@pytest.mark.rule("STO-3", "REC-1")
async def test_a_character_that_the_database_cannot_hold_is_told_and_harms_nothing(
    place: Place,
) -> None:
    """A database should have the encoding UTF8; one that has not refuses what it would lose."""
    latin = f"latin_{place.schema}"
    await place.run(
        f"CREATE DATABASE {latin} TEMPLATE template0 ENCODING 'LATIN1'"
        " LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER libc"
    )
    try:
        url = make_url(place.server).set(database=latin).render_as_string(hide_password=False)
        async with open_storage(url) as storage:
            writer = await Writer.begin(storage, ThreadId("fil-été"))
            error = await refused(StorageError, writer.append(note("記録")))
            assert type(error) is StorageError
            assert "UTF8" in error.detail
            assert not error.retryable
            await writer.append(note("été", "記録"))
            assert await stored_names(storage, writer.thread) == ["été"]
    finally:
        await place.run(f"DROP DATABASE {latin}")


@pytest.mark.rule("STO-3")
async def test_no_error_repeats_what_was_written(place: Place) -> None:
    """The server refuses a row and tells its values; neither they nor the SQL come any further."""
    async with open_storage(place.url()):
        pass  # the store comes into being
    async with place.role() as role:
        await place.grant(role)
        async with open_storage(place.url(role=role)) as writing:
            await place.run(*SHORT)
            writer = await Writer.begin(writing, ThreadId("canary-thread"))
            failed = [
                await refused(StorageError, writer.append(note("canary-record", "canary-payload"))),
                await refused(StorageError, LaneScript(writing).admit("key-canary")),
            ]
    for error in failed:
        shown = f"{error} {error!r} {error.fields()} {''.join(traceback.format_exception(error))}"
        assert "23514" in shown
        assert not error.retryable
        for secret in ("canary", PASSWORD, "INSERT INTO", "Failing row"):
            assert secret not in shown
