"""Opaque positions: offsets of observation and cursors of export (LOG-9, ARC-2, STO-4).

Both carry a short digest of the store's incarnation and the thread, so that one of another thread,
another store or a timeline lost to a restore is refused. They grant nothing.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final, cast

import orjson

from yielded_core.errors import OffsetRefused
from yielded_core.records.bounds import CURSOR_UNITS
from yielded_core.records.identifiers import Cursor, Offset, ThreadId

_SEQUENCE_DIGITS: Final = 18


def _seal(*parts: bytes) -> str:
    mixed = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    return base64.urlsafe_b64encode(mixed[:15]).decode()


def offset_prefix(incarnation: str, thread: ThreadId) -> str:
    """Return the part that every offset of one thread in one incarnation begins with."""
    return f"o1.{_seal(b'offset', incarnation.encode(), thread.encode())}."


def offset_at(prefix: str, sequence: int) -> Offset:
    """Return the offset after the record at a sequence."""
    return Offset(f"{prefix}{sequence}")


def sequence_of(offset: Offset, prefix: str, thread: ThreadId) -> int:
    """Read an offset that this store gave out for this thread, or raise OffsetRefused."""
    text = offset[len(prefix) :] if offset.startswith(prefix) else ""
    canonical = text.isascii() and text.isdigit() and len(text) <= _SEQUENCE_DIGITS
    if not canonical or str(int(text)) != text:
        raise OffsetRefused(thread, "it was not given out for this thread by this store")
    return int(text)


def seal_cursor(incarnation: str, thread: ThreadId, position: dict[str, object]) -> Cursor:
    """Return a position of an export as opaque text."""
    body = orjson.dumps(position, option=orjson.OPT_SORT_KEYS)
    seal = _seal(b"cursor", incarnation.encode(), thread.encode(), body)
    return Cursor(f"c1.{seal}.{base64.urlsafe_b64encode(body).decode()}")


def open_cursor(incarnation: str, thread: ThreadId, cursor: Cursor) -> dict[str, object]:
    """Read a cursor that this store gave out for this thread, or raise OffsetRefused."""
    position: object = None
    if len(cursor) <= CURSOR_UNITS:
        try:
            position = orjson.loads(base64.urlsafe_b64decode(cursor.rpartition(".")[2]))
        except ValueError:  # not the alphabet, the padding or JSON
            position = None
    if isinstance(position, dict):
        known = cast("dict[str, object]", position)
        if seal_cursor(incarnation, thread, known) == cursor:
            return known
    raise OffsetRefused(thread, "the cursor was not given out for this thread by this store")
