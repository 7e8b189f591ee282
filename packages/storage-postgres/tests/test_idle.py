"""What a storage asks of its server while nothing happens, by the server's own log (LOG-9)."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import notices, open_storage
from yielded_testing.postgres import THROWN_AWAY, Installation, Server, running
from yielded_testing.suites.builders import Writer, note
from yielded_testing.suites.support import observing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from yielded_storage_postgres.store import PostgresStorage

APPLICATION: Final = "idle"
STATEMENT: Final = re.compile(
    rf"^{APPLICATION}:LOG:  (?:statement|execute [^:]*): (.*)", re.MULTILINE
)
OBSERVERS: Final = 20
THREADS: Final = 10
WATCHED_SECONDS: Final = 1.5
"""How long nothing happens; shorter than the time between two looks."""


@pytest.fixture(scope="module")
def server(programs: Installation) -> Iterator[Server]:
    settings = (*THROWN_AWAY, "log_statement=all", "log_line_prefix=%a:")
    with running(programs, *settings, name="idle") as started:
        yield started


def statements(server: Server) -> list[str]:
    """Return what the storage's connections sent so far."""
    return STATEMENT.findall(server.log.read_text(encoding="utf-8"))


@asynccontextmanager
async def observed(server: Server, schema: str, observers: int) -> AsyncGenerator[PostgresStorage]:
    """Open a storage that has written something, and whose observers have caught up and listen."""
    url = f"{server.url()}?schema={schema}&application_name={APPLICATION}"
    async with open_storage(url) as storage, AsyncExitStack() as stack:
        threads = [ThreadId(f"thread-{number}") for number in range(THREADS)]
        for thread in threads:
            await (await Writer.begin(storage, thread)).append(note("one"))
        for number in range(observers):
            thread = threads[number % THREADS]
            seen = await stack.enter_async_context(observing(storage, thread))
            await seen.until(1)
        await quiet(server)
        yield storage


async def quiet(server: Server) -> None:
    """Wait until half a second went by without a statement."""
    before = -1
    while before != (before := len(statements(server))):
        await nothing(0.5)


async def nothing(seconds: float) -> None:
    """Let time pass in which nothing is asked for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


async def test_a_storage_without_observers_asks_nothing(server: Server) -> None:
    async with observed(server, "alone", 0):
        before = statements(server)
        assert any("INSERT INTO" in each for each in before)
        await nothing(WATCHED_SECONDS)
        assert statements(server)[len(before) :] == []


@pytest.mark.rule("LOG-9")
async def test_idle_observers_ask_nothing_between_two_looks(server: Server) -> None:
    assert notices.POLL_SECONDS > 4 * WATCHED_SECONDS
    async with observed(server, "between", OBSERVERS):
        before = statements(server)
        assert sum(each.startswith("LISTEN") for each in before) == THREADS
        await nothing(WATCHED_SECONDS)
        assert statements(server)[len(before) :] == []


@pytest.mark.rule("LOG-9")
async def test_a_look_is_one_statement_for_all_observers(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two a minute, since there are 30 seconds between two looks."""
    assert notices.POLL_SECONDS == 30
    monkeypatch.setattr(notices, "POLL_SECONDS", WATCHED_SECONDS)
    async with observed(server, "looks", OBSERVERS):
        before = len(statements(server))
        await nothing(3 * WATCHED_SECONDS)
        found = statements(server)[before:]
    assert all("yielded_threads" in each for each in found)
    assert 1 <= len(found) <= 3
