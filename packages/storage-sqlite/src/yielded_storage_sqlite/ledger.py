"""The transactions of the ledger on a SQLite file: mutations in the writer, questions beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from yielded_storage_sqlite.ledger_unit import SqliteEvidence, SqliteUnit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_sqlite.clock import StoreClock
    from yielded_storage_sqlite.file import StoreFile
    from yielded_storage_sqlite.ledger_rows import Execute

Result = TypeVar("Result")


class SqliteTransactions:
    """LedgerTransactions over one SQLite file."""

    def __init__(self, file: StoreFile, clock: StoreClock) -> None:
        self._file = file
        self._clock = clock

    async def mutate(
        self, operation: Callable[[LedgerUnit], Result], *, touches: ThreadId | None = None
    ) -> Result:
        """Run an operation in the writer and return once it is committed."""

        def run(connection: sqlite3.Connection) -> Result:
            return operation(self.unit(connection))

        return await self._file.write(run, touches=touches)

    def unit(self, connection: sqlite3.Connection) -> SqliteUnit:
        """Return the unit of a transaction that has begun in the writer."""
        return SqliteUnit(connection, self._file.incarnation, self._clock)

    async def inspect(self, question: Callable[[LedgerEvidence], Result]) -> Result:
        """Answer a question from one consistent snapshot, on a connection of its own."""
        return await self.read(lambda unit, _: question(unit))

    async def read(self, question: Callable[[LedgerEvidence, Execute], Result]) -> Result:
        """Answer a question that has statements of its own, from one consistent snapshot."""

        def ask(connection: sqlite3.Connection) -> Result:
            execute = connection.execute
            evidence = SqliteEvidence(execute, self._file.incarnation, self._clock)
            return question(evidence, execute)

        async with self._file.connection() as connection:
            return await connection.run(ask)
