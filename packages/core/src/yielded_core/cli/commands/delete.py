"""`yielded delete`: a thread is removed and leaves a tombstone (ARC-7)."""

from __future__ import annotations

import asyncio

import typer

from yielded_core.cli.options import (
    Chosen,
    JsonOption,
    StoreOption,
    ThreadArgument,
    YesOption,
    chosen,
    confirm,
)
from yielded_core.cli.safe_text import count, visible
from yielded_core.cli.stores import existing_store
from yielded_core.records.identifiers import ThreadId


def command(
    context: typer.Context,
    thread: ThreadArgument,
    yes: YesOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a thread and leave a tombstone.

    Its id is never used again. A thread with open work is refused.
    """
    asyncio.run(_delete(chosen(context, store, as_json), ThreadId(thread), yes=yes))


async def _delete(options: Chosen, thread: ThreadId, *, yes: bool) -> None:
    async with existing_store(options.url) as storage:
        if not yes:
            tail = await storage.threads.tail(thread)
            question = f"Delete the thread {thread} with {count(tail.sequence, 'record')} for good?"
            confirm(options, question)
        tombstone = await storage.threads.delete_thread(thread)
    output = options.output()
    if output.as_json:
        output.document(
            {
                "thread": tombstone.thread_id,
                "records": tombstone.tail.sequence,
                "epoch": tombstone.epoch,
                "tailDigest": tombstone.tail.digest,
            }
        )
        return
    output.paragraph(f"Deleted {visible(thread)}. Its tombstone:")
    output.pairs(
        {
            "sequence": f"{tombstone.tail.sequence:,}",
            "digest": tombstone.tail.digest,
            "epoch": str(tombstone.epoch),
        }
    )
