"""The conformance suites over the SQLite adapter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from yielded_storage_sqlite import open_storage
from yielded_testing.suites import (
    CheckpointSuite,
    DurableLedgerSuite,
    DurableSuite,
    SettlementSuite,
    StorageSuite,
    SubmissionLedgerSuite,
    ThreadStoreSuite,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from yielded_core.storage import Storage
    from yielded_testing.clock import OpenStorage, VirtualClock


@pytest.fixture
def open_again(tmp_path: Path) -> OpenStorage:
    return partial(open_storage, f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
async def storage(open_again: OpenStorage, clock: VirtualClock) -> AsyncGenerator[Storage]:
    async with open_again(clock=clock) as opened:
        yield opened


class TestThreads(ThreadStoreSuite): ...


class TestLedger(SubmissionLedgerSuite): ...


class TestSettlements(SettlementSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...


class TestDurability(DurableSuite): ...


class TestDurableLedger(DurableLedgerSuite): ...
