"""Noticing what other processes committed: one thread per storage, only while somebody observes.

`PRAGMA data_version` costs two microseconds and changes when another connection commits; file
notifications would come before the commit can be read (LOG-9).
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from yielded_core.errors import StorageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from yielded_core.observing import Observers
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_sqlite.open_files import OpenFiles

POLL_SECONDS: Final = 0.03
_POLLS_A_LOOK: Final = 20
"""Polls between two looks at the names of the files, each of which costs as much as the poll."""
_TAILS: Final = "SELECT generation, tail_sequence FROM yielded_threads WHERE thread_id = ?"


class Watcher:
    """Wakes the observers of threads that changed, from the first observer to the last."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        files: OpenFiles,
        observers: Observers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connect = connect
        self._files = files
        self._observers = observers
        self._loop = loop
        self._watched: dict[ThreadId, object] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._end = threading.Lock()  # waiting for it is the cheapest wait with a time limit
        self._end.acquire()
        self._thread: threading.Thread | None = None

    def watch(self, threads: tuple[ThreadId, ...]) -> None:
        """Say which threads are observed now; the first call starts the thread."""
        with self._changed:
            self._watched = {thread: self._watched.get(thread) for thread in threads}
            if self._thread is None and threads:
                self._thread = threading.Thread(
                    target=self._serve, name="yielded-watcher", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def abandon(self) -> None:
        """Let the thread end."""
        with self._changed:
            if not self._ended:
                self._end.release()
            self._ended = True
            self._changed.notify()

    def stop(self) -> None:
        """End the thread. Blocks until it has."""
        self.abandon()
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        connection: sqlite3.Connection | None = None
        version: int | None = None
        for turn in count():
            if not self._wait():
                break
            try:
                if turn % _POLLS_A_LOOK == 0:
                    self._files.check()
                if connection is None:
                    connection = self._connect()
                (now,) = connection.execute("PRAGMA data_version").fetchone()
                if now != version:
                    self._tell(connection)
                    version = now
            except (sqlite3.Error, StorageError):
                # Whoever observes looks for himself: he finds news, or the reason to end.
                self._wake(tuple(self._watched))
                connection, version = _closed(connection), None
        _closed(connection)

    def _wait(self) -> bool:
        """Wait for the next poll, without a time limit while nobody observes."""
        if self._end.acquire(timeout=POLL_SECONDS):
            return False
        with self._changed:
            while not self._watched and not self._ended:
                self._changed.wait()
            return not self._ended

    def _tell(self, connection: sqlite3.Connection) -> None:
        with self._changed:
            watched = dict(self._watched)
        news: list[ThreadId] = []
        for thread, before in watched.items():
            now = connection.execute(_TAILS, (thread,)).fetchone()
            if now != before:
                news.append(thread)
                watched[thread] = now
        with self._changed:
            for thread in self._watched:
                self._watched[thread] = watched.get(thread)
        if news:
            self._wake(news)

    def _wake(self, threads: Iterable[ThreadId]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._observers.wake, threads)
        except RuntimeError:  # the loop was closed without closing the storage
            self.abandon()


def _closed(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with suppress(sqlite3.Error):
            connection.close()
