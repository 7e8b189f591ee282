"""What the programs that run a server share: it lives for as long as its starter does."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


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
