"""Deliberately wrong variants of the adapter, each caught by a test that names it.

Each is a small change to the right code: what measurements of SQLite have shown to go wrong, or
what a tired author might write. The tests apply them in this process or in a worker, and show that
their own check fails over them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unittest.mock import patch

from yielded_storage_sqlite import connections, file, inspection, store, watcher, writer
from yielded_storage_sqlite.faults import storage_fault
from yielded_storage_sqlite.file_lock import FileLock
from yielded_storage_sqlite.open_files import OpenFiles
from yielded_storage_sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from contextlib import AbstractContextManager

    from yielded_core.layout.classify import Current, Fresh
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_sqlite.address import Address
    from yielded_storage_sqlite.connections import Opened

SABOTEURS: Final[dict[str, Callable[[], AbstractContextManager[object]]]] = {}

Group: TypeAlias = Any
"""The items of one commit, as the writer holds them."""


def saboteur(
    make: Callable[[], AbstractContextManager[object]],
) -> Callable[[], AbstractContextManager[object]]:
    """Register a saboteur under the name of its function."""
    SABOTEURS[make.__name__.replace("_", "-")] = make
    return make


@contextmanager
def applied(name: str) -> Generator[None]:
    """Make the adapter wrong in one way for as long as the context is open."""
    with SABOTEURS[name]():
        yield


# --- commits -------------------------------------------------------------------------------------


@saboteur
def answers_before_commit() -> AbstractContextManager[object]:
    """Callers are answered when their functions have run, and the commit follows."""

    def run(connection: sqlite3.Connection, items: Group) -> None:
        for item in items:
            item.run(connection)
        deliver(items)
        connection.execute("COMMIT")

    return patch.object(writer, "_run_in_transaction", run)


@saboteur
def refuses_before_commit() -> AbstractContextManager[object]:
    """A refusal is answered at once, though what it rests on is not committed yet."""

    def run(connection: sqlite3.Connection, items: Group) -> None:
        for item in items:
            connection.execute("SAVEPOINT item")
            item.run(connection)
            if item.refusal is not None:
                connection.execute("ROLLBACK TO item")
                deliver([item])
            connection.execute("RELEASE item")
        connection.execute("COMMIT")

    return patch.object(writer, "_run_in_transaction", run)


@saboteur
def trusts_savepoints() -> AbstractContextManager[object]:
    """An item that meets a full disk fails alone; that the whole group is gone goes unnoticed."""

    def run(connection: sqlite3.Connection, items: Group) -> None:
        for item in items:
            connection.execute("SAVEPOINT item")
            try:
                item.run(connection)
            except sqlite3.Error as error:
                item.refusal = storage_fault(error)
            with suppress(sqlite3.Error):
                if item.refusal is not None:
                    connection.execute("ROLLBACK TO item")
                connection.execute("RELEASE item")
        if connection.in_transaction:
            connection.execute("COMMIT")

    return patch.object(writer, "_run_in_transaction", run)


@saboteur
def declares_full() -> AbstractContextManager[object]:
    """Nothing is ever flushed, and the settings say that everything is."""
    right_open, right_settings = connections.open_writer, vars(store)["_settings"]

    def open_writer(address: Address) -> Opened:
        opened = right_open(address)
        opened.connection.execute("PRAGMA synchronous = OFF")
        return opened

    def settings(connection: sqlite3.Connection) -> dict[str, str]:
        return right_settings(connection) | {"synchronous": "full"}

    return together(
        patch.object(file, "open_writer", open_writer), patch.object(store, "_settings", settings)
    )


# --- several processes ---------------------------------------------------------------------------


@saboteur
def waits_in_sqlite() -> AbstractContextManager[object]:
    """Writers do not queue for a lock file; SQLite's busy handler sleeps and tries again."""

    def enter(lock: FileLock) -> FileLock:
        return lock

    def leave(_lock: FileLock, *_error: object) -> None:
        return

    return together(
        patch.object(FileLock, "__enter__", enter), patch.object(FileLock, "__exit__", leave)
    )


@saboteur
def drains_before_locking() -> AbstractContextManager[object]:
    """What waits is taken before the lock, so that a long wait commits a small group."""
    right_serve, right_drain = vars(Writer)["_serve_group"], vars(Writer)["_drain"]

    def serve(self: Writer, opened: Opened, first: Group) -> bool:
        taken = right_drain(self, first)

        def drain(_first: Group) -> Group:
            return taken

        with patch.object(self, "_drain", drain):
            answered: bool = right_serve(self, opened, first)
            return answered

    return patch.object(Writer, "_serve_group", serve)


@saboteur
def reads_the_file_itself() -> AbstractContextManager[object]:
    """Opening looks at the file's first bytes itself, which drops this process's locks on it."""
    right = inspection.inspect_store

    def inspect(path: str, *, shared: bool) -> Fresh | Current:
        with suppress(FileNotFoundError), Path(path).open("rb") as opened:
            opened.read(16)
        return right(path, shared=shared)

    return patch.object(connections, "inspect_store", inspect)


@saboteur
def trusts_names() -> AbstractContextManager[object]:
    """What stands under the names of the files is never looked at again."""

    def check(_files: OpenFiles) -> None:
        return

    return patch.object(OpenFiles, "check", check)


@saboteur
def lets_readers_write_back() -> AbstractContextManager[object]:
    """The writer closes before the readers, so that a reader writes the log back without a lock."""

    async def close(self: file.StoreFile) -> None:
        held: Any = self
        await self.lifecycle.drained()
        await asyncio.to_thread(held._writer.stop)
        await asyncio.to_thread(held._watcher.stop)
        await held._readers.dispose()
        held._left_open.detach()

    return patch.object(file.StoreFile, "_close", close)


# --- observing -----------------------------------------------------------------------------------


@saboteur
def polls_for_each_observer() -> AbstractContextManager[object]:
    """Each observer reads the thread again every 25 ms."""
    right = file.StoreFile.observing

    @contextmanager
    def observing(self: file.StoreFile, thread: ThreadId) -> Generator[asyncio.Event]:
        with right(self, thread) as news:
            polling = asyncio.ensure_future(poll(news))
            try:
                yield news
            finally:
                polling.cancel()

    async def poll(news: asyncio.Event) -> None:
        while True:
            await asyncio.sleep(0.025)
            news.set()

    return patch.object(file.StoreFile, "observing", observing)


@saboteur
def stops_watching_at_an_error() -> AbstractContextManager[object]:
    """The watching thread ends at the first error, and observers wait for ever."""

    def serve(self: watcher.Watcher) -> None:
        held: Any = self
        with suppress(sqlite3.Error):
            connection = held._connect()
            version = None
            while held._wait():
                (now,) = connection.execute("PRAGMA data_version").fetchone()
                if now != version:
                    version = now
                    held._tell(connection)

    return patch.object(watcher.Watcher, "_serve", serve)


# --- help ----------------------------------------------------------------------------------------


def deliver(items: Sequence[Any]) -> None:
    """Answer the callers of some items."""
    vars(writer)["_deliver"](items)


@contextmanager
def together(*changes: AbstractContextManager[object]) -> Generator[None]:
    """Apply two changes."""
    first, second = changes
    with first, second:
        yield
