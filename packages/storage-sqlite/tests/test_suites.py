"""The conformance suites over the SQLite adapter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from yielded_storage_sqlite import open_storage
from yielded_testing.suites import CheckpointSuite, DurableSuite, StorageSuite, ThreadStoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from yielded_core.storage import Storage


@pytest.fixture
def open_again(tmp_path: Path) -> Callable[[], Storage]:
    return partial(open_storage, f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
async def storage(open_again: Callable[[], Storage]) -> AsyncGenerator[Storage]:
    async with open_again() as opened:
        yield opened


class TestThreads(ThreadStoreSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...


class TestDurability(DurableSuite): ...
