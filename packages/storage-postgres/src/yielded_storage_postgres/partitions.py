"""The variant of the layout whose tables are partitioned by thread (LAY-1).

Every table of a thread has the thread's id at the front of its keys, so that all of a thread is in
partitions of one number, and no statement but those over many threads looks into another.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import orjson

from yielded_core.layout.facts import Facts, Table
from yielded_core.layout.statements import DEFAULT_OPTIONS
from yielded_core.records.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_PARTITIONS: Final = 256
_KEY: Final = "thread_id"
_BY: Final = f"PARTITION BY HASH ({_KEY})"
_TABLE: Final = re.compile(rf"CREATE TABLE (?P<name>yielded_\w+) \(\s*{_KEY} ")


def options_of(partitions: int) -> str:
    """Return what the header says of a store with so many partitions; 0 for one without."""
    return canonical_json({"partitions": partitions}).decode() if partitions else DEFAULT_OPTIONS


def partitions_in(header: Iterable[Mapping[str, object]]) -> int:
    """Return how many partitions a header row names; 0 where it names none that there can be."""
    for row in header:
        try:
            said: object = orjson.loads(str(row.get("options")))
        except orjson.JSONDecodeError:
            return 0
        match said:
            case {"partitions": int(count)} if 1 <= count <= MOST_PARTITIONS:
                return count
            case _:
                return 0
    return 0


def partitioned(statement: str, partitions: int) -> Iterator[str]:
    """Return the statements that create an object of the layout in so many partitions."""
    found = _TABLE.match(statement)
    if not partitions or found is None:
        yield statement
        return
    yield f"{statement} {_BY}"
    name = found["name"]
    for number in range(partitions):
        bound = f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
        yield f"CREATE TABLE {_part(name, number)} PARTITION OF {name} {bound}"


def partitioned_facts(facts: Facts, partitions: int) -> Facts:
    """Return what the catalog says of a layout in so many partitions.

    A partition has the columns and constraints of its table, so that only its bound is told.
    """
    if not partitions:
        return facts
    tables: list[Table] = []
    split: set[str] = set()
    for table in facts.tables:
        if table.columns[0].name != _KEY:
            tables.append(table)
            continue
        split.add(table.name)
        tables.append(replace(table, options=_BY))
        tables.extend(
            Table(
                _part(table.name, number),
                (),
                (),
                f"PARTITION OF {table.name}"
                f" FOR VALUES WITH (modulus {partitions}, remainder {number})",
            )
            for number in range(partitions)
        )
    indexes = tuple(
        replace(one, definition=one.definition.replace(" ON ", " ON ONLY ", 1))
        if one.table in split
        else one
        for one in facts.indexes
    )
    return replace(facts, tables=tuple(sorted(tables, key=_name)), indexes=indexes)


def _part(name: str, number: int) -> str:
    return f"{name}_{number:03}"


def _name(table: Table) -> str:
    return table.name
