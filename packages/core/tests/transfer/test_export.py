"""Exporting: pages over one capture, resumable at each of them, never of a damaged log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from yielded_core.digest import batch_content, chain_digest
from yielded_core.errors import (
    ExportInvalidated,
    InvalidIdentifier,
    OffsetRefused,
    StorageCorrupt,
    ThreadDeleted,
    ThreadNotMaterialized,
)
from yielded_core.log.offsets import seal_cursor
from yielded_core.records.bounds import CURSOR_UNITS, TRANSFER_BYTES
from yielded_core.records.identifiers import Cursor, RecordId, ThreadId
from yielded_core.storage import open_storage
from yielded_core.transfer.export import export_pages
from yielded_testing.sample_parts import Subject
from yielded_testing.samples import sample_payload
from yielded_testing.suites.archive_pages import SECTIONS, archive_lines, parsed_pages, stored_log
from yielded_testing.suites.builders import (
    EMPTY_DIGEST,
    OTHER,
    THREAD,
    Writer,
    batch,
    note,
    notes,
    record,
)
from yielded_testing.suites.ledger_values import work
from yielded_testing.suites.support import whole_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from yielded_core.ports.values import StoredBatch, TransferPage
    from yielded_core.storage import Storage


async def pages_of(storage: Storage, cursor: Cursor | None = None) -> list[TransferPage]:
    return [page async for page in export_pages(storage, THREAD, cursor=cursor)]


async def filled(storage: Storage) -> Writer:
    writer = await Writer.begin(storage, epoch=3)
    await writer.fill(1, 3, 2)
    return writer


@pytest.mark.rule("ARC-2")
async def test_the_pages_are_the_whole_log_then_every_section(storage: Storage) -> None:
    await filled(storage)
    pages = await pages_of(storage)
    assert [page.section for page in pages] == [*["batches"] * 3, *SECTIONS]
    assert [page.last_sequence for page in pages] == [1, 4, 6, 0, 0, 0, 0, 0]
    assert [page.cursor is None for page in pages] == [False] * 7 + [True]
    by_hand = parsed_pages(archive_lines(await whole_log(storage), epoch=3))
    seals = {"cursor", "pageDigest", "previousPageDigest"}
    for page, expected in zip(parsed_pages(page.text for page in pages), by_hand, strict=True):
        shown = {name: value for name, value in page.items() if name not in seals}
        assert shown == {name: value for name, value in expected.items() if name not in seals}


@pytest.mark.rule("ARC-2")
async def test_an_empty_thread_has_its_sections_alone(storage: Storage) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    assert [page.section for page in await pages_of(storage)] == list(SECTIONS)


@pytest.mark.rule("ARC-2")
async def test_an_export_goes_on_byte_for_byte_after_any_page(storage: Storage) -> None:
    writer = await filled(storage)
    pages = await pages_of(storage)
    await writer.fill(2, 2)
    await storage.threads.materialize(THREAD, epoch=9)
    for index, page in enumerate(pages[:-1]):
        assert page.cursor is not None
        assert len(page.cursor) <= CURSOR_UNITS
        assert await pages_of(storage, page.cursor) == pages[index + 1 :]
    again = await pages_of(storage)
    assert len(again) == len(pages) + 2


@pytest.mark.rule("ARC-2")
async def test_appends_while_it_runs_are_left_out(storage: Storage) -> None:
    writer = await filled(storage)
    before = await pages_of(storage)
    during: list[TransferPage] = []
    async for page in export_pages(storage, THREAD):
        during.append(page)
        await writer.fill(1)
    assert during == before


@pytest.mark.rule("ARC-2", "STO-4")
async def test_a_cursor_is_good_for_its_thread_store_and_incarnation(storage: Storage) -> None:
    await filled(storage)
    cursor = (await pages_of(storage))[1].cursor
    assert cursor is not None
    await storage.threads.materialize(OTHER, epoch=1)
    with pytest.raises(OffsetRefused):
        await anext(export_pages(storage, OTHER, cursor=cursor))
    async with open_storage("memory://") as elsewhere:
        await filled(elsewhere)
        with pytest.raises(OffsetRefused):
            await pages_of(elsewhere, cursor)
    for changed in (cursor[:-1], cursor + "=", "c1.." + cursor, cursor.swapcase()):
        with pytest.raises(OffsetRefused):
            await pages_of(storage, Cursor(changed))
    await storage.new_incarnation()
    with pytest.raises(OffsetRefused):
        await pages_of(storage, cursor)


@pytest.mark.rule("ARC-2")
async def test_a_cursor_whose_capture_the_thread_does_not_hold_is_refused(storage: Storage) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    incarnation = (await storage.info()).incarnation
    captured: dict[str, object] = {
        "sequence": 5,
        "digest": "a" * 64,
        "epoch": "1",
        "factRevision": 0,
    }
    position: dict[str, object] = {
        "captured": captured,
        "pages": 1,
        "content": "a" * 64,
        "sequence": 5,
        "digest": "a" * 64,
        "sections": 0,
    }
    replaced: dict[str, object] = {**position, "captured": {**captured, "sequence": 0}}
    for body in (position, replaced, {}):
        with pytest.raises(OffsetRefused):
            await pages_of(storage, seal_cursor(incarnation, THREAD, body))


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize("at", range(1, 8))
async def test_changed_facts_invalidate_a_cursor_and_a_running_export(
    storage: Storage, at: int
) -> None:
    await filled(storage)
    pages = await pages_of(storage)
    running = export_pages(storage, THREAD)
    assert [await anext(running) for _ in range(at)] == pages[:at]
    await storage.ledger.admit(work())
    with pytest.raises(ExportInvalidated):
        await pages_of(storage, pages[at - 1].cursor)
    with pytest.raises(ExportInvalidated):
        await _left(running)


async def _left(running: AsyncIterator[TransferPage]) -> None:
    async for page in running:
        assert page.section == "batches"


@pytest.mark.rule("ARC-2", "LOG-1")
async def test_a_thread_that_is_not_there_is_refused(storage: Storage) -> None:
    with pytest.raises(ThreadNotMaterialized):
        await pages_of(storage)
    with pytest.raises(InvalidIdentifier):
        await anext(export_pages(storage, ThreadId("")))
    await storage.threads.materialize(THREAD, epoch=1)
    await storage.threads.delete_thread(THREAD)
    with pytest.raises(ThreadDeleted):
        await pages_of(storage)


@pytest.mark.rule("ARC-2")
async def test_each_page_names_the_records_outside_it(storage: Storage) -> None:
    writer = await Writer.begin(storage)
    await writer.append(*(note(f"record-{number}") for number in range(1, 7)))
    await writer.append(record("context", sample_payload("RunContextRecorded", Subject())))
    pages = parsed_pages(page.text for page in await pages_of(storage))
    assert pages[0]["dependencies"] == []
    assert pages[1]["dependencies"] == ["record-2", "record-5"]


@pytest.mark.rule("ARC-2")
async def test_the_largest_batch_fits_a_page(storage: Storage) -> None:
    writer = await Writer.begin(storage)
    largest = [note(f"large-{number}", "x" * (1_048_576 - 2)) for number in range(15)]
    await writer.append(*largest)
    await writer.append(note("small"))
    pages = await pages_of(storage)
    assert 15 * 1_048_576 < len(pages[0].text) < TRANSFER_BYTES
    assert pages[1].last_sequence == 16


def _with_wire(stored: StoredBatch, wire: bytes) -> tuple[StoredBatch]:
    """Return a batch of one record that is not valid, its chain made right over it."""
    content = batch_content(stored.batch_id, stored.producer_id, [wire])
    tail = chain_digest(EMPTY_DIGEST, content)
    return (replace(stored, records=((RecordId("x"), wire),), tail_digest=tail),)


async def _damaged(storage: Storage, monkeypatch: pytest.MonkeyPatch, *kept: StoredBatch) -> None:
    async def read(_thread: ThreadId, *, after: int, **_options: int) -> tuple[StoredBatch, ...]:
        return tuple(each for each in kept if each.first_sequence > after)

    monkeypatch.setattr(storage.threads, "read_batches", read)


@pytest.mark.rule("ARC-2", "ARC-3")
async def test_a_damaged_log_is_not_exported(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(storage)
    one, two, three = await whole_log(storage)
    (name, wire), *others = two.records
    damages = (
        (one, replace(two, records=((name, wire + b" "), *others)), three),
        (one, replace(two, records=tuple(others)), three),
        (one, three),
        (one, two),
        (one, two, replace(three, tail_digest=one.tail_digest)),
        (replace(one, first_sequence=2), two, three),
        tuple(stored_log(*(batch(f"batch-{each}", *notes("x", each)) for each in (1, 2, 3)))),
        _with_wire(one, wire.replace(b"RepairAnnotated", b"WorkHandoffCompleted")),
    )
    for kept in damages:
        await _damaged(storage, monkeypatch, *kept)
        with pytest.raises(StorageCorrupt):
            await pages_of(storage)


@pytest.mark.rule("ARC-2")
async def test_it_can_be_cancelled_and_goes_on_from_its_last_page(storage: Storage) -> None:
    await filled(storage)
    whole = await pages_of(storage)
    seen: list[TransferPage] = []
    two_seen = asyncio.Event()

    async def export() -> None:
        async for page in export_pages(storage, THREAD):
            seen.append(page)
            if len(seen) == 2:
                two_seen.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(export())
    await two_seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen + await pages_of(storage, seen[-1].cursor) == whole
