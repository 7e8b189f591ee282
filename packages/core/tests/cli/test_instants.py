"""Instants and lengths of time as people read them."""

from __future__ import annotations

import pytest

from yielded_core.cli.instants import duration, instant


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_893_553_445_678, "2030-01-02T03:04:05.678Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 ms since 1970"),
        (2**63 - 1, "9223372036854775807 ms since 1970"),
        (-(2**63), "-9223372036854775808 ms since 1970"),
    ],
)
def test_an_instant_is_written_to_the_millisecond(milliseconds: int, text: str) -> None:
    assert instant(milliseconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.999, "59s"),
        (60, "1m 00s"),
        (3_599, "59m 59s"),
        (3_600, "1h 00m"),
        (86_399, "23h 59m"),
        (86_400, "1d 00h"),
        (8_639_999, "99d 23h"),
        (8_640_000, "100d"),
        (10**9, "11574d"),
    ],
)
def test_a_length_of_time_is_short(seconds: float, text: str) -> None:
    assert duration(round(seconds * 1_000)) == text
    assert len(text) <= 7
