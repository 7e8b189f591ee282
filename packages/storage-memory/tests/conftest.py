"""The storages that the conformance suites are run over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_storage_memory import open_storage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from yielded_core.storage import Storage
    from yielded_testing.clock import OpenStorage, VirtualClock


@pytest.fixture
def open_again() -> OpenStorage:
    return open_storage


@pytest.fixture
async def storage(clock: VirtualClock) -> AsyncGenerator[Storage]:
    async with open_storage(clock=clock) as opened:
        yield opened
