"""The storage that the conformance suites are run over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_storage_memory import open_storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from yielded_core.storage import Storage


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_storage() as opened:
        yield opened
