"""Work that would hold up the event loop: files, digests and decoding go to a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


async def off_loop(work: Callable[[], Result]) -> Result:
    """Run work in a thread and return what it returns.

    Cancellation waits for the work to end, so that whatever it uses can be closed right after; so
    each piece of work is short.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            task.exception()
        raise
