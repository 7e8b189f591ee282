"""The conformance suites of the installed wheel over the installed memory adapter (CRT-9)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from yielded_core.storage import open_storage
from yielded_testing.suites import CheckpointSuite, StorageSuite, ThreadStoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from yielded_core.storage import Storage

pytestmark = pytest.mark.asyncio


@pytest.fixture
def open_again() -> Callable[[], Storage]:
    return partial(open_storage, "memory://")


@pytest_asyncio.fixture
async def storage(open_again: Callable[[], Storage]) -> AsyncGenerator[Storage]:
    async with open_again() as opened:
        yield opened


class TestThreads(ThreadStoreSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...
