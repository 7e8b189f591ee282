"""The conformance suites over the SQLite adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_storage_sqlite import open_storage
from yielded_testing.suites import ThreadStoreSuite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from yielded_core.storage import Storage


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
async def storage(url: str) -> AsyncIterator[Storage]:
    async with open_storage(url) as opened:
        yield opened


class TestThreads(ThreadStoreSuite): ...
