"""Following a thread: stored records first, then each new batch, without gap or repeat (LOG-9)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from yielded_core.records.bounds import PAGE_RECORDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterable

    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import ThreadId


class _Readable(Protocol):
    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = PAGE_RECORDS
    ) -> tuple[StoredRecord, ...]: ...


class Observers:
    """Who waits for news of which thread, on one event loop."""

    def __init__(self) -> None:
        self._waiting: defaultdict[ThreadId, set[asyncio.Event]] = defaultdict(set)

    def observed(self) -> tuple[ThreadId, ...]:
        """Return the threads that somebody observes."""
        return tuple(self._waiting)

    @contextmanager
    def registered(self, thread: ThreadId) -> Generator[asyncio.Event]:
        """Hold an event that is set at every commit to a thread."""
        news = asyncio.Event()
        self._waiting[thread].add(news)
        try:
            yield news
        finally:
            self._waiting[thread].discard(news)
            if not self._waiting[thread]:
                del self._waiting[thread]

    def wake(self, threads: Iterable[ThreadId]) -> None:
        """Tell the observers of some threads that there is news."""
        for thread in threads:
            for news in self._waiting.get(thread, ()):
                news.set()

    def wake_all(self) -> None:
        """Tell every observer to look again, such as at a closed storage."""
        self.wake(self.observed())


async def follow(
    reader: _Readable, thread: ThreadId, position: int, news: asyncio.Event
) -> AsyncIterator[StoredRecord]:
    """Yield every record after a position, for ever; reads raise when there is nothing to follow.

    The event is cleared before each read, so that a commit during it is never missed.
    """
    while True:
        news.clear()
        page = await reader.read(thread, after=position)
        for record in page:
            position = record.sequence
            yield record
        if len(page) < PAGE_RECORDS:
            await news.wait()
