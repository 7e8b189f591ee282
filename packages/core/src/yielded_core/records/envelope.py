"""The envelope of a record (REC-5), its canonical wire and the typed view beside it (REC-4).

`Record` is what a client builds. `EncodedRecord` is a record with its exact canonical bytes: the
only form that is stored. `StoredRecord` adds where it stands in its thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal, cast

import orjson
from pydantic import ValidationError

from yielded_core.errors import InvalidJson, InvalidRecord, NonCanonical, UnsupportedRecord
from yielded_core.records.bounded_json import JsonValue, check_json
from yielded_core.records.bounds import (
    JSON_BYTES,
    RECORD_BYTES,
    SHORT_TEXT_UNITS,
)
from yielded_core.records.canonical import canonical_json, encode_checked, sha256_hex
from yielded_core.records.fields import DeploymentIdField, Instant, RecordIdField
from yielded_core.records.identifiers import BatchId, Digest, Offset, RecordId, ThreadId
from yielded_core.records.model import ByTag, WireModel, field_beyond_units, wire_of
from yielded_core.records.payloads import Payload

_BEYOND_BASIC_PLANE: Final = re.compile(rb"[\xf0-\xf4]")
_CONSTANTS: Final = frozenset({"family", "schema_version"})
_UNREADABLE: Final = RecordId("(unreadable)")
_TOO_LONG: Final = f"it is longer than {RECORD_BYTES} bytes"
_NOT_JSON: Final = "it is not JSON text"


class Record(WireModel):
    """One fact of a thread, as a client states it (REC-5)."""

    record_id: RecordIdField
    family: Literal["thread"] = "thread"
    schema_version: Literal[1] = 1
    created_at: Instant
    deployment_id: DeploymentIdField
    payload: Annotated[Payload, ByTag()]


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """A record with its canonical bytes; the view was decoded from exactly these bytes."""

    record: Record
    wire: bytes

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the canonical bytes, as evidence references carry it (REC-7)."""
        return sha256_hex(self.wire)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as a thread holds it."""

    thread_id: ThreadId
    sequence: int
    """Position in the thread, gap-free from 1."""
    batch_id: BatchId
    offset: Offset
    """Opaque position to resume `observe` after this record."""
    record: Record
    wire: bytes
    """The exact canonical bytes; fields unknown to this version included."""

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the canonical bytes, as evidence references carry it (REC-7)."""
        return sha256_hex(self.wire)


def encode_record(record: Record) -> EncodedRecord:
    """Check a record against the bounds, encode it canonically and decode the result again.

    Nothing of the caller's objects is kept: a later change of them changes nothing (LOG-6).
    Raises InvalidRecord or UnsupportedRecord.
    """
    wire = _canonical(record)
    return EncodedRecord(decode_record(wire), wire)


def encoded_from_wire(wire: bytes) -> EncodedRecord:
    """Accept a record from its stored bytes, as import and verify do.

    Raises NonCanonical when the text is not the canonical form of its own parse, else as
    `encode_record` does.
    """
    if len(wire) > RECORD_BYTES:
        raise InvalidRecord(_UNREADABLE, "(record)", _TOO_LONG)
    record = decode_record(wire)
    if _canonical(record) != wire:
        raise NonCanonical(record.record_id)
    return EncodedRecord(record, wire)


def decode_record(wire: bytes) -> Record:
    """Decode stored bytes through the schemas (LOG-8); unknown fields are kept.

    Raises InvalidRecord or UnsupportedRecord, naming the field and the rule but no content.
    """
    try:
        record: Record = Record.__pydantic_validator__.validate_json(
            wire, extra="allow", by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise record_fault(wire, error) from None
    if not record.__pydantic_fields_set__ >= _CONSTANTS:
        raise InvalidRecord(record.record_id, "(record)", "family or schemaVersion is missing")
    if not wire.isascii() and _BEYOND_BASIC_PLANE.search(wire):
        field = field_beyond_units(record)
        if field is not None:
            raise InvalidRecord(record.record_id, field, "its text is too long in UTF-16 units")
    return record


def record_fault(wire: bytes, error: ValidationError) -> InvalidRecord | UnsupportedRecord:
    """Name what is wrong with a record's text: the record, the field and the rule (REC-6)."""
    record_id = _record_id_of(wire)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    names = [part for part in first["loc"] if isinstance(part, str)]
    field = ".".join(names[:1] + names[2:3])  # the second name is the payload's tag
    if first["type"] in {"union_tag_invalid", "union_tag_not_found"} and names == ["payload"]:
        return UnsupportedRecord(record_id, "an unknown _tag")
    if field in {"schemaVersion", "family"} and first["type"] == "literal_error":
        return UnsupportedRecord(record_id, f"an unknown {field}")
    rule = _NOT_JSON if first["type"] == "json_invalid" else first["msg"]
    return InvalidRecord(record_id, field or "(record)", rule)


def _record_id_of(wire: bytes) -> RecordId:
    try:
        value: object = orjson.loads(wire)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        found = cast("dict[str, object]", value).get("recordId")
        if isinstance(found, str) and 0 < len(found) <= SHORT_TEXT_UNITS:
            return RecordId(found)
    return _UNREADABLE


def _canonical(record: Record) -> bytes:
    """Check the bounds of a record and encode it; raises InvalidRecord."""
    name = "(record)"
    try:
        value, fields = wire_of(record)
        plain = True
        for name, field in fields:
            plain = check_json(field).plain and name.isascii() and plain
        name = "(record)"
        wire = encode_checked(value, plain=plain)
    except InvalidJson as error:
        raise InvalidRecord(record.record_id, name, error.reason) from None
    except (TypeError, ValueError):  # only a copy made around the validation holds such a value
        raise InvalidRecord(_UNREADABLE, name, "it holds a value that is not JSON") from None
    if len(wire) > RECORD_BYTES:
        raise InvalidRecord(record.record_id, name, _TOO_LONG)
    if len(wire) > JSON_BYTES:
        for name, field in fields:
            _check_length(record.record_id, name, field)
    return wire


def _check_length(record_id: RecordId, name: str, value: object) -> None:
    try:
        canonical_json(cast("JsonValue", value))
    except InvalidJson as error:
        raise InvalidRecord(record_id, name, error.reason) from None
