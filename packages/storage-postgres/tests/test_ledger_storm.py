"""Storms of processes over one PostgreSQL store: workers are killed, or the server under them.

What the processes said is compared with the tables afterwards, which asyncpg alone reads.

A killed process keeps what it has written to the kernel, so that nothing here depends on the disk.
It does depend on two settings that other tests turn off: a server that answers before it has
written (`synchronous_commit`) loses what it said, and one that keeps no whole pages in its log
(`full_page_writes`) cannot mend a page that a kill left half written, since the kernel cuts a write
off between two of its own pages. The servers here run as they are installed, `fsync` included.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from server_side import connect

from yielded_testing.postgres import Installation, Server, running
from yielded_testing.storm import Processes, Storm, Workers, check_ledger

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from yielded_testing.storm import Counts, Query

SCHEMA: Final = "storm"
HEALED_WITHIN: Final = 15.0
"""Seconds from when the server is back until every process works again."""
RULES: Final = pytest.mark.rule(
    "LED-1", "LED-3", "LED-4", "LED-6", "LED-7", "LED-8", "LED-9", "LED-16", "LED-17", "LOG-2"
)


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Processes(Path(__file__).with_name("storm_worker.py")) as processes:
        started = Workers(processes)
        yield started
        started.release()


@pytest.fixture
def server(programs: Installation) -> Iterator[Server]:
    with running(programs, "max_connections=200", name="storm") as started:
        yield started


@contextmanager
def reading(server: Server) -> Generator[Query]:
    """Lend what reads the store in one transaction."""
    with asyncio.Runner() as runner:
        connection = runner.run(connect(server.url(), SCHEMA))
        transaction = connection.transaction(isolation="repeatable_read", readonly=True)
        runner.run(transaction.start())

        def query(statement: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in runner.run(connection.fetch(statement))]

        yield query
        runner.run(connection.close())


class Size(NamedTuple):
    """How much there is of everything."""

    processes: int
    lanes: int
    lease: tuple[int, int]
    """Milliseconds at least and at most: longer where more processes share the machine."""


SHORT: Final = Size(4, 24, (800, 1_600))
LONG: Final = Size(16, 200, (1_500, 3_000))
ENOUGH: Final = 1_000
"""Settlements of a long storm, which goes on after its minute where the machine is too slow."""
STALE: Final = 50
"""Appends under lost rights in one."""


def storm_over(server: Server, workers: Workers, size: Size, *, outlasts: bool) -> Storm:
    """Return a storm that has begun."""
    storm = Storm(
        workers,
        f"{server.url()}?schema={SCHEMA}&pool=8",
        lambda: time.time_ns() // 1_000_000,  # the server is on this machine
        random.Random(size.lanes),
        size.lanes,
        size.processes,
        tasks=2,
        lease=size.lease,
        outlasts=outlasts,
    )
    storm.begin()
    return storm


def judged(server: Server, storm: Storm) -> Counts:
    """End a storm and compare what was said with the tables; return how often what happened."""
    lives = storm.end()
    with reading(server) as query:
        complaints, counts = check_ledger(query, lives)
    print(counts)  # noqa: T201 - a measurement, shown when the test fails or with -s
    assert complaints == []
    return counts


def kill_server(server: Server, storm: Storm, times: int, every: float, enough: int) -> Counts:
    """Kill the server at least so often, and the workers never; all of them go on each time."""
    healed: list[float] = []
    while len(healed) < times or storm.published < enough:
        storm.go_on(every)
        healed.append(storm.kill_server(server.kill, server.start))
    storm.go_on(every)
    print("healed after", [f"{each:.2f} s" for each in healed])  # noqa: T201 - see above
    assert max(healed) < HEALED_WITHIN
    return judged(server, storm)


@RULES
def test_killed_workers_lose_and_double_nothing(server: Server, workers: Workers) -> None:
    storm = storm_over(server, workers, SHORT, outlasts=False)
    killed = 0
    while killed < 6 or not storm.stale:
        storm.kill_one((40, 120))
        killed += 1
    counts = judged(server, storm)
    assert counts.settlements >= 40
    assert counts.takeovers >= 3
    assert counts.stale_appends >= 1
    assert counts.stale_publications >= 1


@pytest.mark.long
@pytest.mark.timeout(900)
@RULES
def test_a_minute_of_killed_workers_loses_and_doubles_nothing(
    server: Server, workers: Workers
) -> None:
    storm = storm_over(server, workers, LONG, outlasts=False)
    until = time.monotonic() + 60
    while time.monotonic() < until or storm.published < ENOUGH or storm.stale < STALE:
        storm.kill_one((70, 220))
    counts = judged(server, storm)
    assert counts.settlements >= ENOUGH
    assert counts.takeovers >= 100
    assert counts.stale_appends >= STALE
    assert counts.stale_publications >= STALE
    assert counts.queued_aborts >= 20
    assert counts.repeated_admissions >= 500


@pytest.mark.rule("STO-3")
@RULES
def test_a_killed_server_loses_and_doubles_nothing(server: Server, workers: Workers) -> None:
    storm = storm_over(server, workers, SHORT, outlasts=True)
    counts = kill_server(server, storm, times=2, every=2, enough=0)
    assert counts.kills == 0
    assert counts.settlements >= 40
    assert counts.lost_answers >= 20
    assert counts.stale_appends >= 1


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.rule("STO-3")
@RULES
def test_a_server_killed_every_ten_seconds_loses_and_doubles_nothing(
    server: Server, workers: Workers
) -> None:
    storm = storm_over(server, workers, LONG, outlasts=True)
    counts = kill_server(server, storm, times=6, every=10, enough=ENOUGH)
    assert counts.kills == 0
    assert counts.settlements >= ENOUGH
    assert counts.lost_answers >= 200
    assert counts.stale_appends >= STALE
    assert counts.stale_publications >= STALE
    assert counts.queued_aborts >= 20
