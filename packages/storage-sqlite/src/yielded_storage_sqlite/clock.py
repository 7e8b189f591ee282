"""The clock that leases of a file follow: it never goes back, always ticks, and nobody can set it.

The file holds an anchor: the boot of the machine, its clock since that boot, and the instant that
this was. From there on the instant is reckoned by the clock since the boot, whatever the wall clock
does. After a boot nothing that held a lease can still be running, so that the next anchor lies at
or behind the end of every lease that was granted: a wall clock set back revives none.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yielded_core.ledger.lane import Moment
from yielded_core.sql import ledger_statements as sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.sql.session import Execute

_NANOSECONDS: Final = 1_000_000
_LINUX_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_DARWIN_BOOT: Final = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")


class StoreClock:
    """Reads both clocks of a file; a test gives an instant of its own, frozen between its calls."""

    def __init__(self, instant: Callable[[], int] | None = None) -> None:
        """Follow the machine's clocks, or what `instant` returns: milliseconds since 1970 UTC."""
        self._instant = instant
        self._boot = "" if instant is not None else boot_identity()

    def moment(self, execute: Execute, *, writing: bool) -> Moment:
        """Read both clocks in a transaction; one that writes keeps the anchor of a new boot."""
        if self._instant is not None:
            given = self._instant()
            return Moment(given, given)
        wall = time.time_ns() // _NANOSECONDS
        ticks = since_boot()
        anchor = execute(sql.CLOCK, ()).fetchone()
        if anchor is not None and anchor[0] == self._boot and ticks >= anchor[1]:
            return Moment(anchor[2] + ticks - anchor[1], wall)
        (latest,) = execute(sql.LATEST_LEASE, ()).fetchone()
        instant = max(wall, latest, 0 if anchor is None else anchor[2])
        if writing:
            execute(sql.SET_CLOCK, (self._boot, ticks, instant))
        return Moment(instant, wall)


def since_boot() -> int:
    """Return milliseconds since the machine booted, sleep included where the system tells."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(boot_time) // _NANOSECONDS


def boot_identity() -> str:
    """Return what tells one boot of the machine from the next, or `unknown`.

    Where the system does not say, a clock that stands before the anchor's tells of a new boot.
    """
    with suppress(OSError):
        return _LINUX_BOOT.read_text(encoding="ascii").strip()
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(_DARWIN_BOOT, capture_output=True, check=True, timeout=5)
        return asked.stdout.decode("ascii").strip()
    return "unknown"
