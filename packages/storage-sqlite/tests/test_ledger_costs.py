"""What an operation of the ledger costs does not depend on what else is stored.

The statements of each operation are caught while it runs, and run again on a copy of the store as
it was before, where the steps of SQLite's machine are counted.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from checks import part
from ledger_work import LANE, TOKEN, admit, claim

from yielded_core.records.identifiers import AttemptId, SubmissionId
from yielded_storage_sqlite import open_storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from pathlib import Path

    from yielded_storage_sqlite import SqliteStorage
    from yielded_storage_sqlite.file import StoreFile

FEW: Final = 10
MANY: Final = 100_000
LANES: Final = 1_000
SLACK: Final = 0.02
"""Statements may take other branches, never a step for each row."""
IGNORED: Final = frozenset({"BEGIN", "COMMIT", "PRAGMA", "ROLLBACK"})

FILL: Final = (
    """
    INSERT INTO yielded_threads
      (thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,
       lane_version, last_queue_sequence)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :lanes)
    SELECT printf('lane-%06d', i), 1, 1, 0, zeroblob(32), 0, 0, 0, 0 FROM n
    """,
    """
    INSERT INTO yielded_submissions
      (thread_id, generation, queue_sequence, submission_id, receipt_id, principal,
       idempotency_key, input_digest, admission_digest, admitted_at, state)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows)
    SELECT CASE WHEN i % 2 THEN 'lane' ELSE printf('lane-%06d', i % :lanes) END, 1, 1000 + i,
           printf('submission-%08d', i), printf('receipt-%08d', i), 'principal',
           printf('key-%08d', i), zeroblob(32), zeroblob(32), 1,
           CASE i % 4 WHEN 3 THEN 'unknown' ELSE 'ready' END
      FROM n
    """,
    """
    INSERT INTO yielded_runnable
    SELECT thread_id, 1 FROM yielded_threads WHERE thread_id > 'lane-'
    """,
)
"""Other work: half of it behind in the same lane, some of it parked as unknown."""


class Cost(NamedTuple):
    """What an operation took."""

    statements: int
    steps: int


class Tracer:
    """Takes note of the statements of connections."""

    def __init__(self) -> None:
        self._caught: list[str] | None = None

    @contextmanager
    def catching(self) -> Generator[list[str]]:
        """Catch what is run meanwhile."""
        self._caught = caught = []
        yield caught
        self._caught = None

    def trace(self, connection: sqlite3.Connection) -> None:
        """Trace the statements of a connection from now on, their values filled in."""
        connection.set_trace_callback(self._note)

    def _note(self, text: str) -> None:
        if self._caught is not None and text.split(maxsplit=1)[0] not in IGNORED:
            self._caught.append(text)


async def cost(
    path: Path, others: int, operation: Callable[[SqliteStorage, SubmissionId], Awaitable[object]]
) -> Cost:
    """Return what an operation takes where so much other work is stored."""
    tracer, before = Tracer(), path.with_name("before.db")
    async with open_storage(f"sqlite:///{path}", clock=lambda: 1_000) as storage:
        own = (await admit(storage, "own")).submission_id
        await storage.threads.materialize(LANE, epoch=1)
        await storage.ledger.mark_ready(LANE, own)
        file: StoreFile = part(storage, "_file")
        await file.write(lambda connection: fill(connection, others))
        await file.write(tracer.trace)
        async with file.connection() as connection:  # the only one, as long as reads take turns
            await connection.run(tracer.trace)
        if operation is renew:
            await claim(storage, "attempt")
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(before)) as copy:
            source.backup(copy)
        with tracer.catching() as caught:
            await operation(storage, own)
    return Cost(len(caught), steps(before, caught))


def fill(connection: sqlite3.Connection, others: int) -> None:
    """Store other work."""
    for statement in FILL:
        values = {"rows": others, "lanes": min(LANES, others)}
        named = {name: value for name, value in values.items() if f":{name}" in statement}
        connection.execute(statement, named)
    connection.execute("ANALYZE")


def steps(path: Path, statements: list[str]) -> int:
    """Count the steps that SQLite's machine takes for some statements."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.set_progress_handler(count, 1)
        for statement in statements:
            connection.execute(statement).fetchall()
        connection.set_progress_handler(None, 1)
        connection.execute("ROLLBACK")
    return counted


async def read_abort_intent(storage: SqliteStorage, own: SubmissionId) -> None:
    await storage.ledger.read_abort_intent(LANE, own)


async def claim_once(storage: SqliteStorage, own: SubmissionId) -> None:
    grant = await storage.ledger.claim(LANE, attempt=AttemptId("attempt"), token=TOKEN)
    assert grant is not None
    assert grant.submission.submission_id == own


async def renew(storage: SqliteStorage, own: SubmissionId) -> None:
    assert own
    await storage.ledger.renew(LANE, token=TOKEN)


async def list_runnable(storage: SqliteStorage, own: SubmissionId) -> None:
    assert own
    assert len(await storage.ledger.runnable(limit=10)) == 10


async def scan_a_page(storage: SqliteStorage, own: SubmissionId) -> None:
    assert own
    assert len(await storage.ledger.scan_nonterminal(limit=10)) == 10


@pytest.mark.rule("LED-4", "LED-6", "LED-9", "LED-15", "LED-17")
@pytest.mark.parametrize(
    ("operation", "statements"),
    [(read_abort_intent, 1), (claim_once, 8), (renew, 4), (list_runnable, 1), (scan_a_page, 2)],
)
async def test_other_work_costs_an_operation_nothing(
    path: Path,
    operation: Callable[[SqliteStorage, SubmissionId], Awaitable[object]],
    statements: int,
) -> None:
    few = await cost(path, FEW, operation)
    many = await cost(path.with_name("many.db"), MANY, operation)
    assert few.statements == many.statements == statements
    assert few.steps > 10
    assert abs(many.steps - few.steps) <= few.steps * SLACK + 3
