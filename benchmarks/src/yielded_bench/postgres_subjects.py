"""What is compared on PostgreSQL: raw inserts, a bare queue, and our own claims and settlements."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import asyncpg

from yielded_bench.records import tool_result
from yielded_bench.subjects import Subject, raw_rows
from yielded_bench.work import TEXT, queued, work_off
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TypeAlias

    from yielded_bench.server import Server
    from yielded_bench.subjects import Work
    from yielded_core.storage import Storage

    Raw: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_RECORDS: Final = (
    "CREATE TABLE IF NOT EXISTS raw_records (connections int NOT NULL, thread_id text NOT NULL,"
    " sequence bigint NOT NULL, wire bytea NOT NULL,"
    " PRIMARY KEY (connections, thread_id, sequence))"
)
_JOBS: Final = (
    """
    CREATE TABLE {jobs} (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      content text NOT NULL,
      claimed boolean NOT NULL DEFAULT false)
    """,
    "CREATE INDEX ON {jobs} (id) WHERE NOT claimed",
)
_OFFER: Final = "INSERT INTO {jobs} (content) SELECT $1 FROM generate_series(1, $2)"
_DEQUEUE: Final = (
    "UPDATE {jobs} SET claimed = true WHERE id = ("
    "SELECT id FROM {jobs} WHERE NOT claimed ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)"
    " RETURNING id, content"
)
_DONE: Final = "DELETE FROM {jobs} WHERE id = $1"


@dataclass
class _Connected(Subject):
    """One connection of the driver for each task."""

    name: str
    server: Server
    tasks: int = 1
    size: int = 1
    _connections: list[Raw] = field(default_factory=list["Raw"])
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self, folder: Path) -> None:
        """Connect."""
        del folder
        for _ in range(self.tasks):
            connection = await asyncpg.connect(self.server.url)
            self._open.push_async_callback(connection.close)
            self._connections.append(connection)

    async def renew(self) -> None:
        """Go on."""

    async def close(self) -> None:
        """Close the connections."""
        await self._open.aclose()


@dataclass
class RawPostgres(_Connected):
    """The baseline: the text of the same records, one row and one commit each."""

    _next: int = 0

    async def open(self, folder: Path) -> None:
        """Make the table."""
        await super().open(folder)
        await self._connections[0].execute(_RECORDS)

    async def prepare(self, steps: int) -> Work:
        """Encode the rows."""
        rows = [raw_rows(tool_result, self._next, steps, task) for task in range(self.tasks)]
        self._next += steps

        async def work() -> None:
            pairs = zip(self._connections, rows, strict=True)
            await asyncio.gather(*(self._insert(connection, some) for connection, some in pairs))

        return work

    async def _insert(self, connection: Raw, rows: Sequence[tuple[str, int, bytes]]) -> None:
        for row in rows:
            await connection.execute(
                "INSERT INTO raw_records VALUES ($1, $2, $3, $4)", self.tasks, *row
            )


@dataclass
class BareQueue(_Connected):
    """A table as a queue: what SKIP LOCKED gives first, and in a second commit its deletion."""

    _taken: list[int] = field(default_factory=list[int])

    async def open(self, folder: Path) -> None:
        """Make the table."""
        await super().open(folder)
        for statement in _JOBS:
            await self._connections[0].execute(self._about(statement))

    async def prepare(self, steps: int) -> Work:
        """Fill the queue."""
        await self._connections[0].execute(self._about(_OFFER), TEXT, steps * self.tasks)

        async def work() -> None:
            await asyncio.gather(*(self._work_off(each, steps) for each in self._connections))

        return work

    async def _work_off(self, connection: Raw, count: int) -> None:
        dequeue, done = self._about(_DEQUEUE), self._about(_DONE)
        for _ in range(count):
            row = await connection.fetchrow(dequeue)
            while row is None:  # what another worker held was let go
                row = await connection.fetchrow(dequeue)
            self._taken.append(row[0])
            await connection.execute(done, row[0])

    async def close(self) -> None:
        """Look whether every job was done once."""
        assert len(set(self._taken)) == len(self._taken), "the baseline is a queue"
        await super().close()

    def _about(self, statement: str) -> str:
        return statement.format(jobs=f"raw_jobs_{self.tasks}")


@dataclass
class Settling(Subject):
    """Our own: claim, and settle in a second commit; each worker has a lane of its own."""

    name: str
    url: str
    tasks: int = 1
    size: int = 1
    _next: int = 0
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)
    _storage: Storage | None = None

    async def open(self, folder: Path) -> None:
        """Open a store and materialize the lanes."""
        del folder
        self._storage = await self._open.enter_async_context(open_storage(self.url))
        for lane in self._lanes():
            await self._storage.threads.materialize(lane, epoch=1)

    async def prepare(self, steps: int) -> Work:
        """Accept the work."""
        storage, first = self._storage, self._next
        assert storage is not None, "it was not opened"
        self._next += steps
        offers = (self._offer(storage, lane, first, steps) for lane in self._lanes())
        await asyncio.gather(*offers)

        async def work() -> None:
            await asyncio.gather(*(work_off(storage, lane, steps) for lane in self._lanes()))

        return work

    async def renew(self) -> None:
        """Go on."""

    async def close(self) -> None:
        """Close the store."""
        await self._open.aclose()

    def _lanes(self) -> list[ThreadId]:
        return [ThreadId(f"lane-{self.tasks}-{number}") for number in range(self.tasks)]

    async def _offer(self, storage: Storage, lane: ThreadId, first: int, count: int) -> None:
        for number in range(first, first + count):
            await queued(storage, lane, f"key-{number}")
