"""Catches what the connections of a storage run, and counts the steps of SQLite's machine."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from checks import part

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from yielded_storage_sqlite import SqliteStorage
    from yielded_storage_sqlite.file import StoreFile

STATEMENT: Final = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)


class Tracer:
    """Takes note of the statements of a storage, their values filled in."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def follow(self, storage: SqliteStorage) -> None:
        """Follow the writer and, as long as reads take turns, the only reader."""
        file: StoreFile = part(storage, "_file")
        await file.write(self._trace)
        async with file.connection() as connection:
            await connection.run(self._trace)

    @contextmanager
    def catching(self) -> Generator[list[str]]:
        """Catch what is run meanwhile; the list is filled at the end."""
        first = len(self.texts)
        caught: list[str] = []
        yield caught
        caught += self.texts[first:]

    def _trace(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(self._note)

    def _note(self, text: str) -> None:
        if STATEMENT.match(text):
            self.texts.append(text)


def snapshot(path: Path, copy: Path) -> None:
    """Copy a store as it is now."""
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def steps(path: Path, texts: Iterable[str]) -> int:
    """Count the steps of SQLite's machine for some statements, and undo what they do."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.set_progress_handler(count, 1)
        for text in texts:
            connection.execute(text).fetchall()
        connection.set_progress_handler(None, 1)
        connection.execute("ROLLBACK")
    return counted
