"""The envelope of a record, its instants, its digest and its faults (REC-4 to REC-7)."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from pydantic import ValidationError

from yielded_core.errors import InvalidRecord, UnsupportedRecord
from yielded_core.records import payloads as p
from yielded_core.records.canonical import canonical_json
from yielded_core.records.envelope import Record, decode_record, encode_record, encoded_from_wire
from yielded_core.records.fields import instant_now, instant_text
from yielded_core.records.identifiers import DeploymentId, RecordId
from yielded_testing.samples import SAMPLE_INSTANT, all_samples, sample_payload, sample_record
from yielded_testing.strategies import Wire, wire_records

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue

MIB = 1_048_576


def with_input(value: JsonValue) -> Record:
    return sample_record(p.UserInputRecorded(kind="user", input=value))


def wire_object(record: Record) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(encode_record(record).wire))


def text_of(value: object) -> bytes:
    """Write a wire object as it is, checked by nothing."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


SAMPLE = wire_object(with_input({"a": 1, "b": "é/A"}))


@pytest.mark.rule("REC-4", "REC-5", "REC-6")
@pytest.mark.parametrize("record", all_samples(), ids=lambda record: record.payload.tag)
def test_a_sample_of_every_family_keeps_its_bytes(record: Record) -> None:
    encoded = encode_record(record)
    assert encoded.record == record
    assert decode_record(encoded.wire) == record
    assert encode_record(encoded.record) == encoded
    assert encoded_from_wire(encoded.wire) == encoded
    assert canonical_json(json.loads(encoded.wire)) == encoded.wire


@pytest.mark.rule("REC-4", "REC-6")
@given(wire_records())
def test_any_valid_record_keeps_its_bytes(value: Wire) -> None:
    wire = canonical_json(value)
    encoded = encoded_from_wire(wire)
    assert encoded.wire == wire
    assert encode_record(encoded.record) == encoded


@pytest.mark.rule("REC-4", "REC-6")
@given(wire_records())
def test_a_record_built_in_python_is_the_one_that_is_read(value: Wire) -> None:
    read = decode_record(canonical_json(value))
    family = type(read.payload)
    arguments = {name: getattr(read.payload, name) for name in read.payload.model_fields_set}
    del arguments["tag"]
    built = Record(
        record_id=read.record_id,
        created_at=read.created_at,
        deployment_id=read.deployment_id,
        payload=family(**arguments),
    )
    assert encode_record(built).wire == canonical_json(value)
    assert encode_record(built).record == read


@pytest.mark.rule("REC-5")
def test_the_envelope_on_the_wire() -> None:
    assert SAMPLE == {
        "recordId": "record-1",
        "family": "thread",
        "schemaVersion": 1,
        "createdAt": "2030-01-02T03:04:05.678Z",
        "deploymentId": "deployment-1",
        "payload": {"_tag": "UserInputRecorded", "kind": "user", "input": {"a": 1, "b": "é/A"}},
    }


@pytest.mark.rule("REC-5")
@pytest.mark.parametrize("name", sorted(SAMPLE))
def test_every_part_of_the_envelope_is_required(name: str) -> None:
    wire = text_of({key: value for key, value in SAMPLE.items() if key != name})
    with pytest.raises(InvalidRecord):
        decode_record(wire)
    with pytest.raises(InvalidRecord):
        encoded_from_wire(wire)


@pytest.mark.rule("REC-4", "REC-5")
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"family": "other"}, "family"),
        ({"schemaVersion": 2}, "schemaVersion"),
        ({"schemaVersion": 0}, "schemaVersion"),
        ({"schemaVersion": "1"}, "schemaVersion"),
        ({"payload": {"_tag": "WorkerInputRecorded", "input": 1}}, "_tag"),
        ({"payload": {"_tag": "userInputRecorded", "kind": "user", "input": 1}}, "_tag"),
        ({"payload": {"kind": "user", "input": 1}}, "_tag"),
        ({"payload": {"tag": "UserInputRecorded", "kind": "user", "input": 1}}, "_tag"),
    ],
)
def test_what_this_version_does_not_know_is_never_guessed(change: Wire, what: str) -> None:
    with pytest.raises(UnsupportedRecord) as refused:
        encoded_from_wire(text_of({**SAMPLE, **change}))
    assert refused.value.record_id == "record-1"
    assert what in refused.value.what


@pytest.mark.rule("REC-4")
def test_attribute_names_are_no_wire_names() -> None:
    with pytest.raises(InvalidRecord, match="recordId"):
        decode_record(text_of({**SAMPLE, "recordId": None, "record_id": "record-1"}))
    both = text_of({**SAMPLE, "record_id": ["kept"], "payload": {**SAMPLE["payload"], "tag": 1}})
    assert encode_record(decode_record(both)).wire == both
    assert decode_record(both).record_id == "record-1"


