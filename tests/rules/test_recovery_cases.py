"""Every decision of recovery, and every row that decides, is reached by a case of its rule."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

from yielded_core import recovering
from yielded_core.ledger import recovery
from yielded_core.ledger.recovery import RECOVERY, deciding_row
from yielded_core.ledger.recovery_decisions import RecoveryDecision
from yielded_storage_memory import open_storage
from yielded_testing.cases import cases_of
from yielded_testing.running import run_cases
from yielded_testing.saboteurs.model import WrongRule
from yielded_testing.suites import SubmissionLedgerSuite

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ledger.recovery_evidence import CanonicalFacts
    from yielded_core.ports.work import RecoverySnapshot

CASES: Final = tuple(
    case
    for case in cases_of(SubmissionLedgerSuite)
    if any(rule.startswith("RCV-") for rule in case.rules)
)
RULES: Final = [f"RCV-{number}" for number in range(1, 13)]


@dataclass
class Reached:
    """What `assess` decided in the cases of one rule."""

    decisions: set[type] = field(default_factory=set[type])
    situations: set[str] = field(default_factory=set[str])
    """Those of the rule's own rows."""


@pytest.fixture(scope="module")
def reached() -> dict[str, Reached]:
    found: dict[str, Reached] = defaultdict(Reached)
    marked: set[str] = set()

    def noting_rows(right: Callable[..., object]) -> Callable[..., object]:
        def noted(snapshot: RecoverySnapshot, facts: CanonicalFacts) -> object:
            row = deciding_row(snapshot, facts)
            if row.rule in marked:
                found[row.rule].situations.add(row.situation)
            return right(snapshot, facts)

        return noted

    def noting_decisions(right: Callable[..., Any]) -> Callable[..., Any]:
        async def noted(*given: object, **named: object) -> object:
            decision: object = await right(*given, **named)
            for rule in marked:
                found[rule].decisions.add(type(decision))
            return decision

        return noted

    rows = WrongRule(recovery, "classify", noting_rows)
    decisions = WrongRule(recovering, "assess", noting_decisions)
    with rows.active(), decisions.active():
        for case in CASES:
            marked.clear()
            marked.update(case.rules)
            (outcome,) = run_cases([case], open_storage)
            assert outcome.result == "passed", f"{case.id}: {outcome.detail}"
    return found


def test_every_row_decides_in_a_case_of_its_rule(reached: dict[str, Reached]) -> None:
    rows = {(row.rule, row.situation) for row in RECOVERY}
    assert {(rule, one) for rule in RULES for one in reached[rule].situations} == rows


def test_every_decision_is_reached(reached: dict[str, Reached]) -> None:
    decided = {kind for rule in RULES for kind in reached[rule].decisions}
    assert decided == set(get_args(RecoveryDecision))
