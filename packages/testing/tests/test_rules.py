"""The page of rules: what is read from the contract, how tests are grouped, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_testing.rules import Planned, Rule, contract_rules, faults, page, proofs

if TYPE_CHECKING:
    from pathlib import Path

RULES: Final = (Rule("LOG-4", "idempotency"), Rule("LAY-1", "one layout"), Rule("XXX-1", "new"))
TESTS: Final = {
    "LOG-4": [
        "packages/storage-memory/tests/test_suites.py::TestThreads::test_replay[a]",
        "packages/storage-memory/tests/test_suites.py::TestThreads::test_replay[b]",
        "packages/storage-sqlite/tests/test_suites.py::TestThreads::test_replay[a]",
        "packages/storage-sqlite/tests/test_suites.py::TestDurability::test_reopened",
        "packages/core/tests/log/test_append.py::test_it",
    ],
    "LAY-1": ["packages/storage-sqlite/tests/test_layout.py::test_fresh"],
}
PLANNED: Final = Planned({"XXX-1": "the next part"}, {"LAY-1": "the one after", "LOG-4": "never"})


def test_rules_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("- **LED-1 admit.** It is.\n- see **LOG-9 x.**\n")
    (tmp_path / "a.md").write_text("- **LOG-1 materialize.** It is.\n- **LOG-2 append** is.\n")
    assert contract_rules(tmp_path) == [
        Rule("LOG-1", "materialize"),
        Rule("LOG-2", "append"),
        Rule("LED-1", "admit"),
    ]


def test_tests_are_grouped_by_adapter() -> None:
    found = proofs(RULES, TESTS)
    assert found[0].tests == {
        "memory": ["TestThreads::test_replay"],
        "sqlite": ["TestThreads::test_replay", "TestDurability::test_reopened"],
        "elsewhere": ["packages/core/tests/log/test_append.py::test_it"],
    }
    assert found[1].tests == {
        "sqlite alone": ["packages/storage-sqlite/tests/test_layout.py::test_fresh"]
    }
    assert any(each.startswith("`replay-ignores-content`: ") for each in found[0].saboteurs)
    assert (found[2].tests, found[2].saboteurs) == ({}, [])


def test_what_is_missing_or_planned_in_vain_is_told() -> None:
    assert faults(proofs(RULES, TESTS), PLANNED) == [
        "LOG-4 has a saboteur, so it is planned no longer",
        "XXX-1 has no saboteur, and none is planned",
    ]


def test_the_page_shows_each_rule() -> None:
    text = page(proofs(RULES, TESTS), PLANNED)
    assert "| [LOG-4](#log-4-idempotency) idempotency | 1 | 2 | 1 |" in text
    shared = "- cases over memory, sqlite:\n  - `test_replay`\n- cases over sqlite:\n"
    assert f"## LOG-4 idempotency\n\n{shared}  - `test_reopened`\n- other tests:\n" in text
    assert "- saboteurs planned: the one after\n" in text
    assert text.endswith(
        "## XXX-1 new\n\n- tests planned: the next part\n- saboteurs planned: (missing)\n"
    )


def test_plans_are_read(tmp_path: Path) -> None:
    file = tmp_path / "planned.toml"
    file.write_text('[saboteurs]\n"LAY-1" = "later"\n')
    assert Planned.read(file) == Planned({}, {"LAY-1": "later"})
