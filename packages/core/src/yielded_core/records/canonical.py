"""Canonical JSON (RFC 8785): the only text that is stored, digested and exported (REC-4).

orjson's sorted output is the same text wherever no float, no integer beyond ±2^53 and no key
beyond the Basic Multilingual Plane is involved, and twelve times faster; the rest goes through
rfc8785. A differential test holds the two equal.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

import orjson
import rfc8785

from yielded_core.errors import InvalidJson
from yielded_core.records.bounded_json import SAFE_INTEGER, JsonValue, check_json
from yielded_core.records.bounds import JSON_BYTES
from yielded_core.records.identifiers import Digest


def encode_checked(value: object, *, plain: bool) -> bytes:
    """Encode a value that `check_json` has just accepted, plain or not."""
    if plain:
        # orjson's own result keeps kilobytes of unused buffer while it lives; a copy does not.
        return b"%b" % orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return rfc8785.dumps(cast("Any", _with_doubles(value)))


def canonical_json(value: JsonValue) -> bytes:
    """Check a value as one JSON field and return its canonical text.

    Raises InvalidJson for anything beyond the bounds of REC-3, 1 MiB of text included.
    """
    text = encode_checked(value, plain=check_json(value).plain)
    if len(text) > JSON_BYTES:
        raise InvalidJson(f"its canonical text is longer than {JSON_BYTES} bytes")
    return text


def sha256_hex(text: bytes) -> Digest:
    """Return the lowercase hexadecimal SHA-256 of bytes."""
    return Digest(hashlib.sha256(text).hexdigest())


def json_digest(value: JsonValue) -> Digest:
    """Return the SHA-256 of a value's canonical text."""
    return sha256_hex(canonical_json(value))


def _with_doubles(value: object) -> object:
    """Copy a value with its large integers as doubles, the only form that rfc8785 takes.

    Recursion is safe: the check that ran before bounds the depth.
    """
    if type(value) is dict:
        mapping = cast("dict[str, object]", value)
        return {key: _with_doubles(member) for key, member in mapping.items()}
    if type(value) is list:
        return [_with_doubles(member) for member in cast("list[object]", value)]
    if type(value) is int and not -SAFE_INTEGER < value < SAFE_INTEGER:
        return float(value)
    return value
