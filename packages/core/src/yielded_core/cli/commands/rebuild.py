"""`yielded rebuild`: the indexes of a thread are made again from its records (LOG-17)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from yielded_core.cli.options import Chosen, JsonOption, StoreOption, ThreadArgument, chosen
from yielded_core.cli.output import progress
from yielded_core.cli.safe_text import visible
from yielded_core.cli.stores import existing_store
from yielded_core.records.identifiers import ThreadId


def command(
    context: typer.Context,
    thread: ThreadArgument,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a rebuild that was interrupted.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the indexes of a thread from its records.

    Until it is done, appends to the thread and reads that need an index are refused.
    """
    asyncio.run(_rebuild(chosen(context, store, as_json), ThreadId(thread), restart=not resume))


async def _rebuild(options: Chosen, thread: ThreadId, *, restart: bool) -> None:
    async with existing_store(options.url) as storage:
        tail = await storage.threads.tail(thread)
        with progress(f"rebuild {thread}", tail.sequence) as advance:
            state = await storage.threads.rebuild_indexes(thread, restart=restart)
            while not state.complete:
                advance(state.indexed_through)
                state = await storage.threads.rebuild_indexes(thread)
    output = options.output()
    if output.as_json:
        output.document({"thread": thread, "indexedThrough": state.indexed_through})
        return
    output.paragraph(f"Indexed {visible(thread)} through {state.indexed_through:,}.")
