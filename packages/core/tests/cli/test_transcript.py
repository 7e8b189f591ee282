"""Chat transcripts: what is read, and what is refused by its line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from yielded_core.cli.demo.plan import Order, make_plan
from yielded_core.cli.demo.transcript import (
    MOST_BYTES,
    MOST_MESSAGES,
    Message,
    lines_of,
    read_transcript,
)
from yielded_core.errors import InvalidArgument
from yielded_core.records.identifiers import ThreadId
from yielded_core.records.payloads import ModelCompleted, ThreadCreated, UserInputRecorded

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_core.records.bounded_json import JsonValue

STARTED = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
GOOD = '{"role":"user","content":"Hello"}\n'


def message(role: str, content: str = "text") -> Message:
    """Return a message."""
    return Message(role, {"role": role, "content": content})


def test_the_sample_is_read() -> None:
    messages = read_transcript(None)
    assert len(messages) == 49
    assert {each.role for each in messages} == {"system", "user", "assistant"}


def test_messages_are_kept_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    parts: dict[str, JsonValue] = {
        "role": "user",
        "content": [{"type": "text", "text": "a\u0000\u202e"}],
        "id": 7,
    }
    file.write_text(f"{json.dumps(parts)}\r\n\n  \n{GOOD}")
    assert read_transcript(file) == (Message("user", parts), message("user", "Hello"))


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "it is not JSON text"),
        ('{"role":"user"', "it is not JSON text"),
        ("[]", "it is not a JSON object with role and content"),
        ('"user"', "it is not a JSON object with role and content"),
        ('{"content":"x"}', "its role is none of system, user, assistant"),
        ('{"role":"tool","content":"x"}', "its role is none of system, user, assistant"),
        ('{"role":["user"],"content":"x"}', "its role is none of system, user, assistant"),
        ('{"role":"user"}', "its content is neither text nor a list"),
        ('{"role":"user","content":null}', "its content is neither text nor a list"),
        ('{"role":"user","content":[]}', "its content is neither text nor a list"),
        ('{"role":"user","content":[{"type":"image"}]}', "its content is neither text nor a list"),
        ('{"role":"user","content":[{"type":"text","text":1}]}', "its content is neither"),
        ('{"role":"user","role":"user","content":"x"}', "an object has a key twice"),
        ('{"role":"user","content":"\\ud800"}', "."),
        ('{"role":"user","content":"x","n":9007199254740993}', "does not read back"),
        ('{"role":"user","content":"x","n":NaN}', "it is not JSON text"),
        ('{"role":"user","content":"x","n":' + "[" * 65 + "]" * 65 + "}", "deeper than 64"),
        ('{"role":"user","content":"' + "x" * 1_048_576 + '"}', "longer than 1048576 bytes"),
        ('{"role":"user","content":"' + "x" * 2_097_152 + '"}', "longer than 2097152 bytes"),
    ],
)
def test_what_is_refused_is_named_by_its_line(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(f"{GOOD}\n{line}\n{GOOD}")
    with pytest.raises(InvalidArgument, match=rf"line 3: .*{reason}") as refused:
        read_transcript(file)
    assert len(str(refused.value)) < 200


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b'{"role":"user","content":"\xff"}')
    with pytest.raises(InvalidArgument, match="line 1: it is not JSON text"):
        read_transcript(file)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_transcript_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidArgument, match="it holds no message"):
        read_transcript(file)


def test_a_transcript_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(GOOD * MOST_MESSAGES)
    assert len(read_transcript(file)) == MOST_MESSAGES
    file.write_text(GOOD * (MOST_MESSAGES + 1))
    with pytest.raises(InvalidArgument, match=f"line 4097: .*more than {MOST_MESSAGES} messages"):
        read_transcript(file)
    line = json.dumps({"role": "user", "content": "x" * 1_000_000}) + "\n"
    file.write_text(line * 17)
    with pytest.raises(InvalidArgument, match=f"line 17: .*longer than {MOST_BYTES} bytes"):
        read_transcript(file)


def test_an_exchange_becomes_an_append() -> None:
    said = ["system", "user", "assistant", "user", "user", "assistant", "assistant"]
    plan = make_plan([message(role) for role in said], STARTED)
    kinds = [[each.record.payload for each in append.records] for append in plan.appends]
    assert [len(payloads) for payloads in kinds] == [4, 1, 3]
    assert plan.ends == (4, 5, 8)
    created, steering, first, answer = kinds[0]
    assert isinstance(created, ThreadCreated)
    assert isinstance(steering, UserInputRecorded)
    assert (steering.kind, steering.run_id) == ("steering", None)
    assert isinstance(first, UserInputRecorded)
    assert isinstance(answer, ModelCompleted)
    assert first.run_id == answer.run_id == "run-1"
    runs = [getattr(payload, "run_id", None) for payloads in kinds[1:] for payload in payloads]
    assert runs == ["run-2", "run-3", "run-3", "run-4"]


def test_an_append_holds_at_most_eight_messages() -> None:
    plan = make_plan([message("assistant")] * 20, STARTED)
    assert [len(append.records) for append in plan.appends] == [9, 8, 4]


def test_what_was_committed_is_read_off_the_tail() -> None:
    plan = make_plan([message("user")] * 3, STARTED)
    assert [plan.committed(sequence) for sequence in range(5)] == [0, None, 1, 2, 3]


def test_two_processes_make_the_same_appends() -> None:
    values = {"n": 1e16, "z": -0.0, "😀": 1, "\ue000": 10**20}
    given = [Message("user", {"role": "user", "content": "x", **values})]
    order = Order(ThreadId("chat"), 7, STARTED)
    assert Order.decode(order.encode()) == order
    read = [Message("user", json.loads(line)) for line in lines_of(given).splitlines()]
    assert make_plan(read, STARTED) == make_plan(given, STARTED)
