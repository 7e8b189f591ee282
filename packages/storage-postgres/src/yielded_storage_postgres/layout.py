"""Layout 21 in a schema of PostgreSQL (LAY-1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yielded_core.layout.facts import Header
from yielded_core.layout.statements import DEFAULT_OPTIONS, HEADER_TABLE, layout_statements
from yielded_core.records.bounds import LAYOUT_VERSION, RECORD_FORMAT

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_NAMED: Final = re.compile(r"\b(TABLE|ON|REFERENCES) (yielded_)")
"""Where a statement of the layout names a table."""


def layout() -> tuple[str, ...]:
    """Return the statements that create layout 21 in a PostgreSQL schema (LAY-1).

    Run them in one transaction, with the schema first in `search_path`. Each is one `CREATE`
    without a semicolon; the header row is not among them.
    """
    return layout_statements("postgres")


async def create_objects(connection: AsyncConnection, schema: str) -> None:
    """Create every object in the caller's transaction, wherever `search_path` leads."""
    for statement in layout():
        await connection.exec_driver_sql(_NAMED.sub(rf'\1 "{schema}".\2', statement))


async def create_layout(
    connection: AsyncConnection, schema: str, *, incarnation: str, created_at: int
) -> Header:
    """Create the schema where it is missing, every object and the header row (LAY-1)."""
    exists = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
    if (await connection.exec_driver_sql(exists, (schema,))).first() is None:
        await connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')
    await create_objects(connection, schema)
    header = Header(LAYOUT_VERSION, RECORD_FORMAT, DEFAULT_OPTIONS, incarnation, created_at)
    await connection.exec_driver_sql(
        f'INSERT INTO "{schema}".{HEADER_TABLE} (singleton, layout_version, record_format,'
        " options, incarnation, created_at) VALUES (1, $1, $2, $3, $4, $5)",
        (
            header.layout_version,
            header.record_format,
            header.options,
            header.incarnation,
            header.created_at,
        ),
    )
    return header
