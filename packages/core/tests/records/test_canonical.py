"""Canonical JSON (RFC 8785): the fast encoder, the exact one, and an independent third (REC-4)."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any, cast

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from yielded_core.records.bounded_json import (
    SAFE_INTEGER,
    JsonValue,
    check_json,
    ecmascript_number,
    parse_json,
)
from yielded_core.records.canonical import canonical_json, encode_checked, json_digest
from yielded_testing.strategies import bounded_json, texts


def independent(value: JsonValue) -> str:
    """Write canonical JSON with the standard library; numbers apart, which have their own tests."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_text(name)}:{independent(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(independent, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return ecmascript_number(float(value))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.rule("REC-4")
@given(bounded_json(leaves=30))
def test_the_encoding_is_that_of_an_independent_encoder(value: JsonValue) -> None:
    assert canonical_json(value).decode() == independent(value)


@pytest.mark.rule("REC-4")
@given(bounded_json(leaves=30))
def test_the_fast_encoder_equals_rfc8785_wherever_it_is_used(value: JsonValue) -> None:
    shape = check_json(value)
    exact = rfc8785.dumps(_doubles(value))
    assert encode_checked(value, plain=shape.plain) == exact
    if shape.plain:
        assert orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == exact


def _doubles(value: JsonValue) -> Any:  # noqa: ANN401 - the library's own recursive type is private
    """Copy with large integers as doubles, the only form of them that rfc8785 takes."""
    if isinstance(value, dict):
        return {name: _doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_doubles(member) for member in value]
    if isinstance(value, int) and abs(value) >= SAFE_INTEGER:
        return float(value)
    return value


@pytest.mark.rule("REC-4")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"\ue000": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ue000":1}'),
        ({"\uffff": 1, "\U00010000": 2, "z": 3}, '{"z":3,"\U00010000":2,"\uffff":1}'),
        ([1.0, -0.0, 1e16, 1e21, 5e-324, 1e-7], "[1,0,10000000000000000,1e+21,5e-324,1e-7]"),
        ([10**16, 10**21, 2**53], "[10000000000000000,1e+21,9007199254740992]"),
        ('\u0000\u001f\u007f"\\/\u2028', '"\\u0000\\u001f\u007f\\"\\\\/\u2028"'),
        ({"b": {}, "a": []}, '{"a":[],"b":{}}'),
        (True, "true"),
    ],
)
def test_where_orjson_alone_would_be_wrong(value: JsonValue, text: str) -> None:
    assert canonical_json(value).decode() == text


@pytest.mark.rule("REC-4")
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_is_the_shortest_that_reads_back(number: float) -> None:
    text = ecmascript_number(number)
    assert struct.pack(">d", float(text)) == struct.pack(">d", number + 0.0)
    digits, _, exponent = text.partition("e")
    assert ("." not in digits) or not digits.endswith("0")
    assert not exponent or exponent[0] in "+-"


@pytest.mark.rule("REC-4")
@given(bounded_json())
def test_encoding_is_a_fixed_point(value: JsonValue) -> None:
    text = canonical_json(value)
    assert canonical_json(parse_json(text)) == text
    assert json_digest(value) == hashlib.sha256(text).hexdigest()


@pytest.mark.rule("REC-4")
@given(st.dictionaries(texts(), st.integers(0, 9), max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_keys_never_matters(value: dict[str, int], random: Any) -> None:  # noqa: ANN401
    names = list(value)
    random.shuffle(names)
    shuffled = {name: value[name] for name in names}
    assert canonical_json(cast("JsonValue", shuffled)) == canonical_json(cast("JsonValue", value))
