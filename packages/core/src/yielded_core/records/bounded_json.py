"""Bounded JSON (REC-3): an iterative check of a value, and an exact reader of JSON text.

The check never recurses, so that hostile depth costs nothing, and it runs before any I/O.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, cast

import orjson
import rfc8785
from typing_extensions import TypeAliasType

from yielded_core.errors import InvalidJson
from yielded_core.records.bounds import JSON_COLLECTION, JSON_DEPTH, JSON_NODES

JsonValue = TypeAliasType(
    "JsonValue", "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
)
"""A JSON value as `json.loads` gives it."""

SAFE_INTEGER: Final = 2**53
_PLAIN_FROM: Final = 1e-5
_PLAIN_BELOW: Final = 1e15
_BEYOND_BASIC_PLANE: Final = "\uffff"
_MOST_DIGITS: Final = 400
"""More than any double has before the point, and few enough to be cheap to read."""


class JsonShape(NamedTuple):
    """What the check of a value found."""

    plain: bool
    """No number and no key that the fast encoder writes or sorts otherwise than RFC 8785 does:
    whole, tiny and huge floats, integers beyond ±2^53, keys beyond the Basic Multilingual Plane."""
    depth: int
    """Nested containers; a scalar has depth 0."""
    nodes: int
    """Values, keys not counted."""


def check_json(  # noqa: C901 - every record passes here, and a call per value is measurable
    value: object, *, depth: int = JSON_DEPTH, nodes: int = JSON_NODES
) -> JsonShape:
    """Check a value against REC-3 in one pass over its levels; the byte bound is not looked at.

    Raises InvalidJson naming the bound, never the content.
    """
    plain = True
    count = 1
    level = 0
    current: list[Any] = [value]
    while current:
        members: list[object] = []
        nested = False
        for item in current:
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]
            if kind is str:
                if not item.isascii():
                    _check_text(item)
            elif kind is dict or kind is list:
                nested = True
                plain = _take_members(item, members) and plain
                if count + len(members) > nodes:
                    raise InvalidJson(f"it has more than {nodes} values")
            elif kind is int:
                if not -SAFE_INTEGER <= item <= SAFE_INTEGER:
                    plain = False
                    _check_integer(item)
            elif kind is float:
                plain = _check_float(item) and plain
            elif kind is not bool and item is not None:
                raise InvalidJson(f"a value of type {kind.__name__} is not JSON")
        count += len(members)
        level += nested
        if level > depth:
            raise InvalidJson(f"it is deeper than {depth}")
        current = members
    return JsonShape(plain, level, count)


def parse_json(text: str | bytes) -> JsonValue:
    """Read JSON text exactly: what a parser would round, drop or merge is refused (REC-3).

    Raises InvalidJson for text that is not JSON, duplicate keys, numbers that do not read back as
    written, and everything that `check_json` refuses.
    """
    try:
        check_json(orjson.loads(text))  # bounds the depth before a recursive reader sees the text
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_int=_exact_integer,
            parse_float=_exact_float,
        )
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson("it is not JSON text") from error
    check_json(value)
    return value


def ecmascript_number(number: float) -> str:
    """Write a finite double as ECMAScript does."""
    return rfc8785.dumps(number).decode()


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidJson("a text holds a lone surrogate") from None


def _take_members(container: object, members: list[object]) -> bool:
    """Add the members of a list or dictionary; say whether its keys leave the value plain."""
    if type(container) is list:
        items = cast("list[object]", container)
        _check_size(len(items))
        members.extend(items)
        return True
    mapping = cast("dict[object, object]", container)
    _check_size(len(mapping))
    plain = True
    for key in mapping:
        if type(key) is not str:
            raise InvalidJson("a key is not text")
        if not key.isascii():
            _check_text(key)
            plain = plain and max(key) <= _BEYOND_BASIC_PLANE
    members.extend(mapping.values())
    return plain


def _check_size(members: int) -> None:
    if members > JSON_COLLECTION:
        raise InvalidJson(f"a collection has more than {JSON_COLLECTION} members")


def _check_float(number: float) -> bool:
    """Refuse what is not finite; say whether the fast encoder writes it as ECMAScript does.

    It does from 0.00001 up to 10^15 for what is not whole: there both write the shortest digits
    without an exponent.
    """
    _check_finite(number)
    return _PLAIN_FROM <= abs(number) < _PLAIN_BELOW and not number.is_integer()


def _check_finite(number: float) -> None:
    if not math.isfinite(number):
        raise InvalidJson("a number is not finite")


def _check_integer(number: int) -> None:
    try:
        exact = Decimal(ecmascript_number(float(number))) == number
    except OverflowError:
        exact = False
    if not exact:
        raise InvalidJson("an integer does not read back as the same number")


def _unique_keys(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise InvalidJson("an object has a key twice")
    return mapping


def _exact_integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise InvalidJson("an integer does not read back as the same number")
    return int(text)


def _exact_float(text: str) -> float:
    number = float(text)
    _check_finite(number)
    try:
        exact = Decimal(ecmascript_number(number)) == Decimal(text)
    except InvalidOperation:  # the exponent is beyond what a decimal takes, so beyond a double
        exact = False
    if not exact:
        raise InvalidJson("a number does not read back as written")
    return number
