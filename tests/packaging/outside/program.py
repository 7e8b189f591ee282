"""A program that appends to a thread and reads it back, found by the store's URL alone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from yielded_core.digest import EMPTY_TAIL_DIGEST
from yielded_core.ports.values import Batch, Tail
from yielded_core.records.envelope import Record
from yielded_core.records.identifiers import (
    BatchId,
    DeploymentId,
    ProducerId,
    RecordId,
    ThreadId,
)
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from pathlib import Path


async def remember(url: str) -> list[bytes]:
    """Append one record to a new thread of the store, and return what the thread then holds."""
    thread = ThreadId("greeting")
    record = Record(
        record_id=RecordId("record-1"),
        created_at=datetime(2030, 1, 2, tzinfo=UTC),
        deployment_id=DeploymentId("outside"),
        payload=UserInputRecorded(kind="user", input={"text": "hello"}),
    )
    batch = Batch(BatchId("batch-1"), ProducerId("outside"), (record,))
    async with open_storage(url) as storage:
        await storage.threads.materialize(thread, epoch=1)
        await storage.threads.append(thread, batch, expected=Tail(0, EMPTY_TAIL_DIGEST), epoch=1)
        return [stored.wire for stored in await storage.threads.read(thread)]


@pytest.mark.parametrize("url", ["memory://", "sqlite:///store.db"])
def test_a_thread_remembers(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (wire,) = asyncio.run(remember(url))
    assert b'"input":{"text":"hello"}' in wire
