"""A program: runs a PostgreSQL server of the binaries in a folder, on a free port of 127.0.0.1."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from serving import serve

from yielded_testing import postgres

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def running(binaries: Path) -> Generator[str]:
    """Run a server, as another user where we are root, and lend its URL."""
    with (
        postgres.installation(binaries) as programs,
        postgres.running(programs, *postgres.THROWN_AWAY) as server,
    ):
        yield server.url()


if __name__ == "__main__":
    serve(running(Path(sys.argv[1])))
