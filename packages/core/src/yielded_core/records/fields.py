"""Annotated field types of the record schemas: bounds, instants, digests and optional keys.

Everything here compiles to pydantic-core schemas without Python callbacks on the reading path;
a length that pydantic counts in code points is counted again in UTF-16 units, but only where a
record holds characters beyond the Basic Multilingual Plane (`records.envelope`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

from pydantic import Field
from pydantic_core import PydanticCustomError, core_schema

from yielded_core.errors import InvalidJson
from yielded_core.records import identifiers as ids
from yielded_core.records.bounded_json import JsonValue, check_json
from yielded_core.records.bounds import IDENTIFIER_UNITS, LONG_TEXT_UNITS, SHORT_TEXT_UNITS

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_UTC: Final = timedelta(0)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_INSTANT_FORMAT: Final = "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ"
_NO_NUL: Final = r"^[^\x00]+$"
INSTANT_PATTERN: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"\.[0-9]{3}Z$"
)


class Units:
    """Text of at most `limit` UTF-16 code units, in Rust as code points (REC-0)."""

    def __init__(self, limit: int, *, identifier: bool) -> None:
        self.limit = limit
        self.identifier = identifier

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        text = core_schema.str_schema(
            strict=True,
            max_length=self.limit,
            min_length=1 if self.identifier else None,
            pattern=_NO_NUL if self.identifier else None,
        )
        checked = core_schema.no_info_after_validator_function(self._exact, text)
        return core_schema.json_or_python_schema(json_schema=text, python_schema=checked)

    def _exact(self, text: str) -> str:
        if not text.isascii():
            fault = ids.identifier_fault(text or "-", self.limit)
            if fault is not None and (self.identifier or "U+0000" not in fault):
                raise PydanticCustomError("yielded_text", "{fault}", {"fault": fault})
        return text


class _InstantSchema:
    """An instant: exactly milliseconds, UTC (REC-4)."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        text = core_schema.str_schema(strict=True, pattern=INSTANT_PATTERN)
        wire = core_schema.chain_schema([text, core_schema.datetime_schema()])
        given = core_schema.no_info_after_validator_function(
            _exact_instant, core_schema.datetime_schema(strict=True, tz_constraint="aware")
        )
        either = core_schema.union_schema([given, wire], mode="left_to_right")
        return core_schema.json_or_python_schema(json_schema=wire, python_schema=either)


class JsonField:
    """Bounded JSON: checked when given, as read when it comes from a stored record."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        value = self._shape(handler)
        checked = core_schema.no_info_before_validator_function(_bounded, value)
        return core_schema.json_or_python_schema(json_schema=value, python_schema=checked)

    def _shape(self, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Return the schema of what the value must be beyond bounded JSON; here nothing."""
        del handler
        return core_schema.any_schema()


class JsonMember:
    """JSON inside a field that is checked as a whole."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.any_schema()


class _OptionalKey:
    """A key that is absent when it has no value: null on the wire is refused (records.md)."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = handler(source)
        nullable = cast("dict[str, Any]", cast("object", schema))
        if nullable["type"] != "nullable":
            message = "an optional key is annotated `T | None`"
            raise TypeError(message)
        present = nullable["schema"]
        if present["type"] == "json-or-python" and present["json_schema"]["type"] == "any":
            present = _present_json(present)
        return core_schema.json_or_python_schema(json_schema=present, python_schema=schema)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) or {"not": {"type": "null"}}


def _present_json(schema: core_schema.CoreSchema) -> core_schema.CoreSchema:
    kinds = core_schema.is_instance_schema((bool, int, float, str, list, dict))
    not_null = core_schema.custom_error_schema(
        kinds, "yielded_null", custom_error_message="an optional key without a value is absent"
    )
    return core_schema.chain_schema([schema, not_null])


def _instant_fault(instant: datetime) -> str | None:
    """Say why an instant has no exact text (REC-4), or return None."""
    if instant.microsecond % 1_000:
        return "it is finer than a millisecond"
    return None if instant.utcoffset() == _UTC else "it is not in UTC"


