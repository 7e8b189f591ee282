"""A PostgreSQL store for the model's histories, which is emptied before each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

TESTS: Final = Path(__file__).parents[2] / "packages" / "storage-postgres" / "tests"
sys.path.insert(0, str(TESTS))  # the server, and what empties a store

from emptied import FolderStores  # noqa: E402
from servers import installation, shared_server  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres_stores() -> Iterator[FolderStores]:
    schema = f"model_{uuid4().hex}"
    with installation() as programs, shared_server(programs, [schema]) as url:
        yield FolderStores(url, schema)
