"""A TCP proxy of 127.0.0.1 that cuts a connection after any number of bytes of an operation."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from sqlalchemy import make_url

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Stream: TypeAlias = Literal["request", "answer"]
STREAMS: Final[tuple[Stream, Stream]] = ("request", "answer")
NOTICES: Final = b"pg_notify"
"""What the requests of the connection have in them that tells others of commits."""
_PIECE: Final = 65_536


@dataclass(eq=False)
class _Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    passed: dict[Stream, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    notices: bool = False

    def receiver(self, stream: Stream) -> asyncio.StreamWriter:
        """Return where a stream goes."""
        return self.server if stream == "request" else self.client

    def close(self) -> None:
        """End both sides after what was passed on."""
        self.client.close()
        self.server.close()


@dataclass
class _Cut:
    """Where the next operation is cut."""

    stream: Stream
    after: int
    done: bool = False


class Proxy:
    """Forwards to a server, which may be changed for the connections that come later."""

    def __init__(self, server: str) -> None:
        self.server = server
        """URL of the server that the next connection reaches."""
        self.port = 0
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._marked: _Link | None = None
        self._marking = False
        self._cut: _Cut | None = None
        self._notices = asyncio.Event()

    def url(self, *options: str) -> str:
        """Return the URL of the server through the proxy."""
        through = make_url(self.server).set(host="127.0.0.1", port=self.port)
        return f"{through.render_as_string(hide_password=False)}?{'&'.join(options)}"

    async def heard_of_notices(self) -> None:
        """Wait for the connection of notices, which is left alone from then on."""
        async with asyncio.timeout(30):
            await self._notices.wait()

    def mark(self) -> None:
        """Count, from here on, what passes on the first connection that sends a byte."""
        self._marked, self._marking, self._cut = None, True, None

    def cut(self, stream: Stream, after: int) -> None:
        """Mark, and end that connection as soon as so many bytes of a stream have passed.

        After none: as soon as there is one, which does not pass.
        """
        self.mark()
        self._cut = _Cut(stream, after)

    def passed(self) -> dict[Stream, int]:
        """Return how many bytes have passed on the marked connection."""
        assert self._marked is not None, "nothing was sent"
        return dict(self._marked.passed)

    def heal(self) -> bool:
        """Let everything pass, and return whether the connection was cut."""
        cut, self._cut, self._marking = self._cut, None, False
        return cut is not None and cut.done

    async def serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it, or the cut does."""
        url = make_url(self.server)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            answers, server = await asyncio.open_connection(url.host, url.port)
        except OSError:
            await _ended(client)
            return
        link = _Link(client, server)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(link, "request", reader))
                both.create_task(self._carry(link, "answer", answers))
        finally:
            self._links.discard(link)
            await asyncio.gather(_ended(client), _ended(server))

    async def close(self) -> None:
        """End every connection."""
        for link in self._links:
            link.close()
        await asyncio.gather(*self._tasks)

    async def _carry(self, link: _Link, stream: Stream, source: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while piece := await source.read(_PIECE):
                if NOTICES in piece and stream == "request":
                    link.notices = True
                    self._notices.set()
                if self._marking and stream == "request" and not link.notices:
                    self._marking, self._marked = False, link
                    link.passed = dict.fromkeys(STREAMS, 0)
                if not self._pass(link, stream, piece):
                    return
                await link.receiver(stream).drain()
        link.close()

    def _pass(self, link: _Link, stream: Stream, piece: bytes) -> bool:
        """Pass a piece on, or what may pass of it; return whether the connection goes on."""
        cut = self._cut if link is self._marked else None
        left = cut.after - link.passed[stream] if cut and cut.stream == stream else len(piece) + 1
        link.receiver(stream).write(piece[:left])
        link.passed[stream] += min(left, len(piece))
        if cut is None or left > len(piece):
            return True
        cut.done = True
        link.close()
        return False


@asynccontextmanager
async def proxied(server: str) -> AsyncGenerator[Proxy]:
    """Run a proxy before a server."""
    proxy = Proxy(server)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        await proxy.close()
        await listener.wait_closed()


async def _ended(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
