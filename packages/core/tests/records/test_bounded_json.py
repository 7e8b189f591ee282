"""Bounded JSON (REC-3): the exact bounds, numbers, text, and values made to hurt."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yielded_core.errors import InvalidJson
from yielded_core.records.bounded_json import JsonValue, check_json, parse_json
from yielded_core.records.canonical import canonical_json
from yielded_testing.strategies import bounded_json

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1_048_576


def nested_lists(depth: int) -> JsonValue:
    value: JsonValue = []
    for _ in range(depth - 1):
        value = [value]
    return value


def nested_objects(depth: int) -> JsonValue:
    value: JsonValue = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def with_nodes(count: int) -> list[JsonValue]:
    """Build a value of exactly this many nodes out of lists of 4,000."""
    value: list[JsonValue] = []
    rest = count - 1
    while rest:
        members = min(rest - 1, 4_000)
        value.append([0 for _ in range(members)])
        rest -= members + 1
    return value


@pytest.mark.rule("REC-3")
@given(bounded_json())
def test_a_value_within_the_bounds_is_accepted_and_read_back(value: JsonValue) -> None:
    assert parse_json(canonical_json(value)) == value


@pytest.mark.rule("REC-0", "REC-3")
@pytest.mark.parametrize("value", [None, True, 0, 1.5, ""])
def test_a_scalar_has_depth_0_and_is_one_node(value: JsonValue) -> None:
    assert check_json(value).depth == 0
    assert check_json(value).nodes == 1


@pytest.mark.rule("REC-0", "REC-3")
def test_a_value_is_a_node_and_a_key_is_not() -> None:
    shape = check_json({"a": [1, 2], "b": {"c": None}, "d": []})
    assert shape.nodes == 7
    assert shape.depth == 2


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("nested", [nested_lists, nested_objects])
def test_depth_64_is_the_last(nested: Callable[[int], JsonValue]) -> None:
    assert check_json(nested(64)).depth == 64
    with pytest.raises(InvalidJson, match="deeper than 64"):
        check_json(nested(65))


@pytest.mark.rule("REC-3")
def test_a_scalar_in_depth_64_is_accepted() -> None:
    value: JsonValue = "leaf"
    for _ in range(64):
        value = [value]
    assert check_json(value).depth == 64


@pytest.mark.rule("REC-3")
def test_4096_members_are_the_most() -> None:
    full: dict[str, JsonValue] = {str(number): number for number in range(4_096)}
    assert check_json(full).nodes == 4_097
    assert check_json([0] * 4_096).nodes == 4_097
    for value in ([0] * 4_097, {**full, "one": "more"}):
        with pytest.raises(InvalidJson, match="more than 4096 members"):
            check_json(value)


@pytest.mark.rule("REC-3")
def test_65536_nodes_are_the_most() -> None:
    assert check_json(with_nodes(65_536)).nodes == 65_536
    with pytest.raises(InvalidJson, match="more than 65536 values"):
        check_json(with_nodes(65_537))


@pytest.mark.rule("REC-0", "REC-3")
def test_one_mebibyte_of_canonical_text_is_the_most() -> None:
    for character, size in (("a", 1), ("é", 2), ("\u2028", 3), ("\U0001f600", 4), ("\n", 2)):
        most, rest = divmod(MIB - 2, size)
        assert len(canonical_json(character * most + "a" * rest)) == MIB
        with pytest.raises(InvalidJson, match="longer than 1048576 bytes"):
            canonical_json(character * most + "a" * (rest + 1))


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "number",
    [0, 2**53, -(2**53), 2**53 + 2, 10**16, -(10**16), 10**21, 5e-324, -0.0, 1.7e308],
)
def test_numbers_that_read_back_are_accepted(number: float) -> None:
    assert parse_json(canonical_json(number)) == number
    assert parse_json(canonical_json([{"a": number}])) == [{"a": number}]


@pytest.mark.rule("REC-3")
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_double_is_accepted_and_its_text_gives_it_back(number: float) -> None:
    text = canonical_json(number)
    assert float(text) == number
    read = parse_json(text)
    assert isinstance(read, (int, float))
    assert float(read) == number
    assert canonical_json(read) == text


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("number", [10**23, 10**308, 18_446_744_073_709_552_000])
def test_integers_that_only_their_text_gives_back_are_accepted(number: int) -> None:
    """No double is 10^23, but the text of the nearest one is."""
    text = canonical_json(number)
    assert Decimal(text.decode()) == number
    assert canonical_json(parse_json(text)) == text


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "number",
    [
        *(2**53 + 1, -(2**53) - 1, 10**16 + 1, 2**64, 2**64 - 1, -(2**64), 10**400, -(10**400)),
        *(math.nan, math.inf, -math.inf),
    ],
)
def test_numbers_that_do_not_read_back_are_refused(number: float) -> None:
    for value in (number, [number], {"a": {"b": [number]}}):
        with pytest.raises(InvalidJson, match=r"not finite|same number"):
            check_json(value)


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "text",
    [
        *("9007199254740993", "18446744073709551616", "1" + "0" * 400, "1" + "0" * 5_000, "1e400"),
        *("0.1000000000000000055511151231257827", "-1e400", "1.00000000000000000000000001"),
        *(
            "1e-400",
            "1e-9999999999999999999999",
            "1e9999999999999999999999",
            "123456789.123456789e1",
        ),
        *("NaN", "Infinity", "-Infinity", "[NaN]"),
    ],
)
def test_text_whose_numbers_a_parser_would_change_is_refused(text: str) -> None:
    with pytest.raises(InvalidJson):
        parse_json(text)


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "text", ["1e16", "1E2", "1.0", "-0.0", "0.10", "5e-324", "100000000000000000000"]
)
def test_another_spelling_of_the_same_number_is_the_same_number(text: str) -> None:
    assert parse_json(text) == float(text)


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '[{"b":{"a":1,"a":2}}]', '{"a":1,"\\u0061":2}'])
def test_a_key_twice_is_refused(text: str) -> None:
    with pytest.raises(InvalidJson, match="a key twice"):
        parse_json(text)


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "[1,]", "{'a':1}", "nul", '"\\ud800"', '"\\ud83d\\u0041"', b"\xff", "1 2"],
)
def test_what_is_not_json_text_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidJson):
        parse_json(text)


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "value", ["\ud800", "a\udfff", ["\ude00\ud83d"], {"a": ["\ud800"]}, {"\udc00": 1}]
)
def test_a_lone_surrogate_is_refused(value: object) -> None:
    with pytest.raises(InvalidJson, match="lone surrogate"):
        check_json(value)


@pytest.mark.rule("REC-3")
def test_hostile_text_that_is_legal_survives() -> None:
    value: JsonValue = {
        "\u0000": "\u0000",
        "__proto__": {"constructor": "\U0001f468\u200d\U0001f469"},
        "": "\u2028\u2029\ufeff\u007f",
    }
    assert parse_json(canonical_json(value)) == value


NOT_JSON: list[object] = [
    *((1, 2), {1}, b"a", Decimal(1), ..., 1j, OrderedDict({"a": 1}), range(2), [(1, 2)]),
    *({"a": b""}, {"a": {1: 2}}, {None: 1}, {("a",): 1}, {b"a": 1}, {1.5: 1}, {True: 1}),
]


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("value", NOT_JSON, ids=repr)
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidJson, match=r"is not JSON|a key is not text"):
        check_json(value)


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize("kind", [list, dict])
def test_a_depth_of_100000_costs_no_recursion(kind: type) -> None:
    value: object = kind()
    for _ in range(100_000):
        value = [value] if kind is list else {"a": value}
    with pytest.raises(InvalidJson, match="deeper than 64"):
        check_json(value)


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 900]
)
def test_text_of_a_depth_of_100000_costs_no_recursion(text: str) -> None:
    with pytest.raises(InvalidJson):
        parse_json(text)


@pytest.mark.rule("REC-3")
def test_text_of_depth_65_is_refused_and_of_depth_64_read() -> None:
    assert parse_json("[" * 64 + "]" * 64) == nested_lists(64)
    with pytest.raises(InvalidJson, match="deeper than 64"):
        parse_json("[" * 65 + "]" * 65)


@pytest.mark.rule("REC-3")
def test_an_object_of_a_million_keys_is_refused() -> None:
    value = dict.fromkeys(map(str, range(1_000_000)), 0)
    with pytest.raises(InvalidJson, match="more than 4096 members"):
        check_json(value)
    with pytest.raises(InvalidJson, match="more than 4096 members"):
        parse_json(json.dumps(value))


@pytest.mark.rule("REC-3")
def test_a_value_that_holds_itself_is_refused() -> None:
    alone: list[object] = []
    alone.append(alone)
    with pytest.raises(InvalidJson, match="deeper than 64"):
        check_json(alone)
    crowd: list[object] = []
    crowd.extend([crowd] * 4_096)
    with pytest.raises(InvalidJson, match="more than 65536 values"):
        check_json(crowd)


@pytest.mark.rule("REC-3")
def test_shared_parts_count_where_they_stand() -> None:
    """Sharing must not hide how large the text would be: 4,096 to the power of 10 here."""
    value: JsonValue = 0
    for _ in range(10):
        value = [value] * 4_096
    with pytest.raises(InvalidJson, match="more than 65536 values"):
        check_json(value)


@pytest.mark.rule("REC-3")
def test_the_error_names_the_bound_and_not_the_content() -> None:
    with pytest.raises(InvalidJson) as refused:
        check_json({"secret": ["hunter2\ud800"]})
    assert "hunter2" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.code == "invalid-json"
