"""The SQLite storage: a durable thread log in one file."""

from __future__ import annotations

import sqlite3
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Self

from yielded_core.ports.values import StorageInfo
from yielded_core.sql.ports import SqlThreads
from yielded_core.sql.storage import SqlStorage
from yielded_core.sql.transactions import SqlTransactions
from yielded_storage_sqlite.address import parse_url
from yielded_storage_sqlite.clock import StoreClock
from yielded_storage_sqlite.engine_version import engine_notes
from yielded_storage_sqlite.file import StoreFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from yielded_storage_sqlite.address import Address

_SYNCHRONOUS: Final = ("off", "normal", "full", "extra")


class SqliteStorage(SqlStorage):
    """A storage in one SQLite file, safe for several processes (STO-1: durable-file)."""

    def __init__(self, address: Address, clock: Callable[[], int] | None = None) -> None:
        self._file = StoreFile(address)
        kept = StoreClock(clock)
        threads = SqlThreads(self._file, kept)
        super().__init__(self._file, kept, threads, SqlTransactions(self._file, kept))

    async def info(self) -> StorageInfo:
        """Say what this storage is, its settings read back from SQLite (STO-1)."""
        settings = await self._file.write(_settings)
        return StorageInfo(
            adapter="yielded-storage-sqlite",
            version=version("yielded-storage-sqlite"),
            durability="durable-file",
            lease_lifetime="durable",
            incarnation=self._file.incarnation,
            settings=settings,
            optional_ports=frozenset({"checkpoints"}),
            notes=(
                *engine_notes(),
                *(f"extra index {name}" for name in self._file.extra_indexes),
            ),
        )

    async def __aenter__(self) -> Self:
        """Open the file; StoreRefused leaves it byte for byte as it was (LAY-3)."""
        await self._file.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file after what was accepted (STO-3)."""
        await self._file.close()


def _settings(connection: sqlite3.Connection) -> dict[str, str]:
    def pragma(name: str) -> str:
        return str(connection.execute(f"PRAGMA {name}").fetchone()[0])

    return {
        "journal_mode": pragma("journal_mode"),
        "synchronous": _SYNCHRONOUS[int(pragma("synchronous"))],
        "page_size": pragma("page_size"),
        "sqlite": sqlite3.sqlite_version,
    }


def open_storage(url: str, *, clock: Callable[[], int] | None = None) -> SqliteStorage:
    """Return the storage of a `sqlite://` URL, to be entered with `async with`.

    `clock` gives tests an instant of their own, in milliseconds since 1970 UTC. Raises
    InvalidStoreUrl.
    """
    return SqliteStorage(parse_url(url), clock)
