"""What is compared: ways to append records durably. A peer is one more class like those here."""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yielded_bench.records import batches, tool_result
from yielded_core.records.envelope import encode_record
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from yielded_bench.records import Make
    from yielded_core.ports.values import Batch, Tail
    from yielded_core.storage import Storage

    Work: TypeAlias = Callable[[], Awaitable[None]]


class Subject(ABC):
    """A way to append, measured in steps: a step is acknowledged when it is durable.

    Several tasks append at the same time, each to a conversation of its own.
    """

    name: str
    tasks: int
    size: int
    """Records in one step."""

    @abstractmethod
    async def open(self, folder: Path) -> None:
        """Make a fresh store in a folder of its own."""

    @abstractmethod
    async def prepare(self, steps: int) -> Work:
        """Make ready for `steps` steps of each task, and return the work that is timed."""

    @abstractmethod
    async def renew(self) -> None:
        """Make ready for the next round; a store on disk goes on as it is."""

    @abstractmethod
    async def close(self) -> None:
        """Give everything back."""


@dataclass
class Yielded(Subject):
    """Our own append: validated, encoded, digested, fenced."""

    name: str
    url: str
    """With `{folder}` where the store is to lie in one."""
    tasks: int = 1
    size: int = 1
    make: Make = tool_result
    _tails: list[Tail] = field(default_factory=list["Tail"])
    _next: int = 0
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)
    _storage: Storage | None = None

    async def open(self, folder: Path) -> None:
        """Open a store and materialize the threads."""
        await self._begin(self.url.format(folder=folder))

    async def renew(self) -> None:
        """Begin again with an empty store where the last one is not on disk but in memory."""
        if self.url.startswith("memory:"):
            await self.close()
            await self._begin(self.url)

    async def _begin(self, url: str) -> None:
        storage = await self._open.enter_async_context(open_storage(url))
        self._storage = storage
        threads = [
            storage.threads.materialize(thread_of(task), epoch=1) for task in range(self.tasks)
        ]
        self._tails = [found.tail for found in await asyncio.gather(*threads)]

    async def prepare(self, steps: int) -> Work:
        """Build the records; validation, encoding and digests are part of the append."""
        storage = self._storage
        assert storage is not None, "it was not opened"
        made = batches(self.make, self._next, steps, self.size)
        self._next += steps * self.size

        async def work() -> None:
            await asyncio.gather(*(self._append(storage, task, made) for task in range(self.tasks)))

        return work

    async def _append(self, storage: Storage, task: int, made: Sequence[Batch]) -> None:
        thread, tail = thread_of(task), self._tails[task]
        for batch in made:
            done = await storage.threads.append(thread, batch, expected=tail, epoch=1)
            tail = done.tail
        self._tails[task] = tail

    async def close(self) -> None:
        """Close the store."""
        await self._open.aclose()


@dataclass
class RawSqlite(Subject):
    """The baseline: the text of the same records, one row and one commit each, in one thread."""

    name: str = "raw SQLite"
    tasks: int = 1
    size: int = 1
    make: Make = tool_result
    _next: int = 0
    _connection: sqlite3.Connection | None = None

    async def open(self, folder: Path) -> None:
        """Make the table."""
        self._connection = open_raw(folder)

    async def renew(self) -> None:
        """Go on."""

    async def prepare(self, steps: int) -> Work:
        """Encode the rows."""
        connection = self._connection
        assert connection is not None, "it was not opened"
        rows = raw_rows(self.make, self._next, steps)
        self._next += steps

        async def work() -> None:
            for row in rows:
                connection.execute("INSERT INTO records VALUES (?, ?, ?)", row)

        return work

    async def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()


def open_raw(folder: Path) -> sqlite3.Connection:
    """Make a table of records with full durability."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE records (thread_id TEXT NOT NULL, sequence INTEGER NOT NULL,"
        " wire BLOB NOT NULL, PRIMARY KEY (thread_id, sequence))"
    )
    return connection


def raw_rows(make: Make, first: int, count: int, task: int = 0) -> list[tuple[str, int, bytes]]:
    """Return rows of the raw table."""
    return [
        (thread_of(task), number, encode_record(make(number)).wire)
        for number in range(first, first + count)
    ]


def thread_of(task: int) -> ThreadId:
    """Return the conversation of a task."""
    return ThreadId(f"thread-{task}")
