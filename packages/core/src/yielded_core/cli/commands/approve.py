"""`yielded approve`: somebody lets a tool call happen (LED-12)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from yielded_core.cli.instants import instant
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.safe_text import count, visible
from yielded_core.cli.stores import existing_store
from yielded_core.cli.submissions import (
    CallArgument,
    ReasonOption,
    ResolverOption,
    SubmissionArgument,
    find,
    person,
)
from yielded_core.records.identifiers import ToolCallId

if TYPE_CHECKING:
    from yielded_core.ports.work import ApprovalRecorded, Decision, RecoverySnapshot


def command(
    context: typer.Context,
    submission: SubmissionArgument,
    call: CallArgument,
    resolver: ResolverOption = None,
    reason: ReasonOption = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Approve a tool call.

    The decision that a suspended submission waited for last wakes it. The same decision again
    changes nothing; the opposite one is refused.
    """
    options = chosen(context, store, as_json)
    who = person(resolver, "--resolver")
    asyncio.run(decide(options, submission, ToolCallId(call), "approved", who, reason))


async def decide(
    options: Chosen,
    submission: str,
    call: ToolCallId,
    decision: Decision,
    resolver: str,
    reason: str,
) -> None:
    """Record a decision about a call, and tell what the submission waits for now."""
    async with existing_store(options.url) as storage:
        found = (await find(storage, submission)).submission
        place = (found.thread_id, found.submission_id)
        recorded = await storage.ledger.record_approval_decision(
            *place, call, decision=decision, resolver=resolver, reason=reason
        )
        snapshot = await storage.ledger.load_recovery_snapshot(*place)
    output = options.output()
    if output.as_json:
        output.document(_document(recorded, snapshot))
        return
    output.paragraph(_told(recorded, snapshot))


def _undecided(snapshot: RecoverySnapshot) -> list[ToolCallId]:
    """Return the calls that the submission waits for."""
    waiting = snapshot.submission.suspension
    decided = {one.tool_call_id for one in snapshot.approvals}
    return [call for call in (waiting.approvals if waiting else ()) if call not in decided]


def _told(recorded: ApprovalRecorded, snapshot: RecoverySnapshot) -> str:
    made = recorded.decision
    call, name = visible(made.tool_call_id), visible(snapshot.submission.submission_id)
    if recorded.replayed:
        who, when = visible(made.resolver), instant(made.decided_at)
        because = f": {visible(made.reason)}" if made.reason else "."
        return f"The call {call} was {made.decision} before, by {who} at {when}{because}"
    if recorded.woken:
        after = "it goes on"
    elif undecided := _undecided(snapshot):
        after = f"it waits for {count(len(undecided), 'more decision')}"
    else:
        after = "it does not wait for this call at present"
    return f"The call {call} of {name} is {made.decision}; {after}."


def _document(recorded: ApprovalRecorded, snapshot: RecoverySnapshot) -> dict[str, object]:
    made = recorded.decision
    return {
        "submission": snapshot.submission.submission_id,
        "thread": snapshot.submission.thread_id,
        "call": made.tool_call_id,
        "decision": made.decision,
        "resolver": made.resolver,
        "reason": made.reason,
        "decidedAt": instant(made.decided_at),
        "woken": recorded.woken,
        "replayed": recorded.replayed,
        "state": snapshot.submission.state,
        "undecided": _undecided(snapshot),
    }
