"""What a reader's thread does is told once: its own error, and only to whom it concerns."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from checks import part

from yielded_core.errors import StorageError
from yielded_storage_sqlite import open_storage
from yielded_storage_sqlite.settling import settled

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_storage_sqlite.file import StoreFile


def ends_its_transaction(connection: sqlite3.Connection) -> None:
    """End the snapshot, as SQLite itself does after some errors, and fail."""
    connection.execute("COMMIT")
    raise sqlite3.DatabaseError("disk image is malformed")


@pytest.mark.rule("STO-3")
async def test_a_question_that_lost_its_snapshot_tells_why(path: Path) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        file: StoreFile = part(storage, "_file")
        with pytest.raises(StorageError) as told:
            async with file.connection() as connection:
                await connection.run(ends_its_transaction)
        assert "malformed" in str(told.value.__cause__)
        async with file.connection() as connection:
            assert await connection.run(lambda raw: raw.execute("SELECT 1").fetchone()) == (1,)


@pytest.mark.rule("LED-15", "STO-2")
async def test_a_question_sees_one_snapshot(path: Path) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        file: StoreFile = part(storage, "_file")

        def twice(reader: sqlite3.Connection) -> tuple[int, int]:
            count = "SELECT count(*) FROM yielded_threads"
            before = reader.execute(count).fetchone()[0]
            with closing(sqlite3.connect(path, isolation_level=None)) as writer:
                writer.execute(
                    "INSERT INTO yielded_threads (thread_id, generation, epoch, tail_sequence,"
                    " tail_digest, indexed_through, fact_revision, lane_version,"
                    " last_queue_sequence) VALUES ('t', 1, 1, 0, zeroblob(32), 0, 0, 0, 0)"
                )
            return before, reader.execute(count).fetchone()[0]

        async with file.connection() as connection:
            assert await connection.run(twice) == (0, 0)
        assert len(await storage.threads.threads()) == 1


@pytest.mark.rule("STO-3")
async def test_an_error_after_a_cancellation_is_not_told_twice() -> None:
    untold: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: untold.append(context))
    begun, end = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await end.wait()
        raise StorageError("nobody asks any more")

    async def wait() -> None:
        await settled(asyncio.ensure_future(work()))

    async def cancel() -> None:
        waiting = asyncio.ensure_future(wait())
        await begun.wait()
        waiting.cancel()
        end.set()
        with suppress(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled()

    await cancel()
    await asyncio.sleep(0)  # until then the loop itself still holds what it ran last
    gc.collect()
    assert untold == []
