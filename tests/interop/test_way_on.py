"""The way from one store to another, of any adapter or layout: export and import (LAY-5)."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from yielded_core import (
    Batch,
    BatchId,
    ProducerId,
    Storage,
    StoredRecord,
    ThreadId,
    open_storage,
)
from yielded_core.errors import StoreRefused
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.files import read_archive, write_archive
from yielded_core.transfer.importing import import_archive
from yielded_core.transfer.verify import verify_thread
from yielded_testing.clock import VirtualClock
from yielded_testing.samples import sample_record
from yielded_testing.suites.archive_lanes import every_state
from yielded_testing.suites.ledger_values import work
from yielded_testing.suites.transfer import content_of, lines_of

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_testing.suites.archive_pages import Page

THREAD = ThreadId("moved")


async def _fill(storage: Storage) -> None:
    await storage.threads.materialize(THREAD, epoch=3)
    for number in range(1, 30):
        tail = (await storage.threads.tail(THREAD)).tail
        payload = UserInputRecorded(kind="user", input={"said": "\x00\U0001f600" * number})
        batch = Batch(
            BatchId(f"batch-{number}"), ProducerId("producer"), (sample_record(payload, number),)
        )
        await storage.threads.append(THREAD, batch, expected=tail, epoch=3)


async def _move(
    source: Storage, destination: Storage, archive: Path, thread: ThreadId = THREAD
) -> None:
    async with write_archive(archive) as writer:
        async for page in export_pages(source, thread):
            await writer.write(page.text)
    await import_archive(destination, read_archive(archive))


def _content(records: tuple[StoredRecord, ...]) -> list[tuple[int, str, bytes]]:
    return [(record.sequence, record.batch_id, record.wire) for record in records]


def _url(adapter: str, folder: Path, name: str) -> str:
    return "memory://" if adapter == "memory" else f"sqlite:///{folder / name}.db"


@pytest.mark.rule("LAY-5", "ARC-4", "ARC-5")
@pytest.mark.parametrize("source", ["memory", "sqlite"])
@pytest.mark.parametrize("destination", ["memory", "sqlite"])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.zst", "jsonl.gz"])
async def test_a_thread_moves_between_adapters_byte_for_byte(
    source: str, destination: str, ending: str, tmp_path: Path
) -> None:
    async with (
        open_storage(_url(source, tmp_path, "source")) as old,
        open_storage(_url(destination, tmp_path, "destination")) as new,
    ):
        await _fill(old)
        await _move(old, new, tmp_path / f"thread.{ending}")
        assert await new.threads.tail(THREAD) == await old.threads.tail(THREAD)
        assert _content(await new.threads.read(THREAD)) == _content(await old.threads.read(THREAD))
        assert (await verify_thread(new, THREAD)).ok


@pytest.mark.rule("LAY-5", "ARC-2", "ARC-4", "ARC-5")
@pytest.mark.parametrize("way", ["memory sqlite memory", "sqlite memory sqlite"])
async def test_accepted_work_goes_there_and_back(way: str, tmp_path: Path) -> None:
    """In every state, under the same names: each archive on the way says the same."""
    archives: list[list[Page]] = []
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(open_storage(_url(adapter, tmp_path, f"step-{step}")))
            for step, adapter in enumerate(way.split())
        ]
        lane = await every_state(stores[0], VirtualClock())
        for step, (source, store) in enumerate(pairwise(stores)):
            await _move(source, store, tmp_path / f"step-{step}.jsonl.zst", lane.thread)
        for store in stores:
            archives.append(content_of(await lines_of(store, lane.thread)))
            assert (await verify_thread(store, lane.thread)).ok
        assert archives[0] == archives[1] == archives[2]
        again = await stores[-1].ledger.admit(work("queued", thread=lane.thread))
        assert again == replace(lane.receipts["queued"], replayed=True)
        found = await stores[-1].ledger.scan_nonterminal()
        assert [one.state for one in found] == [
            "unknown",
            "input-applied",
            "input-applied",
            "joined",
            "ready",
            "ready",
            "ready",
        ]


@pytest.mark.rule("LAY-5", "LAY-3")
async def test_another_layout_is_refused_and_its_archive_taken(tmp_path: Path) -> None:
    """There is no upgrade: what another layout holds comes in as an archive or not at all."""
    archive = tmp_path / "thread.jsonl"
    async with open_storage("memory://") as old:
        await _fill(old)
        async with write_archive(archive) as writer:
            async for page in export_pages(old, THREAD):
                await writer.write(page.text)
    path = tmp_path / "other-layout.db"
    async with open_storage(f"sqlite:///{path}") as store:
        await import_archive(store, read_archive(archive))
    _claim_layout(path, 22)
    with pytest.raises(StoreRefused) as refused:
        async with open_storage(f"sqlite:///{path}"):
            pytest.fail("a store of another layout was opened")
    assert refused.value.reason == "newer"
    async with open_storage(f"sqlite:///{tmp_path / 'current.db'}") as store:
        assert (await import_archive(store, read_archive(archive))).sequence == 29


def _claim_layout(path: Path, version: int) -> None:

    connection = sqlite3.connect(path)
    connection.execute("UPDATE yielded_header SET layout_version = ?", (version,))
    connection.commit()
    connection.close()
