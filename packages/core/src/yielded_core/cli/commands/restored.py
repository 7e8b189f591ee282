"""`yielded restored`: a store that came out of a backup begins a new timeline (STO-4)."""

from __future__ import annotations

import asyncio
from typing import Final

import typer

from yielded_core.cli.options import Chosen, JsonOption, StoreOption, YesOption, chosen, confirm
from yielded_core.cli.stores import existing_store
from yielded_core.errors import InvalidArgument
from yielded_core.log.retention import RESTORE_LEAP

_FOLLOWS: Final = (
    "History before the backup is as it was: `yielded verify --all` recomputes it.",
    "Writers, owners, offsets and cursors of the lost timeline are refused from now on.",
    "Effects after the backup are unknown: work settled then is owed again, but may have happened.",
    "Receipts given out after the backup are gone: that work has to be submitted again.",
)


def command(
    context: typer.Context,
    yes: YesOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a new timeline in a store restored from a backup.

    Run it once after restoring, before anything uses the store. Every epoch rises by 2^32, so that
    nothing that was granted after the backup can ever match again.

    Where a store was already restored from this backup, or from an older one, run it once more than
    the last time.
    """
    asyncio.run(_restored(chosen(context, store, as_json), yes=yes))


async def _restored(options: Chosen, *, yes: bool) -> None:
    async with existing_store(options.url) as storage:
        info = await storage.info()
        if info.durability == "non-durable":
            reason = "it names a store that ends with its process, which no backup brings back"
            raise InvalidArgument("--store", reason)
        if not yes:
            confirm(options, "Begin a new timeline? Every writer has to take its threads over.")
        incarnation = await storage.new_incarnation()
    output = options.output()
    if output.as_json:
        output.document(
            {
                "incarnation": incarnation,
                "before": info.incarnation,
                "epochsRaisedBy": RESTORE_LEAP,
            }
        )
        return
    output.paragraph(f"A new timeline began: every epoch rose by {RESTORE_LEAP:,}.")
    output.pairs({"incarnation": incarnation, "before": info.incarnation})
    for rule in _FOLLOWS:
        output.paragraph(rule)
