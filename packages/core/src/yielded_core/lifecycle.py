"""When a storage may be used: between open and close, on its own event loop, in its own process."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Self

from yielded_core.errors import StorageClosed, StorageMisused

if TYPE_CHECKING:
    from collections.abc import Generator

_WITHIN: Final[ContextVar[tuple[Lifecycle, ...]]] = ContextVar("yielded_within", default=())
"""Of which storages an operation runs here that was accepted as a whole."""


class Lifecycle:
    """Counts the operations of a storage, so that closing waits for what was accepted (STO-3)."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._accepted = 0
        self._closing = False
        self._idle: asyncio.Event | None = None

    @property
    def is_open(self) -> bool:
        """Whether operations are accepted."""
        return self._loop is not None and not self._closing

    def begin(self) -> None:
        """Accept operations from here on; a storage is opened once."""
        if self._loop is not None:
            message = "a storage is opened once; make another with open_storage"
            raise StorageMisused(message)
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()

    def check(self) -> None:
        """Raise StorageClosed or StorageMisused unless an operation may start here and now."""
        if self._loop is None:
            raise StorageClosed("it was not opened; use `async with`")
        if self._closing and self._process == os.getpid() and self not in _WITHIN.get():
            raise StorageClosed("it was closed")
        self.check_place()

    def check_place(self) -> None:
        """Raise StorageMisused in another process or on another event loop than it was opened."""
        if self._loop is None:
            return
        if self._process != os.getpid():
            raise StorageMisused("it was opened before a fork; open one in each process")
        if asyncio.get_running_loop() is not self._loop:
            raise StorageMisused("it was opened on another event loop; open one in each loop")

    def operation(self) -> Self:
        """Return a context that holds closing back while an operation runs in it."""
        return self

    @contextmanager
    def whole(self) -> Generator[None]:
        """Accept an operation of several parts, each of which is accepted with it."""
        with self:
            within = _WITHIN.set((*_WITHIN.get(), self))
            try:
                yield
            finally:
                _WITHIN.reset(within)

    def __enter__(self) -> Self:
        """Accept an operation, or raise as `check` does."""
        self.check()
        self._accepted += 1
        return self

    def __exit__(self, *_: object) -> None:
        """End an operation."""
        self._accepted -= 1
        if not self._accepted and self._idle is not None:
            self._idle.set()

    def stop_accepting(self) -> None:
        """Refuse every later operation."""
        self._closing = True

    async def drained(self) -> None:
        """Wait until the accepted operations have ended."""
        if self._accepted:
            if self._idle is None:
                self._idle = asyncio.Event()
            await self._idle.wait()