def _exact_instant(instant: datetime) -> datetime:
    fault = _instant_fault(instant)
    if fault is not None:
        raise PydanticCustomError("yielded_instant", "{fault}", {"fault": fault})
    return instant


def _bounded(value: JsonValue) -> JsonValue:
    try:
        check_json(value)
    except InvalidJson as error:
        raise PydanticCustomError("yielded_json", "{fault}", {"fault": error.reason}) from None
    return value


def instant_text(instant: datetime) -> str:
    """Write an instant as `YYYY-MM-DDTHH:MM:SS.mmmZ` (REC-4).

    Raises InvalidJson for one that has no exact text of this form.
    """
    fault = _instant_fault(instant)
    if fault is not None:
        raise InvalidJson(fault)
    day = (instant.year, instant.month, instant.day)
    time = (instant.hour, instant.minute, instant.second, instant.microsecond // 1_000)
    return _INSTANT_FORMAT % (*day, *time)  # in half the time of `isoformat`


def instant_of(milliseconds: int) -> datetime:
    """Return the instant so many milliseconds after 1970 UTC."""
    return _EPOCH + _MILLISECOND * milliseconds


def milliseconds_of(instant: datetime) -> int:
    """Return the whole milliseconds from 1970 UTC to an instant."""
    return (instant - _EPOCH) // _MILLISECOND


def instant_now() -> datetime:
    """Return the wall clock cut to milliseconds, for those who stamp records."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1_000 * 1_000)


_name = Units(SHORT_TEXT_UNITS, identifier=True)
_identifier = Units(IDENTIFIER_UNITS, identifier=True)

Name: TypeAlias = Annotated[str, _name]
Text: TypeAlias = Annotated[str, Units(LONG_TEXT_UNITS, identifier=False)]
Instant: TypeAlias = Annotated[datetime, _InstantSchema()]
Json: TypeAlias = Annotated[JsonValue, JsonField()]
Natural: TypeAlias = Annotated[int, Field(ge=0, le=2**53, strict=True)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=2**53, strict=True)]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
DigestField: TypeAlias = Annotated[ids.Digest, Field(pattern=r"^[0-9a-f]{64}$", strict=True)]
EpochText: TypeAlias = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,17}$", strict=True)]
"""A producer epoch as base-10 text (LOG-1)."""
Optional = _OptionalKey()

ThreadIdField: TypeAlias = Annotated[ids.ThreadId, _identifier]
SubmissionIdField: TypeAlias = Annotated[ids.SubmissionId, _identifier]
ReceiptIdField: TypeAlias = Annotated[ids.ReceiptId, _identifier]
SettlementIdField: TypeAlias = Annotated[ids.SettlementId, _identifier]
RunIdField: TypeAlias = Annotated[ids.RunId, _identifier]
TurnIdField: TypeAlias = Annotated[ids.TurnId, _identifier]
ToolCallIdField: TypeAlias = Annotated[ids.ToolCallId, _identifier]
AgentIdField: TypeAlias = Annotated[ids.AgentId, _identifier]
DelegationIdField: TypeAlias = Annotated[ids.DelegationId, _identifier]
DeploymentIdField: TypeAlias = Annotated[ids.DeploymentId, _identifier]
AttemptIdField: TypeAlias = Annotated[ids.AttemptId, _identifier]
ProducerIdField: TypeAlias = Annotated[ids.ProducerId, _identifier]
BatchIdField: TypeAlias = Annotated[ids.BatchId, _identifier]
RecordIdField: TypeAlias = Annotated[ids.RecordId, _identifier]
OtherIdField: TypeAlias = Annotated[str, _identifier]
"""An identifier of something outside the log: a message, an owner."""
PrincipalField: TypeAlias = Annotated[ids.Principal, _name]
IdempotencyKeyField: TypeAlias = Annotated[ids.IdempotencyKey, _name]
