"""`yielded archive`: the oldest records of a thread move to compact ranges (ARC-6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from yielded_core.cli.options import Chosen, JsonOption, StoreOption, ThreadArgument, chosen
from yielded_core.cli.output import progress
from yielded_core.cli.safe_text import count, visible
from yielded_core.cli.stores import existing_store
from yielded_core.errors import RangeRefused
from yielded_core.records.identifiers import ThreadId

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from yielded_core.ports.values import ArchiveRange
    from yielded_core.storage import Storage


def command(
    context: typer.Context,
    thread: ThreadArgument,
    through: Annotated[
        int | None,
        typer.Option("--through", metavar="SEQUENCE", min=1, help="Archive up to this record."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=0, help="Leave the newest N records as they are."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move the oldest records of a thread to compact ranges.

    Each range is copied, the copy is verified, and only then its rows are freed. Every read works
    as before.
    """
    options = chosen(context, store, as_json)
    if (through is None) == (keep is None):
        raise typer.BadParameter("give one of --through and --keep", param_hint="--through")
    asyncio.run(_archive(options, ThreadId(thread), through, keep))


async def _archive(
    options: Chosen, thread: ThreadId, through: int | None, keep: int | None
) -> None:
    ranges, records = 0, 0
    async with existing_store(options.url) as storage:
        tail = await storage.threads.tail(thread)
        last = tail.sequence - keep if keep is not None else min(through or 0, tail.sequence)
        with progress(f"archive {thread}", max(last, 0)) as advance:
            async for archived in _archived(storage, thread, last):
                ranges += 1
                records += archived.record_count
                advance(archived.last_sequence)
        open_from = 1 + max(
            (each.last_sequence for each in await storage.archives.ranges(thread)), default=0
        )
    output = options.output()
    if output.as_json:
        output.document(
            {"thread": thread, "ranges": ranges, "records": records, "openFrom": open_from}
        )
        return
    moved = (
        f"Moved {count(records, 'record')} to {count(ranges, 'range')}"
        if ranges
        else "Nothing to move"
    )
    output.paragraph(f"{moved}; {visible(thread)} is open from record {open_from:,} on.")


async def _archived(
    storage: Storage, thread: ThreadId, through: int
) -> AsyncGenerator[ArchiveRange, None]:
    """Archive what was sealed before, then range by range; yield each that was archived now."""
    for found in await storage.archives.ranges(thread):
        if found.state == "sealed" and found.last_sequence <= through:
            yield await storage.archives.archive_range(thread, first=found.first_sequence)
    while through > 0:
        try:
            sealed = await storage.archives.seal_range(thread, through=through)
        except RangeRefused:
            return  # no whole open batch ends there any more
        yield await storage.archives.archive_range(thread, first=sealed.first_sequence)
