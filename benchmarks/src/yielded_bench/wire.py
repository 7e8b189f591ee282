"""Counting round trips at the wire: a proxy between a store and its server, which reads nothing.

A round trip is bytes of the client after bytes of the server: something was asked that could only
be asked once something was answered. The first bytes of a connection begin its first.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import make_url

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_NOTIFIES: Final = b"pg_notify"
"""In the first statement of the connection that tells others of commits, and of no other one."""
_PIECE: Final = 65_536


@dataclass(eq=False)
class _Link:
    """One connection through the proxy."""

    trips: int = 0
    asking: bool = False
    """Whether what passed last came from the client."""
    notifies: bool = False

    def asked(self, piece: bytes) -> None:
        if not self.asking:
            self.trips += 1
        self.asking = True
        self.notifies = self.notifies or _NOTIFIES in piece

    def answered(self, _piece: bytes) -> None:
        self.asking = False


class Wire:
    """Forwards connections to a server and counts their round trips.

    The connection that tells others of commits is left out: nobody waits for it.
    """

    def __init__(self, server: str) -> None:
        self._server = make_url(server)
        self.port = 0
        """Where it listens on 127.0.0.1, once it serves."""
        self._links: list[_Link] = []
        self._told = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the server through here, without options."""
        through = self._server.set(host="127.0.0.1", port=self.port, query={})
        return through.render_as_string(hide_password=False)

    def trips(self) -> int:
        """Return how many round trips there were so far."""
        return sum(link.trips for link in self._links if not link.notifies)

    async def told(self, seconds: float = 30) -> None:
        """Wait until the connection that tells others of commits is known as that."""
        async with asyncio.timeout(seconds):
            await self._told.wait()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Wire]:
        """Forward until the end; clients close their connections first."""
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            await asyncio.gather(*self._tasks)
            await listener.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served in a task"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        answers, server = await asyncio.open_connection(self._server.host, self._server.port)
        link = _Link()
        self._links.append(link)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._requests(link, reader, server))
            both.create_task(self._answers(link, answers, client))

    async def _requests(
        self, link: _Link, source: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while piece := await source.read(_PIECE):
                link.asked(piece)
                if link.notifies:
                    self._told.set()
                server.write(piece)
                await server.drain()
        await _ended(server)

    async def _answers(
        self, link: _Link, source: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while piece := await source.read(_PIECE):
                link.answered(piece)
                client.write(piece)
                await client.drain()
        await _ended(client)


async def _ended(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
