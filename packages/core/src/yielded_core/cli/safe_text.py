"""Text made fit to show: what a terminal would obey is written out instead."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_BEYOND_PLAIN: Final = re.compile(r"[^\x20-\x7e]")
_JOINERS: Final = frozenset("\u200c\u200d\u00ad")
"""Format characters that words and emoji need, and that move nothing."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_BYTE: Final = 0x100
_BASIC_PLANE: Final = 0x10000
_MARKS_IN_A_ROW: Final = 4


def visible(text: str) -> str:
    r"""Return text in which every control and direction mark is written as `\x1b` or `\u202e`.

    Line ends and tabs are controls too. Long rows of combining marks, which would cover the lines
    around them, are cut.
    """
    if text.isascii() and text.isprintable():
        return text
    return _fewer_marks(_BEYOND_PLAIN.sub(_shown, text))


def one_line(text: str, characters: int) -> str:
    """Return the beginning of a text on one line, its white space drawn together, safe to show."""
    begun = " ".join(text[: 4 * characters].split())
    shown = visible(begun[: characters + 1])
    cut = len(text) > 4 * characters or len(shown) > characters
    return shown[: characters - 1] + "…" if cut else shown


def count(number: int, what: str) -> str:
    """Write a number of things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def short(digest: str) -> str:
    """Return enough of a digest to recognize it."""
    return digest[:12]


def ascii_json(text: bytes) -> str:
    r"""Return JSON text on one line with everything beyond printable ASCII written as `\uXXXX`."""
    return _BEYOND_PLAIN.sub(_escaped, text.decode())


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) not in _HIDDEN or character in _JOINERS:
        return character
    return _written(ord(character))


def _written(point: int) -> str:
    if point < _BYTE:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < _BASIC_PLANE else f"\\U{point:08x}"


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _fewer_marks(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        if marks <= _MARKS_IN_A_ROW:
            kept.append(character)
    return "".join(kept)
