"""How a found layout differs from the expected one, in words (LAY-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from yielded_core.layout.facts import Column, Constraint, Facts, Index, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHOWN_CHARACTERS: Final = 128
"""The longest name, read from somebody else's database, that a message repeats in full."""

_Named = TypeVar("_Named", Column, Constraint, Index, Table)


def shown(name: str) -> str:
    """Return a name as a message may repeat it: on one line, printable and of bounded length."""
    safe = name if name.isprintable() else ascii(name)
    return safe if len(safe) <= SHOWN_CHARACTERS else f"{safe[:SHOWN_CHARACTERS]}..."


def differences(expected: Facts, found: Facts) -> tuple[str, ...]:
    """Name every difference between two layouts, one line each; none means equal (LAY-2).

    An operator's extra index is no difference (`extra_indexes` lists those), unless it is unique
    and so refuses rows. Other people's objects are none either.
    """
    return tuple(_differences(expected, found))


def extra_indexes(expected: Facts, found: Facts) -> tuple[str, ...]:
    """Name the indexes that an operator added to the tables of a layout, as `name on table`."""
    declared = {index.name for index in expected.indexes}
    return tuple(
        f"{shown(index.name)} on {index.table}"
        for index in found.indexes
        if index.name not in declared and not index.unique
    )


def _differences(expected: Facts, found: Facts) -> Iterator[str]:
    missing, unexpected, common = _paired(expected.tables, found.tables)
    yield from (f"table {name} is missing" for name in missing)
    yield from (f"unexpected table {shown(name)}" for name in unexpected)
    for declared, present in common:
        for difference in _table_differences(declared, present):
            yield f"table {declared.name}: {difference}"
    yield from _index_differences(expected.indexes, found.indexes)
    declared_triggers = set(expected.triggers)
    yield from (
        f"trigger {trigger.name} on {trigger.table} is missing"
        for trigger in expected.triggers
        if trigger not in found.triggers
    )
    yield from (
        f"unexpected trigger {shown(trigger.name)} on {shown(trigger.table)}"
        for trigger in found.triggers
        if trigger not in declared_triggers
    )
    yield from (f"{other} is missing" for other in expected.others if other not in found.others)
    yield from (
        f"unexpected {shown(other)}" for other in found.others if other not in expected.others
    )


def _table_differences(expected: Table, found: Table) -> Iterator[str]:
    missing, unexpected, common = _paired(expected.columns, found.columns)
    yield from (f"column {name} is missing" for name in missing)
    yield from (f"unexpected column {shown(name)}" for name in unexpected)
    for declared, present in common:
        for difference in _column_differences(declared, present):
            yield f"column {declared.name} {difference}"
    order = [column.name for column in expected.columns]
    if not missing and not unexpected and order != [column.name for column in found.columns]:
        yield "its columns are in another order"

    absent, added, shared = _paired(expected.constraints, found.constraints)
    yield from (f"constraint {name} is missing" for name in absent)
    yield from (f"unexpected constraint {shown(name)}" for name in added)
    for constraint, present_constraint in shared:
        if constraint.definition != present_constraint.definition:
            yield f"constraint {constraint.name} is different"
    if expected.options != found.options:
        options = shown(found.options) or "no options"
        yield f"it has {options}, expected {expected.options or 'no options'}"


def _column_differences(expected: Column, found: Column) -> Iterator[str]:
    if expected == found:
        return
    plain = True
    if expected.type != found.type:
        plain = False
        yield f"has type {shown(found.type) or 'none'}, expected {expected.type}"
    if expected.not_null != found.not_null:
        plain = False
        yield "may be NULL" if expected.not_null else "may not be NULL"
    if expected.default != found.default:
        plain = False
        yield "has another default"
    if expected.key != found.key:
        plain = False
        yield "has another place in the key"
    if plain:
        yield "is declared differently"


def _index_differences(expected: tuple[Index, ...], found: tuple[Index, ...]) -> Iterator[str]:
    missing, added, common = _paired(expected, found)
    tables = {index.name: index.table for index in expected}
    yield from (f"index {name} on {tables[name]} is missing" for name in missing)
    for declared, present in common:
        if declared != present:
            yield f"index {declared.name} on {declared.table} is different"
    for index in found:
        if index.name in added and index.unique:
            yield f"unexpected unique index {shown(index.name)} on {index.table}"


def _paired(
    expected: Iterable[_Named], found: Iterable[_Named]
) -> tuple[list[str], list[str], list[tuple[_Named, _Named]]]:
    """Return the names missing, the names added and the pairs of the same name, each in order."""
    declared = {item.name: item for item in expected}
    present = {item.name: item for item in found}
    missing = [name for name in declared if name not in present]
    added = [name for name in present if name not in declared]
    return missing, added, [(declared[name], present[name]) for name in declared if name in present]
