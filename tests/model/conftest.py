"""A PostgreSQL store for the model's histories, which is emptied before each."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

TESTS: Final = Path(__file__).parents[2] / "packages" / "storage-postgres" / "tests"
sys.path.insert(0, str(TESTS))  # the server, and what empties a store

from emptied import FolderStores  # noqa: E402
from server_choice import chosen, drop, running  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres_stores() -> Iterator[FolderStores]:
    schema = f"model_{uuid4().hex}"
    with running(chosen(os.environ)) as server:
        yield FolderStores(server.url, schema)
        if "YIELDED_POSTGRES_URL" in os.environ:
            asyncio.run(drop(server.url, [schema]))
