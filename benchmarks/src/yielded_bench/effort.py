"""How much a run measures: enough to see that it works, a few minutes, or half an hour."""

from __future__ import annotations

from typing import NamedTuple


class Effort(NamedTuple):
    """Sizes of the measurements. More rounds make a median steadier, never a figure better."""

    name: str
    rounds: int
    """Rounds of each comparison; every round measures each side once."""
    seconds: float
    """How long a side is measured in a round."""
    processes: int
    """Processes that append to one file."""
    page_records: int
    """Records of the thread whose pages are read."""
    long_records: int
    """Records of the thread that is verified and exported."""
    children: int
    """Fresh processes in which importing and opening are measured."""
    idle_seconds: float
    commits: int
    """Commits of another process whose way to an observer is measured."""


SMOKE = Effort("smoke", 1, 0.05, 2, 1_024, 1_000, 1, 0.3, 5)
QUICK = Effort("quick", 7, 0.6, 4, 4_096, 20_000, 5, 5.0, 60)
FULL = Effort("full", 21, 3.0, 4, 10_240, 200_000, 15, 60.0, 600)
