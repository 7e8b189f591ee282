"""Waiting for work to its end even when the waiter is cancelled, so that nothing is left half-made.

A cancellation is never swallowed: it is raised once the work has ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from yielded_core.sql import tables

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from sqlalchemy import CursorResult, Executable, Table
    from sqlalchemy.ext.asyncio import AsyncConnection

Result = TypeVar("Result")


async def settled(work: asyncio.Future[Any]) -> None:
    """Wait until work has ended, whatever came of it; then raise what cancelled the wait, if so.

    Only for work that ends by itself soon: a second cancellation waits as the first one does.
    """
    cancellation: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        if not work.cancelled():
            work.exception()  # looked at, so that nobody is told of it a second time
        raise cancellation


class SettledConnection:
    """A reading connection whose statements run to their end even when their caller is cancelled.

    A statement takes milliseconds. To cut it off, SQLAlchemy would have to throw the connection
    away, and a second cancellation while it does so would leave it open.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def row_address(self, table: Table, /) -> str | None:
        """Return what SQLite calls the place of a row; a table without rowids has none."""
        return None if table is tables.batches else "rowid"

    async def execute(self, statement: Executable, /) -> CursorResult[Any]:
        """Run a statement and hold its rows."""
        running = asyncio.ensure_future(self._connection.execute(statement))
        await settled(running)
        return running.result()

    async def run(self, question: Callable[[sqlite3.Connection], Result], /) -> Result:
        """Run a question of several statements in one snapshot, in the connection's own thread.

        Through `execute` each statement is handed to that thread four times, which costs ten times
        what the statement does. Raises sqlite3.Error.
        """
        pooled = await self._connection.get_raw_connection()
        driver: Any = pooled.driver_connection  # of aiosqlite, none of whose public methods does it
        connection: sqlite3.Connection = driver._conn  # noqa: SLF001 - see above
        asking = driver._execute(_in_snapshot, connection, question)  # noqa: SLF001 - see above
        running: asyncio.Future[Result] = asyncio.ensure_future(asking)
        await settled(running)
        return running.result()


def _in_snapshot(
    connection: sqlite3.Connection, question: Callable[[sqlite3.Connection], Result]
) -> Result:
    connection.execute("BEGIN")
    try:
        return question(connection)
    finally:
        if connection.in_transaction:  # else what ended it is the error to be told
            connection.execute("ROLLBACK")
