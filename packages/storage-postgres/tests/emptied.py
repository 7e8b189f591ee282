"""Stores that are used again and again: emptying one takes a hundredth of what making it does.

What is left is the header, as it was at first but for the name of its timeline; nothing else in a
schema outlives the rows, since it has no sequences.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4

from server_side import connect
from sqlalchemy import make_url

from yielded_storage_postgres import open_storage
from yielded_testing.saboteurs.proxies import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from yielded_core.storage import Storage

_TABLES: Final = """
SELECT format('DELETE FROM %I.%I', $1::text, relname) FROM pg_class
 WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND relname <> 'yielded_header'
"""
EMPTIED: Final = "yielded_emptied"
"""In the server's log of changes, with the transaction that emptied a store."""


async def empty(server: str, schema: str) -> None:
    """Remove every row of a store, if it is there, through a connection of its own."""
    connection = await connect(server, schema)
    try:
        rows = await connection.fetch(_TABLES, schema)
        if rows:
            said = f"SELECT pg_logical_emit_message(true, '{EMPTIED}', '')"
            await connection.execute(";".join((said, *(row[0] for row in rows))))
            await connection.execute("UPDATE yielded_header SET epoch_floor = 0")
    finally:
        await connection.close()


class EmptiedStore(Bundle):
    """A storage whose store is emptied before it is opened."""

    def __init__(
        self, server: str, schema: str, clock: Callable[[], int] | None, free: list[str]
    ) -> None:
        super().__init__(open_storage(f"{server}?schema={schema}&pool=4", clock=clock))
        self._server = server
        self._schema = schema
        self._free = free
        self._guards: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await empty(self._server, self._schema)
        await super().__aenter__()
        self._guards.append(asyncio.create_task(self._close_with_the_loop()))
        return self

    async def _close_with_the_loop(self) -> None:
        """Close what a saboteur leaves open when its loop ends, which cancels every task."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.inner.__aexit__(None, None, None)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for guard in self._guards:
            guard.cancel()
        await asyncio.gather(*self._guards, return_exceptions=True)
        await super().__aexit__(kind, error, trace)
        self._free.append(self._schema)


class EmptiedStores:
    """Opens storages of empty stores, which may be open at the same time."""

    def __init__(self, url: str, schemas: list[str]) -> None:
        """Make stores on a server as they are needed, and add their schemas to a list."""
        self._server = make_url(url).set(query={}).render_as_string(hide_password=False)
        self._schemas = schemas
        self._free: list[str] = []

    def __call__(self, *, clock: Callable[[], int] | None = None) -> Storage:
        """Return a storage, not yet opened, of a store that is empty when it is."""
        if not self._free:
            self._free.append(f"emptied_{uuid4().hex}")
            self._schemas.append(self._free[-1])
        return EmptiedStore(self._server, self._free.pop(), clock, self._free)


class FolderStores:
    """Opens storages of one store, which is emptied for each new folder that it stands for."""

    def __init__(self, url: str, schema: str) -> None:
        self._server = make_url(url).set(query={}).render_as_string(hide_password=False)
        self._schema = schema

    def __call__(self, folder: Path, clock: Callable[[], int]) -> Storage:
        """Return a storage, not yet opened, of what the folder stands for."""
        begun = folder / "begun"
        if begun.exists():
            return open_storage(f"{self._server}?schema={self._schema}&pool=4", clock=clock)
        begun.touch()
        return EmptiedStore(self._server, self._schema, clock, [])
