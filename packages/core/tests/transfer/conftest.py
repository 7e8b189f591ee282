"""Two stores to move threads between, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from yielded_core.storage import Storage


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_storage("memory://") as opened:
        yield opened


@pytest.fixture
async def destination() -> AsyncIterator[Storage]:
    async with open_storage("memory://") as opened:
        yield opened
