"""The schemas of the facts that change independently of the log, as pages carry them (ARC-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Self, TypeAlias, cast

import orjson
from pydantic import ValidationError, model_validator

from yielded_core.errors import InvalidRecord
from yielded_core.ports.work import RESOLUTION_KINDS, Decision, Resolution, ResolutionKind
from yielded_core.records.bounds import LONG_TEXT_UNITS
from yielded_core.records.fields import (
    IdempotencyKeyField,
    Instant,
    Json,
    Name,
    Optional,
    Positive,
    PrincipalField,
    ReceiptIdField,
    RunIdField,
    SubmissionIdField,
    Text,
    ToolCallIdField,
)
from yielded_core.records.identifiers import text_fault
from yielded_core.records.model import WireModel
from yielded_core.records.payloads.parts import broken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.ports.work import FactSection

_OPTIONAL: Final = frozenset({"group", "result"})


class AdmissionFact(WireModel):
    """Work that was accepted, with its receipt (LED-1)."""

    queue_sequence: Positive
    submission_id: SubmissionIdField
    receipt_id: ReceiptIdField
    principal: PrincipalField
    idempotency_key: IdempotencyKeyField
    group: Annotated[Name | None, Optional] = None
    input: Json
    linkage: Json
    message: Json
    admitted_at: Instant
    deferred_at: Annotated[Instant | None, Optional] = None
    """When a later submission was first claimed past it (LED-5)."""


class AbortFact(WireModel):
    """Who asked first that a submission be aborted, and why (LED-9)."""

    submission_id: SubmissionIdField
    author: Name
    reason: Text
    requested_at: Instant


class ApprovalFact(WireModel):
    """A decision about one tool call (LED-12)."""

    submission_id: SubmissionIdField
    tool_call_id: ToolCallIdField
    decision: Decision
    resolver: Name
    reason: Text
    decided_at: Instant


class ResolutionFact(WireModel):
    """What a person decided about a tool call of unknown outcome (LED-13)."""

    submission_id: SubmissionIdField
    tool_call_id: ToolCallIdField
    run_id: RunIdField
    kind: ResolutionKind
    resolution: Resolution
    author: Name
    reason: Text
    result: Annotated[Json | None, Optional] = None
    resolved_at: Instant

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if RESOLUTION_KINDS[self.resolution] != self.kind:
            raise broken("the kind is not that of the resolution")
        if self.result is not None and self.resolution != "completed-with-result":
            raise broken("a result comes only with completed-with-result")
        return self


Fact: TypeAlias = AdmissionFact | AbortFact | ApprovalFact | ResolutionFact
FACTS: Final[Mapping[FactSection, type[Fact]]] = {
    "admissions": AdmissionFact,
    "abortCommands": AbortFact,
    "approvals": ApprovalFact,
    "resolutions": ResolutionFact,
}
"""The facts of each section, in the order of the sections."""


def read_fact(section: FactSection, text: bytes) -> Fact:
    """Read the canonical text of one fact.

    Raises InvalidRecord, which names the section, the field and the rule, but no content.
    """
    value: object = orjson.loads(text)
    if isinstance(value, dict):
        for name in _OPTIONAL & cast("dict[str, object]", value).keys():
            if value[name] is None:
                rule = "an optional key without a value is absent"
                raise InvalidRecord(section, name, rule)
    try:
        fact = FACTS[section].model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(part for part in first["loc"] if isinstance(part, str))
        raise InvalidRecord(section, where or "(fact)", first["msg"]) from None
    for field in ("author", "resolver", "reason"):
        fault = text_fault(cast("object", getattr(fact, field, "")), LONG_TEXT_UNITS)
        if fault is not None:
            raise InvalidRecord(section, field, fault)
    return fact
