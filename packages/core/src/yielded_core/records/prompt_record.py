"""The narrow projection of records from which a prompt is rebuilt (LOG-12).

It is read straight from stored bytes: only the fields below are looked at, and writing is trusted
to have validated them. It is never evidence of execution or integrity; for that decode the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from yielded_core.records.bounded_json import JsonValue
from yielded_core.records.envelope import record_fault
from yielded_core.records.fields import JsonMember
from yielded_core.records.identifiers import Digest, RecordId, RunId, SubmissionId, ToolCallId
from yielded_core.records.model import ByTag, WireModel
from yielded_core.records.prompt import Prompt

_Json: TypeAlias = Annotated[JsonValue, JsonMember()]
_Prompt: TypeAlias = Annotated[Prompt, JsonMember()]


class _Projection(WireModel):
    """Some fields of a record; the others are skipped."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        defer_build=True,
    )


class PromptInput(_Projection):
    """From UserInputRecorded: what a person or a steering client said."""

    tag: Literal["UserInputRecorded"] = Field(alias="_tag")
    submission_id: SubmissionId | None = None
    kind: Literal["user", "steering", "follow-up"]
    run_id: RunId | None = None
    input: _Json


class PromptResponse(_Projection):
    """From ModelResponseRecorded: the messages of one turn, and the bound of its tool results."""

    tag: Literal["ModelResponseRecorded"] = Field(alias="_tag")
    run_id: RunId
    turn: int
    messages: _Prompt
    messages_digest: Digest
    tool_result_max_bytes: int
    run_scoped_prefix_length: int | None = None


class PromptOutput(_Projection):
    """From ModelCompleted: the last answer of a run, with its messages where they were kept."""

    tag: Literal["ModelCompleted"] = Field(alias="_tag")
    run_id: RunId
    output: _Json
    messages: _Prompt | None = None
    history: _Prompt | None = None


class PromptToolResult(_Projection):
    """From ToolCallSettled: the result of one call."""

    tag: Literal["ToolCallSettled"] = Field(alias="_tag")
    run_id: RunId
    tool_call_id: ToolCallId
    tool_name: str
    result: _Json
    is_failure: bool


class PromptCompaction(_Projection):
    """From CompactionCreated: what stands for everything through a sequence."""

    tag: Literal["CompactionCreated"] = Field(alias="_tag")
    run_id: RunId
    turn: int
    kind: Literal["clear-tool-results", "summarize", "rollover"]
    covers_through: int
    summary: str | None = None
    handoff: _Json = None


class PromptRunCompleted(_Projection):
    """From RunCompleted: where a run's part of the thread ends, with its output."""

    tag: Literal["RunCompleted"] = Field(alias="_tag")
    run_id: RunId
    output: _Json


class PromptRunFailed(_Projection):
    """From RunFailed: where a run's part of the thread ends, with its failure."""

    tag: Literal["RunFailed"] = Field(alias="_tag")
    run_id: RunId
    failure: _Json


class PromptSettlement(_Projection):
    """From SubmissionSettled: the outcome of a submission."""

    tag: Literal["SubmissionSettled"] = Field(alias="_tag")
    submission_id: SubmissionId
    outcome: Literal["completed", "failed", "aborted"]
    run_id: RunId | None = None
    result: _Json = None


PromptPayload: TypeAlias = (
    PromptInput
    | PromptResponse
    | PromptOutput
    | PromptToolResult
    | PromptCompaction
    | PromptRunCompleted
    | PromptRunFailed
    | PromptSettlement
)

PROMPT_TAGS: Final = frozenset(
    {
        "UserInputRecorded",
        "ModelResponseRecorded",
        "ModelCompleted",
        "ToolCallSettled",
        "CompactionCreated",
        "RunCompleted",
        "RunFailed",
        "SubmissionSettled",
    }
)
"""The families that a prompt is rebuilt from."""


class _Envelope(_Projection):
    record_id: RecordId
    payload: Annotated[PromptPayload, ByTag()]


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """What a prompt needs of one record."""

    sequence: int
    record_id: RecordId
    payload: PromptPayload


def decode_prompt_record(sequence: int, wire: bytes) -> PromptRecord:
    """Read the projection of a stored record whose tag is one of PROMPT_TAGS.

    Raises InvalidRecord, or UnsupportedRecord for another tag.
    """
    try:
        envelope: _Envelope = _Envelope.__pydantic_validator__.validate_json(
            wire, by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise record_fault(wire, error) from None
    return PromptRecord(sequence, envelope.record_id, envelope.payload)
