"""Every saboteur is caught by a test that names it; one that nobody names shows nothing."""

from __future__ import annotations

from pathlib import Path

from saboteurs import SABOTEURS


def test_every_saboteur_is_named_by_a_test() -> None:
    tests = [path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    text = "\n".join(path.read_text() for path in tests)
    assert len(SABOTEURS) >= 11
    assert [name for name in SABOTEURS if f'"{name}"' not in text] == []
