"""Offsets and cursors: opaque, and good for one thread of one incarnation."""

from __future__ import annotations

import base64

import pytest

from yielded_core.errors import OffsetRefused
from yielded_core.log.offsets import (
    offset_at,
    offset_prefix,
    open_cursor,
    seal_cursor,
    sequence_of,
)
from yielded_core.records.bounds import CURSOR_UNITS
from yielded_core.records.identifiers import Cursor, Offset, ThreadId

THREAD = ThreadId("thread-1")
OTHER = ThreadId("thread-2")
PREFIX = offset_prefix("one", THREAD)
POSITION: dict[str, object] = {"page": 3, "digest": "ab" * 32}
CURSOR = seal_cursor("one", THREAD, POSITION)


@pytest.mark.rule("LOG-9", "STO-4")
def test_an_offset_reads_back_where_it_was_given_out_and_nowhere_else() -> None:
    offset = offset_at(PREFIX, 42)
    assert sequence_of(offset, PREFIX, THREAD) == 42
    for prefix in (offset_prefix("two", THREAD), offset_prefix("one", OTHER)):
        with pytest.raises(OffsetRefused):
            sequence_of(offset, prefix, THREAD)


@pytest.mark.rule("LOG-9")
@pytest.mark.parametrize(
    "sequence", ["", "-1", "01", "+1", "1.0", "1 ", "\u0661", "9" * 19, "1e3", "0x1"]
)
def test_an_offset_that_was_made_up_is_refused(sequence: str) -> None:
    with pytest.raises(OffsetRefused):
        sequence_of(Offset(PREFIX + sequence), PREFIX, THREAD)


@pytest.mark.rule("ARC-2", "STO-4")
def test_a_cursor_reads_back_where_it_was_given_out_and_nowhere_else() -> None:
    assert open_cursor("one", THREAD, CURSOR) == POSITION
    for incarnation, thread in (("two", THREAD), ("one", OTHER)):
        with pytest.raises(OffsetRefused):
            open_cursor(incarnation, thread, CURSOR)


@pytest.mark.rule("ARC-2")
def test_every_changed_character_of_a_cursor_is_refused() -> None:
    for index, character in enumerate(CURSOR):
        for other in ("A", "B", " ", "\n", "é", ""):
            if other != character:
                with pytest.raises(OffsetRefused):
                    open_cursor("one", THREAD, Cursor(CURSOR[:index] + other + CURSOR[index + 1 :]))


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b"null", b"{", b"\xff", b'{"a":1}', b"[" * 5000]
)
def test_a_cursor_that_was_made_up_is_refused(body: bytes) -> None:
    text = base64.urlsafe_b64encode(body).decode()
    for cursor in (text, f"c1.{text}", f"c1.{'A' * 20}.{text}", "", "c1..", "\ud800"):
        with pytest.raises(OffsetRefused):
            open_cursor("one", THREAD, Cursor(cursor))


@pytest.mark.rule("ARC-2")
def test_a_cursor_beyond_its_bound_is_refused() -> None:
    body: dict[str, object] = {"a": "x" * CURSOR_UNITS}
    with pytest.raises(OffsetRefused):
        open_cursor("one", THREAD, seal_cursor("one", THREAD, body))
