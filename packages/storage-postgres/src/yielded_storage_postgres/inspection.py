"""Decides what a schema is before anything is created in it (LAY-1 to LAY-3).

The catalog is read in the transaction that would create the layout, which holds a lock that every
process takes to open the schema, so that of many only one creates (LAY-4).
"""

from __future__ import annotations

import json
from collections import defaultdict
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from yielded_core.layout.classify import Current, Fresh, classify
from yielded_core.layout.facts import Column, Constraint, Facts, Found, Index, Table, Trigger
from yielded_core.layout.statements import HEADER_TABLE, OWN_PREFIX
from yielded_storage_postgres.partitions import options_of, partitioned_facts, partitions_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

# What is declared of a table as a whole, where it is not what a plain CREATE TABLE makes: an
# unlogged table loses its rows in a crash, and row level security hides some.
_TABLES: Final = """
SELECT t.relname,
       concat_ws(' ', 'PARTITION BY ' || pg_get_partkeydef(t.oid),
                 'PARTITION OF ' || p.relname || ' ' || pg_get_expr(t.relpartbound, t.oid),
                 CASE t.relpersistence WHEN 'u' THEN 'UNLOGGED' END,
                 CASE WHEN t.relrowsecurity THEN 'ROW LEVEL SECURITY' END)
  FROM pg_catalog.pg_class t
  LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = t.oid AND t.relispartition
  LEFT JOIN pg_catalog.pg_class p ON p.oid = h.inhparent
 WHERE t.relnamespace = $1::regnamespace AND t.relkind IN ('r', 'p')
 ORDER BY t.relname
"""
# The columns, constraints and indexes of a partition are those of its table.
_COLUMNS: Final = """
SELECT t.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid),
       coalesce((SELECT array_position(k.conkey, a.attnum) FROM pg_catalog.pg_constraint k
                  WHERE k.conrelid = t.oid AND k.contype = 'p'), 0),
       CASE WHEN c.collname IS NULL OR c.collname = 'default' THEN ''
            ELSE 'COLLATE ' || quote_ident(c.collname) END
         || CASE a.attidentity WHEN '' THEN '' ELSE ' identity' END
         || CASE a.attgenerated WHEN '' THEN '' ELSE ' generated' END
  FROM pg_catalog.pg_class t
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
  LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
 WHERE t.relnamespace = $1::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition
 ORDER BY t.relname, a.attnum
"""
# From version 18 on NOT NULL is a constraint too; the columns tell of it.
_CONSTRAINTS: Final = """
SELECT t.relname, k.conname, pg_get_constraintdef(k.oid)
  FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class t ON t.oid = k.conrelid
 WHERE t.relnamespace = $1::regnamespace AND k.contype <> 'n'
   AND NOT (t.relispartition AND (k.conparentid <> 0 OR NOT k.conislocal))
 ORDER BY t.relname, k.conname
"""
_INDEXES: Final = """
SELECT i.relname, t.relname, x.indisunique, pg_get_indexdef(x.indexrelid)
         || CASE WHEN x.indisvalid THEN '' ELSE ' INVALID' END
  FROM pg_catalog.pg_index x
  JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
  JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
 WHERE t.relnamespace = $1::regnamespace
   AND NOT i.relispartition
   AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.conindid = x.indexrelid
                    AND k.contype IN ('p', 'u', 'x'))
 ORDER BY i.relname
"""
# A rule rewrites statements as a trigger changes rows.
_TRIGGERS: Final = """
SELECT g.tgname, t.relname
  FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_class t ON t.oid = g.tgrelid
 WHERE t.relnamespace = $1::regnamespace AND NOT g.tgisinternal
UNION ALL
SELECT r.rulename, t.relname
  FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class t ON t.oid = r.ev_class
 WHERE t.relnamespace = $1::regnamespace AND t.relkind IN ('r', 'p')
 ORDER BY 1, 2
"""
# Everything else that has a name in the schema; an index and a type of a table belong to that.
_OTHERS: Final = """
SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
                      WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' ELSE 'type' END,
       c.relname
  FROM pg_catalog.pg_class c
 WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('v', 'm', 'S', 'f', 'c')
UNION ALL
SELECT 'function', p.proname FROM pg_catalog.pg_proc p WHERE p.pronamespace = $1::regnamespace
UNION ALL
SELECT 'type', y.typname FROM pg_catalog.pg_type y
 WHERE y.typnamespace = $1::regnamespace AND y.typrelid = 0 AND y.typelem = 0
 ORDER BY 1, 2
"""
FACTS_FILE: Final = "layout_facts.json"


