"""The exact wire of a record: canonical text, unknown fields, and every bound (REC-3, REC-4)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import ValidationError

from yielded_core.errors import InvalidRecord, NonCanonical
from yielded_core.records import payloads as p
from yielded_core.records.canonical import canonical_json
from yielded_core.records.envelope import Record, decode_record, encode_record, encoded_from_wire
from yielded_core.records.identifiers import RunId
from yielded_testing.samples import sample_payload, sample_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.records.bounded_json import JsonValue
    from yielded_testing.strategies import Wire

MIB = 1_048_576


def with_input(value: JsonValue) -> Record:
    return sample_record(p.UserInputRecorded(kind="user", input=value))


def wire_object(record: Record) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(encode_record(record).wire))


def text_of(value: object) -> bytes:
    """Write a wire object as it is, checked by nothing."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


SAMPLE = wire_object(with_input({"a": 1, "b": "é/A"}))


# --- Canonical text ------------------------------------------------------------------------------


def respell(old: str, new: str) -> bytes:
    text = text_of(SAMPLE).decode()
    assert old in text
    return text.replace(old, new, 1).encode()


@pytest.mark.rule("REC-4")
@pytest.mark.parametrize(
    "wire",
    [
        respell('"a":1', '"a": 1'),
        respell('"a":1', '"a":1\n'),
        respell('"a":1', '"a":1,"a":1'),
        respell('"a":1', '"a":2,"a":1'),
        respell('"a":1', '"a":1.0'),
        respell('"a":1', '"a":1e0'),
        respell('"a":1', '"a":1e16'),
        respell('"a":1', '"a":1E+21'),
        respell('"a":1', '"a":-0'),
        respell('"a":1', '"a":-0.0'),
        respell('"a":1', '"a":0.10'),
        respell('"a":1', '"a":100000000000000000000000'),
        respell('"a":1', '"a":0.1000000000000000055511151231257827'),
        respell('"a":1,"b":"é/A"', '"b":"é/A","a":1'),
        respell("é", "\\u00e9"),
        respell("/", "\\/"),
        respell("/A", "/\\u0041"),
        respell("/A", "/\\u000a"),
        respell("/A", "/\\u001F"),
        respell('"kind":"user"', '"kind":"steering","kind":"user"'),
        respell('"schemaVersion":1', '"schemaVersion":1 '),
        text_of(SAMPLE) + b"\n",
        b" " + text_of(SAMPLE),
        json.dumps(SAMPLE).encode(),
    ],
)
def test_text_that_is_not_its_own_canonical_form(wire: bytes) -> None:
    with pytest.raises(NonCanonical) as refused:
        encoded_from_wire(wire)
    assert refused.value.record_id == "record-1"


@pytest.mark.rule("REC-3", "REC-4")
@pytest.mark.parametrize(
    "number",
    ["9007199254740993", "18446744073709551616", "1" + "0" * 400, "NaN", "Infinity", "1e400"],
)
def test_a_number_that_does_not_read_back_is_refused_from_the_wire(number: str) -> None:
    with pytest.raises((InvalidRecord, NonCanonical)):
        encoded_from_wire(respell('"a":1', f'"a":{number}'))


