"""The clocks of a memory store: leases follow a clock that nobody can set back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from yielded_core.ledger.lane import Moment

if TYPE_CHECKING:
    from collections.abc import Callable

_NANOSECONDS: Final = 1_000_000


class Clock:
    """Milliseconds since 1970 UTC; a test gives an instant of its own, frozen between its calls."""

    def __init__(self, instant: Callable[[], int] | None = None) -> None:
        self._instant = instant
        self._ahead = time.time_ns() - time.monotonic_ns()

    def moment(self) -> Moment:
        """Read both clocks."""
        if self._instant is not None:
            given = self._instant()
            return Moment(given, given)
        steady = (time.monotonic_ns() + self._ahead) // _NANOSECONDS
        return Moment(steady, time.time_ns() // _NANOSECONDS)
