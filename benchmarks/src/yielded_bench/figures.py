"""What a measurement yields: rows held against a target, and the figures behind them."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Row(NamedTuple):
    """One line of the result table."""

    work: str
    target: str
    measured: str
    share: float
    """Measured against the target: 1 or more is met, whichever way better is."""

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.share >= 1


class Figure(NamedTuple):
    """One absolute figure: it is printed, and never held against anything."""

    what: str
    value: str


class Results(NamedTuple):
    """The outcome of one part of the benchmark."""

    rows: tuple[Row, ...] = ()
    figures: tuple[Figure, ...] = ()


def at_least(work: str, value: float, least: float, unit: str = "x", detail: str = "") -> Row:
    """Return a row whose value should be `least` or more."""
    text = f"{_number(value)} {unit}" + (f" ({detail})" if detail else "")
    return Row(work, f"at least {_number(least)} {unit}", text, value / least)


def at_most(work: str, value: float, most: float, unit: str, detail: str = "") -> Row:
    """Return a row whose value should be `most` or less."""
    text = f"{_number(value)} {unit}" + (f" ({detail})" if detail else "")
    share = most / value if value else float("inf")
    return Row(work, f"at most {_number(most)} {unit}", text, share)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def _number(value: float) -> str:
    """Write a number with three significant digits."""
    magnitude = abs(value)
    if magnitude >= 100:  # noqa: PLR2004 - three digits before the point
        return f"{value:,.0f}"
    return f"{value:.3g}"
