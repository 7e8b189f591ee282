"""Instants and lengths of time of a store, as people and machines read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from yielded_core.records.fields import instant_text

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECONDS: Final = 1_000
_MINUTES: Final = 60
_HOURS: Final = 60
_DAYS: Final = 24
_MANY_DAYS: Final = 100


def instant(milliseconds: int) -> str:
    """Write an instant, milliseconds since 1970 UTC, as records do (REC-4)."""
    try:
        return instant_text(_EPOCH + milliseconds * _MILLISECOND)
    except OverflowError:  # not in the years 1 to 9999
        return f"{milliseconds} ms since 1970"


def duration(milliseconds: int) -> str:
    """Write a length of time in its two largest units, at most seven characters up to 273 years."""
    seconds = max(milliseconds, 0) // _SECONDS
    minutes, seconds = divmod(seconds, _MINUTES)
    hours, minutes = divmod(minutes, _HOURS)
    days, hours = divmod(hours, _DAYS)
    if days >= _MANY_DAYS:
        return f"{days}d"
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {seconds:02}s" if minutes else f"{seconds}s"
