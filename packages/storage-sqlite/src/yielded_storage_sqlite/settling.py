"""Waiting for work to its end even when the waiter is cancelled, so that nothing is left half-made.

A cancellation is never swallowed: it is raised once the work has ended.
"""

from __future__ import annotations

import asyncio
from typing import Any


async def settled(work: asyncio.Future[Any]) -> None:
    """Wait until work has ended, whatever came of it; then raise what cancelled the wait, if so.

    Only for work that ends by itself soon: a second cancellation waits as the first one does.
    """
    cancellation: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation
