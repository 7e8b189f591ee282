"""What a record says in one line: who, and what (for the timeline)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from yielded_core.records import payloads as p
from yielded_core.records.model import wire_of

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.payloads import Payload
    from yielded_core.records.prompt import Prompt

_NESTED: Final = 4
"""How deep the text of a message may lie in its JSON."""
_UNSAID: Final = frozenset({"_tag", "version"})


class Summary(NamedTuple):
    """One record for people; both texts may hold anything and are to be made safe."""

    actor: str
    text: str


def summary_of(payload: Payload) -> Summary:
    """Say who did what."""
    found = _conversation(payload) or _tool(payload) or _run(payload)
    return found or Summary("", _scalars(payload))


def _conversation(payload: Payload) -> Summary | None:
    match payload:
        case p.UserInputRecorded():
            found = Summary(payload.kind, text_of(payload.input))
        case p.ModelCompleted():
            found = Summary("model", text_of(payload.output))
        case p.ModelResponseRecorded():
            said = " ".join(_said(payload.messages))
            calls = ", ".join(operation.tool_name for operation in payload.tool_operations)
            found = Summary("model", f"calls {calls}: {said}" if calls else said)
        case p.ModelResponseInterrupted():
            found = Summary("model", f"interrupted: {payload.reason}")
        case p.CompactionCreated():
            covered = f"{payload.kind} through {payload.covers_through}"
            found = Summary("compaction", f"{covered}: {payload.summary or ''}".rstrip(": "))
        case p.PeerMessagePrepared():
            found = Summary(payload.source_principal, f"{payload.operation} {payload.message_id}")
        case _:
            found = None
    return found


def _tool(payload: Payload) -> Summary | None:
    match payload:
        case p.ToolCallSettled():
            outcome = "failed: " if payload.is_failure else ""
            found = Summary(payload.tool_name, f"{outcome}{text_of(payload.result)}")
        case p.ToolCallUnknown():
            found = Summary(payload.tool_name, f"unknown outcome: {payload.reason}")
        case p.ToolCallResolved():
            found = Summary(payload.author, f"{payload.resolution}: {payload.reason}")
        case p.ToolStepSettled():
            found = Summary(payload.step_name, text_of(payload.output))
        case p.ToolApprovalRequested():
            found = Summary(payload.tool_name, "waits for approval")
        case p.ToolApprovalDecided():
            found = Summary(payload.resolver, f"{payload.decision}: {payload.reason}")
        case _:
            found = None
    return found


def _run(payload: Payload) -> Summary | None:
    match payload:
        case p.ThreadCreated():
            found = Summary("thread", f"created for agent {payload.agent_id}")
        case p.RunStarted():
            seconds = payload.max_duration_millis / 1_000
            found = Summary("run", f"{payload.run_id} started, for at most {seconds:g} s")
        case p.RunContinuation():
            found = Summary("run", f"{payload.run_id} {payload.position}, turn {payload.turn}")
        case p.RunCompleted():
            found = Summary("run", f"{payload.run_id} completed: {text_of(payload.output)}")
        case p.RunFailed():
            found = Summary("run", f"{payload.run_id} failed: {text_of(payload.failure)}")
        case p.AbortRequested():
            found = Summary(payload.author, f"abort {payload.submission_id}: {payload.reason}")
        case p.SubmissionSettled():
            result = "" if payload.result is None else f": {text_of(payload.result)}"
            found = Summary("submission", f"{payload.submission_id} {payload.outcome}{result}")
        case p.RepairAnnotated():
            found = Summary("repair", payload.reason)
        case _:
            found = None
    return found


def text_of(value: JsonValue) -> str:
    """Return what a JSON value says: the text of a message or of its parts, else compact JSON."""
    return _text_at(value, _NESTED)


def _text_at(value: JsonValue, depth: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and depth:
        for key in ("content", "text", "message"):
            if key in value:
                return _text_at(value[key], depth - 1)
    if isinstance(value, list) and value and depth and all(map(_has_text, value)):
        return " ".join(_text_at(part, depth - 1) for part in value)
    return orjson.dumps(value).decode()


def _has_text(part: JsonValue) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _said(prompt: Prompt) -> list[str]:
    """Return the texts of the assistant in a prompt."""
    return [
        part["text"]
        for message in prompt["content"]
        if message["role"] == "assistant"
        for part in message["content"]
        if part["type"] == "text"
    ]


def _scalars(payload: Payload) -> str:
    """Write the plain fields of a payload, for families without a sentence of their own."""
    plain = (str, int)
    return ", ".join(
        f"{name} {value}"
        for name, value in wire_of(payload).value.items()
        if name not in _UNSAID and isinstance(value, plain)
    )
