"""News of commits between the processes of a store, by NOTIFY and LISTEN (LOG-9).

A notice is a hint without content, one channel for each thread. It is sent after the commit was
acknowledged: inside of it, every committing process would wait for one lock of the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from yielded_storage_postgres.dialect import in_schema
from yielded_storage_postgres.faults import DRIVER_ERRORS
from yielded_storage_postgres.names import key_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    import asyncpg

    from yielded_core.observing import Observers
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_postgres.address import Address

WINDOW_SECONDS: Final = 0.010
"""Between two statements that notify: what is touched meanwhile goes out with the second."""
POLL_SECONDS: Final = 30.0
"""After so long one statement looks which observed threads moved, in case that a notice was lost
with its sender."""
RETRY_SECONDS: Final = 0.25
"""Between two attempts to connect; each is twice as long as the one before, up to MOST_RETRY."""
MOST_RETRY_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 2.0
_NOTIFY: Final = "SELECT pg_notify(channel, '') FROM unnest($1::text[]) AS channel"
_LOOK: Final = """
SELECT thread_id, generation, tail_sequence, tail_digest FROM yielded_threads
 WHERE thread_id = ANY($1::text[])
"""
_LOST: Final = (OSError, *DRIVER_ERRORS)
_logger: Final = logging.getLogger(__name__)


class Notices:
    """Tells other processes of the commits of this one, and its observers of theirs.

    Each direction has a connection of its own, outside of the pool, from the first time that it is
    needed until `stop`.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[asyncpg.Connection[asyncpg.Record]]],
        observers: Observers,
        address: Address,
    ) -> None:
        self._connect = connect
        self._observers = observers
        self._schema = address.schema
        self._look = in_schema(_LOOK.strip(), address.quoted_schema)
        self._touched: set[str] = set()
        self._to_send = asyncio.Event()
        self._sent = asyncio.Event()
        self._to_listen = asyncio.Event()
        self._heard: dict[str, ThreadId] = {}
        self._seen: dict[str, asyncpg.Record | None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def touch(self, thread: ThreadId) -> None:
        """Wake the observers of a thread here, and soon those of other processes."""
        self._observers.wake((thread,))
        self._touched.add(self._channel(thread))
        self._sent.clear()
        self._to_send.set()
        self._begin("send", self._send)

    def watch(self) -> None:
        """Listen to what is observed now."""
        self._to_listen.set()
        if self._observers.observed():
            self._begin("listen", self._listen)

    async def stop(self) -> None:
        """Send what is left to send, and close both connections."""
        if "send" in self._tasks:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._sent.wait()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    def _begin(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(work(), name=f"yielded notices: {name}")

    def _channel(self, thread: ThreadId) -> str:
        name = f"{self._schema}\0{thread}".encode()
        return f"yielded_{hashlib.sha256(name).hexdigest()[:40]}"

    async def _send(self) -> None:
        connection: asyncpg.Connection[asyncpg.Record] | None = None
        wait = WINDOW_SECONDS
        try:
            while True:
                await self._to_send.wait()
                self._to_send.clear()
                channels, self._touched = sorted(self._touched), set()
                try:
                    if connection is None or connection.is_closed():
                        connection = None
                        connection = await self._connect()
                    await connection.execute(_NOTIFY, channels)
                except _LOST:
                    self._touched.update(channels)
                    self._to_send.set()
                    if connection is None:
                        self._sent.set()  # nobody can be told now: closing does not wait for it
                    lost, connection = connection, None
                    await _closed(lost)
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, MOST_RETRY_SECONDS)
                    continue
                wait = WINDOW_SECONDS
                if not self._to_send.is_set():
                    self._sent.set()
                await asyncio.sleep(WINDOW_SECONDS)
        finally:
            await _closed(connection)

    async def _listen(self) -> None:
        wait = RETRY_SECONDS
        while True:
            try:
                connection = await self._connect()
                try:
                    await self._hear(connection)
                finally:
                    await _closed(connection)
                wait = RETRY_SECONDS
            except _LOST:
                _logger.info("nothing is heard of other processes; connecting again")
                self._observers.wake_all()
                await asyncio.sleep(wait)
                wait = min(2 * wait, MOST_RETRY_SECONDS)

    async def _hear(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Listen until the connection is lost."""
        self._heard, self._seen = {}, {}
        connection.add_termination_listener(self._lose)
        while not connection.is_closed():
            self._to_listen.clear()
            wanted = {self._channel(thread): thread for thread in self._observers.observed()}
            for channel in self._heard.keys() - wanted.keys():
                del self._heard[channel]
                await connection.remove_listener(channel, self._wake)
            for channel in wanted.keys() - self._heard.keys():
                self._heard[channel] = wanted[channel]
                await connection.add_listener(channel, self._wake)
            if wanted:
                self._observers.wake(await self._moved(connection))
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._to_listen.wait()

    async def _moved(self, connection: asyncpg.Connection[asyncpg.Record]) -> list[ThreadId]:
        """Return which of the threads that are heard moved since the look before, or are new."""
        threads = {key_of(thread): thread for thread in self._heard.values()}
        found = {row[0]: row for row in await connection.fetch(self._look, list(threads))}
        before, self._seen = self._seen, {key: found.get(key) for key in threads}
        return [
            thread
            for key, thread in threads.items()
            if key not in before or before[key] != self._seen[key]
        ]

    def _lose(self, _connection: object) -> None:
        self._to_listen.set()

    def _wake(self, _connection: object, _process: int, channel: str, _payload: object) -> None:
        thread = self._heard.get(channel)
        if thread is not None:
            self._observers.wake((thread,))


async def _closed(connection: asyncpg.Connection[asyncpg.Record] | None) -> None:
    """Close a connection, politely at first."""
    if connection is None:
        return
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await connection.close()
    except (TimeoutError, *_LOST):
        connection.terminate()
    except asyncio.CancelledError:
        connection.terminate()
        raise
