"""The PostgreSQL storage: a durable thread log on a server that many machines share."""

from __future__ import annotations

import uuid
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Self

from yielded_core.ledger_ports import LedgerPort, SettlementPort
from yielded_core.ports.values import StorageInfo
from yielded_core.sql import maintenance_writes
from yielded_core.sql.ports import SqlArchives, SqlCheckpoints, SqlThreads
from yielded_core.sql.transactions import SqlTransactions
from yielded_storage_postgres.address import parse_url
from yielded_storage_postgres.clock import ServerClock
from yielded_storage_postgres.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from yielded_storage_postgres.address import Address


class PostgresStorage:
    """A storage in a schema of a PostgreSQL database (STO-1: durable-server)."""

    def __init__(self, address: Address, clock: Callable[[], int] | None = None) -> None:
        self._database = Database(address)
        self._clock = ServerClock(clock)
        self._threads = SqlThreads(self._database, self._clock)
        self._checkpoints = SqlCheckpoints(self._database)
        transactions = SqlTransactions(self._database, self._clock)
        self._archives = SqlArchives(self._database, transactions)
        self._ledger = LedgerPort(transactions)
        self._settlements = SettlementPort(transactions)

    @property
    def threads(self) -> SqlThreads:
        """The thread log."""
        return self._threads

    @property
    def archives(self) -> SqlArchives:
        """Archive ranges and imports."""
        return self._archives

    @property
    def checkpoints(self) -> SqlCheckpoints:
        """Application projections."""
        return self._checkpoints

    @property
    def ledger(self) -> LedgerPort:
        """Accepted work."""
        return self._ledger

    @property
    def settlements(self) -> SettlementPort:
        """The settlement publisher."""
        return self._settlements

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

    async def new_incarnation(self) -> str:
        """Start a new timeline after a restore: every epoch rises by 2^32 (STO-4)."""
        incarnation = uuid.uuid4().hex
        await self._database.write(
            partial(maintenance_writes.new_incarnation, incarnation=incarnation, clock=self._clock)
        )
        self._database.incarnation = incarnation
        return incarnation

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
