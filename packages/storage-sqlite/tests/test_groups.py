"""What shares one commit: items that refuse late take nothing of the others with them."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import pytest

from yielded_core import ThreadId
from yielded_core.errors import FenceRejected, ThreadNotMaterialized
from yielded_core.sql import log_writes
from yielded_storage_sqlite.clock import StoreClock
from yielded_storage_sqlite.store import SqliteStorage, open_storage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Coroutine
    from pathlib import Path

    from yielded_storage_sqlite.file import StoreFile

LATE = ThreadId("late")


def _writes_and_refuses(connection: sqlite3.Connection) -> None:
    log_writes.materialize(connection, LATE, 1, StoreClock())
    raise FenceRejected(LATE, 2, 1)


@pytest.mark.rule("LOG-2", "STO-2")
@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("after", [0, 1, 5])
async def test_a_late_refusal_is_undone_alone(tmp_path: Path, before: int, after: int) -> None:
    """The items of a group around one that wrote and then refused are committed, it is not."""
    async with open_storage(f"sqlite:///{tmp_path}/store.db") as storage:
        file = cast("StoreFile", vars(storage)["_file"])
        names = [ThreadId(f"thread-{number}") for number in range(before + after)]
        work: list[Coroutine[Any, Any, object]] = [
            file.write(partial(log_writes.materialize, thread=name, epoch=1, clock=StoreClock()))
            for name in names
        ]
        refused = file.write(_writes_and_refuses)
        outcomes = await _together(storage, [*work[:before], refused, *work[before:]])
        assert isinstance(outcomes[before], FenceRejected)
        assert sum(isinstance(outcome, BaseException) for outcome in outcomes) == 1
        assert [tail.thread_id for tail in await storage.threads.threads()] == sorted(names)
        with pytest.raises(ThreadNotMaterialized):
            await storage.threads.tail(LATE)


async def _together(
    storage: SqliteStorage, work: list[Coroutine[Any, Any, object]]
) -> list[object]:
    """Run writes so that they wait for the writer together and share one commit."""
    file = cast("StoreFile", vars(storage)["_file"])
    held, go = asyncio.Event(), Event()
    loop = asyncio.get_running_loop()

    def hold(_connection: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(held.set)
        go.wait()

    holding = asyncio.ensure_future(file.write(hold))
    await held.wait()
    tasks = [asyncio.ensure_future(each) for each in work]
    await asyncio.sleep(0)
    go.set()
    await holding
    return await asyncio.gather(*tasks, return_exceptions=True)
