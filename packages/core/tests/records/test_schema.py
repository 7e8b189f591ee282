"""The published JSON Schema: current, valid, open, and in agreement with the models (REC-6)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from yielded_core.records import payloads as p
from yielded_core.records.envelope import encode_record
from yielded_core.records.schema import SCHEMA_FILE, record_schema, schema_text
from yielded_testing.samples import all_samples, sample_payload, sample_record
from yielded_testing.strategies import Wire, wire_records

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record

VALIDATOR: Any = Draft202012Validator(record_schema())


def wire_object(record: Record) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(encode_record(record).wire))


@pytest.mark.rule("REC-6")
def test_the_published_file_is_what_the_models_say() -> None:
    """After a change of a model run `python -m yielded_core.records.schema`."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()


@pytest.mark.rule("REC-6")
def test_the_schema_is_a_schema_with_every_family() -> None:
    Draft202012Validator.check_schema(record_schema())
    definitions = cast("dict[str, object]", record_schema()["$defs"])
    assert set(p.PAYLOADS) <= set(definitions)


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(
    "record", all_samples(), ids=lambda record: cast("Record", record).payload.tag
)
def test_the_schema_accepts_samples_and_what_it_does_not_know(record: Record) -> None:
    value = wire_object(record)
    assert VALIDATOR.is_valid(value)
    value["later"] = value["payload"]["later"] = {"any": [None]}
    assert VALIDATOR.is_valid(value)


@pytest.mark.rule("REC-6")
@settings(deadline=None)  # a busy machine is no fault
@given(wire_records())
def test_the_schema_accepts_any_record_that_the_models_accept(value: Wire) -> None:
    VALIDATOR.validate(value)


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize("tag", sorted(p.PAYLOADS))
def test_the_schema_requires_what_the_models_require(tag: str) -> None:
    value = wire_object(sample_record(sample_payload(tag)))
    for name in list(value):
        assert not VALIDATOR.is_valid({key: value[key] for key in value if key != name}), name
    for name, field in p.PAYLOADS[tag].model_fields.items():
        key = field.alias or name
        payload = {each: value["payload"][each] for each in value["payload"] if each != key}
        required = field.is_required() or key == "_tag"
        assert VALIDATOR.is_valid({**value, "payload": payload}) is not required, key
        if not field.is_required() and key in value["payload"]:
            assert not VALIDATOR.is_valid({**value, "payload": {**payload, key: None}}), key


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(
    ("tag", "field", "wrong"),
    [
        ("UserInputRecorded", "kind", "other"),
        ("UserInputRecorded", "runId", ""),
        ("UserInputRecorded", "runId", "a\u0000"),
        ("RunStarted", "policyAccountingVersion", 2),
        ("RunStarted", "maxDurationMillis", 0),
        ("ModelResponseRecorded", "messages", {"content": [{"role": "user"}]}),
        ("ModelResponseRecorded", "messagesDigest", "0" * 63),
        ("ModelResponseRecorded", "toolResultMaxBytes", 255),
        ("ToolCallSettled", "budgetRejected", False),
        ("ToolCallSettled", "toolName", "a" * 257),
        ("ModelResponseInterrupted", "supersededEpoch", 7),
    ],
)
def test_the_schema_refuses_wrong_values(tag: str, field: str, wrong: object) -> None:
    value = wire_object(sample_record(sample_payload(tag)))
    value["payload"][field] = wrong
    assert not VALIDATOR.is_valid(value)
