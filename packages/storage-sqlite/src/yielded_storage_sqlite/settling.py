"""Waiting for work to its end even when the waiter is cancelled, so that nothing is left half-made.

A cancellation is never swallowed: it is raised once the work has ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import CursorResult, Executable
    from sqlalchemy.ext.asyncio import AsyncConnection


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
        raise cancellation


class SettledConnection:
    """A reading connection whose statements run to their end even when their caller is cancelled.

    A statement takes milliseconds. To cut it off, SQLAlchemy would have to throw the connection
    away, and a second cancellation while it does so would leave it open.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def row_address(self) -> str:
        """What SQLite calls the place of a row in its table."""
        return "rowid"

    async def execute(self, statement: Executable, /) -> CursorResult[Any]:
        """Run a statement and hold its rows."""
        running = asyncio.ensure_future(self._connection.execute(statement))
        await settled(running)
        return running.result()
