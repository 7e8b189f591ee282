"""What the tests of the SQLite adapter share: workers in processes of their own, and a store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests
pytest.register_assert_rewrite("checks", "log_checker")

from yielded_testing.storm import Processes, Workers  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    with Processes(Path(__file__).with_name("worker.py")) as started:
        yield started


@pytest.fixture
def workers(processes: Processes) -> Iterator[Workers]:
    started = Workers(processes)
    yield started
    started.release()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"
