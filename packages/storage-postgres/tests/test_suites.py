"""The conformance suites over the PostgreSQL adapter.

`YIELDED_POSTGRES_OPTIONS` adds options to the URL of their stores, such as `partitions=4`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from emptied import empty

from yielded_storage_postgres import open_storage
from yielded_testing.suites import (
    CheckpointSuite,
    DurableLedgerSuite,
    DurableSuite,
    SettlementSuite,
    StorageSuite,
    SubmissionLedgerSuite,
    ThreadStoreSuite,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from yielded_core.storage import Storage
    from yielded_testing.clock import OpenStorage, VirtualClock


@pytest.fixture(scope="module")
def free_schemas() -> list[str]:
    """The schemas of cases that are over: to empty one takes a hundredth of making it."""
    return []


@pytest.fixture
async def open_again(
    postgres_url: str, suite_schemas: list[str], free_schemas: list[str]
) -> AsyncGenerator[OpenStorage]:
    if not free_schemas:
        free_schemas.append(f"suite_{uuid4().hex}")
        suite_schemas.append(free_schemas[-1])
    schema = free_schemas.pop()
    await empty(postgres_url, schema)
    options = os.environ.get("YIELDED_POSTGRES_OPTIONS", "")
    yield partial(open_storage, f"{postgres_url}?schema={schema}&{options}".rstrip("&"))
    free_schemas.append(schema)


@pytest.fixture
async def storage(open_again: OpenStorage, clock: VirtualClock) -> AsyncGenerator[Storage]:
    async with open_again(clock=clock) as opened:
        yield opened


class TestThreads(ThreadStoreSuite): ...


class TestLedger(SubmissionLedgerSuite): ...


class TestSettlements(SettlementSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...


class TestDurability(DurableSuite): ...


class TestDurableLedger(DurableLedgerSuite): ...
