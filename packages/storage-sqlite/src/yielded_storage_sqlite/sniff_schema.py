"""Reads the facts of a SQLite database: what it declares, and the header row (LAY-2).

SQLite keeps a declaration as the text of its statement, and nothing else counts: the text, compared
by its tokens, is the exact comparison. `PRAGMA table_xinfo` splits columns into what a message can
name.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.layout.facts import Column, Constraint, Facts, Found, Index, Table, Trigger
from yielded_core.layout.statements import HEADER_TABLE, OWN_PREFIX, layout_statements
from yielded_core.records.bounds import LAYOUT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

APPLICATION_ID: Final = int.from_bytes(b"yld!", "big")
"""`PRAGMA application_id` of a file that is a store and nothing else, so that tools can name it."""

_TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|\s+"""  # comments and space are dropped
    r"""|(?P<string>'(?:[^']|'')*')"""
    r"""|(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])"""
    r"""|(?P<word>\w+)|(?P<sign>.)""",
    re.DOTALL,
)
_CONSTRAINT_WORDS: Final = frozenset({"constraint", "primary", "unique", "check", "foreign"})
_ENCODING: Final = "UTF-8"


class _Entry(NamedTuple):
    """One row of `sqlite_master`."""

    kind: str
    name: str
    table: str
    sql: str | None


def reference_facts() -> Facts:
    """Return the facts of layout 21 as this very SQLite library reads them back."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in layout_statements("sqlite"):
            connection.execute(statement)
        return read_facts(connection)


def read_found(connection: sqlite3.Connection) -> Found:
    """Read everything that decides what a database is. Raises sqlite3.Error as SQLite does."""
    facts = read_facts(connection)
    rows: tuple[dict[str, object], ...] = ()
    if any(table.name == HEADER_TABLE for table in facts.tables):
        cursor = _cursor(connection).execute(f"SELECT * FROM {HEADER_TABLE} LIMIT 2")  # noqa: S608 - a constant name
        names = [str(column[0]).lower() for column in cursor.description]
        rows = tuple(dict(zip(names, row, strict=True)) for row in cursor.fetchall())
    return Found(facts, rows, tuple(_remarks(connection)))


def read_facts(connection: sqlite3.Connection) -> Facts:
    """Read what a database declares. Raises sqlite3.Error as SQLite does."""
    cursor = _cursor(connection)
    entries = [
        _Entry(*row)
        for row in cursor.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    ]
    ours = {entry.name.lower() for entry in entries if _is_table(entry) and _is_ours(entry.name)}
    tables: list[Table] = []
    indexes: list[Index] = []
    triggers: list[Trigger] = []
    others: list[str] = []
    foreign: list[str] = []
    for entry in entries:
        name, table = entry.name.lower(), entry.table.lower()
        if name in ours and entry.kind == "table":
            tables.append(_table(cursor, entry))
        elif entry.kind == "trigger" and (table in ours or _is_ours(name)):
            triggers.append(Trigger(name, table))
        elif entry.kind == "index" and table in ours:
            if entry.sql is not None:
                indexes.append(_index(entry, entry.sql))
        elif _is_ours(name):
            others.append(f"{_kind(entry)} {name}")
        elif not name.startswith("sqlite_"):
            foreign.append(f"{_kind(entry)} {entry.name}")
    return Facts(tuple(tables), tuple(indexes), tuple(triggers), tuple(others), tuple(foreign))


def _cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """Return a cursor that gives plain rows whatever the connection is set to."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def pragma(connection: sqlite3.Connection, name: str) -> object:
    """Return the single value of a PRAGMA."""
    row: Sequence[object] = _cursor(connection).execute(f"PRAGMA {name}").fetchone()
    return row[0]


def _remarks(connection: sqlite3.Connection) -> Iterator[str]:
    """Name what only SQLite can have wrong about a store.

    UTF-16 text would sort in another order than on every other adapter. The mark in the file's
    first page, where it is ours, must not contradict the header row.
    """
    encoding = pragma(connection, "encoding")
    if encoding != _ENCODING:
        yield f"the database keeps text as {encoding}, expected {_ENCODING}"
    if pragma(connection, "application_id") == APPLICATION_ID:
        version = pragma(connection, "user_version")
        if version != LAYOUT_VERSION:
            yield f"user_version is {version}, expected {LAYOUT_VERSION}"


def _is_ours(name: str) -> bool:
    return name.lower().startswith(OWN_PREFIX)


def _is_table(entry: _Entry) -> bool:
    return entry.kind == "table" and _kind(entry) == "table"


def _kind(entry: _Entry) -> str:
    """Return the kind of an object in words; a virtual table's module is not run to describe it."""
    virtual = entry.sql is not None and tokens(entry.sql)[:2] == ["create", "virtual"]
    return "virtual table" if virtual else entry.kind


def _index(entry: _Entry, sql: str) -> Index:
    words = tokens(sql)
    return Index(entry.name.lower(), entry.table.lower(), words[1:2] == ["unique"], " ".join(words))


def _table(cursor: sqlite3.Cursor, entry: _Entry) -> Table:
    items, options = _split(tokens(entry.sql or ""))
    columns = {item[0]: " ".join(item[1:]) for item in items if item[0] not in _CONSTRAINT_WORDS}
    rows = cursor.execute(
        'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?) ORDER BY cid',
        (entry.name,),
    ).fetchall()
    return Table(
        name=entry.name.lower(),
        columns=tuple(
            Column(
                name=str(name).lower(),
                type=str(kind).upper(),
                not_null=bool(not_null),
                default=None if default is None else str(default),
                key=int(key),
                definition=columns.get(str(name).lower(), ""),
            )
            for name, kind, not_null, default, key in rows
        ),
        constraints=tuple(_constraints(items)),
        options=" ".join(options).upper().replace(" ,", ","),
    )


def _constraints(items: Sequence[Sequence[str]]) -> Iterator[Constraint]:
    """Name each constraint; one without a name of its own is called by its kind and place."""
    seen: set[str] = set()
    for place, item in enumerate(items):
        if item[0] not in _CONSTRAINT_WORDS:
            continue
        named = item[0] == "constraint" and item[1] not in seen
        name = item[1] if named else f"{item[0]} (unnamed, at place {place + 1})"
        seen.add(name)
        yield Constraint(name, " ".join(item[2:] if named else item))


def _split(words: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Split a CREATE TABLE into the items between its parentheses and what follows them."""
    items: list[list[str]] = [[]]
    depth = 0
    for place, word in enumerate(words):
        if word == ")":
            depth -= 1
            if depth == 0:
                return [item for item in items if item], list(words[place + 1 :])
        if depth == 1 and word == ",":
            items.append([])
        elif depth >= 1:
            items[-1].append(word)
        if word == "(":
            depth += 1
    return [item for item in items if item], []


def tokens(sql: str) -> list[str]:
    """Return the tokens of a statement, without comments and space.

    Words and plain quoted names are lower case, so that `"A"` and `a` are the same name, as they
    are to SQLite; strings keep their text.
    """
    found: list[str] = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup
        text = match.group()
        if kind == "quoted":
            name = text[1:-1].lower()
            found.append(name if re.fullmatch(r"\w+", name) else f'"{name}"')
        elif kind == "word":
            found.append(text.lower())
        elif kind is not None:
            found.append(text)
    return found
