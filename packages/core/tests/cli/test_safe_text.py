"""Text of a log made fit to show: no controls, no direction marks, cut, and JSON in ASCII."""

from __future__ import annotations

import json
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yielded_core.cli.safe_text import ascii_json, count, one_line, visible

TEXTS = st.text(max_size=200)
OBEYED = {"Cc", "Zl", "Zp"}
DIRECTIONS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [text] {0}", "plain [text] {0}"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\r", r"a\x0ab\x09c\x0d"),
        ("\x9b2J \x7f \x00", r"\x9b2J \x7f \x00"),
        ("abc\u202edcba", r"abc\u202edcba"),
        ("\u2067x\u2069", r"\u2067x\u2069"),
        ("\ufeff\u200b", r"\ufeff\u200b"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("Zürich, Ελλάδα, 東京, שלום", "Zürich, Ελλάδα, 東京, שלום"),
        ("👩\u200d🚀 ❤\ufe0f", "👩\u200d🚀 ❤\ufe0f"),
        ("e" + "\u0301" * 50, "e" + "\u0301" * 4),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(TEXTS)
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    shown = visible(text)
    assert not DIRECTIONS & set(shown)
    assert not any(unicodedata.category(character) in OBEYED for character in shown)
    assert visible(shown) == shown


@given(TEXTS, st.integers(1, 60))
def test_a_line_is_one_line_of_at_most_so_many_characters(text: str, characters: int) -> None:
    line = one_line(text, characters)
    assert len(line) <= characters
    assert "\n" not in line


def test_a_line_says_that_it_was_cut() -> None:
    assert one_line("one\n  two\tthree", 30) == "one two three"
    assert one_line("one two three", 8) == "one two…"
    assert one_line("x" * 10**6, 5) == "xxxx…"
    assert one_line(" " * 10**6 + "x", 5) == "…"


@given(st.recursive(TEXTS | st.integers(-(2**53), 2**53), st.lists))
def test_json_in_ascii_means_the_same(value: object) -> None:
    text = ascii_json(orjson.dumps(value))
    assert text.isascii()
    assert text.isprintable() or not text
    assert json.loads(text) == value


def test_things_are_counted_in_words() -> None:
    assert [count(number, "record") for number in (0, 1, 2_000)] == [
        "0 records",
        "1 record",
        "2,000 records",
    ]
