"""A program: runs a PostgreSQL server in a Docker container, on a free port of 127.0.0.1."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from serving import serve
from testcontainers.community.postgres import PostgresContainer

from yielded_testing.postgres import ROLE, THROWN_AWAY

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def running(image: str) -> Generator[str]:
    """Run a server of an image that takes what the official one takes, and lend its URL."""
    server = PostgresContainer(image, username=ROLE, password=uuid4().hex, dbname="postgres")
    # Docker takes the address beside the port; without it the whole network could connect.
    cast("dict[str, Any]", server.ports)[str(server.port)] = ("127.0.0.1", None)
    server.with_command([part for option in THROWN_AWAY for part in ("-c", option)])
    try:
        try:
            server.start()
        except TimeoutError:
            sys.stderr.writelines(part.decode(errors="replace") for part in server.get_logs())
            raise
        yield server.get_connection_url(host="127.0.0.1", driver=None)
    finally:
        server.stop()


if __name__ == "__main__":
    serve(running(sys.argv[1]))
