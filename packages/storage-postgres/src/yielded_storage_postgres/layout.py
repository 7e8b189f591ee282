"""Layout 21 in a schema of PostgreSQL (LAY-1)."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from yielded_core.layout.facts import Header
from yielded_core.layout.statements import HEADER_TABLE, layout_statements
from yielded_core.records.bounds import LAYOUT_VERSION, RECORD_FORMAT
from yielded_storage_postgres.partitions import options_of, partitioned

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_NAMED: Final = re.compile(r"\b(TABLE|ON|OF|REFERENCES) (yielded_)")
"""Where a statement of the layout names a table."""


def layout() -> tuple[str, ...]:
    """Return the statements that create layout 21 in a PostgreSQL schema (LAY-1).

    Run them in one transaction, with the schema first in `search_path`. Each is one `CREATE`
    without a semicolon; the header row is not among them.
    """
    return layout_statements("postgres")


async def create_objects(connection: AsyncConnection, schema: str, *, partitions: int = 0) -> None:
    """Create every object in the caller's transaction, wherever `search_path` leads."""
    for statement in chain.from_iterable(partitioned(each, partitions) for each in layout()):
        await connection.exec_driver_sql(_NAMED.sub(rf'\1 "{schema}".\2', statement))


async def create_layout(
    connection: AsyncConnection,
    schema: str,
    *,
    incarnation: str,
    created_at: int,
    partitions: int = 0,
) -> Header:
    """Create the schema where it is missing, every object and the header row (LAY-1).

    With `partitions`, the tables of threads are in so many parts each.
    """
    exists = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
    if (await connection.exec_driver_sql(exists, (schema,))).first() is None:
        await connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')
    await create_objects(connection, schema, partitions=partitions)
    header = Header(LAYOUT_VERSION, RECORD_FORMAT, options_of(partitions), incarnation, created_at)
    await connection.exec_driver_sql(
        f'INSERT INTO "{schema}".{HEADER_TABLE} (singleton, layout_version, record_format,'
        " options, incarnation, created_at, epoch_floor) VALUES (1, $1, $2, $3, $4, $5, 0)",
        (
            header.layout_version,
            header.record_format,
            header.options,
            header.incarnation,
            header.created_at,
        ),
    )
    return header
