"""The committed statements of layout 21, for each dialect that an adapter runs."""

from __future__ import annotations

from importlib import resources
from typing import Final, Literal

Dialect = Literal["sqlite", "postgres"]

DEFAULT_OPTIONS: Final = "{}"
"""The `options` of a header: canonical JSON that names a variant of the layout; here none."""

HEADER_TABLE: Final = "yielded_header"
OWN_PREFIX: Final = "yielded_"
"""How the name of every object of the layout begins (LAY-1)."""

STATEMENT_END: Final = ";\n"


def layout_statements(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create layout 21, in the order in which they run (LAY-1).

    They are read from the rendered file beside this module, so that nothing parses SQL at run
    time. Each is one `CREATE` without a semicolon; the header row is not among them.
    """
    rendered = resources.files("yielded_core.layout") / "rendered" / f"{dialect}.sql"
    lines = rendered.read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("--"))
    return tuple(part.strip() for part in text.split(STATEMENT_END) if part.strip())
