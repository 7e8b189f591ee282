"""Counting what a store asks of SQLite: statements, rows, and steps of SQLite's own machine.

Only connections that are opened while the meter runs are counted, so it is started before the
store. Counts do not vary with the machine or its load.
"""

from __future__ import annotations

import functools
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_TRANSACTION: Final = ("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE")


class Cost(NamedTuple):
    """What was asked of the engine."""

    statements: int
    """Statements, those apart that only begin or end a transaction."""
    commits: int
    read: int
    """Rows that statements returned."""
    written: int
    """Rows inserted, changed or deleted."""
    steps: int
    """Instructions of SQLite's machine; they grow with what a statement looks at."""

    def minus(self, other: Cost) -> Cost:
        """Return what was asked since."""
        return Cost(*(now - then for now, then in zip(self, other, strict=True)))


@dataclass
class Meter:
    """A context manager that counts on every connection opened inside."""

    stepping: bool = True
    """Whether steps are counted, which makes every statement several times slower."""
    statements: int = 0
    commits: int = 0
    read: int = 0
    steps: int = 0
    texts: list[str] = field(default_factory=list[str])
    """Every statement with its values, as the engine saw it."""
    _written: int = 0
    _connections: list[sqlite3.Connection] = field(default_factory=list[sqlite3.Connection])
    _patch: Any = None

    def __enter__(self) -> Self:
        connect = functools.partial(self._connect, sqlite3.connect)
        self._patch = mock.patch.object(sqlite3, "connect", connect)
        self._patch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patch.stop()

    def cost(self) -> Cost:
        """Return what was asked so far."""
        written = self._written + sum(each.total_changes for each in self._connections)
        return Cost(self.statements, self.commits, self.read, written, self.steps)

    def closed(self, connection: sqlite3.Connection) -> None:
        """Keep the count of a connection that is about to be closed."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._written += connection.total_changes

    def _connect(self, connect: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 - as sqlite3.connect has it
        options["check_same_thread"] = False  # the counts are read on another thread
        connection: _Connection = connect(*arguments, factory=_Connection, **options)
        connection.meter = self
        connection.set_trace_callback(self._statement)
        if self.stepping:
            connection.set_progress_handler(self._step, 1)
        self._connections.append(connection)
        return connection

    def _statement(self, text: str) -> None:
        self.texts.append(text)
        word = text.split(maxsplit=1)[0].upper()
        if word not in _TRANSACTION:
            self.statements += 1
        elif word in {"COMMIT", "END"}:
            self.commits += 1

    def _step(self) -> int:
        self.steps += 1
        return 0


class _Cursor(sqlite3.Cursor):
    """A cursor that counts the rows it hands out."""

    def fetchone(self) -> Any:  # noqa: ANN401 - as sqlite3 has it
        return self._counted([super().fetchone()])[0]

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        return self._counted(super().fetchmany(size))

    def fetchall(self) -> list[Any]:
        return self._counted(super().fetchall())

    def __next__(self) -> Any:  # noqa: ANN401 - as sqlite3 has it
        return self._counted([super().__next__()])[0]

    def __iter__(self) -> Iterator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] - the same
        return self

    def _counted(self, rows: list[Any]) -> list[Any]:
        connection = self.connection
        if isinstance(connection, _Connection) and connection.meter is not None:
            connection.meter.read += sum(row is not None for row in rows)
        return rows


class _Connection(sqlite3.Connection):
    """A connection whose cursors count."""

    meter: Meter | None = None

    def cursor(self, factory: Any = None) -> Any:  # noqa: ANN401 - as sqlite3 has it
        return super().cursor(factory or _Cursor)

    def execute(self, *arguments: Any) -> Any:  # noqa: ANN401 - as sqlite3 has it
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:  # noqa: ANN401 - as sqlite3 has it
        return self.cursor().executemany(*arguments)

    def close(self) -> None:
        if self.meter is not None:
            self.meter.closed(self)
        super().close()
