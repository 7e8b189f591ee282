"""`yielded deny`: somebody forbids a tool call (LED-12)."""

from __future__ import annotations

import asyncio

import typer

from yielded_core.cli.commands.approve import decide
from yielded_core.cli.options import JsonOption, StoreOption, chosen
from yielded_core.cli.submissions import (
    CallArgument,
    ReasonOption,
    ResolverOption,
    SubmissionArgument,
    person,
)
from yielded_core.records.identifiers import ToolCallId


def command(
    context: typer.Context,
    submission: SubmissionArgument,
    call: CallArgument,
    resolver: ResolverOption = None,
    reason: ReasonOption = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deny a tool call.

    One denied call wakes a suspended submission, whatever else it waits for. The same decision
    again changes nothing; the opposite one is refused.
    """
    options = chosen(context, store, as_json)
    who = person(resolver, "--resolver")
    asyncio.run(decide(options, submission, ToolCallId(call), "denied", who, reason))
