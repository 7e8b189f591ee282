"""Reading a chat transcript: JSON Lines of messages, as chat applications export them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from yielded_core.errors import InvalidArgument, InvalidJson
from yielded_core.records.bounded_json import parse_json
from yielded_core.records.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_core.records.bounded_json import JsonValue

ROLES: Final = ("system", "user", "assistant")
MOST_MESSAGES: Final = 4_096
MOST_BYTES: Final = 16 * 1_048_576
"""Of the whole transcript, as text."""
_LINE_BYTES: Final = 2 * 1_048_576


class Message(NamedTuple):
    """One message of a transcript."""

    role: str
    value: dict[str, JsonValue]
    """The message as it was given, other keys than role and content included."""


def read_transcript(path: Path | None) -> tuple[Message, ...]:
    """Read the messages of a file, or those of the sample for None.

    Raises InvalidArgument naming the line that is refused and why, but not what it says; OSError as
    the file system gives it.
    """
    source = files("yielded_core.cli.demo").joinpath("sample.jsonl") if path is None else path
    messages: list[Message] = []
    size = 0
    with source.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(_LINE_BYTES + 1), b""), 1):
            size += len(line)
            if size > MOST_BYTES:
                raise _refused(number, f"the transcript is longer than {MOST_BYTES} bytes")
            if len(line) > _LINE_BYTES:
                raise _refused(number, f"it is longer than {_LINE_BYTES} bytes")
            if not line.strip():
                continue
            if len(messages) == MOST_MESSAGES:
                raise _refused(number, f"there are more than {MOST_MESSAGES} messages")
            messages.append(_message(number, line))
    if not messages:
        raise InvalidArgument("--input", "it holds no message")
    return tuple(messages)


def _message(number: int, line: bytes) -> Message:
    try:
        value = parse_json(line)
        canonical_json(value)
    except InvalidJson as error:
        raise _refused(number, error.reason) from None
    if not isinstance(value, dict):
        raise _refused(number, "it is not a JSON object with role and content")
    role = value.get("role")
    if role not in ROLES:
        raise _refused(number, f"its role is none of {', '.join(ROLES)}")
    if not _is_content(value.get("content")):
        detail = 'its content is neither text nor a list of {"type": "text", "text": …}'
        raise _refused(number, detail)
    return Message(cast("str", role), value)


def _is_content(content: JsonValue) -> bool:
    return isinstance(content, str) or (
        isinstance(content, list) and bool(content) and all(_is_text_part(part) for part in content)
    )


def _is_text_part(part: JsonValue) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _refused(line: int, reason: str) -> InvalidArgument:
    return InvalidArgument("--input", f"line {line}: {reason}")


def lines_of(messages: Iterable[Message]) -> bytes:
    """Write messages as JSON Lines, as a writer takes them."""
    return b"".join(canonical_json(message.value) + b"\n" for message in messages)
