"""Writes what a server's catalog says of layout 21, which stores are compared with (LAY-2).

Run as `python -m yielded_storage_postgres.render_facts postgresql://…` after the layout changed; a
test holds the committed file to every server that it meets.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from yielded_storage_postgres.address import parse_url
from yielded_storage_postgres.inspection import FACTS_FILE, facts_document, read_facts
from yielded_storage_postgres.layout import create_objects

_SCHEMA: Final = "yielded_facts"


async def facts_text(url: str) -> str:
    """Return the facts of a new layout as JSON; what was made for it is rolled back."""
    address = parse_url(url)
    engine = create_async_engine(address.url, connect_args=address.arguments, poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.exec_driver_sql(f"CREATE SCHEMA {_SCHEMA}")
        await create_objects(connection, _SCHEMA)
        facts = await read_facts(connection, _SCHEMA)
        await connection.rollback()
    return json.dumps(facts_document(facts), indent=1) + "\n"


if __name__ == "__main__":
    (Path(__file__).with_name(FACTS_FILE)).write_text(
        asyncio.run(facts_text(sys.argv[1])), encoding="utf-8"
    )
