"""`yielded restored`: a store that came out of a backup begins a new timeline (STO-4)."""

from __future__ import annotations

import asyncio

import typer

from yielded_core.cli.options import Chosen, JsonOption, StoreOption, YesOption, chosen, confirm
from yielded_core.cli.stores import existing_store


def command(
    context: typer.Context,
    yes: YesOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a new timeline in a store restored from a backup.

    Run it once after restoring, before anything uses the store. Every epoch rises by 2^32, so that
    nothing that was granted after the backup can ever match again.
    """
    asyncio.run(_restored(chosen(context, store, as_json), yes=yes))


async def _restored(options: Chosen, *, yes: bool) -> None:
    async with existing_store(options.url) as storage:
        before = (await storage.info()).incarnation
        if not yes:
            confirm(options, "Begin a new timeline? Every writer has to take its threads over.")
        incarnation = await storage.new_incarnation()
    output = options.output()
    if output.as_json:
        output.document({"incarnation": incarnation, "before": before})
        return
    output.pairs({"incarnation": incarnation, "before": before})
