"""One open SQLite file: its writer, its readers, its watcher, and their beginning and end."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import weakref
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy.exc import DBAPIError

from yielded_core.errors import StorageBusy, StorageUnavailable
from yielded_core.lifecycle import Lifecycle
from yielded_core.observing import Observers
from yielded_core.sql import maintenance_writes
from yielded_storage_sqlite.connections import (
    MOST_READERS,
    open_reader,
    open_readers,
    open_writer,
)
from yielded_storage_sqlite.faults import file_fault, storage_fault
from yielded_storage_sqlite.settling import SettledConnection, settled
from yielded_storage_sqlite.watcher import Watcher
from yielded_storage_sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from sqlalchemy.ext.asyncio import AsyncEngine

    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.snapshot import Snapshot
    from yielded_storage_sqlite.address import Address
    from yielded_storage_sqlite.connections import Opened
    from yielded_storage_sqlite.open_files import OpenFiles

Result = TypeVar("Result")

_CANCELLED_SECONDS: Final = 1.0
"""How long a cancelled opening waits for its thread, which may wait for another process."""
_logger: Final = logging.getLogger(__name__)


class StoreFile:
    """What the ports of one storage share (STO-2)."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.incarnation = ""
        self.extra_indexes: tuple[str, ...] = ()
        self.lifecycle = Lifecycle()
        self._observers = Observers()
        self._writer: Writer | None = None
        self._files: OpenFiles | None = None
        self._readers: AsyncEngine | None = None
        self._reading = asyncio.Semaphore(MOST_READERS)
        self._watcher: Watcher | None = None
        self._left_open: weakref.finalize[..., Any] | None = None

    async def open(self) -> None:
        """Inspect the file, then open it (LAY-2 to LAY-4). Raises StorageError."""
        self.lifecycle.begin()
        self.address = self.address.resolved()
        writer = Writer(partial(open_writer, self.address), self.address.deadline)
        try:
            opened = await _started(writer)
        except BaseException:
            self.lifecycle.stop_accepting()
            raise
        self._writer = writer
        self.incarnation, self.extra_indexes = opened.incarnation, opened.extra_indexes
        self._files = opened.files
        self._readers = open_readers(self.address)
        self._watcher = Watcher(
            partial(open_reader, self.address),
            opened.files,
            self._observers,
            asyncio.get_running_loop(),
        )
        self._left_open = weakref.finalize(
            self, _tell_left_open, writer, self._watcher, os.getpid()
        )

    async def close(self) -> None:
        """End what was accepted, then give everything back; a cancellation waits for it (STO-3).

        Raises StorageMisused in the wrong process or loop, and StorageBusy when another process
        holds the file until the deadline; the file is given back as soon as it lets go.
        """
        self.lifecycle.check_place()
        self.lifecycle.stop_accepting()
        self._observers.wake_all()
        closing = asyncio.ensure_future(self._close())
        await settled(closing)
        closing.result()

    async def _close(self) -> None:
        await self.lifecycle.drained()
        if self._watcher is not None:
            await _in_thread(self._watcher.stop)
        if self._readers is not None:
            await self._readers.dispose()
        if self._left_open is not None:
            self._left_open.detach()
        if self._writer is not None:
            await _in_thread(self._writer.stop)

    async def write(
        self,
        function: Callable[[sqlite3.Connection], Result],
        *,
        touches: ThreadId | None = None,
    ) -> Result:
        """Run a mutation in the writer and wake the observers of what it touches."""
        with self.lifecycle.operation():
            if self._writer is None:
                raise StorageUnavailable("the writer is not running")
            after = None if touches is None else (lambda: self._observers.wake((touches,)))
            return await self._writer.run(function, after_commit=after)

    async def purge(self) -> None:
        """Remove the rows of generations that nothing reads, in bounded transactions."""
        while await self.write(maintenance_writes.purge):
            pass

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[SettledConnection]:
        """Lend a reading connection for one transaction."""
        with self.lifecycle.operation(), _typed():
            if self._readers is None or self._files is None:
                raise StorageUnavailable("the readers are not running")
            async with self._place_to_read():
                self._files.check()
                connection = self._readers.connect()
                opening = asyncio.ensure_future(connection.start())
                try:
                    await settled(opening)
                    yield SettledConnection(opening.result())
                finally:
                    if not opening.cancelled() and opening.exception() is None:
                        closing = asyncio.ensure_future(connection.close())
                        await settled(closing)
                        closing.result()

    @asynccontextmanager
    async def _place_to_read(self) -> AsyncGenerator[None]:
        """Wait for a connection to come free, so that opening one never has to wait."""
        try:
            async with asyncio.timeout(self.address.deadline):
                await self._reading.acquire()
        except TimeoutError:
            raise StorageBusy("no reading connection came free; try again") from None
        try:
            yield
        finally:
            self._reading.release()

    @asynccontextmanager
    async def reading(
        self, opened: Callable[[SettledConnection], Awaitable[Snapshot]]
    ) -> AsyncGenerator[Snapshot]:
        """Lend a snapshot."""
        async with self.connection() as connection:
            yield await opened(connection)

    @contextmanager
    def observing(self, thread: ThreadId) -> Generator[asyncio.Event]:
        """Register an observer with this process and with the watcher of the others."""
        self.lifecycle.check()
        with self._observers.registered(thread) as news:
            self._watch()
            try:
                yield news
            finally:
                if self.lifecycle.is_open:
                    asyncio.get_running_loop().call_soon(self._watch)

    def _watch(self) -> None:
        if self._watcher is not None:
            self._watcher.watch(self._observers.observed())


@contextmanager
def _typed() -> Generator[None]:
    """Raise what a reading connection raises as our own errors.

    SQLAlchemy's error repeats the statement and its values, so that it is no cause of them: whoever
    logs an error logs its causes too.
    """
    try:
        yield
    except DBAPIError as error:
        cause = error.orig
        if isinstance(cause, sqlite3.Error):
            raise storage_fault(cause) from None
        raise StorageUnavailable("reading failed") from None
    except sqlite3.Error as error:
        raise storage_fault(error) from error


async def _started(writer: Writer) -> Opened:
    """Start a writer, which opens the file. Raises StorageError."""
    try:
        return await writer.start()
    except sqlite3.Error as error:
        raise storage_fault(error) from error
    except OSError as error:
        raise file_fault(error) from error
    except asyncio.CancelledError:
        # It is opening at this moment, and gives everything back when it is through.
        with suppress(StorageBusy):
            await _in_thread(writer.stop, _CANCELLED_SECONDS)
        raise


async def _in_thread(function: Callable[..., None], *arguments: object) -> None:
    """Run what blocks beside the loop and wait for its end, even when cancelled."""
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    await settled(running)
    running.result()


def _tell_left_open(writer: Writer, watcher: Watcher, process: int) -> None:
    """Say that a storage was never closed, and let its threads end; a forked child has none."""
    if os.getpid() == process:
        _logger.warning("a SQLite storage was left open; leave its `async with` block to close it")
        watcher.abandon()
        writer.abandon()
