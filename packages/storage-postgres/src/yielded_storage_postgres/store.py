"""The PostgreSQL storage: a durable thread log on a server that many machines share."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Self

from yielded_core.ports.values import StorageInfo
from yielded_core.sql.storage import SqlStorage
from yielded_storage_postgres.address import parse_url
from yielded_storage_postgres.appending import Appending
from yielded_storage_postgres.clock import ServerClock
from yielded_storage_postgres.database import Database
from yielded_storage_postgres.owning import Owning
from yielded_storage_postgres.round_trips import PostgresThreads, PostgresTransactions

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from yielded_storage_postgres.address import Address


class PostgresStorage(SqlStorage):
    """A storage in a schema of a PostgreSQL database (STO-1: durable-server)."""

    def __init__(self, address: Address, clock: Callable[[], int] | None = None) -> None:
        self._database = Database(address)
        server = ServerClock(clock)
        appending = Appending(self._database, clock)
        super().__init__(
            self._database,
            server,
            PostgresThreads(self._database, server, appending),
            PostgresTransactions(self._database, server, appending, Owning(self._database, clock)),
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
    return PostgresStorage(parse_url(url), clock)
