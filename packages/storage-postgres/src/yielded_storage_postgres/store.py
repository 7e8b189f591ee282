"""The PostgreSQL storage: a durable thread log on a server that many machines share."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Self

from yielded_core.errors import InvalidArgument
from yielded_core.ports.values import StorageInfo
from yielded_core.sql.storage import SqlStorage
from yielded_storage_postgres.address import SCHEMA_NAME, Address, is_schema, parse_url
from yielded_storage_postgres.appending import Appending
from yielded_storage_postgres.clock import ServerClock
from yielded_storage_postgres.database import Database
from yielded_storage_postgres.known import KnownThreads
from yielded_storage_postgres.owning import Owning
from yielded_storage_postgres.partitions import MOST_PARTITIONS
from yielded_storage_postgres.round_trips import PostgresThreads, PostgresTransactions

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from sqlalchemy.ext.asyncio import AsyncEngine


class PostgresStorage(SqlStorage):
    """A storage in a schema of a PostgreSQL database (STO-1: durable-server)."""

    def __init__(self, database: Database, clock: Callable[[], int] | None = None) -> None:
        self._database = database
        server = ServerClock(clock)
        known = KnownThreads()
        appending = Appending(self._database, known, clock)
        owning = Owning(self._database, known, clock)
        super().__init__(
            self._database,
            server,
            PostgresThreads(self._database, server, appending),
            PostgresTransactions(self._database, server, appending, owning),
        )

    async def info(self) -> StorageInfo:
        """Say what this storage is, its settings read back from the server (STO-1)."""
        settings = await self._database.settings()
        return StorageInfo(
            adapter="yielded-storage-postgres",
            version=version("yielded-storage-postgres"),
            durability="durable-server",
            lease_lifetime="durable",
            incarnation=self._database.incarnation,
            settings=settings,
            optional_ports=frozenset({"checkpoints"}),
            notes=tuple(f"extra index {name}" for name in self._database.extra_indexes),
        )

    async def __aenter__(self) -> Self:
        """Open the store; StoreRefused leaves it as it was (LAY-3)."""
        await self._database.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store after what was accepted (STO-3)."""
        await self._database.close()


def open_storage(url: str, *, clock: Callable[[], int] | None = None) -> PostgresStorage:
    """Return the storage of a `postgresql://` URL, to be entered with `async with`.

    `clock` gives tests an instant of their own, in milliseconds since 1970 UTC. Raises
    InvalidStoreUrl.
    """
    return PostgresStorage(Database(parse_url(url)), clock)


def storage_over(
    engine: AsyncEngine,
    *,
    schema: str = "public",
    shared: bool = False,
    create: bool = True,
    partitions: int = 0,
    clock: Callable[[], int] | None = None,
) -> PostgresStorage:
    """Return a storage on an engine of `create_async_engine`, whose driver must be asyncpg.

    The options are those of the URL. The engine stays the caller's: closing the storage closes none
    of its connections but the two of notices, which are taken out of its pool when they are first
    needed. Its pool is emptied when a connection turns out to be lost. Statements of others on the
    same engine are left alone. Raises InvalidArgument.
    """
    if engine.dialect.driver != "asyncpg":
        raise InvalidArgument("engine", "its driver is not asyncpg")
    if not is_schema(schema):
        raise InvalidArgument("schema", f"it is not {SCHEMA_NAME}")
    if not 0 <= partitions <= MOST_PARTITIONS:
        raise InvalidArgument("partitions", f"it is not from 0 to {MOST_PARTITIONS}")
    address = Address(engine.url, schema, shared, create, partitions=partitions)
    return PostgresStorage(Database(address, engine), clock)
