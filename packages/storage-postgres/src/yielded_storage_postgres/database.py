"""One open PostgreSQL store: its pool, its transactions, its observers, its beginning and end."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sqlalchemy import event
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import greenlet_spawn

from yielded_core.errors import StorageBusy, StorageUnavailable, StoreMissing
from yielded_core.layout.classify import Current
from yielded_core.lifecycle import Lifecycle
from yielded_core.observing import Observers
from yielded_core.sql import maintenance_writes
from yielded_storage_postgres import names
from yielded_storage_postgres.connecting import reached
from yielded_storage_postgres.dialect import statement as shared_statement
from yielded_storage_postgres.faults import READ_ONLY, RETRIED, is_lost, sqlstate_of, typed
from yielded_storage_postgres.inspection import inspect
from yielded_storage_postgres.layout import create_layout
from yielded_storage_postgres.notices import Notices
from yielded_storage_postgres.session import KEYED, ReadingSession, WritingSession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence

    import asyncpg
    from sqlalchemy import Connection, Executable, Result, Table
    from sqlalchemy.engine import ExecutionContext
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from yielded_core.layout.facts import Header
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.session import Session
    from yielded_core.sql.snapshot import ReadingConnection, Snapshot
    from yielded_storage_postgres.address import Address

Outcome = TypeVar("Outcome")
_ASKED: Final = "yielded_asked"
"""Where a pooled connection keeps which thread its newest statement asks about."""
_OPENING: Final = "SELECT pg_advisory_xact_lock(hashtextextended('yielded ' || $1, 21))"
_DECIDED_OTHERWISE: Final = frozenset({"23", "40", "42"})
"""Classes of SQLSTATE: a constraint, other transactions, what the driver asks of the catalog."""
TRIES: Final = 10
"""How often a transaction that others were in the way of is run before that is told."""


class PostgresConnection:
    """A reading connection in one transaction that sees nothing else change."""

    def __init__(self, connection: AsyncConnection, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def row_address(self, table: Table, /) -> str | None:
        """Return what PostgreSQL calls the place of a row."""
        del table
        return "ctid"

    async def execute(self, statement: Executable, /) -> Result[Any]:
        """Run a statement and hold its rows."""
        found = await self._connection.execute(statement)
        columns = SimpleResultMetaData(tuple(found.keys()))
        rows = [tuple(row) for row in found.all()]
        keys = names.keys_in(rows, self._connection.info.get(_ASKED))
        if keys:
            wanted = ([thread for thread, _ in keys], [key for _, key in keys])
            find = shared_statement(names.FIND, self._schema).text
            known = await self._connection.exec_driver_sql(find, wanted)
            rows = names.named(rows, names.names_of(known.all()))
        return IteratorResult(columns, iter(rows))

    async def run(self, question: Callable[[Session], Outcome], /) -> Outcome:
        """Answer a question of several statements in the transaction."""
        return await self._connection.run_sync(
            lambda connection: question(ReadingSession(connection, self._schema))
        )


class Database:
    """SqlStore over a schema of a PostgreSQL database."""

    def __init__(self, address: Address, engine: AsyncEngine | None = None) -> None:
        """Take connections from an engine that is somebody else's, else from one of its own."""
        self.address = address
        self._given = engine
        self.lifecycle = Lifecycle()
        self.incarnation = ""
        self.extra_indexes: tuple[str, ...] = ()
        self._engine: AsyncEngine | None = None
        self._observers = Observers()
        self._notices = Notices(self._connect, self._observers, address)

    async def open(self) -> None:
        """Connect, and create the layout where there is none."""
        self.lifecycle.begin()
        engine = self._given or self._new_engine()
        self._engine = engine.execution_options(
            schema_translate_map={None: self.address.schema},
            # Whatever the role or the database has as its default: the shared writes look again
            # after they hold the lock, and must then see what was committed meanwhile.
            isolation_level="READ COMMITTED",
        )
        event.listen(self._engine.sync_engine, "before_cursor_execute", _with_keys, retval=True)
        try:
            with typed():
                self.incarnation = (await self._opened()).incarnation
        except BaseException:
            self.lifecycle.stop_accepting()
            await self._leave()
            raise

    def _new_engine(self) -> AsyncEngine:
        return create_async_engine(
            self.address.url,
            connect_args={**self.address.arguments, "async_creator_fn": reached},
            hide_parameters=True,
            pool_size=self.address.pool,
            max_overflow=0,
            pool_timeout=self.address.deadline,
            pool_pre_ping=False,
        )

    async def _leave(self) -> None:
        """Close every connection of an engine of our own."""
        if self._engine is not None and self._given is None:
            await self._engine.dispose()

    async def _opened(self) -> Header:
        """Look at the schema and create the layout where there is none, one process at a time."""
        schema = self.address.schema
        async with self.engine.begin() as connection:
            await connection.exec_driver_sql(_OPENING, (schema,))
            found = await inspect(connection, schema, shared=self.address.shared)
            if isinstance(found, Current):
                self.extra_indexes = found.extra_indexes
                return found.header
            if not self.address.create:
                raise StoreMissing(f"the schema {schema} holds none")
            created_at = time.time_ns() // 1_000_000
            return await create_layout(
                connection,
                schema,
                incarnation=uuid.uuid4().hex,
                created_at=created_at,
                partitions=self.address.partitions,
            )

    @property
    def engine(self) -> AsyncEngine:
        """The engine of an open store."""
        if self._engine is None:
            raise StorageUnavailable("the store is not open")
        return self._engine

    async def close(self) -> None:
        """Close every connection after what was accepted (STO-3)."""
        self.lifecycle.check_place()
        self.lifecycle.stop_accepting()
        self._observers.wake_all()
        await self.lifecycle.drained()
        await self._notices.stop()
        await self._leave()

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Open a connection outside of the pool, as those in it are opened."""
        if self._given is not None:
            return await self._taken_out()
        _, place = self.engine.dialect.create_connect_args(self.address.url)
        given: dict[str, Any] = {**place, **self.address.arguments}
        given.pop("prepared_statement_cache_size", None)  # SQLAlchemy's own
        return await reached(**given)

    async def _taken_out(self) -> asyncpg.Connection[asyncpg.Record]:
        """Take a connection from the pool for good, which makes another one in its place."""
        try:
            pooled = await self.engine.raw_connection()
        except (DBAPIError, PoolTimeout) as error:
            raise ConnectionError("the engine gives no connection") from error
        taken = cast("asyncpg.Connection[asyncpg.Record]", pooled.driver_connection)
        pooled.detach()
        return taken

    async def write(
        self, function: Callable[[Session], Outcome], *, touches: ThreadId | None = None
    ) -> Outcome:
        """Run a mutation in a transaction, return once it is committed, and wake observers."""
        with self.lifecycle.operation(), typed():
            result = await self._written(function)
            if touches is not None:
                self._notices.touch(touches)
            return result

    async def _written(self, function: Callable[[Session], Outcome]) -> Outcome:
        """Run a mutation; once more where its connection led to what had become a standby."""
        try:
            return await self._tried(function)
        except DBAPIError as error:
            if sqlstate_of(error) != READ_ONLY:
                raise
        await self.engine.dispose()  # after a failover other connections lead to the primary
        return await self._tried(function)

    async def _tried(self, function: Callable[[Session], Outcome]) -> Outcome:
        schema = self.address.quoted_schema
        for _ in range(TRIES):
            try:
                async with self.engine.begin() as connection:
                    return await connection.run_sync(
                        lambda inner: function(WritingSession(inner, schema))
                    )
            except DBAPIError as error:
                if sqlstate_of(error) not in RETRIED:
                    raise
        raise StorageBusy("other transactions were in the way each time; try again")

    async def alone(
        self, text: str, *values: object, touches: ThreadId | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement as a transaction of its own, one round trip, and return its rows.

        Returns none, and did nothing, where something was in its way that a transaction of several
        statements copes with, or tells more about.
        """
        with self.lifecycle.operation(), typed():
            rows = await self._fetched(text, values)
            if touches is not None and rows:
                self._notices.touch(touches)
            return rows

    async def _fetched(self, text: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        # Straight from the pool: what SQLAlchemy puts around a connection, and a task of its own
        # for giving it back, would cost more of the processor than the statement does.
        pooled = await self.engine.raw_connection()
        driver = cast("asyncpg.Connection[asyncpg.Record]", pooled.driver_connection)
        try:
            rows = [tuple(row) for row in await driver.fetch(text, *values)]
        except Exception as error:
            if driver.is_closed() or is_lost(error):
                await greenlet_spawn(pooled.invalidate)
                await self.engine.dispose()  # the others of the pool are no better
                raise
            await greenlet_spawn(pooled.close)
            state = sqlstate_of(error)
            if state[:2] in _DECIDED_OTHERWISE or state == READ_ONLY:
                return []
            raise
        except BaseException:  # cancelled: nobody waits for its answer any more
            await greenlet_spawn(pooled.invalidate)
            raise
        await greenlet_spawn(pooled.close)
        return rows

    async def whole(self, rows: list[tuple[Any, ...]], thread: ThreadId) -> list[tuple[Any, ...]]:
        """Return rows that one statement gave, with whole names instead of their keys."""
        keys = names.keys_in(rows, thread)
        if not keys:
            return rows
        wanted = ([owner for owner, _ in keys], [key for _, key in keys])
        find = shared_statement(names.FIND, self.address.quoted_schema).text
        return names.named(rows, names.names_of(await self.alone(find, *wanted)))

    async def settings(self) -> dict[str, str]:
        """Read back what the server says of itself."""
        asked = ("server_version", "synchronous_commit", "fsync", "full_page_writes")
        with self.lifecycle.operation(), typed():
            async with self.engine.connect() as connection:
                found = [
                    (await connection.exec_driver_sql(f"SHOW {name}")).scalar_one()
                    for name in asked
                ]
        return dict(zip(asked, map(str, found), strict=True))

    async def purge(self) -> None:
        """Remove the rows of generations that nothing reads, in bounded transactions."""
        while await self.write(maintenance_writes.purge):
            pass

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[PostgresConnection]:
        """Lend a reading connection for one transaction."""
        with self.lifecycle.operation(), typed():
            async with self.engine.connect() as connection:
                reading = await connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                yield PostgresConnection(reading, self.address.quoted_schema)

    @asynccontextmanager
    async def reading(
        self, opened: Callable[[ReadingConnection], Awaitable[Snapshot]]
    ) -> AsyncGenerator[Snapshot]:
        """Lend a snapshot."""
        async with self.connection() as connection:
            yield await opened(connection)

    @contextmanager
    def observing(self, thread: ThreadId) -> Generator[asyncio.Event]:
        """Register an observer."""
        self.lifecycle.check()
        with self._observers.registered(thread) as news:
            self._notices.watch()
            try:
                yield news
            finally:
                if self.lifecycle.is_open:
                    asyncio.get_running_loop().call_soon(self._notices.watch)


def _with_keys(
    connection: Connection,
    _cursor: object,
    text: str,
    values: Any,  # noqa: ANN401 - of a driver
    context: ExecutionContext | None,
    many: bool,  # noqa: FBT001 - see above
) -> tuple[str, Any]:
    """Put the keys of long names into the statements of reads, and remember the thread."""
    keyed = context is not None and context.execution_options.get(KEYED, False)
    if keyed or many or not values:
        return text, values
    given = tuple(names.key_of(value) if isinstance(value, str) else value for value in values)
    connection.info[_ASKED] = next((value for value in given if isinstance(value, str)), None)
    return text, given
