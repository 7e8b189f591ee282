"""`yielded tail`: where a thread ends (LOG-10)."""

from __future__ import annotations

import asyncio

import typer

from yielded_core.cli.commands.threads import tail_document
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, ThreadArgument, chosen
from yielded_core.cli.stores import existing_store
from yielded_core.records.identifiers import ThreadId


def command(
    context: typer.Context,
    thread: ThreadArgument,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where a thread ends.

    The sequence of its last record, the digest of the chain there, and the producer epoch.
    """
    asyncio.run(_tail(chosen(context, store, as_json), ThreadId(thread)))


async def _tail(options: Chosen, thread: ThreadId) -> None:
    async with existing_store(options.url) as storage:
        tail = await storage.threads.tail(thread)
    output = options.output()
    if output.as_json:
        output.document(tail_document(tail))
        return
    output.pairs(
        {
            "thread": tail.thread_id,
            "sequence": f"{tail.sequence:,}",
            "digest": tail.digest,
            "epoch": str(tail.epoch),
        }
    )
