"""What tests see and do on the server beside the adapter: raw connections, held locks, roles."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import asyncpg
from sqlalchemy import make_url

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

Raw: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

PASSWORD: Final = "hunter2"  # noqa: S105 - of roles that live as long as a test
"""That of every role that a test makes."""
PATIENCE: Final = 30.0
"""Seconds that a test waits for the server; never part of what a passing test takes."""
_LOOKS: Final = 0.005
"""Seconds between two looks at what only the server knows."""
_TABLES: Final = """
SELECT relname FROM pg_class
 WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' ORDER BY relname
"""
# Everything in a schema with the transaction that wrote it, so that what was written again shows.
_OBJECTS: Final = """
SELECT 'class', relname, relkind::text, relfilenode::text, xmin::text FROM pg_class
 WHERE relnamespace = to_regnamespace($1)
UNION ALL
SELECT 'attribute', attrelid::regclass::text, attname, atttypid::text, a.xmin::text
  FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
 WHERE relnamespace = to_regnamespace($1)
UNION ALL
SELECT 'constraint', conname, contype::text, '', xmin::text FROM pg_constraint
 WHERE connamespace = to_regnamespace($1)
UNION ALL
SELECT 'function', proname, '', '', xmin::text FROM pg_proc
 WHERE pronamespace = to_regnamespace($1)
UNION ALL
SELECT 'schema', nspname, '', '', xmin::text FROM pg_namespace
 WHERE oid = to_regnamespace($1)
 ORDER BY 1, 2, 3, 4, 5
"""


def part(whole: object, *names: str) -> Any:  # noqa: ANN401 - a test looks inside
    """Return what an object holds under a name of its own, and so on."""
    for name in names:
        whole = vars(whole)[name]
    return whole


async def until(holds: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait for what only the server knows, looking again and again."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not await holds():  # noqa: ASYNC110 - the server sets no event
                await asyncio.sleep(_LOOKS)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE} seconds: {what}") from None


class Failure(Exception):
    """An error of the driver, which carries a state."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("the driver's own words")
        self.sqlstate = sqlstate


@dataclass
class Place:
    """A schema of a test's own: how a storage gets there, and a connection of an operator."""

    server: str
    raw: Raw
    """Each statement its own transaction; its search path is the schema."""
    schema: str

    def url(self, *options: str, role: str | None = None, password: str = PASSWORD) -> str:
        """Return the URL of the store, whose connections are called as the schema is."""
        server = make_url(self.server)
        if role is not None:
            server = server.set(username=role, password=password)
        given = ("schema=" + self.schema, "application_name=" + self.schema, *options)
        return f"{server.render_as_string(hide_password=False)}?{'&'.join(given)}"

    async def run(self, *statements: str) -> None:
        """Run statements as the operator."""
        for statement in statements:
            await self.raw.execute(statement)

    async def count(self, table: str) -> int:
        """Return how many rows a table has."""
        return int(await self.raw.fetchval(f"SELECT count(*) FROM {table}"))

    async def dump(self) -> list[tuple[object, ...]]:
        """Return every object and every row of the schema, with who wrote each."""
        found = [tuple(row) for row in await self.raw.fetch(_OBJECTS, self.schema)]
        for (table,) in await self.raw.fetch(_TABLES, self.schema):
            rows = f'SELECT ctid::text, xmin::text, t::text FROM "{table}" t ORDER BY ctid'
            found.extend((table, *row) for row in await self.raw.fetch(rows))
        return found

    async def backends(self, like: str = "%") -> list[int]:
        """Return the processes that serve the store's connections, by their newest statement."""
        query = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND query ILIKE $2"
            " AND backend_type = 'client backend' ORDER BY pid"
        )
        return [int(row[0]) for row in await self.raw.fetch(query, self.schema, like)]

    async def waiting(self, count: int) -> None:
        """Wait until a number of the store's connections wait for a lock."""
        query = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = $1 AND wait_event_type = 'Lock'"
        )

        async def enough() -> bool:
            return int(await self.raw.fetchval(query, self.schema)) >= count

        await until(enough, f"{count} connections wait for a lock")

    async def gone(self) -> None:
        """Wait until the store has no connection."""

        async def none() -> bool:
            return not await self.backends()

        await until(none, "every connection is closed")

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Raw]:
        """Lend another connection of the operator."""
        connection = await connect(self.server, self.schema)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def holding(self, query: str, *values: object) -> AsyncGenerator[Raw]:
        """Hold what a statement locks in a transaction, which is committed at the end."""
        async with self.connected() as connection, connection.transaction():
            await connection.execute(query, *values)
            yield connection

    @asynccontextmanager
    async def role(self, *settings: str, attributes: str = "") -> AsyncGenerator[str]:
        """Make a role without privileges, with settings such as `lock_timeout = '50ms'`."""
        name = f"role_{uuid4().hex}"
        await self.run(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {attributes}")
        try:
            await self.run(*(f"ALTER ROLE {name} SET {setting}" for setting in settings))
            yield name
        finally:
            await self.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")

    async def grant(self, role: str, privileges: str = "SELECT, INSERT, UPDATE, DELETE") -> None:
        """Let a role use the tables that are there."""
        await self.run(
            f"GRANT USAGE ON SCHEMA {self.schema} TO {role}",
            f"GRANT {privileges} ON ALL TABLES IN SCHEMA {self.schema} TO {role}",
        )


@asynccontextmanager
async def new_database(place: Place) -> AsyncGenerator[str]:
    """Make an empty database, and lend its URL; it is dropped at the end, whoever is connected."""
    name = f"test_{uuid4().hex}"
    await place.run(f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield make_url(place.server).set(database=name).render_as_string(hide_password=False)
    finally:
        await place.run(f"DROP DATABASE {name} WITH (FORCE)")


async def connect(server: str, schema: str) -> Raw:
    """Open a connection of an operator whose search path is a schema, there or not."""
    return await asyncpg.connect(server, server_settings={"search_path": schema})


async def outcome(work: Coroutine[Any, Any, object]) -> object:
    """Return what an operation answers or raises."""
    (found,) = await asyncio.gather(work, return_exceptions=True)
    return found


async def queued(place: Place, *work: Coroutine[Any, Any, object]) -> list[Awaitable[object]]:
    """Start operations that wait for one lock, each after the one before it waits."""
    waiting: list[Awaitable[object]] = []
    for each in work:
        waiting.append(asyncio.create_task(outcome(each)))
        await place.waiting(len(waiting))
    return waiting
