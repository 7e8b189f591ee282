"""Payloads of attached children: the request, start and join of one, and its link to the parent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from yielded_core.records.fields import (
    AgentIdField,
    DelegationIdField,
    DigestField,
    IdempotencyKeyField,
    Json,
    Name,
    Natural,
    Optional,
    Positive,
    PrincipalField,
    ReceiptIdField,
    RunIdField,
    SettlementIdField,
    SubmissionIdField,
    ThreadIdField,
    ToolCallIdField,
    TurnIdField,
)
from yielded_core.records.model import WireModel
from yielded_core.records.payloads.parts import Definitions, ParentLink


class SubagentRequested(WireModel):
    """A parent's call asks for a child; policy, budget and grant are the engine's own JSON."""

    tag: Literal["SubagentRequested"] = Field(default="SubagentRequested", alias="_tag")
    run_id: RunIdField
    turn_id: TurnIdField
    turn: Positive
    tool_call_id: ToolCallIdField
    delegation_id: DelegationIdField
    target_agent_id: AgentIdField
    target_digests: Definitions
    child_input: Json
    child_input_digest: DigestField
    grant_digest: DigestField
    reservation_id: Name
    reservation_digest: DigestField
    child_thread_id: ThreadIdField
    child_principal: PrincipalField
    child_idempotency_key: IdempotencyKeyField
    tool_call_allowance: Annotated[Natural | None, Optional] = None
    policy: Annotated[Json | None, Optional] = None
    budget: Annotated[Json | None, Optional] = None
    grant: Annotated[Json | None, Optional] = None
    depth: Annotated[Natural | None, Optional] = None


class SubagentStarted(WireModel):
    """The child was admitted; written only after its receipt exists."""

    tag: Literal["SubagentStarted"] = Field(default="SubagentStarted", alias="_tag")
    run_id: RunIdField
    tool_call_id: ToolCallIdField
    child_thread_id: ThreadIdField
    child_submission_id: SubmissionIdField
    child_receipt_id: ReceiptIdField
    child_run_id: RunIdField


class SubagentJoined(WireModel):
    """The child's outcome reached its parent, in the batch of the parent's ToolCallSettled.

    Usage and accounting are the engine's own JSON.
    """

    tag: Literal["SubagentJoined"] = Field(default="SubagentJoined", alias="_tag")
    run_id: RunIdField
    tool_call_id: ToolCallIdField
    child_submission_id: SubmissionIdField
    child_settlement_id: SettlementIdField
    child_outcome: Literal["completed", "failed", "aborted"]
    child_result_digest: DigestField
    projected_result_digest: DigestField
    usage_summary: Json
    usage: Annotated[Json | None, Optional] = None
    delegated_usage: Annotated[Json | None, Optional] = None
    reservation_id: Name
    final_accounting: Json


class SubagentLineageRecorded(WireModel):
    """Which call of which parent a child's thread works for: its second record."""

    tag: Literal["SubagentLineageRecorded"] = Field(default="SubagentLineageRecorded", alias="_tag")
    parent_link: ParentLink
    parent_submission_id: SubmissionIdField
    child_definition_digests: Definitions
    child_input_digest: DigestField
    grant_digest: DigestField
    tool_call_allowance: Annotated[Natural | None, Optional] = None
    policy: Annotated[Json | None, Optional] = None
    budget: Annotated[Json | None, Optional] = None
    grant: Annotated[Json | None, Optional] = None
