"""`yielded log`: what happened in a thread, one line a record, and what happens from now on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Final

import orjson
import typer
from rich.text import Text

from yielded_core.cli.listing import offset_after, records_of
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, ThreadArgument, chosen
from yielded_core.cli.output import Output, flush
from yielded_core.cli.safe_text import one_line, visible
from yielded_core.cli.stores import existing_store
from yielded_core.cli.summaries import summary_of
from yielded_core.records.fields import instant_text
from yielded_core.records.identifiers import ThreadId

if TYPE_CHECKING:
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.storage import Storage

_FAMILY_COLUMNS: Final = 17
_ACTOR_CHARACTERS: Final = 24
_INDENT: Final = " " * 8


def command(
    context: typer.Context,
    thread: ThreadArgument,
    *,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQUENCE", min=0, help="Begin after this record.")
    ] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Show at most N records.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new records until interrupted.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Show each record completely.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened in a thread, as a timeline.

    One line a record: its sequence, its time (UTC), its family, who it is about and what it says.
    """
    options = chosen(context, store, as_json)
    asyncio.run(_show(options, ThreadId(thread), after, limit, follow=follow, full=full))


async def _show(
    options: Chosen, thread: ThreadId, after: int, limit: int | None, *, follow: bool, full: bool
) -> None:
    timeline = Timeline(options.output(), full=full)
    async with existing_store(options.url) as storage:
        if follow:
            records = _followed(storage, thread, after, limit)
        else:
            records = records_of(storage, thread, after, limit)
        async with aclosing(records):
            async for stored in records:
                timeline.show(stored)
                if follow:
                    flush()


async def _followed(
    storage: Storage, thread: ThreadId, after: int, limit: int | None
) -> AsyncGenerator[StoredRecord, None]:
    offset = await offset_after(storage, thread, after)
    left = limit
    async with aclosing(storage.threads.observe(thread, after=offset)) as observed:
        async for stored in observed:
            yield stored
            left = None if left is None else left - 1
            if left == 0:
                return


class Timeline:
    """Writes records below one another; a new day has a line of its own."""

    def __init__(self, output: Output, *, full: bool) -> None:
        self._output = output
        self._full = full
        self._day = ""

    def show(self, stored: StoredRecord) -> None:
        """Write one record."""
        if self._output.as_json:
            self._output.document(_document(stored))
            return
        day, _, time = instant_text(stored.record.created_at).partition("T")
        if day != self._day:
            self._day = day
            self._output.line(Text(f"{_INDENT}{day}", "bold"))
        self._output.line(self._line(stored, time))
        if self._full:
            self._details(stored)

    def _line(self, stored: StoredRecord, time: str) -> Text:
        summary = summary_of(stored.record.payload)
        actor = one_line(summary.actor, _ACTOR_CHARACTERS)
        family = stored.record.payload.tag.ljust(_FAMILY_COLUMNS)
        line = Text.assemble(
            f"{stored.sequence:6d}  {time[:8]}  ",
            (family, "cyan"),
            "  ",
            (f"{actor}: " if actor else "", "bold"),
        )
        space = max(self._output.columns - len(line.plain), 8)
        return line.append(one_line(summary.text, space))

    def _details(self, stored: StoredRecord) -> None:
        """Write the record as it is stored, laid out."""
        laid_out = json.dumps(orjson.loads(stored.wire), indent=2, ensure_ascii=False)
        for line in (f"batch {stored.batch_id}", *laid_out.split("\n")):
            self._output.paragraph(f"{_INDENT}{visible(line)}")


def _document(stored: StoredRecord) -> dict[str, object]:
    return {
        "sequence": stored.sequence,
        "batchId": stored.batch_id,
        "offset": stored.offset,
        "digest": stored.digest,
        "record": orjson.Fragment(stored.wire),
    }
