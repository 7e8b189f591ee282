"""The clock of the conformance cases, and how a storage is opened on it.

An instant that stands still is the only one on which "equal time is expired" can be shown.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.storage import Storage

START: Final = 1_767_323_045_678
"""The first instant of a case: 2026-01-02T03:04:05.678Z."""


class VirtualClock:
    """Milliseconds since 1970 UTC that stand still until `advance` is called.

    A storage that was opened with `clock=` takes both its clocks from here: leases follow it, and
    every instant that is kept is one of it.
    """

    def __init__(self, now: int = START) -> None:
        self.now = now
        self._moving = Lock()

    def __call__(self) -> int:
        """Return the instant, which is what an adapter calls."""
        return self.now

    def advance(self, milliseconds: int) -> int:
        """Let time pass and return the new instant; any thread may."""
        with self._moving:
            self.now += milliseconds
            return self.now


class OpenStorage(Protocol):
    """What an adapter gives to the suites: a storage that is not yet opened.

    With `clock` it follows that clock in everything; without, the clocks of the machine.
    """

    def __call__(self, *, clock: Callable[[], int] | None = None) -> Storage:
        """Return a storage, to be entered with `async with`."""
        ...


def wrapping(open_storage: OpenStorage, wrap: Callable[[Storage], Storage]) -> OpenStorage:
    """Return what opens the same storages, each wrapped."""

    def open_wrapped(*, clock: Callable[[], int] | None = None) -> Storage:
        return wrap(open_storage(clock=clock))

    return open_wrapped
