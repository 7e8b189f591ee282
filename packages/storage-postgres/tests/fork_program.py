"""Opens a store, forks, and says which operations the child is refused: `fork_program.py URL`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Final

from yielded_core.errors import StorageMisused
from yielded_storage_postgres import open_storage
from yielded_testing.suites.builders import THREAD, Writer, note

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from yielded_storage_postgres.store import PostgresStorage

NAMES: Final = ("read", "write", "info", "close")


def refused_in_child(storage: PostgresStorage) -> list[str]:
    """Return which operations are refused, each run by hand until it first waits."""
    operations: tuple[Coroutine[Any, Any, object], ...] = (
        storage.threads.read(THREAD),
        storage.threads.materialize(THREAD, epoch=1),
        storage.info(),
        storage.__aexit__(None, None, None),
    )
    found: list[str] = []
    for name, operation in zip(NAMES, operations, strict=True):
        try:
            operation.send(None)
        except StorageMisused:
            found.append(name)
    return found


async def main(url: str) -> None:
    """Write before and after the child lived."""
    async with open_storage(url) as storage:
        writer = await Writer.begin(storage)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, json.dumps(refused_in_child(storage)).encode())
            os._exit(0)
        os.waitpid(child, 0)  # noqa: ASYNC222 - nothing else runs here
        misused = json.loads(os.read(reading, 1_000))
        done = await writer.append(note("one"))
    print(json.dumps({"misused": misused, "sequence": done.tail.sequence}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
