"""What yielded has for PostgreSQL so far: the statements of layout 21."""

from __future__ import annotations

from yielded_core.layout.statements import layout_statements

__all__ = ["layout"]


def layout() -> tuple[str, ...]:
    """Return the statements that create layout 21 in a PostgreSQL schema (LAY-1).

    Run them in one transaction, with the schema first in `search_path`. Each is one `CREATE`
    without a semicolon; the header row is not among them.
    """
    return layout_statements("postgres")
