"""What a read fails with says nothing of statements and values, its causes included."""

from __future__ import annotations

import sqlite3
import traceback
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import StorageError
from yielded_core.records.identifiers import RunId, ThreadId
from yielded_storage_sqlite import open_storage

if TYPE_CHECKING:
    from pathlib import Path

CANARY: Final = "canary-7f3a"
THREAD: Final = ThreadId(CANARY)


@pytest.mark.rule("STO-3")
async def test_a_read_that_fails_tells_no_statement_and_no_value(path: Path) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        await storage.threads.materialize(THREAD, epoch=1)
        outside = sqlite3.connect(path)
        outside.execute("ALTER TABLE yielded_run_inputs RENAME TO taken_away")
        outside.close()
        with pytest.raises(StorageError) as failed:
            await storage.threads.get_run_input(THREAD, RunId(CANARY))
    told = "".join(traceback.format_exception(failed.value, chain=True))
    lines = [line for line in told.splitlines() if not line.startswith("  ")]  # without source
    assert any("yielded_core.errors" in line for line in lines)
    assert [line for line in lines if CANARY in line or "SELECT" in line] == []
