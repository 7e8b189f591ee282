"""The rules across the fields of a payload, each broken once (REC-6)."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from pydantic import ValidationError

from yielded_core.errors import InvalidRecord
from yielded_core.records import payloads as p
from yielded_core.records.envelope import encode_record, encoded_from_wire
from yielded_testing.samples import sample_payload, sample_record

ABSENT = object()
DIAGNOSTIC = {"errorTag": "AgentError", "message": ""}
POLICY_DIAGNOSTIC = {"errorTag": "AgentPolicyError", "message": "", "limit": [1]}
FAILED = {"outcome": "failed", "result": DIAGNOSTIC, "runDisposition": ABSENT}
ABORTED = {"outcome": "aborted", "result": ABSENT, "runDisposition": ABSENT}
EXHAUSTED = {"finishReason": "budget-exhausted", "exhausted": "turns"}


def changed(tag: str, changes: dict[str, Any]) -> bytes:
    value = cast(
        "dict[str, Any]", json.loads(encode_record(sample_record(sample_payload(tag))).wire)
    )
    for name, change in changes.items():
        if change is ABSENT:
            value["payload"].pop(name, None)
        else:
            value["payload"][name] = change
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def kept(*sequences: int) -> list[dict[str, object]]:
    return [{"recordId": "r", "digest": "0" * 64, "sequence": each} for each in sequences]


def operation(call: str, name: str) -> dict[str, str]:
    return {
        "toolCallId": call,
        "toolName": name,
        "executionClass": "readonly",
        "executionKind": "durable",
        "replay": "0" * 64,
    }


def prompt(*calls: tuple[str, str], prefix: tuple[str, ...] = ("system", "user")) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [
        {"type": "tool-call", "id": call, "name": name, "params": {}, "providerExecuted": False}
        for call, name in calls
    ]
    empty: dict[str, Any] = {"system": "", "user": "", "assistant": [], "tool": []}
    return {
        "content": [
            *({"role": role, "content": empty[role]} for role in prefix),
            {"role": "assistant", "content": parts},
        ]
    }


def response(*operations: tuple[str, str], messages: dict[str, Any], prefix: Any = ABSENT) -> Any:  # noqa: ANN401
    return {
        "messages": messages,
        "toolOperations": [operation(call, name) for call, name in operations],
        "runScopedPrefixLength": prefix,
    }


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("RunContextRecorded", {"historyFrom": 14, "historyThrough": 12}, "historyFrom is at most"),
    ("RunContextRecorded", {"retained": kept(2, 2)}, "ascend"),
    ("RunContextRecorded", {"retained": kept(5, 2)}, "ascend"),
    ("RunContextRecorded", {"retained": kept(2, 9)}, "below historyFrom"),
    ("ModelResponseRecorded", response(messages=prompt(("a", "t"))), "declare exactly"),
    ("ModelResponseRecorded", response(("a", "t"), messages=prompt()), "declare exactly"),
    ("ModelResponseRecorded", response(("a", "t"), messages=prompt(("b", "t"))), "declare exactly"),
    ("ModelResponseRecorded", response(("a", "t"), messages=prompt(("a", "u"))), "declare exactly"),
    (
        "ModelResponseRecorded",
        response(("a", "t"), ("a", "t"), messages=prompt(("a", "t"))),
        "each tool call once",
    ),
    (
        "ModelResponseRecorded",
        response(("a", "t"), messages=prompt(("a", "t"), ("a", "t"))),
        "distinct ids",
    ),
    ("ModelResponseRecorded", response(messages=prompt(), prefix=3), "leaves at least one"),
    (
        "ModelResponseRecorded",
        response(messages=prompt(prefix=("system", "tool", "user")), prefix=2),
        "only system and user",
    ),
    (
        "ModelResponseRecorded",
        response(messages=prompt(prefix=("assistant",)), prefix=1),
        "only system and user",
    ),
    ("ModelCompleted", {"messages": ABSENT}, "come together"),
    ("ModelCompleted", {"history": ABSENT}, "come together"),
    ("CompactionCreated", {"summary": ABSENT}, "exactly with kind summarize"),
    ("CompactionCreated", {"kind": "rollover"}, "exactly with kind summarize"),
    ("CompactionCreated", {"kind": "clear-tool-results"}, "exactly with kind summarize"),
    ("RunCompleted", {"finishReason": ABSENT}, "come together"),
    ("RunCompleted", {"exhausted": ABSENT}, "come together"),
    ("RunCompleted", {"runDisposition": {}}, "does not come with finishReason"),
    ("SubmissionSettled", {**FAILED, "result": ABSENT}, "is a Diagnostic"),
    ("SubmissionSettled", {**FAILED, "result": "failed"}, "is a Diagnostic"),
    ("SubmissionSettled", {**FAILED, "result": {"errorTag": "E"}}, "is a Diagnostic"),
    (
        "SubmissionSettled",
        {**FAILED, "result": {"error_tag": "E", "message": ""}},
        "is a Diagnostic",
    ),
    ("SubmissionSettled", {**FAILED, "result": {**DIAGNOSTIC, "errorTag": ""}}, "is a Diagnostic"),
    ("SubmissionSettled", {**FAILED, "result": {**DIAGNOSTIC, "message": 7}}, "is a Diagnostic"),
    ("SubmissionSettled", {**ABORTED, "result": DIAGNOSTIC}, "aborted submission has no result"),
    ("SubmissionSettled", {"finishReason": "budget-exhausted"}, "come together"),
    ("SubmissionSettled", {"exhausted": "turns"}, "come together"),
    ("SubmissionSettled", {**FAILED, **EXHAUSTED}, "only with a completed submission"),
    ("SubmissionSettled", {**ABORTED, **EXHAUSTED}, "only with a completed submission"),
    ("SubmissionSettled", {**FAILED, "runDisposition": {}}, "only with a completed submission"),
    ("SubmissionSettled", {**ABORTED, "runDisposition": {}}, "only with a completed submission"),
    ("SubmissionSettled", {"result": ABSENT}, "comes with a run and a result"),
    (
        "SubmissionSettled",
        {"runId": ABSENT, "usageSummary": ABSENT, "uncommittedModelUsage": ABSENT},
        "comes with a run and a result",
    ),
    ("SubmissionSettled", EXHAUSTED, "does not come with finishReason"),
    (
        "SubmissionSettled",
        {"runId": ABSENT, "runDisposition": ABSENT, "uncommittedModelUsage": ABSENT},
        "usage comes only with a run",
    ),
    (
        "SubmissionSettled",
        {"runId": ABSENT, "runDisposition": ABSENT, "usageSummary": ABSENT},
        "usage comes only with a run",
    ),
    ("SubmissionSettled", {"policyLimit": "turns"}, "only with a failed AgentPolicyError"),
    ("SubmissionSettled", {**ABORTED, "policyLimit": "turns"}, "only with a failed"),
    ("SubmissionSettled", {**FAILED, "policyLimit": "turns"}, "only with a failed"),
    (
        "SubmissionSettled",
        {"result": POLICY_DIAGNOSTIC, "policyLimit": "turns"},
        "only with a failed",
    ),
]

KEPT: list[tuple[str, dict[str, Any]]] = [
    ("RunContextRecorded", {"historyFrom": 13, "historyThrough": 12}),
    ("RunContextRecorded", {"historyFrom": 1, "historyThrough": 0, "retained": []}),
    ("RunContextRecorded", {"retained": kept(2, 8)}),
    ("ModelResponseRecorded", response(messages=prompt())),
    (
        "ModelResponseRecorded",
        response(("b", "u"), ("a", "t"), messages=prompt(("a", "t"), ("b", "u"))),
    ),
    ("ModelResponseRecorded", response(messages=prompt(), prefix=2)),
    ("ModelResponseRecorded", response(messages=prompt(prefix=("user", "tool")), prefix=1)),
    ("ModelCompleted", {"messages": ABSENT, "history": ABSENT}),
    ("CompactionCreated", {"kind": "rollover", "summary": ABSENT}),
    ("CompactionCreated", {"summary": ""}),
    ("RunCompleted", {"finishReason": ABSENT, "exhausted": ABSENT, "runDisposition": {}}),
    ("SubmissionSettled", FAILED),
    ("SubmissionSettled", {**FAILED, "result": POLICY_DIAGNOSTIC, "policyLimit": "turns"}),
    ("SubmissionSettled", ABORTED),
    ("SubmissionSettled", {**EXHAUSTED, "runDisposition": ABSENT}),
    ("SubmissionSettled", {"result": ABSENT, "runDisposition": ABSENT}),
    (
        "SubmissionSettled",
        {
            **ABORTED,
            "runId": ABSENT,
            "usageSummary": ABSENT,
            "uncommittedModelUsage": ABSENT,
        },
    ),
]


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(("tag", "changes", "rule"), BROKEN)
def test_a_broken_rule_is_refused_when_reading(
    tag: str, changes: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InvalidRecord, match=rule) as refused:
        encoded_from_wire(changed(tag, changes))
    assert refused.value.record_id == "record-1"
    assert refused.value.field == "payload"


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(("tag", "changes", "rule"), BROKEN)
def test_a_broken_rule_is_refused_when_building(
    tag: str, changes: dict[str, Any], rule: str
) -> None:
    payload = cast("dict[str, Any]", json.loads(changed(tag, changes))["payload"])
    with pytest.raises(ValidationError, match=rule):
        p.PAYLOADS[tag](**payload)


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(("tag", "changes"), KEPT)
def test_the_edge_of_a_rule_is_accepted(tag: str, changes: dict[str, Any]) -> None:
    wire = changed(tag, changes)
    assert encode_record(encoded_from_wire(wire).record).wire == wire


@pytest.mark.rule("REC-6")
def test_a_rule_is_checked_again_when_a_record_is_encoded() -> None:
    payload = cast("p.RunCompleted", sample_payload("RunCompleted"))
    broken = payload.model_copy(update={"exhausted": None})
    with pytest.raises(InvalidRecord, match="come together"):
        encode_record(sample_record(payload).model_copy(update={"payload": broken}))


@pytest.mark.rule("REC-6")
def test_only_the_calls_of_the_application_are_declared() -> None:
    messages = prompt(("a", "t"), ("b", "u"))
    messages["content"][-1]["content"][1]["providerExecuted"] = True
    declared = response(("a", "t"), messages=messages)
    assert encoded_from_wire(changed("ModelResponseRecorded", declared))
    both = response(("a", "t"), ("b", "u"), messages=messages)
    with pytest.raises(InvalidRecord, match="declare exactly"):
        encoded_from_wire(changed("ModelResponseRecorded", both))
