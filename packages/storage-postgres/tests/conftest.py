"""A PostgreSQL server for tests: the one that YIELDED_POSTGRES_URL names, or one of our own."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, make_url
from sqlalchemy.ext.asyncio import create_async_engine

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests

from server_choice import chosen, drop, running
from server_side import Place, connect

from yielded_testing.postgres import Installation, installation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from server_choice import Server
    from sqlalchemy.ext.asyncio import AsyncConnection


_SERVER: Final = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note in each report on which server the test ran; the project's conftest tells of all."""
    report = yield
    if _SERVER in item.config.stash:
        report.user_properties.append(("server", item.config.stash[_SERVER]))
    return report


@pytest.fixture(scope="session")
def suite_schemas() -> list[str]:
    """The schemas of the suites, which are dropped together: each costs more than its cases."""
    return []


@pytest.fixture(scope="session")
def programs() -> Iterator[Installation]:
    """The programs of the server, for tests that start, stop and kill servers of their own."""
    with installation() as found:
        yield found


@pytest.fixture(scope="session")
def server_of_tests(pytestconfig: pytest.Config) -> Iterator[Server]:
    """The server that the tests of a process share."""
    with running(chosen(os.environ)) as found:
        pytestconfig.stash[_SERVER] = found.name
        yield found


@pytest.fixture(scope="session")
def postgres_url(server_of_tests: Server, suite_schemas: list[str]) -> Iterator[str]:
    """Where that server is; tests make schemas of their own in it."""
    yield server_of_tests.url
    if "YIELDED_POSTGRES_URL" in os.environ:
        asyncio.run(drop(server_of_tests.url, suite_schemas))


@pytest.fixture
async def client_programs(postgres_url: str, programs: Installation) -> Path:
    """The folder of `pg_dump` and its like, of the server's version: newer ones say too much."""
    server = make_url(postgres_url).set(query={}).render_as_string(hide_password=False)
    connection = await connect(server, "public")
    major = connection.get_server_version().major
    await connection.close()
    on_the_path = shutil.which("pg_dump")
    for folder in (
        programs.programs,
        *([Path(on_the_path).parent] if on_the_path else []),
        Path(f"/usr/lib/postgresql/{major}/bin"),  # where Debian has them
        Path(os.environ.get("YIELDED_POSTGRES_BIN", "")),
    ):
        if await _version(folder / "pg_dump") == major:
            return folder
    pytest.fail(f"Install the client programs of PostgreSQL {major}: pg_dump is not on the path.")


async def _version(program: Path) -> int | None:
    """Return the major version that a program says it has."""
    if not program.is_file():
        return None
    running = await asyncio.create_subprocess_exec(
        program, "--version", stdout=asyncio.subprocess.PIPE
    )
    said, _ = await running.communicate()
    return int(said.split()[2].split(b".")[0])


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
