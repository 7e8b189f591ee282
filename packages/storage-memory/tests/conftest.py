"""The storages that the conformance suites are run over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_storage_memory import open_storage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from yielded_core.storage import Storage


@pytest.fixture
def open_again() -> Callable[[], Storage]:
    return open_storage


@pytest.fixture
async def storage() -> AsyncGenerator[Storage]:
    async with open_storage() as opened:
        yield opened
