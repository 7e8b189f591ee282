"""What an operation of the ledger costs does not depend on what else is stored.

The statements of each operation are caught while it runs, and run again on a copy of the store as
it was before, where the steps of SQLite's machine are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from checks import part
from ledger_work import LANE, TOKEN, admit, claim
from statement_tracer import Tracer, snapshot, steps

from yielded_core.records.identifiers import AttemptId, SubmissionId
from yielded_storage_sqlite import open_storage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from yielded_storage_sqlite import SqliteStorage
    from yielded_storage_sqlite.file import StoreFile

FEW: Final = 10
MANY: Final = 100_000
LANES: Final = 1_000
SLACK: Final = 0.02
"""Statements may take other branches, never a step for each row."""

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
        await tracer.follow(storage)
        if operation is renew:
            await claim(storage, "attempt")
        snapshot(path, before)
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
