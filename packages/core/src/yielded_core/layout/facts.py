"""The facts of a layout as plain values: what a store declares, whichever engine it is read from.

Definitions are text that an adapter has normalised, so that equal objects have equal text: the
tokens of a statement on SQLite, the strings of the catalog on PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    type: str
    not_null: bool
    default: str | None
    key: int
    """Its place in the primary key, from 1; 0 outside of it."""
    definition: str
    """Everything that is declared with it, normalised."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a table: a key, a uniqueness, a check or a reference."""

    name: str
    definition: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table of ours, columns in their order."""

    name: str
    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...]
    options: str
    """What is declared of the table as a whole, normalised; empty when nothing is."""


@dataclass(frozen=True, slots=True)
class Index:
    """One declared index on a table of ours; those behind a constraint are not listed."""

    name: str
    table: str
    unique: bool
    definition: str


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger on a table of ours, or named like an object of ours."""

    name: str
    table: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a database declares, as far as it concerns a layout."""

    tables: tuple[Table, ...]
    indexes: tuple[Index, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    others: tuple[str, ...] = ()
    """Anything else that is named like an object of ours, as `kind name` (`view yielded_x`)."""
    foreign: tuple[str, ...] = ()
    """Other people's objects, as `kind name`."""

    @property
    def empty(self) -> bool:
        """Whether there is no object of ours."""
        return not (self.tables or self.indexes or self.triggers or self.others)


@dataclass(frozen=True, slots=True)
class Found:
    """What an inspection read from a database, before it is judged."""

    facts: Facts
    header_rows: tuple[Mapping[str, object], ...]
    """The first two rows of the header table by column; none when there is no such table."""
    remarks: tuple[str, ...] = ()
    """Differences that only this engine has, in words."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header row of a store (LAY-1)."""

    layout_version: int
    record_format: str
    options: str
    """Canonical JSON."""
    incarnation: str
    """Opaque; changes when the store is restored from a backup (STO-4)."""
    created_at: int
    """Milliseconds since 1970."""
