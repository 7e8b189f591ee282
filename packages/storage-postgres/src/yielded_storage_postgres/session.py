"""A transaction of PostgreSQL as the shared writes see it, which do not await.

They run in a greenlet of SQLAlchemy, so that the same functions serve both engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yielded_storage_postgres import names
from yielded_storage_postgres.dialect import LOCKING, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.engine import CursorResult

    from yielded_core.sql.session import Row, Values

KEYED: Final = "yielded_keyed"
"""Execution option of statements whose long names are replaced already."""
_OPTIONS: Final = {KEYED: True}
_NAMESPACE: Final = 21
_NEW_THREAD: Final = f"SELECT pg_advisory_xact_lock(hashtextextended($1, {_NAMESPACE}))"
"""Whoever finds no row of a thread, or of its import, takes turns with those who may create it."""
_WRITES: Final = ("INSERT", "UPDATE")


class Answer:
    """The rows that a statement gave, as plain tuples, and how many it changed."""

    def __init__(self, rows: Sequence[tuple[Any, ...]], rowcount: int) -> None:
        self.rowcount = rowcount
        self._rows = iter(rows)

    def fetchone(self) -> Row:
        """Return the next row, or None."""
        return next(self._rows, None)

    def fetchall(self) -> list[Row]:
        """Return the rest."""
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        """Go through the rest."""
        return self._rows


class ReadingSession:
    """Statements in a transaction that reads."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._thread: object = None
        """The thread that was asked about last, or that is locked."""

    def execute(self, shared: str, values: Values = (), /) -> Answer:
        """Run a statement."""
        return self._run(shared, values, locking=False)

    def executemany(self, shared: str, values: Iterable[tuple[object, ...]], /) -> object:
        """Run a statement for each of some values."""
        rows: list[tuple[object, ...]] = []
        for row in values:
            given, long = names.keyed(shared, row)
            self._keep(long)
            rows.append(given)
        return self._driver(statement(shared, self._schema).text, rows) if rows else None

    def _run(self, shared: str, values: Values, *, locking: bool) -> Answer:
        prepared = statement(shared, self._schema, locking=locking)
        given, long = names.keyed(shared, prepared.arranged(values), prepared.names)
        if long and prepared.text.startswith(_WRITES):
            self._keep(long)
        if self._thread is None and given:
            self._thread = given[0]
        found = self._driver(prepared.text, given)
        rows = [tuple(row) for row in found.all()] if found.returns_rows else []
        return Answer(self._whole(rows, given[0] if given else None), found.rowcount)

    def _whole(self, rows: list[tuple[Any, ...]], asked: object) -> Sequence[tuple[Any, ...]]:
        """Return rows with whole names."""
        keys = [*names.keys_in(rows, self._thread), *names.keys_in(rows, asked)]
        if not keys:
            return rows
        wanted = ([thread for thread, _ in keys], [key for _, key in keys])
        found = self._driver(statement(names.FIND, self._schema).text, wanted)
        return names.named(rows, names.names_of(found.all()))

    def _keep(self, long: dict[str, str]) -> None:
        """Write long names beside their keys; a transaction that only reads has none to write."""

    def _driver(self, text: str, values: Any) -> CursorResult[Any]:  # noqa: ANN401 - of a driver
        return self._connection.exec_driver_sql(text, values, execution_options=_OPTIONS)


class WritingSession(ReadingSession):
    """Statements in a transaction that writes: the first look at a thread locks its row.

    Under READ COMMITTED each later statement sees what was committed before the lock was given, so
    that no decision is made on what another transaction has changed meanwhile.
    """

    def __init__(self, connection: Connection, schema: str) -> None:
        super().__init__(connection, schema)
        self._locked: set[str] = set()
        """Tables whose row of the thread is held, or would be if there were one."""

    def execute(self, shared: str, values: Values = (), /) -> Answer:
        """Run a statement."""
        table = LOCKING.get(shared)
        if table is None or table in self._locked:
            return self._run(shared, values, locking=False)
        self._locked.add(table)
        self._thread = names.key_of(str(statement(shared, self._schema).arranged(values)[0]))
        found = self._run(shared, values, locking=True)
        if found.rowcount:
            return found
        self._driver(_NEW_THREAD, (self._thread,))
        return self._run(shared, values, locking=True)

    def _keep(self, long: dict[str, str]) -> None:
        if long:
            rows = [(self._thread, key, name) for key, name in long.items()]
            self._driver(statement(names.SAVE, self._schema).text, rows)
