"""The shared statements as PostgreSQL takes them: numbered parameters, and the few that differ."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.sql import ledger_statements, log_statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.sql.session import Values

_TABLE: Final = re.compile(r"\byielded_\w+")
_PARAMETER: Final = re.compile(r"\?|(?<!:):([a-z_]+)")
_OTHERWISE: Final[Mapping[str, str]] = {
    log_statements.HELD_OF_MANY: log_statements.HELD_OF_MANY.replace(
        "SELECT value FROM json_each(:names)", "SELECT jsonb_array_elements_text((:names)::jsonb)"
    ),
    log_statements.NEXT_GENERATION: log_statements.NEXT_GENERATION.replace(
        "1 + max(", "1 + greatest("
    ),
    # Several processes may purge at once, each another generation.
    log_statements.GARBAGE: f"{log_statements.GARBAGE} FOR UPDATE SKIP LOCKED",
}
LOCKING: Final[Mapping[str, str]] = {
    log_statements.THREAD: "yielded_threads",
    ledger_statements.LANE: "yielded_threads",
    log_statements.IMPORT: "yielded_imports",
}
"""The first of these that a mutation asks of a table locks the row that it is about."""


class Statement(NamedTuple):
    """A statement with numbered parameters, and the names of these where it has names."""

    text: str
    names: tuple[str, ...]

    def arranged(self, values: Values) -> tuple[object, ...]:
        """Return the values in the order of the parameters."""
        if isinstance(values, tuple):
            return values
        return tuple(values[name] for name in self.names)


@lru_cache(maxsize=1_024)
def statement(shared: str, schema: str, *, locking: bool = False) -> Statement:
    """Return a shared statement for the tables of a schema; a locking one holds its row.

    `schema` is quoted. Nothing depends on `search_path`, which a pooler may give to somebody else.
    """
    names: list[str] = []
    count = 0

    def numbered(found: re.Match[str]) -> str:
        nonlocal count
        name = found[1]
        if name is None:
            count += 1
            return f"${count}"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    text = in_schema(_PARAMETER.sub(numbered, _OTHERWISE.get(shared, shared)).strip(), schema)
    return Statement(f"{text} FOR UPDATE" if locking else text, tuple(names))


@lru_cache(maxsize=1_024)
def in_schema(text: str, schema: str) -> str:
    """Return a statement about the tables of a schema, which is quoted."""
    return _TABLE.sub(lambda found: f"{schema}.{found[0]}", text)
