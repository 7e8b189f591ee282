"""What the file holds of accepted work: nothing after a deletion, and never a token."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
from checks import part
from ledger_work import LANE, every_operation, settle_everything

from yielded_core.layout.statements import layout_statements
from yielded_core.records.identifiers import AttemptId, OwnershipToken
from yielded_core.sql import maintenance_writes
from yielded_core.sql.log_statements import PURGED_TABLES
from yielded_storage_sqlite import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from yielded_storage_sqlite.file import StoreFile

KEPT: Final = {"yielded_threads", "yielded_imports", "yielded_garbage"}
"""Tables with a generation whose rows go with their thread or import themselves."""
CANARY: Final = OwnershipToken("canary-token-that-must-not-be-kept")


def tables_with_a_generation(connection: sqlite3.Connection) -> Iterator[str]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        if ("generation",) in columns.fetchall():
            yield table


@pytest.mark.rule("ARC-7")
def test_a_purge_knows_every_table_with_a_generation() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in layout_statements("sqlite"):
            connection.execute(statement)
        found = set(tables_with_a_generation(connection))
    assert found - KEPT == {table for table, _ in PURGED_TABLES}


@pytest.mark.rule("ARC-7")
async def test_a_deleted_thread_leaves_no_row_of_its_work(path: Path) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        await every_operation(storage)
        await settle_everything(storage)
        await storage.threads.delete_thread(LANE)
    with closing(sqlite3.connect(path)) as connection:
        left = {
            table: count
            for table in (*tables_with_a_generation(connection), "yielded_runnable")
            for (count,) in connection.execute(
                f"SELECT count(*) FROM {table} WHERE thread_id = ?", (LANE,)
            )
            if count
        }
    assert left == {}


@pytest.mark.rule("LED-15")
async def test_no_token_stands_in_the_file(path: Path) -> None:
    """Neither that of an owner nor that of a publisher; read once the file is closed."""
    async with open_storage(f"sqlite:///{path}") as storage:
        await every_operation(storage, token=CANARY)
        await storage.ledger.claim(LANE, attempt=AttemptId("last"), token=CANARY)
    kept = b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    assert LANE.encode() in kept
    assert CANARY.encode() not in kept
    assert CANARY.encode("utf-16-le") not in kept


@pytest.mark.rule("LED-3", "ARC-7")
async def test_work_of_a_deleted_thread_is_not_found_while_its_rows_wait(path: Path) -> None:
    """A process that ends between a deletion and its purge leaves the rows for the next one."""
    async with open_storage(f"sqlite:///{path}") as storage:
        await every_operation(storage)
        name = (await storage.ledger.scan_nonterminal())[0].submission_id
        await settle_everything(storage)
        file: StoreFile = part(storage, "_file")
        await file.write(partial(maintenance_writes.delete_thread, thread=LANE, instant=1))
        assert await storage.ledger.lookup(name) is None
        await file.purge()
        assert await storage.ledger.lookup(name) is None
