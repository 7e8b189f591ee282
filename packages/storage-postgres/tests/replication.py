"""A primary whose commits wait for its standby, which can be promoted."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from yielded_testing.postgres import ROLE, UNFLUSHED, Server, running

if TYPE_CHECKING:
    from collections.abc import Generator

    from yielded_testing.postgres import Installation

STANDBY: Final = "standby"
"""The name by which a standby connects, and by which commits wait for it."""
SYNCHRONOUS: Final = (
    *UNFLUSHED,
    f"synchronous_standby_names={STANDBY}",
    "hot_standby=on",
    "wal_receiver_status_interval=1",
    "wal_retrieve_retry_interval=100ms",
)
"""For a server whose commits wait until a standby has them."""


class Pair:
    """A primary whose commits wait for its standby, and the standby."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary = primary
        self.standby = standby

    def url(self, *options: str) -> str:
        """Return the URL of a store on whichever is the primary; the standby is asked first."""
        servers = (self.standby, self.primary)
        places = [f"host=127.0.0.1:{server.port}" for server in servers]
        return f"postgresql://{ROLE}@/postgres?{'&'.join((*places, *options))}"

    def fail_over(self) -> None:
        """Kill the primary and promote the standby, which is the primary from then on."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def replace(self) -> None:
        """Make a standby of the server that was killed."""
        self.standby.follow(self.primary, STANDBY)
        self.standby.start()


@contextmanager
def replicated(programs: Installation) -> Generator[Pair]:
    """Run a primary and a standby."""
    with running(programs, *SYNCHRONOUS, name="first") as primary:
        standby = Server(programs, "second", SYNCHRONOUS)
        pair = Pair(primary, standby)
        try:
            pair.replace()
            yield pair
        finally:
            standby.kill()
            shutil.rmtree(standby.data, ignore_errors=True)
