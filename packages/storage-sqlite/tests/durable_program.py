"""What is traced to see when data reaches the disk: one mutation of each kind, and a mark after it.

Run as `python durable_program.py URL [SABOTEUR]`. The mark is written to standard output only when
the mutation was answered.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from saboteurs import applied

from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Checkpoint, ThreadTail
from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import INSTANT_TEXT, OTHER, THREAD, Writer, batch, note

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from yielded_core.storage import Storage

THREADS = 16


async def marked(name: str, work: Awaitable[object]) -> None:
    """Wait for the answer to a mutation, then say so in a way that a trace shows."""
    await work
    os.write(1, f"answered {name}\n".encode())


async def mutate(storage: Storage) -> None:
    """Make every kind of mutation."""
    threads, archives, checkpoints = storage.threads, storage.archives, storage.checkpoints
    await marked("materialize", threads.materialize(THREAD, epoch=1))
    writer = Writer(storage)
    for number in range(12):
        await marked(f"append {number}", writer.append(note(f"note-{number}")))
    many = [await Writer.begin(storage, ThreadId(f"many-{number}")) for number in range(THREADS)]
    for _ in range(4):
        group = asyncio.gather(*(each.fill(1) for each in many))
        await marked("a group of appends", group)
    assert checkpoints is not None
    tail = writer.tail
    checkpoint = Checkpoint(THREAD, tail.sequence, tail.digest, {"at": 1}, INSTANT_TEXT)
    await marked("save", checkpoints.save(checkpoint))
    await marked("rebuild_indexes", threads.rebuild_indexes(THREAD, restart=True))
    await marked("seal_range", archives.seal_range(THREAD, through=6))
    await marked("archive_range", archives.archive_range(THREAD, first=1))
    await copy(storage)
    await marked("delete_thread", threads.delete_thread(THREAD))
    await marked("new_incarnation", storage.new_incarnation())


async def copy(storage: Storage) -> None:
    """Import a thread that this storage made itself, as if it came from an archive."""
    archives = storage.archives
    writer = await Writer.begin(storage, OTHER)
    given = batch("batch-1", note("one"))
    await writer.append_batch(given)
    archive = writer.tail
    imported = ThreadTail(ThreadId("imported"), archive.sequence, archive.digest, 1)
    await marked("begin_import", archives.begin_import(imported))
    staging = archives.stage_batches(imported.thread_id, [(prepare_batch(given), 1)])
    await marked("stage_batches", staging)
    await marked("publish_import", archives.publish_import(imported.thread_id))
    given_up = ThreadTail(ThreadId("given up"), archive.sequence, archive.digest, 1)
    await marked("begin_import", archives.begin_import(given_up))
    await marked("discard_import", archives.discard_import(given_up.thread_id))


async def main(url: str, saboteur: str | None = None) -> None:
    """Open the store and make the mutations."""
    with nullcontext() if saboteur is None else applied(saboteur):
        async with open_storage(url) as storage:
            await mutate(storage)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
