"""Payloads of model calls: what a model answered, and answers that were given up."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from yielded_core.records.fields import (
    AttemptIdField,
    DigestField,
    EpochText,
    Json,
    Natural,
    Optional,
    Positive,
    RunIdField,
    Text,
    TurnIdField,
)
from yielded_core.records.model import WireModel
from yielded_core.records.payloads.parts import MEMBERS, ModelUsage, Operation, broken
from yielded_core.records.prompt import PromptField, tool_calls

ModelUsages = Annotated[tuple[ModelUsage, ...], Field(max_length=MEMBERS)]


class ModelResponseRecorded(WireModel):
    """A model's answer in one turn, with the tool calls it declares.

    The two bounds count canonical bytes, the run-scoped prefix counts messages. Parameter
    rejections and exposure are the engine's own JSON.
    """

    tag: Literal["ModelResponseRecorded"] = Field(default="ModelResponseRecorded", alias="_tag")
    run_id: RunIdField
    turn_id: TurnIdField
    turn: Positive
    messages: PromptField
    messages_digest: DigestField
    tool_result_max_bytes: Annotated[int, Field(ge=256, le=1_048_576, strict=True)]
    tool_selection_max_bytes: Natural
    tool_operations: Annotated[tuple[Operation, ...], Field(max_length=MEMBERS)]
    tool_parameter_rejections: Annotated[Json | None, Optional] = None
    tool_exposure: Annotated[Json | None, Optional] = None
    run_scoped_prefix_length: Annotated[Positive | None, Optional] = None
    model_usage: Annotated[ModelUsages | None, Optional] = None
    unobserved_model_calls: Annotated[Natural | None, Optional] = None
    input_tokens: Annotated[Natural | None, Optional] = None
    output_tokens: Annotated[Natural | None, Optional] = None
    cost_microusd: Annotated[Natural | None, Optional] = None

    @model_validator(mode="after")
    def _operations(self) -> Self:
        declared = {each.tool_call_id: each.tool_name for each in self.tool_operations}
        if len(declared) != len(self.tool_operations):
            raise broken("toolOperations name each tool call once")
        calls = tool_calls(self.messages)
        if len({call["id"] for call in calls}) != len(calls):
            raise broken("the tool calls of messages have distinct ids")
        if declared != {call["id"]: call["name"] for call in calls}:
            raise broken("toolOperations declare exactly the application tool calls of messages")
        return self

    @model_validator(mode="after")
    def _run_scoped_prefix(self) -> Self:
        length = self.run_scoped_prefix_length
        if length is not None:
            messages = self.messages["content"]
            if length >= len(messages):
                raise broken("the run-scoped prefix leaves at least one message")
            if any(message["role"] not in {"system", "user"} for message in messages[:length]):
                raise broken("the run-scoped prefix holds only system and user messages")
        return self


class ModelCompleted(WireModel):
    """The output of a run's last model answer."""

    tag: Literal["ModelCompleted"] = Field(default="ModelCompleted", alias="_tag")
    run_id: RunIdField
    output: Json
    messages: Annotated[PromptField | None, Optional] = None
    history: Annotated[PromptField | None, Optional] = None

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.messages is None) != (self.history is None):
            raise broken("messages and history come together")
        return self


class ModelResponseInterrupted(WireModel):
    """An attempt of an earlier epoch was cut off while its model answered."""

    tag: Literal["ModelResponseInterrupted"] = Field(
        default="ModelResponseInterrupted", alias="_tag"
    )
    run_id: RunIdField
    superseded_epoch: EpochText
    attempt_id: AttemptIdField
    reason: Text


class ModelCallAborted(WireModel):
    """A model call was given up because input joined the run; the call is made again."""

    tag: Literal["ModelCallAborted"] = Field(default="ModelCallAborted", alias="_tag")
    run_id: RunIdField
    turn_id: TurnIdField
    turn: Positive
    restart: Literal[1, 2]
    reason: Literal["joined-input"]
    model_usage: ModelUsages
    unobserved_model_calls: Natural
