"""The statement budget: what each port operation asks of its engine is what the document says."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from yielded_bench.report import STATEMENTS, section_of
from yielded_bench.statements import count, table

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "performance.md"


async def test_the_table_of_statements_is_current(tmp_path: Path) -> None:
    documented = section_of(DOCUMENT.read_text(encoding="utf-8"), STATEMENTS)
    counted = table(await count(tmp_path))
    hint = "run `uv run yielded-bench --statements --write docs/performance.md` and look at it"
    assert [line for line in documented if line] == counted, hint


async def test_counts_do_not_vary(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = [table(await count(folder)) for folder in folders]
    assert first == second
