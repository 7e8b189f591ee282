"""`yielded threads`: every thread of a store, in constant memory (LOG-19)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from yielded_core.cli.listing import threads_of
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.safe_text import one_line, short
from yielded_core.cli.stores import existing_store

if TYPE_CHECKING:
    from yielded_core.cli.output import Output
    from yielded_core.ports.values import ThreadTail

_NUMBERS = 44
"""Columns of a line beside the thread."""
_LONGEST_THREAD = 60


def command(context: typer.Context, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the threads of a store.

    Each with its number of records, its producer epoch and the beginning of its tail digest.
    """
    asyncio.run(_list(chosen(context, store, as_json)))


async def _list(options: Chosen) -> None:
    output = options.output()
    columns = max(12, min(_LONGEST_THREAD, output.columns - _NUMBERS))
    listed = 0
    async with existing_store(options.url) as storage:
        async for tail in threads_of(storage):
            if output.as_json:
                output.document(tail_document(tail))
                continue
            if not listed:
                output.line(Text(_row("THREAD", columns, "RECORDS", "EPOCH", "TAIL"), "bold"))
            listed += 1
            _show(output, tail, columns)
    if not listed and not output.as_json:
        output.line("The store holds no threads.")


def _show(output: Output, tail: ThreadTail, columns: int) -> None:
    name = one_line(tail.thread_id, columns)
    output.line(_row(name, columns, f"{tail.sequence:,}", str(tail.epoch), short(tail.digest)))


def _row(thread: str, columns: int, records: str, epoch: str, digest: str) -> str:
    name = Text(thread)
    name.truncate(columns, overflow="ellipsis", pad=True)
    return f"{name.plain}  {records:>13}  {epoch:>10}  {digest}"


def tail_document(tail: ThreadTail) -> dict[str, object]:
    """Return where a thread ends, for machines."""
    return {
        "thread": tail.thread_id,
        "records": tail.sequence,
        "epoch": tail.epoch,
        "tailDigest": tail.digest,
    }
