"""The writer: one thread, one connection, and one commit for everything that waits (group commit).

Callers hand in whole functions. The thread takes the lock between processes, then drains its queue,
runs the functions in one transaction and commits once. No caller is answered before that commit,
refusals included: a refusal may rest on an item of the same group.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from yielded_core.errors import StorageBusy, StorageClosed, StorageError, StorageUnavailable
from yielded_storage_sqlite.faults import storage_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yielded_storage_sqlite.connections import Opened

Result = TypeVar("Result")

GROUP_ITEMS: Final = 256
"""Items that share one commit at most."""
LOG_BYTES: Final = 32 * 1_048_576
"""Size of the write-ahead log beyond which a writer waits for readers to write it back."""
_CHECKPOINT_MILLISECONDS: Final = 500
"""How long it waits for them."""


class _RefusedLateError(Exception):
    """An item of a group refused after it had written: none of the group may be committed."""


@dataclass(eq=False, slots=True)
class _Item(Generic[Result]):
    """A function that waits for its turn, and whom to tell."""

    function: Callable[[sqlite3.Connection], Result]
    future: asyncio.Future[Result]
    after_commit: Callable[[], None] | None
    outcome: Result | None = None
    refusal: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        """Run the function and keep what came of it; errors of SQLite pass."""
        self.outcome = self.refusal = None
        try:
            self.outcome = self.function(connection)
        except sqlite3.Error:
            raise
        except Exception as refusal:  # noqa: BLE001 - handed to the caller as it is
            self.refusal = refusal

    def deliver(self) -> None:
        """Tell the caller; runs on the caller's loop."""
        if self.refusal is None and self.after_commit is not None:
            self.after_commit()
        if self.future.done():
            return
        if self.refusal is not None:
            self.future.set_exception(self.refusal)
        else:
            self.future.set_result(cast("Result", self.outcome))


class Writer:
    """Opens the writing connection and owns it until `stop`: one thread from begin to end."""

    def __init__(self, open_store: Callable[[], Opened], deadline: float) -> None:
        """Write to what `open_store` opens; an operation has `deadline` seconds."""
        self._open_store = open_store
        self._deadline = deadline
        self._queue: SimpleQueue[_Item[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="yielded-writer", daemon=True)
        self._opening: Future[Opened] = Future()
        self._stopped = False
        self._log_limit = LOG_BYTES

    async def start(self) -> Opened:
        """Start the thread and return what it opened.

        Raises sqlite3.Error, OSError and StorageError as `open_store` does, and StorageBusy at the
        deadline. After an error or a cancellation the thread gives everything back by itself.
        """
        self._thread.start()
        try:
            async with asyncio.timeout(self._deadline):
                return await asyncio.wrap_future(self._opening)
        except TimeoutError:
            self.abandon()
            raise StorageBusy("the file could not be opened in time; try again") from None
        except BaseException:
            self.abandon()
            if self._has_failed():
                self._thread.join()  # it does nothing any more
            raise

    def _has_failed(self) -> bool:
        opening = self._opening
        return opening.done() and not opening.cancelled() and opening.exception() is not None

    async def run(
        self,
        function: Callable[[sqlite3.Connection], Result],
        *,
        after_commit: Callable[[], None] | None = None,
    ) -> Result:
        """Run a function in a transaction and return its result once that is committed.

        `after_commit` runs on the caller's loop even if the caller was cancelled meanwhile.
        Raises what the function raised, a StorageError, or StorageBusy at the deadline; after a
        StorageBusy or a cancellation the function ran as a whole or not at all.
        """
        if self._stopped:
            raise StorageClosed("it was closed")
        loop = asyncio.get_running_loop()
        item = _Item(function, loop.create_future(), after_commit)
        self._queue.put(cast("_Item[Any]", item))
        timer = loop.call_later(self._deadline, _give_up, item.future)
        try:
            return await item.future
        finally:
            timer.cancel()

    def abandon(self) -> None:
        """Let the thread end after what it accepted, and give back what it opened."""
        self._stopped = True
        self._queue.put(None)

    def stop(self, within: float | None = None) -> None:
        """Let the thread end and wait until it has. Blocks, for at most so many seconds.

        Without a number, as long as an operation may take. Raises StorageBusy at the end of that:
        the thread waits for another process then, and gives everything back as soon as it can.
        """
        self.abandon()
        self._thread.join(self._deadline if within is None else within)
        if self._thread.is_alive():
            raise StorageBusy("another process holds the file; it is given back after that")

    def _serve(self) -> None:
        try:
            opened = self._open_store()
        except BaseException as error:  # noqa: BLE001 - handed to the opener as it is
            if self._opening.set_running_or_notify_cancel():
                self._opening.set_exception(error)
            return
        try:
            if self._opening.set_running_or_notify_cancel():
                self._opening.set_result(opened)
            ended = False
            while not ended:
                first = self._queue.get()
                ended = first is None or self._serve_group(opened, first)
        finally:
            _give_back(opened)

    def _serve_group(self, opened: Opened, first: _Item[Any]) -> bool:
        """Commit what waits, answer for all of it, and say whether the end was asked for."""
        items, ended, answered = [first], False, False
        try:
            with opened.lock:
                items, ended = self._drain(first)
                _commit(opened, items)
                _deliver(items)
                answered = True
                self._shorten_log(opened)
        except Exception as error:  # noqa: BLE001 - a caller must hear of it, whatever it is
            if not answered:
                _fail(items, error)
                _deliver(items)
        return ended

    def _drain(self, first: _Item[Any]) -> tuple[list[_Item[Any]], bool]:
        items = [first]
        while len(items) < GROUP_ITEMS:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is None:
                return items, True
            items.append(item)
        return items, False

    def _shorten_log(self, opened: Opened) -> None:
        """Write the log back where readers that never pause kept SQLite from beginning it anew.

        SQLite's own checkpoints wait for nobody, so that the log would grow for as long as there is
        always somebody who reads. This one waits a little while for those who read now.
        """
        size = opened.files.log_bytes()
        if size <= self._log_limit:
            return
        connection = opened.connection
        connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_MILLISECONDS}")
        try:
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._deadline * 1_000)}")
        self._log_limit = size + LOG_BYTES if busy else LOG_BYTES


