"""What the shared writes and ports need of a SQL engine: rows, a session, a clock, a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from yielded_core.sql.snapshot import ReadingConnection

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from yielded_core.ledger.lane import Moment
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.snapshot import Snapshot

Row: TypeAlias = Any
"""A row; the statement that it comes from names its columns."""
Values: TypeAlias = "tuple[object, ...] | Mapping[str, object]"
"""What a statement takes, by place (`?`) or by name (`:name`)."""
Result = TypeVar("Result")


class Rows(Protocol):
    """The rows that a statement gave, and how many it changed."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Row:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> Sequence[Row]:
        """Return the rest."""
        ...

    def __iter__(self) -> Iterator[Row]:
        """Go through the rest."""
        ...


Execute: TypeAlias = "Callable[[str, Values], Rows]"
"""Runs a statement, in a transaction that writes or in one that reads."""


class Session(Protocol):
    """A transaction that writes. Whoever opened it commits it."""

    def execute(self, statement: str, values: Values = ..., /) -> Rows:
        """Run a statement."""
        ...

    def executemany(self, statement: str, values: Iterable[tuple[object, ...]], /) -> object:
        """Run a statement for each of some values."""
        ...


class Clock(Protocol):
    """The clocks of a store."""

    def moment(self, execute: Execute, *, writing: bool) -> Moment:
        """Read both in a transaction."""
        ...


class QuestionConnection(ReadingConnection, Protocol):
    """A reading connection that also answers questions with statements of their own."""

    async def run(self, question: Callable[[Session], Result], /) -> Result:
        """Answer a question, a function of a session in a snapshot of its own."""
        ...


class SqlStore(Protocol):
    """One open store of a SQL engine."""

    incarnation: str
    """Identity of the store's timeline."""

    async def write(
        self, function: Callable[[Session], Result], *, touches: ThreadId | None = None
    ) -> Result:
        """Run a mutation in a transaction, return once it is committed, and wake observers."""
        ...

    async def purge(self) -> None:
        """Remove the rows of generations that nothing reads, in bounded transactions."""
        ...

    def connection(self) -> AbstractAsyncContextManager[QuestionConnection]:
        """Lend a reading connection for one transaction."""
        ...

    def reading(
        self, opened: Callable[[ReadingConnection], Awaitable[Snapshot]]
    ) -> AbstractAsyncContextManager[Snapshot]:
        """Lend a snapshot."""
        ...

    def observing(self, thread: ThreadId) -> AbstractContextManager[asyncio.Event]:
        """Register an observer, which is told of news by the event."""
        ...
