"""`yielded queue`: the work that is still owed, lane by lane, in constant memory (LED-15)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from yielded_core.cli.instants import duration
from yielded_core.cli.listing import queue_of
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.safe_text import count, one_line, visible
from yielded_core.cli.stores import existing_store
from yielded_core.cli.submissions import lane_document, submission_document
from yielded_core.errors import ThreadNotMaterialized
from yielded_core.records.identifiers import ThreadId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yielded_core.cli.output import Output
    from yielded_core.ports.work import QueuedLane, QueuePage, Submission

_BEFORE: Final = 30
"""Columns of a line before the submission."""
_NOTE: Final = 18
"""Columns of the note behind it, the space between them included."""
_LEAST: Final = 12
_WIDE: Final = 110
"""From here on there is room for principals too, and for attempt ids of the usual length."""
_PRINCIPAL: Final = 24
_SHORT_ATTEMPT: Final = 12
_LONG_ATTEMPT: Final = 40


def command(
    context: typer.Context,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="THREAD", help="Show this lane alone.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List accepted work that is not settled, lane by lane.

    Each lane with its epoch and who owns it; each submission with its place, its state, how long
    ago it was admitted, and whether a claim would get it now.
    """
    named = None if thread is None else ThreadId(thread)
    asyncio.run(_list(chosen(context, store, as_json), named))


async def _list(options: Chosen, thread: ThreadId | None) -> None:
    listing = Listing(options.output())
    async with existing_store(options.url) as storage:
        if thread is not None and await storage.ledger.lane(thread) is None:
            raise ThreadNotMaterialized(thread)
        async with aclosing(queue_of(storage, thread)) as pages:
            async for page in pages:
                listing.show(page)
    listing.end(thread)


class Listing:
    """Writes submissions below their lanes, and at the end how many there were."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._wide = output.columns >= _WIDE
        self._lane: ThreadId | None = None
        self._lanes = 0
        self._submissions = 0
        self._claimable = 0

    def show(self, page: QueuePage) -> None:
        """Write one page, whose first lane may have begun on the page before."""
        lanes = {queued.lane.thread_id: queued for queued in page.lanes}
        if self._output.as_json:
            for one in page.submissions:
                self._output.document(_document(page, lanes[one.thread_id], one))
            return
        columns = self._columns(page)
        if not self._submissions:
            titles = ("PLACE", "STATE", "AGE", "SUBMISSION", "PRINCIPAL")
            self._output.line(Text(self._row(titles, columns).rstrip(), "bold"))
        for one in page.submissions:
            queued = lanes[one.thread_id]
            if one.thread_id != self._lane:
                self._lane = one.thread_id
                self._lanes += 1
                self._output.line(self._header(page, queued))
            self._submissions += 1
            self._claimable += queued.claimable == one.submission_id
            self._output.line(self._line(page, queued, one, columns))

    def end(self, thread: ThreadId | None) -> None:
        """Write how much there was."""
        if self._output.as_json:
            return
        if self._submissions:
            owed = count(self._submissions, "unsettled submission")
            lanes = count(self._lanes, "lane")
            self._output.paragraph(f"{owed} in {lanes}, {self._claimable:,} claimable now.")
        elif thread is None:
            self._output.line("The store holds no unsettled work.")
        else:
            self._output.paragraph(f"The lane of {visible(thread)} holds no unsettled work.")

    def _columns(self, page: QueuePage) -> int:
        """Return the width of the ids of a page."""
        longest = max(len(one.submission_id) for one in page.submissions)
        beside = _BEFORE + _NOTE + (_PRINCIPAL + 2 if self._wide else 0)
        return max(_LEAST, min(longest, self._output.columns - beside))

    def _header(self, page: QueuePage, queued: QueuedLane) -> Text:
        status = _status(page, queued, _LONG_ATTEMPT if self._wide else _SHORT_ATTEMPT)
        columns = max(_LEAST, self._output.columns - Text(status).cell_len - 2)
        thread = _fitted(queued.lane.thread_id, columns)
        return Text.assemble((thread.plain, "bold"), f"  {status}")

    def _line(self, page: QueuePage, queued: QueuedLane, one: Submission, columns: int) -> Text:
        place, age = f"{one.queue_sequence:,}", duration(page.wall_clock - one.admitted_at)
        cells = (place, one.state, age, one.submission_id, one.principal)
        notes = Text(", ").join(_notes(queued, one))
        line = Text.assemble(self._row(cells, columns), "  ", notes)
        line.rstrip()
        return line

    def _row(self, cells: tuple[str, str, str, str, str], columns: int) -> str:
        place, state, age, name, principal = cells
        named = _fitted(name, columns, pad=True).plain
        who = f"  {_fitted(principal, _PRINCIPAL, pad=True).plain}" if self._wide else ""
        return f"{place:>5}  {state:13} {age:>7}  {named}{who}"


def _status(page: QueuePage, queued: QueuedLane, columns: int) -> str:
    """Say who owns a lane, and for how long still or since when not any more."""
    lane, owner = queued.lane, queued.lane.owner
    if lane.epoch == 0:
        return "not materialized"
    if owner is None:
        return f"epoch {lane.epoch}, nobody owns it"
    attempt = _fitted(owner.attempt_id, columns).plain
    left = owner.expires_at - page.store_clock
    if owner.live:
        return f"epoch {lane.epoch}, owned by {attempt}, {duration(left)} left"
    return f"epoch {lane.epoch}, owned by {attempt}, lapsed {duration(-left)} ago"


def _notes(queued: QueuedLane, one: Submission) -> Iterator[Text]:
    """Say what else matters about a submission, the most important first."""
    owner = queued.lane.owner
    if queued.claimable == one.submission_id:
        yield Text("claimable", "green")
    elif owner is not None and owner.submission_id == one.submission_id and owner.live:
        yield Text("owned", "cyan")
    if one.abort is not None:
        yield Text("abort", "red")
    if one.suspension is not None:
        calls, children = len(one.suspension.approvals), len(one.suspension.children)
        waits = "1 child" if children == 1 else f"{children:,} children"
        yield Text(f"for {count(calls, 'approval') if calls else waits}", "yellow")
    if one.host is not None:
        yield Text(f"with {one_line(one.host, 256)}")


def _fitted(text: str, columns: int, *, pad: bool = False) -> Text:
    """Return the beginning of a text; characters may be two columns wide."""
    fitted = Text(one_line(text, columns))
    fitted.truncate(columns, overflow="ellipsis", pad=pad)
    return fitted


def _document(page: QueuePage, queued: QueuedLane, one: Submission) -> dict[str, object]:
    owner = queued.lane.owner
    return {
        **submission_document(one),
        "ageMillis": max(page.wall_clock - one.admitted_at, 0),
        "claimable": queued.claimable == one.submission_id,
        "lane": lane_document(queued.lane),
        "leaseMillis": owner and max(owner.expires_at - page.store_clock, 0),
    }
