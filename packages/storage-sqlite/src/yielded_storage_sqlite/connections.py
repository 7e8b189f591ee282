"""Opening the file: inspected before anything can write, then one writer and a pool of readers."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import aiosqlite
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from yielded_core.errors import StorageUnavailable, StoreMissing
from yielded_core.layout.classify import Current, Fresh
from yielded_core.sql import log_statements as sql
from yielded_storage_sqlite.file_lock import FileLock
from yielded_storage_sqlite.inspection import create_layout, inspect_store, verify_current
from yielded_storage_sqlite.open_files import OpenFiles

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

    from yielded_storage_sqlite.address import Address

READERS: Final = 4
"""Reading connections kept open."""
MOST_READERS: Final = 8
"""Reading connections open at the same time under load."""
PAGE_BYTES: Final = 8_192
"""Page size of a new file: records of a kilobyte leave less of it empty than at 4,096."""
JOURNAL_BYTES: Final = 64 * 1_048_576
"""Size to which the write-ahead log is cut after it was written back."""
_STATEMENTS: Final = 256
_OF_A_STORE: Final = ("", "-wal", "-journal")
"""Ends of the names of the files that hold a store's content."""
_READ_ONLY: Final = ("PRAGMA query_only = ON", "PRAGMA wal_autocheckpoint = 0")
"""What a reading connection never does: write, or write the log back without the lock."""


class Opened(NamedTuple):
    """An open store, as its writer holds it."""

    connection: sqlite3.Connection
    lock: FileLock
    """Queued for by the writers of all processes."""
    files: OpenFiles
    incarnation: str
    extra_indexes: tuple[str, ...]
    """Indexes that an operator added."""


def open_writer(address: Address) -> Opened:
    """Open the writing connection of an inspected file, creating the layout in a fresh one.

    Raises sqlite3.Error, OSError, StoreRefused as `inspect_store` does, StoreMissing, and
    StorageUnavailable. Blocks, for as long as another process holds the lock between writers.
    """
    found = _inspect(address)
    lock = FileLock(address.path)
    try:
        with lock:
            return _open(address, lock, found)
    except BaseException:
        lock.close()
        raise


def _inspect(address: Address) -> Fresh | Current:
    if address.create:
        return inspect_store(address.path, shared=address.shared)
    if any(os.path.lexists(address.path + suffix) for suffix in _OF_A_STORE):
        found = inspect_store(address.path, shared=address.shared)
        if isinstance(found, Current):
            return found
    raise StoreMissing(f"nothing is stored at {address.path}")


def _open(address: Address, lock: FileLock, found: Fresh | Current) -> Opened:
    connection = sqlite3.connect(
        address.path,
        timeout=address.deadline,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
    try:
        found = _prepare(connection, address, found)
        (incarnation,) = connection.execute(sql.INCARNATION).fetchone()
        return Opened(connection, lock, OpenFiles(address.path), incarnation, found.extra_indexes)
    except BaseException:
        connection.close()
        raise


def _prepare(connection: sqlite3.Connection, address: Address, found: Fresh | Current) -> Current:
    if isinstance(found, Fresh):
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageUnavailable("the file system does not support SQLite's write-ahead log")
    connection.execute(f"PRAGMA synchronous = {address.synchronous.upper()}")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
    connection.execute("PRAGMA temp_store = MEMORY")  # the undo of a statement is small
    return _verified(connection, address, writing=isinstance(found, Fresh))


def _verified(connection: sqlite3.Connection, address: Address, *, writing: bool) -> Current:
    """Look again under a lock, where nobody can come in between, and create what is not there."""
    connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
    try:
        found = verify_current(connection, shared=address.shared)
        if isinstance(found, Fresh):
            create_layout(
                connection,
                incarnation=uuid.uuid4().hex,
                created_at=time.time_ns() // 1_000_000,
                shared=address.shared,
            )
            found = verify_current(connection, shared=address.shared)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if writing:  # what others inspect is the file itself: the layout should not stay in its log
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if isinstance(found, Fresh):
        raise StorageUnavailable("the layout was created but is not there")
    return found


def open_reader(address: Address) -> sqlite3.Connection:
    """Open a reading connection for a thread of ours."""
    connection = sqlite3.connect(
        _reading_uri(address), uri=True, isolation_level=None, check_same_thread=False
    )
    for setting in _READ_ONLY:
        connection.execute(setting)
    return connection


def open_readers(address: Address) -> AsyncEngine:
    """Return the pool of reading connections; none is opened before the first read."""

    async def connect() -> aiosqlite.Connection:
        connecting = aiosqlite.connect(
            _reading_uri(address), uri=True, isolation_level=None, timeout=address.deadline
        )
        # A thread that is no daemon would keep the interpreter from exiting while a storage is
        # open. Before aiosqlite 0.22 the connection is the thread.
        thread = getattr(connecting, "_thread", connecting)
        if isinstance(thread, threading.Thread):
            thread.daemon = True
        connection = await connecting
        for setting in _READ_ONLY:
            await connection.execute(setting)
        return connection

    engine = create_async_engine(
        "sqlite+aiosqlite://",
        async_creator=connect,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=READERS,
        max_overflow=MOST_READERS - READERS,
    )

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _reading_uri(address: Address) -> str:
    return Path(address.path).as_uri() + "?mode=rw"
