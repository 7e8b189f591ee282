"""Hypothesis strategies: bounded JSON, identifiers, and records of every payload family.

Records are drawn as wire objects from the published JSON Schema, then made to keep the rules
across fields, which that schema cannot say.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, cast

from hypothesis import strategies as st

from yielded_core.records.bounded_json import SAFE_INTEGER, JsonValue
from yielded_core.records.payloads import PAYLOADS
from yielded_core.records.schema import record_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

Wire = dict[str, JsonValue]

_TEXT: Final = st.characters(exclude_categories=["Cs"])
_SPECIAL_KEYS: Final = ("", "__proto__", "\ue000", "\U0001f600", "\u0000", "\u2028", "10", "9")
_FIRST_EXPONENT: Final = 1e21
"""From here on ECMAScript writes a number with an exponent."""
_EXACT_INTEGERS: Final = (
    SAFE_INTEGER,
    -SAFE_INTEGER,
    SAFE_INTEGER + 2,
    10**16,
    -(10**16),
    10**20,
    10**22,
)
"""Integers that stay equal in Python when a reader gives them back as doubles."""


def texts(*, longest: int = 20) -> SearchStrategy[str]:
    """Draw text that UTF-8 can write, U+0000 and characters beyond the BMP included."""
    return st.text(_TEXT, max_size=longest)


def identifiers(*, longest: int = 20) -> SearchStrategy[str]:
    """Draw identifiers as REC-1 allows them."""
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\u0000")
    return st.text(alphabet, min_size=1, max_size=longest)


def scalars() -> SearchStrategy[JsonValue]:
    """Draw JSON scalars; every number is equal to itself after writing and reading in Python.

    That leaves out doubles between 2^53 and 10^21: their text has no point, so Python reads an
    integer, whose nearest double is the one written, but which is not equal to it.
    """
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-SAFE_INTEGER, SAFE_INTEGER),
        st.sampled_from(_EXACT_INTEGERS),
        st.floats(allow_nan=False, allow_infinity=False).filter(_stays_equal),
        texts(),
    )


def _stays_equal(number: float) -> bool:
    return not SAFE_INTEGER < abs(number) < _FIRST_EXPONENT


def bounded_json(*, leaves: int = 12) -> SearchStrategy[JsonValue]:
    """Draw JSON values within the bounds of REC-3, weighted towards what encoders get wrong."""
    keys = texts() | st.sampled_from(_SPECIAL_KEYS)
    return st.recursive(
        scalars(),
        lambda inner: (
            st.lists(inner, max_size=5).map(_json) | st.dictionaries(keys, inner, max_size=5)
        ),
        max_leaves=leaves,
    )


def wire_payloads(tag: str) -> SearchStrategy[Wire]:
    """Draw valid payloads of a family, as their wire objects."""
    keep_rules = _KEEPERS.get(tag, _as_drawn)
    return _object(_definitions()[tag]).map(keep_rules)


def wire_records() -> SearchStrategy[Wire]:
    """Draw valid records of any family, as their wire objects."""
    payloads = st.sampled_from(sorted(PAYLOADS)).flatmap(wire_payloads)
    return st.tuples(_object(record_schema(), skip="payload"), payloads).map(
        lambda drawn: {**drawn[0], "payload": drawn[1]}
    )


# --- From the published schema -------------------------------------------------------------------

_Schema = dict[str, object]


@cache
def _definitions() -> dict[str, _Schema]:
    return cast("dict[str, _Schema]", record_schema()["$defs"])


def _draw(schema: _Schema) -> SearchStrategy[JsonValue]:
    if "$ref" in schema:
        return _draw(_definitions()[str(schema["$ref"]).rpartition("/")[2]])
    if "const" in schema:
        return st.just(cast("JsonValue", schema["const"]))
    if "enum" in schema:
        return st.sampled_from(cast("list[JsonValue]", schema["enum"]))
    for union in ("oneOf", "anyOf"):
        if union in schema:
            return st.one_of([_draw(each) for each in cast("list[_Schema]", schema[union])])
    by_type: dict[object, Callable[[_Schema], SearchStrategy[JsonValue]]] = {
        "string": _string,
        "integer": _integer,
        "boolean": lambda _: st.booleans(),
        "array": _array,
        "object": lambda each: _object(each).map(_json),
        None: lambda each: (
            bounded_json().filter(lambda value: value is not None)
            if "not" in each
            else bounded_json()
        ),
    }
    return by_type[schema.get("type")](schema)


def _string(schema: _Schema) -> SearchStrategy[JsonValue]:
    pattern = str(schema.get("pattern", ""))
    if pattern.startswith(("^[0-9a-f]", "^[1-9]")):
        return st.from_regex(pattern.removesuffix("$") + r"\Z", alphabet="0123456789abcdef")
    if pattern.startswith("^[0-9]{4}"):
        return st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z")
    return identifiers() if "minLength" in schema else texts()


def _integer(schema: _Schema) -> SearchStrategy[JsonValue]:
    return st.integers(cast("int", schema["minimum"]), cast("int", schema["maximum"]))


def _array(schema: _Schema) -> SearchStrategy[JsonValue]:
    return st.lists(_draw(cast("_Schema", schema["items"])), max_size=4).map(_json)


def _object(schema: _Schema, *, skip: str = "") -> SearchStrategy[Wire]:
    if "patternProperties" in schema:
        (member,) = cast("dict[str, _Schema]", schema["patternProperties"]).values()
        return st.dictionaries(identifiers(), _draw(member), max_size=4)
    required = set(cast("list[str]", schema["required"])) if "required" in schema else set[str]()
    members = cast("dict[str, _Schema]", schema["properties"])
    drawn = {name: _draw(each) for name, each in members.items() if name != skip}
    return st.fixed_dictionaries(
        {name: each for name, each in drawn.items() if name in required},
        optional={name: each for name, each in drawn.items() if name not in required},
    )


def _json(value: JsonValue) -> JsonValue:
    return value


# --- Rules across fields -------------------------------------------------------------------------


def _as_drawn(payload: Wire) -> Wire:
    return payload


def _run_context(payload: Wire) -> Wire:
    kept = cast("list[Wire]", payload["retained"])
    for place, record in enumerate(kept):
        record["sequence"] = 2 * place + 1
    start = max(cast("int", payload["historyFrom"]), 2 * len(kept) + 1)
    through = max(cast("int", payload["historyThrough"]), start - 1)
    return {**payload, "historyFrom": start, "historyThrough": through}


def _model_response(payload: Wire) -> Wire:
    operation: Wire = {
        "executionClass": "readonly",
        "executionKind": "ordinary",
        "replay": cast("str", payload["messagesDigest"]),
    }
    messages = cast("list[Wire]", cast("Wire", payload["messages"])["content"])
    operations: list[JsonValue] = []
    for number, call in enumerate(_application_calls(messages)):
        call["id"] = f"{number}{call['id'] or ''}".replace("\u0000", "")
        call["name"] = str(call["name"]).replace("\u0000", "") or "tool"
        operations.append({**operation, "toolCallId": call["id"], "toolName": call["name"]})
    payload = {**payload, "toolOperations": operations}
    if "runScopedPrefixLength" in payload:
        prefix = 0
        while prefix < len(messages) - 1 and messages[prefix]["role"] in {"system", "user"}:
            prefix += 1
        if prefix:
            payload["runScopedPrefixLength"] = prefix
        else:
            del payload["runScopedPrefixLength"]
    return payload


def _application_calls(messages: list[Wire]) -> list[Wire]:
    return [
        part
        for message in messages
        if message["role"] == "assistant"
        for part in cast("list[Wire]", message["content"])
        if part["type"] == "tool-call" and part["providerExecuted"] is False
    ]


def _model_completed(payload: Wire) -> Wire:
    if "messages" in payload and "history" in payload:
        return payload
    return _without(payload, "messages", "history")


def _compaction(payload: Wire) -> Wire:
    if payload["kind"] == "summarize":
        return {"summary": "", **payload}
    return _without(payload, "summary")


def _run_completed(payload: Wire) -> Wire:
    if "finishReason" in payload and "exhausted" in payload:
        return _without(payload, "runDisposition")
    return _without(payload, "finishReason", "exhausted")


def _settlement(payload: Wire) -> Wire:
    if "runId" not in payload:
        payload = _without(payload, "usageSummary", "uncommittedModelUsage")
    if payload["outcome"] == "completed":
        payload = _without(_run_completed(payload), "policyLimit")
        return (
            payload if {"runId", "result"} <= set(payload) else _without(payload, "runDisposition")
        )
    payload = _without(payload, "finishReason", "exhausted", "runDisposition")
    if payload["outcome"] == "aborted":
        return _without(payload, "result", "policyLimit")
    tag = "AgentPolicyError" if "policyLimit" in payload else "AgentError"
    return {**payload, "result": {"errorTag": tag, "message": "", "context": payload.get("result")}}


def _without(payload: Wire, *names: str) -> Wire:
    return {name: value for name, value in payload.items() if name not in names}


_KEEPERS: Final[dict[str, Callable[[Wire], Wire]]] = {
    "RunContextRecorded": _run_context,
    "ModelResponseRecorded": _model_response,
    "ModelCompleted": _model_completed,
    "CompactionCreated": _compaction,
    "RunCompleted": _run_completed,
    "SubmissionSettled": _settlement,
}
