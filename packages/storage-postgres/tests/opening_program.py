"""Opens a store several times at once and says what it found: `opening_program.py URL COUNT`."""

from __future__ import annotations

import asyncio
import sys

from yielded_storage_postgres import open_storage


async def incarnation(url: str) -> str:
    """Open the store and return the incarnation in its header."""
    async with open_storage(url) as storage:
        return (await storage.info()).incarnation


async def main(url: str, count: int) -> None:
    """Print one line for each opening."""
    for found in await asyncio.gather(*(incarnation(url) for _ in range(count))):
        print(found)  # noqa: T201 - how it answers


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