@pytest.mark.rule("REC-4")
@pytest.mark.parametrize(
    "wire",
    [
        *(b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe", b"\xef\xbb\xbf" + text_of(SAMPLE)),
        respell("A", "\\ud800"),
        respell("A", "\x00"),
        text_of(SAMPLE).replace("é".encode(), b"\xed\xa0\x80"),
        text_of(SAMPLE).replace(b'"a":1', b'"a":' + b"[" * 100_000 + b"]" * 100_000),
        text_of(SAMPLE).replace(b'"a":1', b'"a":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    ],
    ids=range(12),
)
def test_what_is_no_record_at_all_is_a_typed_error(wire: bytes) -> None:
    with pytest.raises(InvalidRecord):
        decode_record(wire)
    with pytest.raises(InvalidRecord):
        encoded_from_wire(wire)


@pytest.mark.rule("REC-4")
def test_unknown_fields_survive_at_every_level() -> None:
    unknown: Wire = {"\U0001f600": [1.5, None, {"deep": "\u0000"}], "__proto__": 1}
    value = wire_object(sample_record(sample_payload("RunContinuation")))
    value["later"] = unknown
    value["payload"]["later"] = unknown
    value["payload"]["accounting"]["later"] = unknown
    value["payload"]["originalInput"]["later"] = None
    wire = canonical_json(value)
    encoded = encoded_from_wire(wire)
    assert encoded.wire == wire
    assert encode_record(encoded.record) == encoded
    assert encoded.record.model_extra == {"later": unknown}

    prompt = wire_object(sample_record(sample_payload("ModelResponseRecorded")))
    prompt["payload"]["messages"]["later"] = unknown
    for message in prompt["payload"]["messages"]["content"]:
        message["later"] = unknown
        if isinstance(message["content"], list):
            message["content"][0]["later"] = unknown
    wire = canonical_json(prompt)
    assert encode_record(encoded_from_wire(wire).record).wire == wire


@pytest.mark.rule("REC-6")
def test_an_unknown_field_cannot_be_written_by_mistake() -> None:
    with pytest.raises(ValidationError):
        p.RunDurationExhausted(run_id=RunId("r"), later=1)  # pyright: ignore[reportCallIssue]


# --- Bounds --------------------------------------------------------------------------------------


def nested(depth: int) -> JsonValue:
    value: JsonValue = 0
    for _ in range(depth):
        value = [value]
    return value


def put_input(value: Any) -> Wire:  # noqa: ANN401
    return {**SAMPLE, "payload": {**SAMPLE["payload"], "input": value}}


def put_unknown(value: Any) -> Wire:  # noqa: ANN401
    return {**SAMPLE, "later": value}


def put_unknown_in_payload(value: Any) -> Wire:  # noqa: ANN401
    return {**SAMPLE, "payload": {**SAMPLE["payload"], "later": value}}


PLACES = pytest.mark.parametrize("put", [put_input, put_unknown, put_unknown_in_payload])


@pytest.mark.rule("REC-0", "REC-3")
@PLACES
def test_the_depth_of_a_field_is_bounded_wherever_it_stands(put: Callable[[Any], Wire]) -> None:
    assert encoded_from_wire(text_of(put(nested(64))))
    with pytest.raises(InvalidRecord, match="deeper than 64"):
        encoded_from_wire(text_of(put(nested(65))))
    with pytest.raises(InvalidRecord, match="deeper than 6"):
        encoded_from_wire(text_of(put(nested(90))))


@pytest.mark.rule("REC-3")
@PLACES
def test_the_nodes_of_a_field_are_bounded_wherever_it_stands(put: Callable[[Any], Wire]) -> None:
    full = [[0] * 4_095 for _ in range(15)]
    fits = [*full, [0] * (65_536 - 1 - 15 * 4_096 - 1)]
    assert encoded_from_wire(text_of(put(fits)))
    fits[-1].append(0)
    with pytest.raises(InvalidRecord, match="more than 65536 values"):
        encoded_from_wire(text_of(put(fits)))


@pytest.mark.rule("REC-3")
@PLACES
def test_the_members_of_a_collection_are_bounded(put: Callable[[Any], Wire]) -> None:
    assert encoded_from_wire(text_of(put([0] * 4_096)))
    with pytest.raises(InvalidRecord, match="more than 4096 members"):
        encoded_from_wire(text_of(put([0] * 4_097)))
    with pytest.raises(InvalidRecord, match="more than 4096 members"):
        encoded_from_wire(text_of(put({str(key): key for key in range(4_097)})))


@pytest.mark.rule("REC-0", "REC-3")
@PLACES
def test_the_text_of_a_field_is_bounded(put: Callable[[Any], Wire]) -> None:
    fits = "é" * ((MIB - 2) // 2)
    assert encoded_from_wire(text_of(put(fits)))
    with pytest.raises(InvalidRecord, match="longer than 1048576 bytes"):
        encoded_from_wire(text_of(put(fits + "a")))


@pytest.mark.rule("REC-3")
def test_the_bounds_are_of_each_field_and_not_of_their_sum() -> None:
    """Four fields of a MiB less the rest of the record are a record of exactly 4 MiB."""
    large = "a" * (MIB - 2)
    value = wire_object(sample_record(sample_payload("SubagentRequested")))
    for name in ("policy", "budget", "grant"):
        value["payload"][name] = large
    value["payload"]["childInput"] = ""
    room = 4 * MIB - len(text_of(value))
    value["payload"]["childInput"] = "a" * room
    wire = text_of(value)
    assert len(wire) == 4 * MIB
    encoded = encoded_from_wire(wire)
    assert encode_record(encoded.record).wire == wire
    value["payload"]["childInput"] += "a"
    with pytest.raises(InvalidRecord, match="longer than 4194304 bytes"):
        encoded_from_wire(text_of(value))
    payload = cast("p.SubagentRequested", encoded.record.payload)
    longer = payload.model_copy(update={"child_input": "a" * (room + 1)})
    with pytest.raises(InvalidRecord, match="longer than 4194304 bytes"):
        encode_record(encoded.record.model_copy(update={"payload": longer}))


@pytest.mark.rule("REC-3")
def test_the_nodes_of_several_fields_are_not_added_up() -> None:
    value = wire_object(sample_record(sample_payload("SubagentRequested")))
    fits = [[0] * 4_000 for _ in range(16)]
    for name in ("childInput", "policy", "budget", "grant"):
        value["payload"][name] = fits
    value["later"] = fits
    wire = text_of(value)
    assert encoded_from_wire(wire).wire == wire


@pytest.mark.rule("REC-3", "REC-4")
@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (math.nan, "not finite"),
        (math.inf, "not finite"),
        (2**53 + 1, "same number"),
        (2**64, "same number"),
        (10**400, "same number"),
        ("\ud800", "lone surrogate"),
        ((1, 2), "is not JSON"),
        (b"bytes", "is not JSON"),
        ({1: 2}, "a key is not text"),
        ({"\ud800": 2}, "lone surrogate"),
        (nested(64), "deeper than 64"),
        ([0] * 4_097, "4096 members"),
    ],
)
def test_json_changed_after_it_was_checked_is_checked_again(bad: JsonValue, rule: str) -> None:
    given: list[JsonValue] = [0]
    record = with_input(given)
    given[0] = bad
    with pytest.raises(InvalidRecord, match=rule) as refused:
        encode_record(record)
    assert refused.value.field == "payload.input"
    assert refused.value.record_id == "record-1"


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("kind", [list, dict])
def test_a_depth_of_100000_in_a_record_costs_no_recursion(kind: type) -> None:
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep] if kind is list else {"a": deep}
    with pytest.raises(ValidationError):
        with_input(deep)
    given: list[JsonValue] = [0]
    record = with_input(given)
    given[0] = deep
    with pytest.raises(InvalidRecord, match="deeper than 64"):
        encode_record(record)


@pytest.mark.rule("REC-4", "REC-6")
def test_a_prompt_changed_after_it_was_checked_is_checked_again() -> None:
    payload = cast("p.ModelResponseRecorded", sample_payload("ModelResponseRecorded"))
    record = sample_record(payload)
    messages = cast("list[dict[str, object]]", payload.messages["content"])
    messages[0]["role"] = "narrator"
    with pytest.raises(InvalidRecord, match="messages"):
        encode_record(record)
    messages[0]["role"] = math.nan
    with pytest.raises(InvalidRecord, match="not finite"):
        encode_record(record)


@pytest.mark.rule("REC-4")
def test_what_was_encoded_does_not_follow_the_callers_objects() -> None:
    given: dict[str, JsonValue] = {"a": [1]}
    encoded = encode_record(with_input(given))
    before = encoded.wire
    given["a"] = "changed"
    assert cast("p.UserInputRecorded", encoded.record.payload).input == {"a": [1]}
    assert encode_record(encoded.record).wire == before


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "bad", [math.nan, 2**53 + 1, "\ud800", (1,), {1: 1}, nested(65), [0] * 4_097], ids=range(7)
)
def test_json_is_checked_when_it_is_given(bad: JsonValue) -> None:
    with pytest.raises(ValidationError) as refused:
        with_input(bad)
    assert "input_value" not in str(refused.value)
