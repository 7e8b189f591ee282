"""`docs/rules.md` is what the contract, the tests and the saboteurs make today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from yielded_testing.rules import Planned, collected_tests, contract_rules, faults, page, proofs

if TYPE_CHECKING:
    from yielded_testing.rules import Proof

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"


@pytest.fixture(scope="module")
def found() -> list[Proof]:
    return proofs(contract_rules(DOCS / "contract"), collected_tests(ROOT))


@pytest.fixture(scope="module")
def planned() -> Planned:
    return Planned.read(DOCS / "rules-planned.toml")


@pytest.mark.rule("CRT-8")
def test_every_rule_has_tests_and_saboteurs_or_a_plan(found: list[Proof], planned: Planned) -> None:
    assert faults(found, planned) == []


def test_a_plan_is_for_a_rule_of_the_contract(found: list[Proof], planned: Planned) -> None:
    rules = {proof.rule.id for proof in found}
    assert {*planned.tests, *planned.saboteurs} <= rules


def test_the_page_is_current(found: list[Proof], planned: Planned) -> None:
    """Where it is not: `uv run python -m yielded_testing.rules`."""
    assert (DOCS / "rules.md").read_text(encoding="utf-8") == page(found, planned)


def test_every_rule_of_the_store_runs_over_both_adapters(found: list[Proof]) -> None:
    """But for those that show only inside the core, at length, or in a layout."""
    elsewhere = {"LOG-18"}
    missing = [
        proof.rule.id
        for proof in found
        if proof.rule.id.partition("-")[0] in {"REC", "LOG", "ARC", "STO", "LED", "RCV"}
        and not (proof.count("memory") and proof.count("sqlite"))
    ]
    assert set(missing) == elsewhere
