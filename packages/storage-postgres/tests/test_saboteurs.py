"""The saboteurs of the test kit, each a wrong PostgreSQL adapter that a case of its rule finds.

A mistake in a rule shows where the rule is asked, which is in transactions: here no operation is
committed by a statement of its own. Those have saboteurs of their own (`statement_saboteurs.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from emptied import EmptiedStores

from yielded_core.log import retention
from yielded_core.sql import ledger_statements
from yielded_storage_postgres.database import Database
from yielded_testing.cases import cases_of
from yielded_testing.saboteurs import SABOTEURS, Saboteur, run_saboteur
from yielded_testing.saboteurs.model import WrongRule
from yielded_testing.suites import (
    CheckpointSuite,
    SettlementSuite,
    StorageSuite,
    SubmissionLedgerSuite,
    ThreadStoreSuite,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

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
SETTLED: Final = "s.state <> 'settled'"
"""Where the statement that finds the heads of a lane says what is skipped."""


def _heads(right: str, wrong: str) -> WrongRule:
    """Return the mistake that the statement of a lane's heads says one thing otherwise."""
    return WrongRule(ledger_statements, "HEADS", lambda text: text.replace(right, wrong))


IN_SQL: Final[Mapping[str, WrongRule]] = {
    **{
        name: _heads(SETTLED, f"{SETTLED} AND s.state <> '{state}'")
        for name, state in (
            ("suspended-head-skipped", "suspended"),
            ("admitted-gap-skipped", "admitted"),
            ("joining-head-skipped", "joining"),
            ("joined-head-skipped", "joined"),
        )
    },
    "aborted-unknown-skipped": _heads(" OR s.abort_at IS NOT NULL", ""),
    "timeline-one-step-on": WrongRule(retention, "RESTORE_LEAP", lambda _: 1),
}
"""The mistakes in rules that a SQL adapter does not call: it says the same in a statement."""
ALL: Final = tuple(replace(each, mistake=IN_SQL.get(each.name, each.mistake)) for each in SABOTEURS)
SAMPLE: Final = 16
"""One saboteur of so many is tried in the short form, from the fifth on, whose cases are quick."""


@pytest.fixture(scope="module")
def stores(postgres_url: str, suite_schemas: list[str]) -> EmptiedStores:
    return EmptiedStores(postgres_url, suite_schemas)


@pytest.fixture(autouse=True)
def only_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> list[object]:
        return []

    monkeypatch.setattr(Database, "alone", nothing)


def catches(saboteur: Saboteur, stores: EmptiedStores) -> None:
    """The case that a saboteur names fails over it, and does not crash."""
    named = [case for case in CASES if case.name == saboteur.caught_by]
    outcomes = run_saboteur(saboteur, stores, named)
    results = {each.result for each in outcomes}
    assert "failed" in results, outcomes
    assert "crashed" not in results, outcomes


@pytest.mark.rule("CRT-8")
@pytest.mark.parametrize("saboteur", ALL[4::SAMPLE], ids=lambda each: each.name)
def test_a_saboteur_is_caught(saboteur: Saboteur, stores: EmptiedStores) -> None:
    catches(saboteur, stores)


@pytest.mark.long
@pytest.mark.rule("CRT-8")
@pytest.mark.parametrize("saboteur", ALL, ids=lambda each: each.name)
def test_every_saboteur_is_caught(saboteur: Saboteur, stores: EmptiedStores) -> None:
    catches(saboteur, stores)