# --- Instants ------------------------------------------------------------------------------------


@pytest.mark.rule("REC-4")
@pytest.mark.parametrize(
    "text",
    [
        *("2030-01-02T03:04:05Z", "2030-01-02T03:04:05.6Z", "2030-01-02T03:04:05.6789Z"),
        *(
            "2030-01-02T03:04:05.678901Z",
            "2030-01-02T03:04:05.678+00:00",
            "2030-01-02T03:04:05.678",
        ),
        *("2030-01-02t03:04:05.678z", "2030-01-02 03:04:05.678Z", "2030-13-02T03:04:05.678Z"),
        *("2030-02-30T03:04:05.678Z", "2030-01-02T24:00:00.000Z", "2030-01-02T03:04:60.000Z"),
        *("02030-01-02T03:04:05.678Z", "0000-01-02T03:04:05.678Z", "2030-01-02T03:04:05.678Z\n"),
        *("٢٠٣٠-01-02T03:04:05.678Z", "", "1893553445678"),
    ],
)
def test_an_instant_has_one_spelling(text: str) -> None:
    with pytest.raises(InvalidRecord, match="createdAt"):
        decode_record(text_of({**SAMPLE, "createdAt": text}))
    with pytest.raises(ValidationError):
        Record(
            record_id=RecordId("r"),
            created_at=cast("Any", text),
            deployment_id=DeploymentId("d"),
            payload=sample_payload("RepairAnnotated"),
        )


@pytest.mark.rule("REC-4")
@pytest.mark.parametrize("number", [1893553445678, 1893553445.678, True, None])
def test_a_number_is_no_instant(number: JsonValue) -> None:
    with pytest.raises(InvalidRecord, match="createdAt"):
        decode_record(text_of({**SAMPLE, "createdAt": number}))


@pytest.mark.rule("REC-4")
@pytest.mark.parametrize(
    "instant",
    [
        SAMPLE_INSTANT + timedelta(microseconds=1),
        SAMPLE_INSTANT + timedelta(microseconds=999),
        SAMPLE_INSTANT.replace(tzinfo=None),
        SAMPLE_INSTANT.astimezone(timezone(timedelta(hours=2))),
    ],
)
def test_an_instant_is_exactly_milliseconds_in_utc(instant: datetime) -> None:
    with pytest.raises(ValidationError):
        Record(
            record_id=RecordId("r"),
            created_at=instant,
            deployment_id=DeploymentId("d"),
            payload=sample_payload("RepairAnnotated"),
        )


@pytest.mark.rule("REC-4")
@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
        (datetime(2028, 2, 29, 1, 2, 3, 4_000, tzinfo=UTC), "2028-02-29T01:02:03.004Z"),
    ],
)
def test_the_first_and_the_last_instant(instant: datetime, text: str) -> None:
    assert instant_text(instant) == text
    assert decode_record(text_of({**SAMPLE, "createdAt": text})).created_at == instant


@pytest.mark.rule("REC-4")
def test_now_is_cut_to_milliseconds() -> None:
    before = datetime.now(UTC)
    now = instant_now()
    assert timedelta(milliseconds=-1) < now - before
    assert now.microsecond % 1_000 == 0


# --- Digests and errors --------------------------------------------------------------------------


@pytest.mark.rule("REC-7")
def test_the_digest_of_a_record_is_that_of_its_bytes() -> None:
    encoded = encode_record(with_input({"ratio": 0.5}))
    assert encoded.digest == hashlib.sha256(encoded.wire).hexdigest()


@pytest.mark.rule("REC-6")
def test_a_fault_names_record_field_and_rule_but_no_content() -> None:
    secret = "hunter2"  # noqa: S105 - what must not show
    value = {**SAMPLE, "payload": {**SAMPLE["payload"], "kind": secret, secret: secret}}
    with pytest.raises(InvalidRecord) as refused:
        decode_record(text_of(value))
    assert refused.value.record_id == "record-1"
    assert refused.value.field == "payload.kind"
    assert secret not in str(refused.value)
    assert secret not in repr(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.rule("REC-6")
def test_a_record_whose_id_cannot_be_read_is_named_so() -> None:
    for record_id in (7, "", "a" * 257):
        with pytest.raises(InvalidRecord) as refused:
            decode_record(text_of({**SAMPLE, "recordId": record_id, "createdAt": 7}))
        assert refused.value.record_id == "(unreadable)"
