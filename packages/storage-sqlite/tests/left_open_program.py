"""Opens a storage, uses it in every way, and leaves it open when the interpreter exits.

Run as `python left_open_program.py URL HOW`; HOW is how the program ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import THREAD, Writer, note

if TYPE_CHECKING:
    from yielded_storage_sqlite import SqliteStorage

KEPT: list[SqliteStorage] = []
"""Keeps the storage alive until the interpreter is gone."""
IN_FLIGHT: list[asyncio.Future[Any]] = []
"""What had begun and had not ended when its event loop was closed."""


async def main(url: str, how: str) -> None:
    """Write, read and observe, and return without closing."""
    storage = open_storage(url)
    KEPT.append(storage)
    await storage.__aenter__()
    writer = await Writer.begin(storage)
    await writer.append(note("one"))
    await storage.threads.read(THREAD)
    observer = storage.threads.observe(THREAD)
    await anext(observer)
    os.write(1, b"written\n")
    if how == "raises":
        message = "the program fails"
        raise RuntimeError(message)
    if how == "exits":
        sys.exit(3)
    if how == "forgets":
        KEPT.clear()
    if how == "in flight":
        IN_FLIGHT.append(asyncio.ensure_future(writer.append(note("two"))))
        IN_FLIGHT.append(asyncio.ensure_future(storage.threads.read(THREAD)))
        await asyncio.sleep(0)


async def go_on(url: str) -> None:
    """Use the file from another event loop of the same process."""
    async with open_storage(url) as storage:
        await storage.threads.read(THREAD)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    asyncio.run(go_on(sys.argv[1]))
