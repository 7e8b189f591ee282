"""Reads a file as sqlite3 does, so that the checkers of the test kit can look at what is in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from yielded_testing.storm import check_log

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from yielded_testing.storm import Query, StoredBatch


@contextmanager
def reading(path: Path) -> Generator[Query]:
    """Lend what reads a store that nobody writes to, after its pages were found whole."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

        def query(statement: str) -> list[tuple[Any, ...]]:
            return connection.execute(statement).fetchall()

        yield query


def check_store(path: Path) -> dict[str, dict[str, StoredBatch]]:
    """Check every thread of a store that nobody writes to; return its batches by thread and id."""
    with reading(path) as query:
        return check_log(query)
