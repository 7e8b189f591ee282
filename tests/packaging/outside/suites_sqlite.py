"""The conformance suites of the installed wheel over the installed SQLite adapter (CRT-9)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

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

pytestmark = pytest.mark.asyncio


@pytest.fixture
def open_again(tmp_path: Path) -> OpenStorage:
    return partial(open_storage, f"sqlite:///{tmp_path}/store.db")


@pytest_asyncio.fixture
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
