"""Importing core is quick, and loads neither SQL nor the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final, NamedTuple

import pytest

ROUNDS: Final = 7
LIMIT_SECONDS: Final = 0.120
HEAVY: Final = {"aiosqlite", "asyncpg", "rich", "sqlalchemy", "sqlglot", "typer"}
PROGRAM: Final = """
import json, sys, time
from pydantic import BaseModel
class First(BaseModel):
    field: int
start = time.process_time()
import yielded_core
from yielded_core.log.prepared import prepare_batch
from yielded_core.records.envelope import Record
from yielded_core.storage import open_storage
print(json.dumps([time.process_time() - start, sorted(sys.modules)]))
"""
"""All that an append needs. Pydantic loads most of itself when the first model is defined."""


class Import(NamedTuple):
    """What one fresh interpreter measured: processor seconds, and the modules it then holds."""

    seconds: float
    modules: set[str]


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    """Import core in several fresh interpreters, where pydantic is loaded already."""
    measured: list[Import] = []
    for _ in range(ROUNDS):
        answer = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        )
        seconds, modules = json.loads(answer.stdout)
        measured.append(Import(seconds, set(modules)))
    return measured


def test_core_imports_within_its_budget(imports: list[Import]) -> None:
    # Processor time, and the least of it: whatever else the machine does can only add to it.
    assert min(measured.seconds for measured in imports) <= LIMIT_SECONDS


def test_core_loads_no_sql_and_no_command_line(imports: list[Import]) -> None:
    assert all("yielded_core" in measured.modules for measured in imports)
    assert [sorted(HEAVY & measured.modules) for measured in imports] == [[]] * ROUNDS
