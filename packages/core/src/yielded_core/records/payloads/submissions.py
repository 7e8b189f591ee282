"""Payloads of accepted work: the abort command and the one settlement."""

from __future__ import annotations

from typing import Annotated, Literal, Self, cast

from pydantic import Field, model_validator

from yielded_core.records.fields import (
    Json,
    Name,
    Optional,
    ReceiptIdField,
    RunIdField,
    SettlementIdField,
    SubmissionIdField,
    Text,
)
from yielded_core.records.model import WireModel
from yielded_core.records.payloads.parts import broken, is_diagnostic


class AbortRequested(WireModel):
    """Someone asked to abort a submission."""

    tag: Literal["AbortRequested"] = Field(default="AbortRequested", alias="_tag")
    submission_id: SubmissionIdField
    author: Name
    reason: Text


class SubmissionSettled(WireModel):
    """The one outcome of a submission (LED-8).

    A failed one has a Diagnostic as its result. Usage is the engine's own JSON.
    """

    tag: Literal["SubmissionSettled"] = Field(default="SubmissionSettled", alias="_tag")
    submission_id: SubmissionIdField
    settlement_id: SettlementIdField
    receipt_id: ReceiptIdField
    outcome: Literal["completed", "failed", "aborted"]
    run_id: Annotated[RunIdField | None, Optional] = None
    result: Annotated[Json | None, Optional] = None
    run_disposition: Annotated[Json | None, Optional] = None
    finish_reason: Annotated[Literal["budget-exhausted"] | None, Optional] = None
    exhausted: Annotated[Name | None, Optional] = None
    policy_limit: Annotated[Name | None, Optional] = None
    usage_summary: Annotated[Json | None, Optional] = None
    uncommitted_model_usage: Annotated[Json | None, Optional] = None

    @model_validator(mode="after")
    def _result(self) -> Self:
        if self.outcome == "failed" and not is_diagnostic(self.result):
            raise broken("the result of a failed submission is a Diagnostic")
        if self.outcome == "aborted" and self.result is not None:
            raise broken("an aborted submission has no result")
        return self

    @model_validator(mode="after")
    def _finish_reason(self) -> Self:
        if (self.finish_reason is None) != (self.exhausted is None):
            raise broken("finishReason and exhausted come together")
        if self.finish_reason is not None and self.outcome != "completed":
            raise broken("finishReason comes only with a completed submission")
        return self

    @model_validator(mode="after")
    def _disposition(self) -> Self:
        if self.run_disposition is not None:
            if self.outcome != "completed":
                raise broken("runDisposition comes only with a completed submission")
            if self.run_id is None or self.result is None:
                raise broken("runDisposition comes with a run and a result")
            if self.finish_reason is not None:
                raise broken("runDisposition does not come with finishReason")
        return self

    @model_validator(mode="after")
    def _usage(self) -> Self:
        used = self.usage_summary is not None or self.uncommitted_model_usage is not None
        if used and self.run_id is None:
            raise broken("usage comes only with a run")
        return self

    @model_validator(mode="after")
    def _policy_limit(self) -> Self:
        if self.policy_limit is not None:
            result = cast("dict[str, object]", self.result) if self.outcome == "failed" else {}
            if result.get("errorTag") != "AgentPolicyError":
                raise broken("policyLimit comes only with a failed AgentPolicyError")
        return self
