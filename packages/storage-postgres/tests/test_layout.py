"""Layout 21 on a real PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import IntegrityError, ProgrammingError

from yielded_storage_postgres import layout

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_EMPTY_TAIL = bytes(32)
_OBJECTS = "SELECT relname FROM pg_class WHERE relnamespace = current_schema::regnamespace"
_CONSTRAINTS = "SELECT conname FROM pg_constraint WHERE connamespace = current_schema::regnamespace"
_COLLATIONS = """
    SELECT DISTINCT c.collname FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation
    JOIN pg_class t ON t.oid = a.attrelid
    WHERE t.relnamespace = current_schema::regnamespace AND a.attname LIKE '%_id'
"""
_HEADER = "INSERT INTO yielded_header VALUES ($1, 21, 'format', '{}', 'incarnation', 0, 0)"
_THREAD = """
INSERT INTO yielded_threads
  (thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,
   lane_version, last_queue_sequence)
VALUES ($1, 0, 1, 0, $2, 0, 0, 0, 0)
"""


async def _run(connection: AsyncConnection, statements: tuple[str, ...]) -> None:
    """Run statements in one transaction, as an adapter does."""
    await connection.exec_driver_sql("BEGIN")
    try:
        for statement in statements:
            await connection.exec_driver_sql(statement)
    except BaseException:
        await connection.exec_driver_sql("ROLLBACK")
        raise
    await connection.exec_driver_sql("COMMIT")


async def _values(connection: AsyncConnection, query: str) -> list[str]:
    return [str(value) for value in (await connection.exec_driver_sql(query)).scalars()]


@pytest.mark.rule("LAY-1")
async def test_every_statement_runs_and_every_object_has_our_prefix(
    schema: AsyncConnection,
) -> None:
    await _run(schema, layout())
    objects = await _values(schema, _OBJECTS)
    constraints = await _values(schema, _CONSTRAINTS)
    assert len(objects) > len(layout())
    assert constraints
    assert [name for name in objects + constraints if not name.startswith("yielded_")] == []


@pytest.mark.rule("LAY-1")
async def test_a_layout_that_fails_leaves_nothing(schema: AsyncConnection) -> None:
    with pytest.raises(ProgrammingError, match="already exists"):
        await _run(schema, (*layout(), layout()[0]))
    assert await _values(schema, _OBJECTS) == []


@pytest.mark.rule("LAY-1")
async def test_there_is_one_header_row(schema: AsyncConnection) -> None:
    await _run(schema, layout())
    await schema.exec_driver_sql(_HEADER, (1,))
    with pytest.raises(IntegrityError, match="yielded_header_key"):
        await schema.exec_driver_sql(_HEADER, (1,))
    with pytest.raises(IntegrityError, match="yielded_header_singleton"):
        await schema.exec_driver_sql(_HEADER, (2,))


@pytest.mark.rule("LAY-1", "LOG-19")
async def test_identifiers_sort_by_code_point_whatever_the_database_sorts_by(
    schema: AsyncConnection,
) -> None:
    await _run(schema, layout())
    threads = ["a", "B", "é", "z", "\ue000", "\U00010000", "A", "_"]
    for thread in threads:
        await schema.exec_driver_sql(_THREAD, (thread, _EMPTY_TAIL))
    found = await _values(schema, "SELECT thread_id FROM yielded_threads ORDER BY thread_id")
    assert found == sorted(threads)
    assert await _values(schema, _COLLATIONS) == ["C"]


@pytest.mark.rule("LAY-1")
async def test_a_wrong_digest_is_refused_by_name(schema: AsyncConnection) -> None:
    await _run(schema, layout())
    with pytest.raises(IntegrityError, match="yielded_threads_tail"):
        await schema.exec_driver_sql(_THREAD, ("thread", _EMPTY_TAIL[1:]))
