"""How often each port operation waits for a PostgreSQL server: a table that does not vary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_bench.operations import Bill, every_operation
from yielded_bench.wire import Wire
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from yielded_bench.server import Server

CACHED: Final = ("statement_cache_size=1000", "prepared_statement_cache_size=1000")
"""Every statement of the run stays prepared: no operation pays for what another one evicts."""
UNCACHED: Final = ("statement_cache_size=0", "prepared_statement_cache_size=0")
_WARM_UP: Final = "warm-up-"


class Trips(NamedTuple):
    """Round trips of one operation."""

    operation: str
    cached: int
    """With statements that are prepared already."""
    uncached: int
    """With the caches of the driver and of SQLAlchemy off, as some poolers need it."""


async def count(server: Server, schema: str = "counted") -> tuple[Trips, ...]:
    """Run every operation with and without prepared statements, in new schemas, and count."""
    cached = await _counted(server, f"{schema}_cached", *CACHED)
    uncached = await _counted(server, f"{schema}_uncached", *UNCACHED)
    pairs = zip(cached, uncached, strict=True)
    return tuple(Trips(operation, trips, others) for (operation, trips), (_, others) in pairs)


async def _counted(server: Server, schema: str, *options: str) -> list[tuple[str, int]]:
    """Run every operation twice on other threads, and count the second time.

    The first time, the connection prepares what it is asked, and looks up the types of arrays.
    """
    async with Wire(server.url).serving() as wire:
        url = f"{wire.url}?{'&'.join((f'schema={schema}', *options))}"
        async with open_storage(url) as storage:
            await every_operation(Bill(wire.trips), storage, _WARM_UP)
            await wire.told()
            bill = Bill(wire.trips)
            await every_operation(bill, storage)
    return [(line.operation, line.after - line.before) for line in bill.lines]


def table(lines: tuple[Trips, ...]) -> list[str]:
    """Return the table as lines of Markdown."""
    return [
        "| operation | round trips | without prepared statements |",
        "|---|---|---|",
        *(f"| {operation} | {cached} | {uncached} |" for operation, cached, uncached in lines),
    ]
