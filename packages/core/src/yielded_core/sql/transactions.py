"""The transactions of the ledger: mutations as a SQL store writes them, questions beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from yielded_core.sql.ledger_unit import SqlEvidence, SqlUnit

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.session import Clock, Execute, Result, Session, SqlStore

Result = TypeVar("Result")


class SqlTransactions:
    """LedgerTransactions over one store of a SQL engine."""

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def mutate(
        self, operation: Callable[[LedgerUnit], Result], *, touches: ThreadId | None = None
    ) -> Result:
        """Run an operation in the writer and return once it is committed."""

        def run(connection: Session) -> Result:
            return operation(self.unit(connection))

        return await self._store.write(run, touches=touches)

    def unit(self, connection: Session) -> SqlUnit:
        """Return the unit of a transaction that has begun in the writer."""
        return SqlUnit(connection, self._store.incarnation, self._clock)

    async def inspect(self, question: Callable[[LedgerEvidence], Result]) -> Result:
        """Answer a question from one consistent snapshot, on a connection of its own."""
        return await self.read(lambda unit, _: question(unit))

    async def read(self, question: Callable[[LedgerEvidence, Execute], Result]) -> Result:
        """Answer a question that has statements of its own, from one consistent snapshot."""

        def ask(connection: Session) -> Result:
            execute = connection.execute
            evidence = SqlEvidence(execute, self._store.incarnation, self._clock)
            return question(evidence, execute)

        async with self._store.connection() as connection:
            return await connection.run(ask)
