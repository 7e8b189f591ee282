"""What the programs that run a server share: it lives for as long as its starter does."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

USER = "yielded"
"""The superuser of every server that tests start."""
OPTIONS = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
"""Settings of a server that outlives no crash, so that it need not flush."""


def serve(server: AbstractContextManager[str]) -> None:
    """Run a server, print its URL, and stop it once nobody holds our standard input any longer.

    That is when the starter closes it, and also when the starter was killed.
    """
    signal.signal(signal.SIGTERM, _end)
    with server as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        sys.stdin.read()


def _end(*_: object) -> NoReturn:
    sys.exit("terminated")
