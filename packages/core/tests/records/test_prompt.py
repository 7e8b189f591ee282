"""The prompt as data, and the narrow projection that prompts are rebuilt from (REC-6, LOG-12)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast, get_args

import pytest
from pydantic import ValidationError

from yielded_core.errors import InvalidRecord, UnsupportedRecord
from yielded_core.records import payloads as p
from yielded_core.records import prompt_record as narrow
from yielded_core.records.envelope import decode_record, encode_record
from yielded_core.records.identifiers import RunId
from yielded_core.records.prompt import Prompt, tool_calls
from yielded_testing.sample_parts import Subject, sample_history, sample_prompt
from yielded_testing.samples import all_samples, sample_payload, sample_record

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record

TEXT = {"type": "text", "text": ""}
CALL = {"type": "tool-call", "id": "a", "name": "t", "params": None, "providerExecuted": True}
RESULT = {"type": "tool-result", "id": "a", "name": "t", "result": None, "isFailure": False}
DATA = {"type": "file", "mediaType": "text/plain", "data": ""}
URL = {"type": "file", "mediaType": "text/plain", "url": ""}


def completed(*messages: object) -> p.ModelCompleted:
    prompt = Prompt(content=cast("Any", list(messages)))
    return p.ModelCompleted(run_id=RunId("r"), output=0, messages=prompt, history=prompt)


def completed_wire(*messages: object) -> bytes:
    prompt = {"content": list(messages)}
    value = cast("dict[str, Any]", json.loads(encode_record(sample_record(completed())).wire))
    value["payload"].update(messages=prompt, history=prompt)
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": ""},
        {"role": "user", "content": ""},
        {"role": "user", "content": []},
        {"role": "user", "content": [TEXT, DATA, URL, {**DATA, **URL}]},
        {"role": "assistant", "content": []},
        {"role": "assistant", "content": [TEXT, {**TEXT, "type": "reasoning"}, DATA, CALL, RESULT]},
        {"role": "tool", "content": [RESULT, RESULT]},
        {"role": "tool", "content": [], "later": {"\u0000": [1.5]}},
        {"role": "assistant", "content": [{**CALL, "later": None}], "later": 1},
    ],
)
def test_messages_of_the_format(message: object) -> None:
    payload = completed(message)
    assert payload.messages == {"content": [message]}
    assert type(payload.messages) is dict
    encoded = encode_record(sample_record(payload))
    assert encoded.record.payload == payload
    assert encoded.wire == completed_wire(message)


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(
    "message",
    [
        *({}, [], "text", None, {"role": "user"}, {"content": ""}),
        {"role": "developer", "content": ""},
        {"role": "System", "content": ""},
        {"role": "system", "content": [TEXT]},
        {"role": "system", "content": None},
        {"role": "user", "content": None},
        {"role": "user", "content": [CALL]},
        {"role": "user", "content": [RESULT]},
        {"role": "user", "content": ["text"]},
        {"role": "assistant", "content": "text"},
        {"role": "assistant", "content": [{"type": "image"}]},
        {"role": "assistant", "content": [{"text": ""}]},
        {"role": "assistant", "content": [{**TEXT, "text": 1}]},
        {"role": "assistant", "content": [{**TEXT, "text": None}]},
        {"role": "assistant", "content": [{**CALL, "providerExecuted": 0}]},
        {"role": "assistant", "content": [{**CALL, "providerExecuted": "false"}]},
        {"role": "assistant", "content": [{**CALL, "id": 7}]},
        {"role": "tool", "content": [TEXT]},
        {"role": "tool", "content": [{**RESULT, "isFailure": None}]},
        {"role": "user", "content": [{"type": "file", "mediaType": "text/plain"}]},
        {"role": "user", "content": [{"type": "file", "data": ""}]},
        *(
            {"role": "assistant", "content": [{key: part[key] for key in part if key != missing}]}
            for part, missing in ((CALL, "params"), (CALL, "providerExecuted"), (RESULT, "result"))
        ),
    ],
    ids=str,
)
def test_other_messages_are_refused(message: object) -> None:
    with pytest.raises(ValidationError):
        completed(message)
    with pytest.raises(InvalidRecord) as refused:
        decode_record(completed_wire(message))
    assert refused.value.field == "payload.messages"


@pytest.mark.rule("REC-3", "REC-6")
@pytest.mark.parametrize(
    "extra", [float("nan"), 2**53 + 1, (1,), {1: 2}, "\ud800", b"", [0] * 4_097], ids=range(7)
)
def test_a_prompt_is_bounded_json(extra: object) -> None:
    for message in (
        {"role": "system", "content": "", "later": extra},
        {"role": "assistant", "content": [{**CALL, "params": extra}]},
        {"role": "tool", "content": [{**RESULT, "result": [extra]}]},
    ):
        with pytest.raises(ValidationError):
            completed(message)


@pytest.mark.rule("REC-3", "REC-6")
def test_the_depth_of_a_prompt_is_that_of_one_json_field() -> None:
    def result(depth: int) -> object:
        value: object = 0
        for _ in range(depth):
            value = [value]
        return {"role": "tool", "content": [{**RESULT, "result": value}]}

    assert encode_record(sample_record(completed(result(59))))
    with pytest.raises(ValidationError):
        completed(result(60))


@pytest.mark.rule("REC-6")
def test_tool_calls_are_the_applications_own_in_order() -> None:
    own = {**CALL, "providerExecuted": False}
    prompt = completed(
        {"role": "assistant", "content": [{**own, "id": "b"}, CALL, TEXT, {**own, "id": "a"}]},
        {"role": "user", "content": "text"},
        {"role": "tool", "content": [RESULT]},
        {"role": "assistant", "content": [{**own, "id": "c"}]},
    ).messages
    assert prompt is not None
    assert [call["id"] for call in tool_calls(prompt)] == ["b", "a", "c"]
    assert [call["id"] for call in tool_calls(sample_prompt(Subject()))] == ["call-1"]
    assert [call["id"] for call in tool_calls(sample_history(Subject()))] == ["call-1"]


# --- The projection ------------------------------------------------------------------------------


@pytest.mark.rule("LOG-12")
def test_the_tags_that_a_prompt_is_rebuilt_from() -> None:
    assert set(narrow.PROMPT_TAGS) == {
        *("UserInputRecorded", "ModelCompleted", "ModelResponseRecorded", "ToolCallSettled"),
        *("CompactionCreated", "RunCompleted", "RunFailed", "SubmissionSettled"),
    }
    projected = [
        get_args(family.model_fields["tag"].annotation)[0]
        for family in get_args(narrow.PromptPayload)
    ]
    assert sorted(projected) == sorted(narrow.PROMPT_TAGS)


@pytest.mark.rule("LOG-12")
@pytest.mark.parametrize(
    "record", all_samples(), ids=lambda record: cast("Record", record).payload.tag
)
def test_the_projection_holds_the_values_of_the_record(record: Record) -> None:
    wire = encode_record(record).wire
    if record.payload.tag not in narrow.PROMPT_TAGS:
        with pytest.raises(UnsupportedRecord):
            narrow.decode_prompt_record(7, wire)
        return
    read = narrow.decode_prompt_record(7, wire)
    assert read.sequence == 7
    assert read.record_id == record.record_id
    assert read.payload.tag == record.payload.tag
    for name in type(read.payload).model_fields:
        assert getattr(read.payload, name) == getattr(record.payload, name)


@pytest.mark.rule("LOG-12")
def test_the_projection_skips_what_a_prompt_does_not_need() -> None:
    value = cast(
        "dict[str, Any]",
        json.loads(encode_record(sample_record(sample_payload("ModelResponseRecorded"))).wire),
    )
    value["createdAt"] = "not looked at"
    value["payload"]["toolOperations"] = "not looked at"
    value["payload"]["tag"] = "not looked at"
    read = narrow.decode_prompt_record(1, json.dumps(value).encode())
    assert isinstance(read.payload, narrow.PromptResponse)
    assert read.payload.messages == sample_prompt(Subject())
    assert not hasattr(read.payload, "tool_operations")
    assert read.payload.model_extra is None


@pytest.mark.rule("LOG-12")
@pytest.mark.parametrize(
    "wire",
    [
        *(b"", b"null", b"{}", b'{"recordId":"r"}', b"[" * 100_000),
        b'{"recordId":"r","payload":{"_tag":"RunFailed","runId":"r"}}',
        b'{"payload":{"_tag":"RunFailed","runId":"r","failure":1}}',
    ],
    ids=range(7),
)
def test_a_damaged_record_is_a_typed_error(wire: bytes) -> None:
    with pytest.raises(InvalidRecord):
        narrow.decode_prompt_record(1, wire)
