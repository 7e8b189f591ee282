"""The suites as data: every case says what it shows and which rules it proves, and none is lost."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from yielded_testing.cases import cases_of
from yielded_testing.suites import (
    CheckpointSuite,
    DurableLedgerSuite,
    DurableSuite,
    SettlementSuite,
    StorageSuite,
    SubmissionLedgerSuite,
    ThreadStoreSuite,
)

if TYPE_CHECKING:
    from yielded_core.storage import Storage

SUITES: Final = (
    ThreadStoreSuite,
    SubmissionLedgerSuite,
    SettlementSuite,
    CheckpointSuite,
    StorageSuite,
    DurableSuite,
    DurableLedgerSuite,
)


@pytest.mark.parametrize("suite", SUITES)
def test_no_case_hides_another(suite: type) -> None:
    """Two bases with a case of the same name would run only one of them."""
    names = Counter(
        name for owner in suite.__mro__ for name in vars(owner) if name.startswith("test_")
    )
    assert {name for name, count in names.items() if count > 1} == set()


@pytest.mark.parametrize("suite", SUITES)
def test_every_case_proves_a_rule_and_says_what_it_shows(suite: type) -> None:
    for case in cases_of(suite):
        assert case.rules, case.id
        assert all(re.fullmatch(r"[A-Z]{3}-\d+", rule) for rule in case.rules), case.id
        assert case.summary.endswith("."), case.id
        assert case.fixtures <= {"storage", "clock", "open_again", "tmp_path"}, case.id


@pytest.mark.parametrize("suite", SUITES)
def test_case_ids_are_distinct(suite: type) -> None:
    ids = Counter(case.id for case in cases_of(suite))
    assert {name for name, count in ids.items() if count > 1} == set()


def test_parameters_are_expanded() -> None:
    cases = cases_of(_Suite)
    assert [case.id for case in cases] == [
        "test_product[b-1]",
        "test_product[b-2]",
        "test_product[named-1]",
        "test_product[named-2]",
        "test_pairs[x-True]",
        "test_pairs[given1-None]",
    ]
    assert cases[2].arguments == {"letter": "a", "number": 1}
    assert cases[5].arguments == {"given": "x" * 50, "flag": None}
    assert cases[0].rules == ("LOG-1", "LOG-2")
    assert [case.slow for case in cases] == [False, False, True, True, True, True]
    assert cases[0].fixtures == {"storage"}
    assert (cases[0].summary, cases[4].summary) == ("A product.", "")


class _Suite:
    @pytest.mark.rule("LOG-1", "LOG-2")
    @pytest.mark.parametrize("number", [1, 2])
    @pytest.mark.parametrize(
        "letter", ["b", pytest.param("a", id="named", marks=pytest.mark.slow_case)]
    )
    async def test_product(self, storage: Storage, number: int, letter: str) -> None:
        """A product.

        More of it.
        """
        del storage, number, letter

    @pytest.mark.slow_case
    @pytest.mark.parametrize(("given", "flag"), [("x", True), ("x" * 50, None)])
    async def test_pairs(self, *, given: str, flag: bool | None) -> None:
        del given, flag
