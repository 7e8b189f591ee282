"""What tests look at from outside and inside: locks, transactions, connections, threads, files."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yielded_core.records.identifiers import ThreadId

if TYPE_CHECKING:
    from sqlalchemy.pool import QueuePool

    from yielded_storage_sqlite import SqliteStorage
    from yielded_testing.storm import Worker

_NOWHERE = ThreadId("no thread has this name")


def part(whole: object, *names: str) -> Any:  # noqa: ANN401 - a test looks inside
    """Return what an object holds under a name of its own, and so on."""
    for name in names:
        whole = vars(whole)[name]
    return whole


def pool_of(storage: SqliteStorage) -> QueuePool:
    """Return the pool of reading connections."""
    pool: QueuePool = part(storage, "_file", "_readers").pool
    return pool


async def idle(storage: SqliteStorage) -> None:
    """Wait until the writer has nothing left to do."""
    await storage.archives.import_state(_NOWHERE)


async def check_clean(storage: SqliteStorage, prober: Worker) -> None:
    """An idle storage holds no lock, no transaction and no reading connection (STO-3)."""
    await idle(storage)
    assert pool_of(storage).checkedout() == 0, "a reading connection is still lent"
    found = await probe(prober)
    assert found["lock"], "the lock between writers is held"
    assert found["write"], "the database is locked for writing"
    assert found["checkpoint"], "a reading transaction is still open"


async def probe(prober: Worker) -> dict[str, Any]:
    """Ask another process what it can do with the file."""
    prober.send()
    return await asyncio.to_thread(prober.receive)


def our_threads() -> list[str]:
    """Return the threads of storages in this process."""
    names = ("yielded-", "_connection_worker_thread")
    return [each.name for each in threading.enumerate() if any(name in each.name for name in names)]


def open_files_of(path: Path) -> list[str]:
    """Return the descriptors of this process that lead to a store or its side files."""
    found: list[str] = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            target = str(each.readlink())
        except FileNotFoundError:  # the descriptor that listed the folder
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found