def expected_facts() -> Facts:
    """Return what the catalog says of a schema that holds layout 21 and nothing else."""
    text = (resources.files("yielded_storage_postgres") / FACTS_FILE).read_text(encoding="utf-8")
    return facts_from(json.loads(text))


def facts_document(facts: Facts) -> dict[str, Any]:
    """Return facts as JSON, for the file that a store is compared with."""
    return {
        "tables": [
            {
                "name": table.name,
                "columns": [
                    [one.name, one.type, one.not_null, one.default, one.key, one.definition]
                    for one in table.columns
                ],
                "constraints": [[one.name, one.definition] for one in table.constraints],
            }
            for table in facts.tables
        ],
        "indexes": [[one.name, one.table, one.unique, one.definition] for one in facts.indexes],
    }


def facts_from(document: dict[str, Any]) -> Facts:
    """Read what `facts_document` returned."""
    tables = tuple(
        Table(
            table["name"],
            tuple(Column(*column) for column in table["columns"]),
            tuple(Constraint(*constraint) for constraint in table["constraints"]),
            "",
        )
        for table in document["tables"]
    )
    return Facts(tables, tuple(Index(*index) for index in document["indexes"]))


async def inspect(connection: AsyncConnection, schema: str, *, shared: bool) -> Fresh | Current:
    """Say what a schema is, and change nothing. Raises StoreRefused (LAY-3)."""
    exists = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
    if (await connection.exec_driver_sql(exists, (schema,))).first() is None:
        return Fresh()
    facts = await read_facts(connection, schema)
    header: tuple[dict[str, object], ...] = ()
    if any(table.name == HEADER_TABLE for table in facts.tables):
        rows = await connection.exec_driver_sql(f'SELECT * FROM "{schema}".{HEADER_TABLE} LIMIT 2')
        header = tuple({str(name): value for name, value in row.items()} for row in rows.mappings())
    partitions = partitions_in(header)
    expected = partitioned_facts(expected_facts(), partitions)
    found = Found(facts, header)
    return classify(expected, found, shared=shared, options=options_of(partitions))


async def read_facts(connection: AsyncConnection, schema: str) -> Facts:
    """Return what the catalog says of a schema."""

    async def rows(query: str) -> Sequence[Any]:
        return (await connection.exec_driver_sql(query, (f'"{schema}"',))).all()

    tables = {str(name): str(options) for name, options in await rows(_TABLES)}
    columns: defaultdict[str, list[Column]] = defaultdict(list)
    for table, name, kind, not_null, default, key, definition in await rows(_COLUMNS):
        columns[table].append(Column(name, kind, not_null, default, key, definition.strip()))
    constraints: defaultdict[str, list[Constraint]] = defaultdict(list)
    for table, name, definition in await rows(_CONSTRAINTS):
        constraints[table].append(Constraint(name, _unqualified(definition, schema)))
    indexes = [
        Index(name, table, unique, _unqualified(definition, schema))
        for name, table, unique, definition in await rows(_INDEXES)
    ]
    triggers = [Trigger(*row) for row in await rows(_TRIGGERS)]
    others = [(kind, name) for kind, name in await rows(_OTHERS)]
    return Facts(
        tuple(
            Table(name, tuple(columns[name]), tuple(constraints[name]), options)
            for name, options in tables.items()
            if _is_ours(name)
        ),
        tuple(one for one in indexes if _is_ours(one.table)),
        tuple(one for one in triggers if _is_ours(one.table)),
        tuple(f"{kind} {name}" for kind, name in others if _is_ours(name)),
        (
            *(f"table {name}" for name in tables if not _is_ours(name)),
            *(f"{kind} {name}" for kind, name in others if not _is_ours(name)),
        ),
    )


def _is_ours(name: str) -> bool:
    return name.startswith(OWN_PREFIX)


def _unqualified(definition: str, schema: str) -> str:
    """Return a definition without the schema, which is another one in every store."""
    return definition.replace(f'"{schema}".', "").replace(f"{schema}.", "")