def _commit(opened: Opened, items: Sequence[_Item[Any]]) -> None:
    """Run a group as one transaction; if that is lost, each item in one of its own."""
    wanted = [item for item in items if not item.future.done()]
    if not wanted:
        return
    connection = opened.connection
    try:
        opened.files.check()
        if connection.in_transaction:  # an earlier one could not even be rolled back
            connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
    except (sqlite3.Error, StorageError) as error:
        _fail(wanted, error)
        return
    try:
        _run_in_transaction(connection, wanted)
    except Exception as error:  # noqa: BLE001 - whatever it is, the transaction is not committed
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if len(wanted) == 1:
            _fail(wanted, error)
            return
        for item in wanted:
            _commit(opened, [item])


def _run_in_transaction(connection: sqlite3.Connection, items: Sequence[_Item[Any]]) -> None:
    """Run items and commit, if every one that refused had written nothing.

    A savepoint for each item would copy every page that it touches, a third of the writer's time.
    Functions read their evidence first and refuse before they write; for one that did not, the
    group is given up and each item runs alone. So it is where the transaction itself is gone: a
    full disk rolls all of it back, and what ran before is lost, refusals too.
    """
    execute = connection.execute
    for item in items:
        before = connection.total_changes
        item.run(connection)
        if not connection.in_transaction:
            message = "the transaction of the group is gone"
            raise sqlite3.OperationalError(message)
        if item.refusal is not None and connection.total_changes != before:
            if len(items) > 1:
                raise _RefusedLateError
            execute("ROLLBACK")
            return
    execute("COMMIT")


def _give_back(opened: Opened) -> None:
    try:
        with opened.lock:  # the last close of a database writes its log back
            opened.connection.close()
    finally:
        opened.lock.close()


def _fail(items: Sequence[_Item[Any]], error: Exception) -> None:
    for item in items:
        item.refusal = _typed(error)


def _typed(error: Exception) -> StorageError:
    """Return an error for one caller: each gets its own, since raising adds to it."""
    if isinstance(error, StorageError):
        fault = copy(error)
    elif isinstance(error, sqlite3.Error):
        fault = storage_fault(error)
    else:
        fault = StorageUnavailable("the writer failed; repeat the operation")
    fault.__cause__ = error
    return fault


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(StorageBusy("the write did not begin or end in time; repeat it"))


def _deliver(items: Sequence[_Item[Any]]) -> None:
    """Hand outcomes back, one call for all items of a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Item[Any]]] = {}
    for item in items:
        by_loop.setdefault(item.future.get_loop(), []).append(item)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver_all, group)
        except RuntimeError:  # the loop was closed: nobody is left to tell
            continue


def _deliver_all(items: Sequence[_Item[Any]]) -> None:
    for item in items:
        item.deliver()
