"""Operations that wait for one lock take turns, each on what the one before it left (LED-16).

On threads and imports that are there, and on those that several create at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest
from server_side import queued

from yielded_core.errors import AppendConflict, FenceRejected, ThreadDeleted
from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Appended, ImportState, ThreadTail, Tombstone
from yielded_storage_postgres import open_storage
from yielded_testing.suites.builders import (
    EMPTY,
    THREAD,
    Writer,
    batch,
    next_digest,
    note,
    record_bytes,
)
from yielded_testing.suites.ledger_values import work

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from server_side import Place

    from yielded_core.ports.values import PreparedBatch
    from yielded_core.ports.work import Admitted
    from yielded_storage_postgres.store import PostgresStorage

ROW: Final = "SELECT 1 FROM yielded_threads WHERE thread_id = $1 FOR UPDATE"
NEW_THREAD: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 21))"


@pytest.fixture
async def storage(place: Place) -> AsyncGenerator[PostgresStorage]:
    async with open_storage(place.url()) as opened:
        yield opened


@pytest.mark.rule("LED-1", "LED-16")
async def test_one_key_admits_once_to_a_thread_that_is_not_there(
    place: Place, storage: PostgresStorage
) -> None:
    async with place.holding(NEW_THREAD, THREAD):
        admitting = [asyncio.create_task(storage.ledger.admit(work())) for _ in range(3)]
        await place.waiting(3)
    found: list[Admitted] = await asyncio.gather(*admitting)
    assert sorted(each.replayed for each in found) == [False, True, True]
    assert len({(each.submission_id, each.receipt_id) for each in found}) == 1
    assert await place.count("yielded_submissions") == 1


@pytest.mark.rule("LOG-1", "LOG-3")
@pytest.mark.parametrize("epochs", [(3, 7), (7, 3), (5, 5)])
@pytest.mark.parametrize("admitted", [False, True])
async def test_the_lower_of_two_epochs_never_wins(
    place: Place, storage: PostgresStorage, epochs: tuple[int, int], *, admitted: bool
) -> None:
    """On a thread that is not there, or that only accepted work."""
    if admitted:
        await storage.ledger.admit(work())
    async with place.holding(NEW_THREAD, THREAD):
        made = await queued(
            place, *(storage.threads.materialize(THREAD, epoch=epoch) for epoch in epochs)
        )
    first, second = await asyncio.gather(*made)
    assert isinstance(first, ThreadTail)
    assert isinstance(second, FenceRejected if epochs[1] < epochs[0] else ThreadTail)
    assert (await storage.threads.tail(THREAD)).epoch == max(epochs)


@pytest.mark.rule("ARC-7", "LOG-2")
@pytest.mark.parametrize("first", ["delete", "append"])
async def test_a_deletion_and_an_append_come_one_after_the_other(
    place: Place, storage: PostgresStorage, first: str
) -> None:
    writer = await Writer.begin(storage)
    delete = storage.threads.delete_thread(THREAD)
    append = writer.append(note("one"))
    async with place.holding(ROW, THREAD):
        order = (delete, append) if first == "delete" else (append, delete)
        made = await queued(place, *order)
    found = await asyncio.gather(*made)
    if first == "delete":
        tombstone, answer = found
        assert isinstance(answer, ThreadDeleted)
    else:
        answer, tombstone = found
        assert isinstance(answer, Appended)
    assert isinstance(tombstone, Tombstone)
    assert tombstone.tail == writer.tail
    assert await place.count("yielded_records") == 0


@pytest.mark.rule("ARC-4")
async def test_one_of_several_begins_an_import_and_the_others_resume_it(
    place: Place, storage: PostgresStorage
) -> None:
    archive, _ = archived()
    async with place.holding(NEW_THREAD, THREAD):
        begin = (storage.archives.begin_import(archive) for _ in range(3))
        made = await queued(place, *begin)
    first, *others = await asyncio.gather(*made)
    assert isinstance(first, ImportState)
    assert others == [first, first]


@pytest.mark.rule("ARC-4")
@pytest.mark.parametrize("then", ["stage", "discard", "publish"])
async def test_what_waits_for_the_staging_of_a_batch_sees_it(
    place: Place, storage: PostgresStorage, then: str
) -> None:
    archive, batches = archived()
    await storage.archives.begin_import(archive)
    after: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "stage": lambda: storage.archives.stage_batches(THREAD, batches),
        "discard": lambda: storage.archives.discard_import(THREAD),
        "publish": lambda: storage.archives.publish_import(THREAD),
    }
    async with place.holding("SELECT 1 FROM yielded_imports FOR UPDATE"):
        made = await queued(place, after["stage"](), after[then]())
    staged, answer = await asyncio.gather(*made)
    assert isinstance(staged, ImportState)
    assert staged.complete
    if then == "stage":
        assert isinstance(answer, AppendConflict)
        assert answer.reason == "batch-digest"
    elif then == "publish":
        assert answer == archive
    assert await place.count("yielded_records") == (then != "discard")


def archived() -> tuple[ThreadTail, list[tuple[PreparedBatch, int]]]:
    """Return the tail of an archive of one batch, and that batch."""
    prepared = prepare_batch(batch("one", note("one")))
    digest = next_digest(EMPTY.digest, "one", [record_bytes(note("one"))])
    return ThreadTail(THREAD, 1, digest, 1), [(prepared, 1)]
