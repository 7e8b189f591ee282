"""Everything that a store, a thread or a lane holds, page by page."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from yielded_core.errors import BeyondTail
from yielded_core.records.bounds import PAGE_RECORDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from yielded_core.ports.values import ThreadTail
    from yielded_core.ports.work import QueuePage, Submission
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import Offset, ThreadId
    from yielded_core.storage import Storage


async def threads_of(storage: Storage) -> AsyncGenerator[ThreadTail, None]:
    """Yield every thread by id, in constant memory (LOG-19)."""
    after: ThreadId | None = None
    while page := await storage.threads.threads(after=after):
        for tail in page:
            yield tail
        after = page[-1].thread_id


async def queue_of(storage: Storage, thread: ThreadId | None) -> AsyncGenerator[QueuePage, None]:
    """Yield all that is owed, or what one thread owes, in constant memory (LED-15)."""
    after = None if thread is None else (thread, 0)
    while (page := await storage.ledger.queue(after=after)).submissions:
        last = page.submissions[-1]
        if thread is not None:
            mine = tuple(one for one in page.submissions if one.thread_id == thread)
            page = replace(page, submissions=mine)
        if page.submissions:
            yield page
        if thread is not None and last.thread_id != thread:
            return
        after = (last.thread_id, last.queue_sequence)


async def unsettled_of(storage: Storage) -> AsyncGenerator[Submission, None]:
    """Yield every unsettled submission by thread and place, in constant memory (LED-15)."""
    after: tuple[ThreadId, int] | None = None
    while page := await storage.ledger.scan_nonterminal(after=after, limit=PAGE_RECORDS):
        for submission in page:
            yield submission
        after = (page[-1].thread_id, page[-1].queue_sequence)


async def records_of(
    storage: Storage, thread: ThreadId, after: int, limit: int | None
) -> AsyncGenerator[StoredRecord, None]:
    """Yield the records of a thread after a sequence, at most `limit` of them."""
    left = limit
    while left is None or left > 0:
        size = PAGE_RECORDS if left is None else min(left, PAGE_RECORDS)
        page = await storage.threads.read(thread, after=after, limit=size)
        for stored in page:
            yield stored
        if len(page) < size:
            return
        after = page[-1].sequence
        left = None if left is None else left - len(page)


async def offset_after(storage: Storage, thread: ThreadId, sequence: int) -> Offset | None:
    """Return the offset from which observing goes on after a sequence; None is the beginning.

    Raises BeyondTail.
    """
    if sequence == 0:
        return None
    page = await storage.threads.read(thread, after=sequence - 1, limit=1)
    if not page:
        tail = await storage.threads.tail(thread)
        raise BeyondTail(thread, sequence, tail.sequence)
    return page[0].offset


async def counted(
    lines: AsyncGenerator[bytes, None], advance: Callable[[int], None]
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an archive and tell how many there were so far."""
    number = 0
    async with aclosing(lines):
        async for line in lines:
            yield line
            number += 1
            advance(number)
