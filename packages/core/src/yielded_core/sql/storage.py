"""A storage over one store of a SQL engine: its ports, put together."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

from yielded_core.ledger_ports import LedgerPort, SettlementPort
from yielded_core.sql import maintenance_writes
from yielded_core.sql.ports import SqlArchives, SqlCheckpoints

if TYPE_CHECKING:
    from yielded_core.sql.ports import SqlThreads
    from yielded_core.sql.session import Clock, SqlStore
    from yielded_core.sql.transactions import SqlTransactions


class SqlStorage:
    """The part of a Storage that is the same whatever the engine is."""

    def __init__(
        self, store: SqlStore, clock: Clock, threads: SqlThreads, transactions: SqlTransactions
    ) -> None:
        self._store = store
        self._clock = clock
        self._threads = threads
        self._checkpoints = SqlCheckpoints(store)
        self._archives = SqlArchives(store, transactions)
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

    async def new_incarnation(self) -> str:
        """Start a new timeline after a restore: every epoch rises by 2^32 (STO-4)."""
        incarnation = uuid.uuid4().hex
        await self._store.write(
            partial(maintenance_writes.new_incarnation, incarnation=incarnation, clock=self._clock)
        )
        self._store.incarnation = incarnation
        return incarnation
