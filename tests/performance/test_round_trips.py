"""How often each operation waits for PostgreSQL, counted at the wire: what the document says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from yielded_bench.report import ROUND_TRIPS, section_of
from yielded_bench.round_trips import Trips, count, table
from yielded_bench.server import running
from yielded_bench.wire import Wire

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "performance.md"
ONE: Final = (
    "append, the next record of a run",
    "append, 10 records of a run",
    "append, a handoff that opens",
    "claim",
    "renew",
    "admit, replayed",
    "publish",
    "publish and finalize",
    "read_abort_intent",
    "tail",
)
"""One round trip where the statement is prepared, two where it must be prepared each time."""
FIRST: Final = ("append, 1 record that no index lists", "append, the first record of a run")
"""The first append to a thread, or of a run, looks at what it will rest on."""


@pytest.fixture(scope="module")
def counted() -> tuple[Trips, ...]:
    async def counting() -> tuple[Trips, ...]:
        async with running(None) as server:
            return await count(server)

    return asyncio.run(counting())


def test_the_table_of_round_trips_is_current(counted: tuple[Trips, ...]) -> None:
    documented = section_of(DOCUMENT.read_text(encoding="utf-8"), ROUND_TRIPS)
    hint = "run `uv run yielded-bench --statements --write docs/performance.md` and look at it"
    assert [line for line in documented if line] == table(counted), hint


@pytest.mark.parametrize("operation", ONE)
def test_a_common_operation_is_one_round_trip(counted: tuple[Trips, ...], operation: str) -> None:
    assert _found(counted, operation) == Trips(operation, 1, 2)


@pytest.mark.parametrize("operation", FIRST)
def test_the_first_append_looks_once(counted: tuple[Trips, ...], operation: str) -> None:
    assert _found(counted, operation) == Trips(operation, 2, 4)


def _found(counted: tuple[Trips, ...], operation: str) -> Trips:
    (found,) = [line for line in counted if line.operation == operation]
    return found


async def test_a_round_trip_is_what_is_asked_after_an_answer() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line != b"more\n":
                writer.write(line)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Wire(f"postgresql://127.0.0.1:{port}/none").serving() as wire:
        first, second = [await _connected(wire) for _ in range(2)]
        assert wire.trips() == 0
        await _asked(first, b"one\n")
        assert wire.trips() == 1
        await _asked(first, b"more\ntwo\n")
        assert wire.trips() == 2
        await _asked(second, b"three\n")
        await _asked(second, b"SELECT pg_notify\n")  # as the connection of notices begins
        assert wire.trips() == 2
        await wire.told()
        for _, writer in (first, second):
            writer.close()
            await writer.wait_closed()


async def _connected(wire: Wire) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", wire.port)


async def _asked(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes
) -> None:
    """Send a request in two pieces, which is one, and read the answer."""
    reader, writer = connection
    writer.write(request[:2])
    await writer.drain()
    writer.write(request[2:])
    assert await reader.readline() == request.splitlines(keepends=True)[-1]
