"""Renders layout_21.sql per dialect: `python -m yielded_core.layout.render` rewrites rendered/.

Only this module needs sqlglot, and only when the layout is changed; adapters run what is committed.
The dialects differ in the transforms below, each for something that sqlglot leaves to its caller.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from yielded_core.errors import StorageMisused
from yielded_core.layout.statements import STATEMENT_END, Dialect

if TYPE_CHECKING:
    from sqlglot import exp

FOLDER: Final = Path(__file__).parent
SOURCE: Final = FOLDER / "layout_21.sql"
COMPACT: Final = "compact"
"""The comment above a table that SQLite keeps in the tree of its key."""
_OTHERS: Final[dict[Dialect, set[str]]] = {"sqlite": {"postgres"}, "postgres": {"sqlite"}}
"""Marks of the tables that a dialect does not have."""
"""The comment above a table that only SQLite has."""

_NOTICE: Final = "-- Rendered from layout_21.sql by yielded_core.layout.render; do not edit.\n\n"


def rendered_file(dialect: Dialect) -> Path:
    """Return where the rendered statements of a dialect are committed."""
    return FOLDER / "rendered" / f"{dialect}.sql"


def render(source: str, dialect: Dialect) -> str:
    """Render the text of a layout, given in the dialect of PostgreSQL, for `dialect`.

    Raises StorageMisused when a rendered statement could not be split from its neighbours again.
    """
    from sqlglot import parse  # noqa: PLC0415 - development only; never at the run time of a store

    statements: list[str] = []
    for tree in parse(source, read="postgres"):
        if tree is None:
            continue
        marks = {comment.strip() for comment in tree.comments or ()}
        if marks & _OTHERS[dialect]:
            continue
        compact = COMPACT in marks
        prepared = _for_sqlite(tree) if dialect == "sqlite" else tree
        text = prepared.sql(dialect=dialect, pretty=True, comments=False)
        if dialect == "sqlite":
            text += _table_options(text, compact=compact)
        if ";" in text or "--" in text:
            detail = "a statement of the layout holds a semicolon or a comment"
            raise StorageMisused(detail=detail)
        statements.append(text)
    return _NOTICE + "\n".join(text + STATEMENT_END for text in statements)


def _table_options(text: str, *, compact: bool) -> str:
    """Return what follows a table's closing parenthesis on SQLite.

    STRICT makes SQLite refuse what PostgreSQL refuses: a value that is not of its column's type.
    """
    if not text.startswith("CREATE TABLE"):
        return ""
    return " WITHOUT ROWID, STRICT" if compact else " STRICT"


def _for_sqlite(tree: exp.Expr) -> exp.Expr:
    """Return the statement as SQLite needs it.

    Its text sorts by code point already, so `COLLATE "C"` goes; it has no booleans; its indexes
    know only their own order of NULLs; and `octet_length` came with 3.43, but the `length` of a
    BLOB is its bytes.
    """
    from sqlglot import exp  # noqa: PLC0415 - development only; never at the run time of a store

    prepared = tree.copy()
    for constraint in list(prepared.find_all(exp.ColumnConstraint)):
        if isinstance(constraint.kind, exp.CollateColumnConstraint):
            constraint.pop()
    for boolean in list(prepared.find_all(exp.Boolean)):
        boolean.replace(exp.Literal.number(int(bool(boolean.this))))
    for ordered in prepared.find_all(exp.Ordered):
        ordered.set("nulls_first", not ordered.args.get("desc"))
    for call in list(prepared.find_all(exp.Anonymous)):
        if call.name.lower() == "octet_length":
            call.replace(exp.Length(this=call.expressions[0]))
    return prepared


def main() -> None:
    """Rewrite the committed statements of every dialect from layout_21.sql."""
    source = SOURCE.read_text(encoding="utf-8")
    for dialect in get_args(Dialect):
        rendered_file(dialect).write_text(render(source, dialect), encoding="utf-8")


if __name__ == "__main__":
    main()
