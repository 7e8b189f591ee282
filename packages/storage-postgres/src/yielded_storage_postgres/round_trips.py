"""The ports over one statement where one is enough, and over a transaction where it is not.

A statement that did nothing says so, and the transaction that follows decides: it replays, refuses,
or does what the statement does not know how to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from yielded_core.ledger.requests import Admit, Claim, Publish, ReadAbortIntent, Renew
from yielded_core.records.identifiers import check_identifier
from yielded_core.sql.ports import SqlThreads
from yielded_core.sql.transactions import SqlTransactions
from yielded_storage_postgres.asking import Asking

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.ports.values import Appended, PreparedBatch, Tail, ThreadTail
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.session import Clock
    from yielded_storage_postgres.appending import Appending
    from yielded_storage_postgres.database import Database
    from yielded_storage_postgres.owning import Owning

Result = TypeVar("Result")


class PostgresThreads(SqlThreads):
    """ThreadStore whose appends and tails take one round trip each."""

    def __init__(self, database: Database, clock: Clock, appending: Appending) -> None:
        super().__init__(database, clock)
        self._lifecycle = database.lifecycle
        self._appending = appending
        self._asking = Asking(database)

    async def tail(self, thread: ThreadId) -> ThreadTail:
        """Return sequence, digest and epoch (LOG-10)."""
        check_identifier(thread, "thread id")
        with self._lifecycle.whole():
            return await self._asking.tail(thread) or await super().tail(thread)

    async def _append(
        self, thread: ThreadId, batch: PreparedBatch, expected: Tail, epoch: int
    ) -> Appended:
        with self._lifecycle.whole():
            done = await self._appending.append(thread, batch, expected, epoch)
            return done or await super()._append(thread, batch, expected, epoch)


class PostgresTransactions(SqlTransactions):
    """LedgerTransactions whose common operations take one round trip each."""

    def __init__(
        self, database: Database, clock: Clock, appending: Appending, owning: Owning
    ) -> None:
        super().__init__(database, clock)
        self._lifecycle = database.lifecycle
        self._appending = appending
        self._owning = owning
        self._asking = Asking(database)

    async def mutate(
        self, operation: Callable[[LedgerUnit], Result], *, touches: ThreadId | None = None
    ) -> Result:
        """Run an operation in one statement, or in a transaction."""
        with self._lifecycle.whole():
            done = await self._alone(operation)
            if done is not None:
                return cast("Result", done)
            return await super().mutate(operation, touches=touches)

    async def inspect(self, question: Callable[[LedgerEvidence], Result]) -> Result:
        """Answer a question by one statement, or from one consistent snapshot."""
        with self._lifecycle.whole():
            asked: object = question
            if isinstance(asked, ReadAbortIntent):
                found: object = await self._asking.abort_state(asked)
                if found is not None:
                    return cast("Result", found)
            return await super().inspect(question)

    async def _alone(self, operation: object) -> object | None:
        """Return what an operation answers that one statement did; None where nothing was done."""
        match operation:
            case Claim():
                return await self._owning.claim(operation)
            case Renew():
                return await self._owning.renew(operation)
            case Publish():
                return await self._appending.publish(operation)
            case Admit():
                return await self._asking.replayed(operation)
            case _:
                return None
