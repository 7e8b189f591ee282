"""The conformance suites of the installed wheel over the installed SQLite adapter (CRT-9)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from yielded_core.storage import open_storage
from yielded_testing.suites import CheckpointSuite, DurableSuite, StorageSuite, ThreadStoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from yielded_core.storage import Storage

pytestmark = pytest.mark.asyncio


@pytest.fixture
def open_again(tmp_path: Path) -> Callable[[], Storage]:
    return partial(open_storage, f"sqlite:///{tmp_path}/store.db")


@pytest_asyncio.fixture
async def storage(open_again: Callable[[], Storage]) -> AsyncGenerator[Storage]:
    async with open_again() as opened:
        yield opened


class TestThreads(ThreadStoreSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...


class TestDurability(DurableSuite): ...
