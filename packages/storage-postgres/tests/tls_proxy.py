"""A server that takes only TLS: an end of TLS in front of one that need not know of it.

It speaks as PostgreSQL does before it encrypts: the client asks for TLS, `S` says yes, and whoever
does not ask is refused by the state that `pg_hba.conf` refuses with.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

_REQUEST: Final = struct.pack("!II", 8, 80_877_103)
_REFUSAL: Final = b"SFATAL\0C28000\0Mit takes only TLS\0\0"
_PIECE: Final = 65_536


class TlsProxy:
    """Forwards what arrives by TLS to a port of 127.0.0.1."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        """Forward to a port, and show clients the certificate of a context."""
        self._port = port
        self._context = context
        self.port = 0
        """Where it listens on 127.0.0.1, once it serves."""
        self.encrypted = 0
        """Connections that were forwarded."""
        self.refused = 0
        """Connections in clear."""
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[TlsProxy]:
        """Serve until the end; clients close their connections first."""
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
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if await reader.readexactly(len(_REQUEST)) == _REQUEST:
                client.write(b"S")
                await client.start_tls(self._context)
                await self._forward(reader, client)
            else:
                self.refused += 1
                client.write(b"E" + struct.pack("!I", 4 + len(_REFUSAL)) + _REFUSAL)
        await _ended(client)

    async def _forward(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection("127.0.0.1", self._port)
        self.encrypted += 1
        async with asyncio.TaskGroup() as both:
            both.create_task(_passed_on(reader, server))
            both.create_task(_passed_on(answers, client))


async def _passed_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await source.read(_PIECE):
            target.write(piece)
            await target.drain()
    await _ended(target)


async def _ended(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):  # a client that gives up in the handshake, too
        await writer.wait_closed()
