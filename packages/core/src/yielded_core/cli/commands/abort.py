"""`yielded abort`: somebody asks that a submission be aborted (LED-9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from yielded_core.cli.instants import instant
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.safe_text import visible
from yielded_core.cli.stores import existing_store
from yielded_core.cli.submissions import (
    AuthorOption,
    ReasonOption,
    SubmissionArgument,
    abort_document,
    find,
    person,
)

if TYPE_CHECKING:
    from yielded_core.ports.work import AbortAccepted, Submission


def command(
    context: typer.Context,
    submission: SubmissionArgument,
    author: AuthorOption = None,
    reason: ReasonOption = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask that a submission be aborted.

    Whoever works on it stops and settles it; work that never ran is settled as aborted in its
    place. The first author and reason are kept. Refused once it is settled, and where it joined
    another one, which is named.
    """
    options = chosen(context, store, as_json)
    asyncio.run(_abort(options, submission, person(author, "--author"), reason))


async def _abort(options: Chosen, submission: str, author: str, reason: str) -> None:
    async with existing_store(options.url) as storage:
        found = (await find(storage, submission)).submission
        accepted = await storage.ledger.request_abort(
            found.thread_id, found.submission_id, author=author, reason=reason
        )
    output = options.output()
    if output.as_json:
        output.document(
            {
                "submission": found.submission_id,
                "thread": found.thread_id,
                **abort_document(accepted.intent),
                "replayed": accepted.replayed,
            }
        )
        return
    output.paragraph(_told(found, accepted))


def _told(found: Submission, accepted: AbortAccepted) -> str:
    intent = accepted.intent
    who = visible(intent.author)
    if not accepted.replayed:
        return f"Asked for the abort of {visible(found.submission_id)}, as {who}."
    because = f": {visible(intent.reason)}" if intent.reason else "."
    return f"The abort was asked for before, by {who} at {instant(intent.requested_at)}{because}"
