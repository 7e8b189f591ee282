"""The clock of a PostgreSQL server, which the leases of a store follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.ledger.lane import Moment
from yielded_storage_postgres.rendered import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.sql.session import Execute

_NOW: Final = f"SELECT {NOW}"


class ServerClock:
    """Reads the server's clock; a test gives an instant of its own, frozen between its calls."""

    def __init__(self, instant: Callable[[], int] | None = None) -> None:
        """Follow the server's clock, or what `instant` returns: milliseconds since 1970 UTC."""
        self._instant = instant

    def moment(self, execute: Execute, *, writing: bool) -> Moment:
        """Read both clocks, which are one, in a transaction that holds the lock it needs."""
        del writing
        if self._instant is not None:
            given = self._instant()
            return Moment(given, given)
        (now,) = execute(_NOW, ()).fetchone()
        return Moment(now, now)
