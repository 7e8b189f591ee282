"""Payloads of a thread and its runs: input, context, policy, compaction, progress, end."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from yielded_core.records.fields import (
    AgentIdField,
    DigestField,
    Flag,
    Json,
    Name,
    Natural,
    Optional,
    Positive,
    RunIdField,
    SubmissionIdField,
    Text,
)
from yielded_core.records.model import WireModel
from yielded_core.records.payloads.parts import (
    MEMBERS,
    Accounting,
    Definitions,
    EvidenceReference,
    RetainedRecord,
    broken,
)


class ThreadCreated(WireModel):
    """The first record of a thread that the coordinator creates."""

    tag: Literal["ThreadCreated"] = Field(default="ThreadCreated", alias="_tag")
    agent_id: AgentIdField
    definitions: Definitions


class UserInputRecorded(WireModel):
    """Input for a run; a submission is named only for durably accepted work."""

    tag: Literal["UserInputRecorded"] = Field(default="UserInputRecorded", alias="_tag")
    submission_id: Annotated[SubmissionIdField | None, Optional] = None
    kind: Literal["user", "steering", "follow-up"]
    run_id: Annotated[RunIdField | None, Optional] = None
    input: Json
    message_admission: Annotated[Json | None, Optional] = None


class RunStarted(WireModel):
    """A run begins; written before anything of it executes."""

    tag: Literal["RunStarted"] = Field(default="RunStarted", alias="_tag")
    run_id: RunIdField
    policy_accounting_version: Literal[1]
    max_duration_millis: Positive


class RunContextRecorded(WireModel):
    """The part of the thread's history that a run starts from.

    The history is from one sequence through another; an empty one goes through one less.
    """

    tag: Literal["RunContextRecorded"] = Field(default="RunContextRecorded", alias="_tag")
    version: Literal[1]
    run_id: RunIdField
    run_scoped_input: Json
    history_from: Positive
    history_through: Natural
    retained: Annotated[tuple[RetainedRecord, ...], Field(max_length=MEMBERS)]
    history_digest: DigestField
    prior_history_length: Natural
    context_window_id: Annotated[Name | None, Optional] = None

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.history_from > self.history_through + 1:
            raise broken("historyFrom is at most historyThrough + 1")
        return self

    @model_validator(mode="after")
    def _retained_below(self) -> Self:
        sequences = [kept.sequence for kept in self.retained]
        if any(later <= earlier for earlier, later in pairwise(sequences)):
            raise broken("retained records ascend by sequence")
        if sequences and sequences[-1] >= self.history_from:
            raise broken("retained records lie below historyFrom")
        return self


class RunPolicyUsageReserved(WireModel):
    """What of its policy a run has reserved; a later one of the run never says less."""

    tag: Literal["RunPolicyUsageReserved"] = Field(default="RunPolicyUsageReserved", alias="_tag")
    run_id: RunIdField
    programmatic_tool_calls: Natural
    finalization_used: Flag


class RunDurationExhausted(WireModel):
    """The run has used up its duration; only an active attempt writes it."""

    tag: Literal["RunDurationExhausted"] = Field(default="RunDurationExhausted", alias="_tag")
    run_id: RunIdField


class CompactionCreated(WireModel):
    """Everything through a sequence is replaced in prompts; turn 0 is before the first turn."""

    tag: Literal["CompactionCreated"] = Field(default="CompactionCreated", alias="_tag")
    run_id: RunIdField
    turn: Natural
    kind: Literal["clear-tool-results", "summarize", "rollover"]
    covers_through: Positive
    summary: Annotated[Text | None, Optional] = None
    handoff: Annotated[Json | None, Optional] = None

    @model_validator(mode="after")
    def _summary_of_summarize(self) -> Self:
        if (self.summary is not None) != (self.kind == "summarize"):
            raise broken("a summary comes exactly with kind summarize")
        return self


class RunContinuation(WireModel):
    """Where a run stands, from which it is continued without reading the thread (LOG-14, LOG-16).

    Counts are of the run's facts and their canonical bytes; turn 0 is before the first turn.
    """

    tag: Literal["RunContinuation"] = Field(default="RunContinuation", alias="_tag")
    version: Literal[1]
    run_id: RunIdField
    submission_id: SubmissionIdField
    revision: Positive
    record_count: Natural
    record_bytes: Natural
    turn: Natural
    turn_bytes: Natural
    terminal_bytes: Natural
    terminal_records: Natural
    terminal_usage_bytes: Natural
    original_input: EvidenceReference
    saved_context: Annotated[EvidenceReference | None, Optional] = None
    latest_response: Annotated[EvidenceReference | None, Optional] = None
    terminal: Annotated[EvidenceReference | None, Optional] = None
    last_fact: EvidenceReference
    position: Literal[
        "starting",
        "awaiting-model",
        "processing-operations",
        "waiting-approval",
        "waiting-dependency",
        "unknown",
        "settling",
        "settled",
    ]
    accounting: Accounting


class RunCompleted(WireModel):
    """A run ended with an output, and perhaps because a budget was exhausted, which it names."""

    tag: Literal["RunCompleted"] = Field(default="RunCompleted", alias="_tag")
    run_id: RunIdField
    output: Json
    result_digest: Annotated[DigestField | None, Optional] = None
    run_disposition: Annotated[Json | None, Optional] = None
    finish_reason: Annotated[Literal["budget-exhausted"] | None, Optional] = None
    exhausted: Annotated[Name | None, Optional] = None

    @model_validator(mode="after")
    def _finish_reason(self) -> Self:
        if (self.finish_reason is None) != (self.exhausted is None):
            raise broken("finishReason and exhausted come together")
        return self

    @model_validator(mode="after")
    def _no_disposition(self) -> Self:
        if self.run_disposition is not None and self.finish_reason is not None:
            raise broken("runDisposition does not come with finishReason")
        return self


class RunFailed(WireModel):
    """A run ended with a failure."""

    tag: Literal["RunFailed"] = Field(default="RunFailed", alias="_tag")
    run_id: RunIdField
    failure: Json
