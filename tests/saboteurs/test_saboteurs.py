"""Every saboteur is found by the case that it names, and by cases of its own rules alone."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from yielded_storage_memory import open_storage
from yielded_testing.cases import cases_of
from yielded_testing.saboteurs import SABOTEURS, Saboteur, run_saboteur, touched_by
from yielded_testing.suites import CheckpointSuite, StorageSuite, ThreadStoreSuite

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES: Final = tuple(
    case for suite in (ThreadStoreSuite, CheckpointSuite, StorageSuite) for case in cases_of(suite)
)


@pytest.fixture(scope="module")
def touched() -> Mapping[str, frozenset[str]]:
    """What each case calls, recorded over a right storage."""
    return touched_by([case for case in CASES if not case.slow], open_storage, SABOTEURS)


@pytest.mark.rule("CRT-8")
@pytest.mark.parametrize("saboteur", SABOTEURS, ids=[each.name for each in SABOTEURS])
def test_a_saboteur_is_caught(saboteur: Saboteur, touched: Mapping[str, frozenset[str]]) -> None:
    outcomes = run_saboteur(saboteur, open_storage, CASES, touched=touched)
    named = {each.result for each in outcomes if each.case.name == saboteur.caught_by}
    assert "failed" in named
    assert "crashed" not in named
    others = [
        f"{each.case.id}: {each.detail}"
        for each in outcomes
        if each.result != "passed" and not set(each.case.rules) & set(saboteur.rules)
    ]
    assert others == []


@pytest.mark.rule("CRT-8")
def test_a_saboteur_names_a_case_of_its_rule() -> None:
    rules = {case.name: set(case.rules) for case in CASES}
    assert [each.name for each in SABOTEURS if not rules[each.caught_by] & set(each.rules)] == []


@pytest.mark.rule("CRT-8")
def test_saboteurs_are_distinct_and_say_what_is_wrong() -> None:
    assert len(SABOTEURS) >= 25
    names = Counter(each.name for each in SABOTEURS)
    sentences = Counter(each.wrong for each in SABOTEURS)
    assert {name for name, count in names.items() if count > 1} == set()
    assert {wrong for wrong, count in sentences.items() if count > 1} == set()
    assert [each.name for each in SABOTEURS if not re.fullmatch(r"[A-Z].+\.", each.wrong)] == []
