"""The conformance suites of the installed wheel over the installed memory adapter (CRT-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from yielded_storage_memory import open_storage
from yielded_testing.suites import (
    CheckpointSuite,
    SettlementSuite,
    StorageSuite,
    SubmissionLedgerSuite,
    ThreadStoreSuite,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from yielded_core.storage import Storage
    from yielded_testing.clock import OpenStorage, VirtualClock

pytestmark = pytest.mark.asyncio


@pytest.fixture
def open_again() -> OpenStorage:
    return open_storage


@pytest_asyncio.fixture
async def storage(open_again: OpenStorage, clock: VirtualClock) -> AsyncGenerator[Storage]:
    async with open_again(clock=clock) as opened:
        yield opened


class TestThreads(ThreadStoreSuite): ...


class TestLedger(SubmissionLedgerSuite): ...


class TestSettlements(SettlementSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...
