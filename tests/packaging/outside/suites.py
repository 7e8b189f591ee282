"""The conformance suites of the installed wheel over the installed adapters (CRT-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from yielded_core.storage import open_storage
from yielded_testing.suites import ThreadStoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from yielded_core.storage import Storage

pytestmark = pytest.mark.asyncio


class TestMemoryThreads(ThreadStoreSuite):
    """The memory adapter."""

    @pytest_asyncio.fixture
    async def storage(self) -> AsyncIterator[Storage]:
        """Open a store that is found by its URL."""
        async with open_storage("memory://") as storage:
            yield storage


class TestSqliteThreads(ThreadStoreSuite):
    """The SQLite adapter."""

    @pytest_asyncio.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[Storage]:
        """Open a store in a file of its own."""
        async with open_storage(f"sqlite:///{tmp_path}/store.db") as storage:
            yield storage
