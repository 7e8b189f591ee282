"""`yielded resolve`: somebody decides about a tool call whose outcome nobody knows (LED-13)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, get_args

import typer

from yielded_core.cli.instants import instant
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.safe_text import count, visible
from yielded_core.cli.stores import existing_store
from yielded_core.cli.submissions import (
    AuthorOption,
    CallArgument,
    ReasonOption,
    SubmissionArgument,
    exact,
    find,
    person,
)
from yielded_core.errors import InvalidArgument, InvalidJson
from yielded_core.ledger.operations.unknown import open_calls
from yielded_core.ports.work import Resolution
from yielded_core.records.bounded_json import JsonValue, parse_json
from yielded_core.records.canonical import canonical_json
from yielded_core.records.identifiers import ToolCallId

if TYPE_CHECKING:
    from yielded_core.ports.work import RecoverySnapshot, ResolutionRecorded

_RESOLUTIONS: Final[tuple[Resolution, ...]] = get_args(Resolution)
_STANDARD_INPUT: Final = "-"
_MOST_BYTES: Final = 16 * 1_048_576
"""Of the text of a result; white space counts."""


def command(
    context: typer.Context,
    submission: SubmissionArgument,
    call: CallArgument,
    resolution: Annotated[
        str, typer.Argument(metavar="RESOLUTION", help=f"One of {', '.join(_RESOLUTIONS)}.")
    ],
    *,
    author: AuthorOption = None,
    reason: ReasonOption = "",
    result: Annotated[
        str | None,
        typer.Option(
            "--result", metavar="FILE", help="JSON: what the call gave; - is standard input."
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resolve a tool call of unknown outcome.

    RESOLUTION says what to do: safe-to-retry or abort-submission; or what happened:
    completed-with-result, with --result, or never-happened. What happened may still be told after
    what to do. The resolution that leaves no call open wakes the submission.
    """
    options = chosen(context, store, as_json)
    if resolution not in _RESOLUTIONS:
        message = f"it is none of {', '.join(_RESOLUTIONS)}"
        raise typer.BadParameter(message, param_hint="RESOLUTION")
    if (resolution == "completed-with-result") != (result is not None):
        message = "completed-with-result needs it, and nothing else takes it"
        raise typer.BadParameter(message, param_hint="--result")
    who = person(author, "--author")
    value = None if result is None else _read_result(result)
    wanted = _Wanted(ToolCallId(call), resolution, who, reason, value)
    asyncio.run(_resolve(options, submission, wanted))


class _Wanted(NamedTuple):
    call: ToolCallId
    resolution: Resolution
    author: str
    reason: str
    result: JsonValue


def _read_result(file: str) -> JsonValue:
    """Read the result of a call exactly.

    Raises InvalidArgument saying why the text is refused, but not what it says; OSError as the file
    system gives it.
    """
    if file == _STANDARD_INPUT:
        text = sys.stdin.buffer.read(_MOST_BYTES + 1)
    else:
        with Path(file).open("rb") as source:
            text = source.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise InvalidArgument("--result", f"it is longer than {_MOST_BYTES} bytes")
    try:
        value = parse_json(text)
        canonical_json(value)
    except InvalidJson as error:
        raise InvalidArgument("--result", error.reason) from None
    return value


async def _resolve(options: Chosen, submission: str, wanted: _Wanted) -> None:
    async with existing_store(options.url) as storage:
        found = (await find(storage, submission)).submission
        place = (found.thread_id, found.submission_id)
        recorded = await storage.ledger.record_unknown_resolution(
            *place,
            wanted.call,
            resolution=wanted.resolution,
            author=wanted.author,
            reason=wanted.reason,
            result=wanted.result,
        )
        snapshot = await storage.ledger.load_recovery_snapshot(*place)
    output = options.output()
    if output.as_json:
        output.document(_document(recorded, snapshot))
        return
    output.paragraph(_told(recorded, snapshot))


def _told(recorded: ResolutionRecorded, snapshot: RecoverySnapshot) -> str:
    made = recorded.resolution
    call, name = visible(made.tool_call_id), visible(snapshot.submission.submission_id)
    if recorded.replayed:
        who, when = visible(made.author), instant(made.resolved_at)
        because = f": {visible(made.reason)}" if made.reason else "."
        return f"The call {call} was {made.resolution} before, by {who} at {when}{because}"
    still = open_calls(snapshot.unknown_calls, snapshot.resolutions)
    if recorded.woken:
        after = "; it goes on"
    elif still:
        after = f"; {count(len(still), 'call')} of it still to be resolved"
    else:
        after = ""
    return f"The call {call} of {name} is resolved: {made.resolution}{after}."


def _document(recorded: ResolutionRecorded, snapshot: RecoverySnapshot) -> dict[str, object]:
    made = recorded.resolution
    return {
        "submission": snapshot.submission.submission_id,
        "thread": snapshot.submission.thread_id,
        "call": made.tool_call_id,
        "resolution": made.resolution,
        "author": made.author,
        "reason": made.reason,
        "result": exact(made.result),
        "resolvedAt": instant(made.resolved_at),
        "woken": recorded.woken,
        "replayed": recorded.replayed,
        "state": snapshot.submission.state,
        "open": list(open_calls(snapshot.unknown_calls, snapshot.resolutions)),
    }
