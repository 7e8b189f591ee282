"""No two modules beside tests share a name: all are imported by it alone, from one path."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def test_no_two_helpers_of_tests_share_a_name() -> None:
    """Whichever package's tests run first would give its module to the tests of the other."""
    folders = [ROOT / "tests", *ROOT.glob("packages/*/tests")]
    names = Counter(
        path.stem
        for folder in folders
        for path in folder.rglob("*.py")
        if not path.stem.startswith("test_") and path.stem not in {"conftest", "__init__"}
    )
    assert names["worker_programs"] == 1, "the helpers are not where this looks"
    assert [name for name, times in names.items() if times > 1] == []
