"""What several payload families hold: definitions, references, operations, usage, diagnostics."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from yielded_core.records.bounded_json import JsonValue
from yielded_core.records.bounds import JSON_COLLECTION
from yielded_core.records.fields import (
    AgentIdField,
    DelegationIdField,
    DigestField,
    Flag,
    Name,
    Natural,
    Optional,
    Positive,
    RecordIdField,
    RunIdField,
    Text,
    ThreadIdField,
    ToolCallIdField,
)
from yielded_core.records.model import WireModel

MEMBERS: Final = JSON_COLLECTION
"""Members of a list in a typed field: the bound of a JSON collection (REC-3)."""


def broken(rule: str) -> PydanticCustomError:
    """Build the error of a rule across fields: it names the rule, never the content (REC-6)."""
    return PydanticCustomError("yielded_rule", "{rule}", {"rule": rule})


class ReplayDefinitions(WireModel):
    """Digests of what a replay must find unchanged."""

    agent: DigestField
    tools: Annotated[dict[Name, DigestField], Field(max_length=MEMBERS)]


class Definitions(WireModel):
    """Digests of the agent, the model settings and the tools that a thread was created with."""

    agent: DigestField
    model: DigestField
    tools: DigestField
    replay: Annotated[ReplayDefinitions | None, Optional] = None


class EvidenceReference(WireModel):
    """A record of the same thread, with the SHA-256 of its canonical bytes (REC-7)."""

    record_id: RecordIdField
    digest: DigestField


class RetainedRecord(WireModel):
    """A record below the start of a run's history that its context keeps."""

    record_id: RecordIdField
    digest: DigestField
    sequence: Positive


class Operation(WireModel):
    """The declaration of one application tool call, committed before its handler starts."""

    tool_call_id: ToolCallIdField
    tool_name: Name
    execution_class: Literal["readonly", "idempotent", "uncertain"]
    execution_kind: Literal["ordinary", "durable", "delegation"]
    replay: DigestField


class ModelUsage(WireModel):
    """What one model call used; tokens, and money in millionths of a US dollar."""

    model: Annotated[Name | None, Optional] = None
    input_tokens: Annotated[Natural | None, Optional] = None
    output_tokens: Annotated[Natural | None, Optional] = None
    cost_microusd: Annotated[Natural | None, Optional] = None


class Accounting(WireModel):
    """What a run has used since it started, as its newest continuation counts it (LOG-16)."""

    programmatic_tool_calls: Natural
    model_restarts: Annotated[int, Field(ge=0, le=2, strict=True)]
    model_calls: Natural
    unobserved_model_calls: Natural
    input_tokens: Natural
    output_tokens: Natural
    last_input_tokens: Natural
    last_output_tokens: Natural
    cost_microusd: Natural
    accounted_tool_turn: Natural
    finalization_used: Flag


class ParentLink(WireModel):
    """The call of a parent's thread for which a child works; depth counts from the first parent."""

    thread_id: ThreadIdField
    run_id: RunIdField
    tool_call_id: ToolCallIdField
    agent_id: AgentIdField
    delegation_id: DelegationIdField
    depth: Natural


class Diagnostic(WireModel):
    """Why something failed, safe to show: never provider text. Further keys are its context."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )

    error_tag: Name
    message: Text


def is_diagnostic(value: JsonValue) -> bool:
    """Say whether a JSON value is a Diagnostic."""
    try:
        Diagnostic.model_validate(value, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True
