"""Identifiers that no index of PostgreSQL takes, under short keys (REC-1).

An entry of an index has at most 2,704 bytes, and some have three identifiers. One of more than 240
bytes is stored under a key: how it begins, a mark, and its SHA-256. The whole name stands beside,
in `yielded_long_names`. A name that looks like a key is treated as a long one, so that no two
names have the same key.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from yielded_core.sql import ledger_statements, log_statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LONGEST_BYTES: Final = 240
"""What an identifier may have to be its own key: three of them and two numbers fit an entry."""
_PREFIX_BYTES: Final = LONGEST_BYTES - 47
_MARK: Final = "\U0010ffff"
"""The last code point, so that a long name comes after the short ones that begin as it does."""
_KEY: Final = re.compile(rf"{_MARK}[\w-]{{43}}\Z", re.ASCII)
FREE_TEXT: Final[Mapping[str, frozenset[int]]] = {
    ledger_statements.SET_SUBMISSION: frozenset({4, 5}),
    ledger_statements.INSERT_APPROVAL: frozenset({5, 6}),
    ledger_statements.INSERT_UNKNOWN_CALL: frozenset({5}),
    ledger_statements.INSERT_RESOLUTION: frozenset({6, 7}),
}
"""Places of values that are nobody's name and in no index: who did something, and why."""
_LISTED: Final = {log_statements.HELD_OF_MANY: "names"}
"""Values that are a JSON array of names."""

SAVE: Final = "INSERT INTO yielded_long_names VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
FIND: Final = """
SELECT n.name_key, n.name FROM yielded_long_names AS n
  JOIN unnest(?::text[], ?::text[]) AS wanted (thread_id, name_key)
    ON n.thread_id = wanted.thread_id AND n.name_key = wanted.name_key
"""


def is_key(text: str) -> bool:
    """Say whether a text is the key of a long name."""
    return _MARK in text and _KEY.search(text) is not None


def key_of(name: str) -> str:
    """Return the key under which a name is stored: mostly itself."""
    if len(name) <= LONGEST_BYTES // 4 and _MARK not in name:
        return name
    whole = name.encode()
    if len(whole) <= LONGEST_BYTES and not is_key(name):
        return name
    digest = urlsafe_b64encode(hashlib.sha256(whole).digest()).rstrip(b"=").decode()
    return f"{whole[:_PREFIX_BYTES].decode(errors='ignore')}{_MARK}{digest}"


def is_own_key(name: str) -> bool:
    """Say whether a name is stored as it is."""
    return key_of(name) == name


def keyed(
    shared: str, values: Sequence[object], names: Sequence[str] = ()
) -> tuple[tuple[object, ...], dict[str, str]]:
    """Return the values of a statement with keys for long names, and those names by their keys.

    `names` are those of the values where the statement has any.
    """
    free = FREE_TEXT.get(shared, frozenset())
    listed = _LISTED.get(shared)
    long: dict[str, str] = {}
    found: list[object] = []
    for place, value in enumerate(values):
        if not isinstance(value, str) or (place in free and not is_key(value)):
            found.append(value)
        elif listed is not None and names[place] == listed:
            found.append(json.dumps([_keep(one, long) for one in json.loads(value)]))
        else:
            found.append(_keep(value, long))
    return tuple(found), long


def keys_in(rows: Iterable[Sequence[Any]], thread: object) -> list[tuple[str, str]]:
    """Return the keys in rows, each with the threads that it may belong to.

    That is the thread that was asked about, and what a row begins with.
    """
    found: dict[tuple[str, str], None] = {}
    for row in rows:
        for value in row:
            if isinstance(value, str) and is_key(value):
                for owner in (thread, row[0]):
                    if isinstance(owner, str):
                        found[owner, value] = None
    return list(found)


def names_of(rows: Iterable[Sequence[Any]]) -> dict[str, str]:
    """Return the answer to FIND: whole names by their keys."""
    return {str(row[0]): str(row[1]) for row in rows}


def named(rows: Iterable[Sequence[Any]], names: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """Return rows with the whole names instead of their keys."""
    return [
        tuple(names.get(value, value) if isinstance(value, str) else value for value in row)
        for row in rows
    ]


def _keep(name: str, long: dict[str, str]) -> str:
    key = key_of(name)
    if key != name:
        long[key] = name
    return key
