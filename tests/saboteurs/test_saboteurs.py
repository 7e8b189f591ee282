"""Every saboteur is found by the case that it names, and by cases of its own rules alone."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from yielded_storage_memory import open_storage
from yielded_testing.cases import cases_of
from yielded_testing.saboteurs import SABOTEURS, Saboteur, run_saboteur, touched_by
from yielded_testing.suites import (
    CheckpointSuite,
    SettlementSuite,
    StorageSuite,
    SubmissionLedgerSuite,
    ThreadStoreSuite,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yielded_testing.cases import Case

CASES: Final = tuple(
    case
    for suite in (
        ThreadStoreSuite,
        CheckpointSuite,
        StorageSuite,
        SubmissionLedgerSuite,
        SettlementSuite,
    )
    for case in cases_of(suite)
)

SAMPLE: Final = 24
"""Cases of other rules that the short form runs over each saboteur; the long form runs all."""


@pytest.fixture(scope="module")
def touched() -> Mapping[str, frozenset[str]]:
    """What each case calls, recorded over a right storage."""
    return touched_by([case for case in CASES if not case.slow], open_storage, SABOTEURS)


def touching(saboteur: Saboteur, touched: Mapping[str, frozenset[str]]) -> tuple[Case, ...]:
    """Return the cases that could notice a saboteur; those that it names are left out."""
    return tuple(
        case
        for case in CASES
        if case.name != saboteur.caught_by and not case.slow and saboteur.touches & touched[case.id]
    )


def noticed_elsewhere(saboteur: Saboteur, cases: Sequence[Case]) -> list[str]:
    """Return which of some cases notice a saboteur without proving a rule that it breaks."""
    return [
        f"{each.case.id}: {each.detail}"
        for each in run_saboteur(saboteur, open_storage, cases)
        if each.result != "passed" and not set(each.case.rules) & set(saboteur.rules)
    ]


@pytest.mark.rule("CRT-8")
@pytest.mark.parametrize("saboteur", SABOTEURS, ids=[each.name for each in SABOTEURS])
def test_a_saboteur_is_caught(saboteur: Saboteur, touched: Mapping[str, frozenset[str]]) -> None:
    """By the case that it names; of the others that could notice it, an even sample is asked."""
    named = [case for case in CASES if case.name == saboteur.caught_by]
    results = {each.result for each in run_saboteur(saboteur, open_storage, named)}
    assert "failed" in results
    assert "crashed" not in results
    others = touching(saboteur, touched)
    assert noticed_elsewhere(saboteur, others[:: 1 + len(others) // SAMPLE]) == []


@pytest.mark.long
@pytest.mark.rule("CRT-8")
@pytest.mark.parametrize("saboteur", SABOTEURS, ids=[each.name for each in SABOTEURS])
def test_no_case_of_another_rule_notices_a_saboteur(
    saboteur: Saboteur, touched: Mapping[str, frozenset[str]]
) -> None:
    assert noticed_elsewhere(saboteur, touching(saboteur, touched)) == []


@pytest.mark.rule("CRT-8")
def test_a_saboteur_names_a_case_of_its_rule() -> None:
    rules: dict[str, set[str]] = {}
    for case in CASES:
        rules.setdefault(case.name, set()).update(case.rules)
    assert [each.name for each in SABOTEURS if not rules[each.caught_by] & set(each.rules)] == []


@pytest.mark.rule("CRT-8")
def test_saboteurs_are_distinct_and_say_what_is_wrong() -> None:
    assert len(SABOTEURS) >= 160
    names = Counter(each.name for each in SABOTEURS)
    sentences = Counter(each.wrong for each in SABOTEURS)
    assert {name for name, count in names.items() if count > 1} == set()
    assert {wrong for wrong, count in sentences.items() if count > 1} == set()
    assert [each.name for each in SABOTEURS if not re.fullmatch(r"[A-Z].+\.", each.wrong)] == []
