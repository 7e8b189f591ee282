"""Payloads of tool calls: results, unknown outcomes and their resolution, steps, approvals."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from yielded_core.records.fields import (
    DigestField,
    Flag,
    Json,
    Name,
    Optional,
    Positive,
    RunIdField,
    Text,
    ToolCallIdField,
    TurnIdField,
)
from yielded_core.records.model import WireModel


class ToolCallSettled(WireModel):
    """The one result of a tool call; the selection is the engine's own JSON."""

    tag: Literal["ToolCallSettled"] = Field(default="ToolCallSettled", alias="_tag")
    run_id: RunIdField
    tool_call_id: ToolCallIdField
    tool_name: Name
    result: Json
    is_failure: Flag
    budget_rejected: Annotated[Literal[True] | None, Optional] = None
    tool_selection: Annotated[Json | None, Optional] = None


class ToolCallUnknown(WireModel):
    """Whether a mutating tool call happened cannot be known."""

    tag: Literal["ToolCallUnknown"] = Field(default="ToolCallUnknown", alias="_tag")
    run_id: RunIdField
    turn: Positive
    tool_call_id: ToolCallIdField
    tool_name: Name
    reason: Text


class ToolCallResolved(WireModel):
    """A person resolved an unknown call; `completed-with-result` comes with its ToolCallSettled."""

    tag: Literal["ToolCallResolved"] = Field(default="ToolCallResolved", alias="_tag")
    run_id: RunIdField
    tool_call_id: ToolCallIdField
    resolution: Literal["completed-with-result", "failed-with-error", "never-started", "safe-retry"]
    author: Name
    reason: Text


class ToolStepSettled(WireModel):
    """A named step of a durable tool call succeeded; failures are not recorded."""

    tag: Literal["ToolStepSettled"] = Field(default="ToolStepSettled", alias="_tag")
    run_id: RunIdField
    tool_call_id: ToolCallIdField
    step_name: Name
    output: Json
    output_digest: DigestField


class ToolApprovalRequested(WireModel):
    """A tool call waits for a person's decision."""

    tag: Literal["ToolApprovalRequested"] = Field(default="ToolApprovalRequested", alias="_tag")
    run_id: RunIdField
    turn_id: TurnIdField
    turn: Positive
    tool_call_id: ToolCallIdField
    tool_name: Name
    parameters_digest: DigestField
    blocks_initial_dispatch: Flag


class ToolApprovalDecided(WireModel):
    """A person decided about a tool call."""

    tag: Literal["ToolApprovalDecided"] = Field(default="ToolApprovalDecided", alias="_tag")
    run_id: RunIdField
    turn: Positive
    tool_call_id: ToolCallIdField
    decision: Literal["approved", "denied"]
    resolver: Name
    reason: Text
