"""The transition table is total, names each error, and is what the documentation shows."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Final, get_args

import pytest

from yielded_core.errors import ApprovalConflict
from yielded_core.ledger.page import (
    RECOVERY_PAGE,
    TRANSITIONS_PAGE,
    main,
    render_recovery,
    render_transitions,
)
from yielded_core.ledger.transitions import (
    ALL,
    TRANSITIONS,
    Facts,
    Operation,
    Transition,
    step,
)

DOCS: Final = Path(__file__).parents[4] / "docs" / "contract"
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
CONFLICT: Final = ApprovalConflict("thread", "submission", "call", "denied")
FLAGS: Final = tuple(name for name in Facts._fields if name != "conflict")


def every_facts() -> list[Facts]:
    """Return every combination of what a guard can look at, one conflict apart."""
    combinations = product((False, True), repeat=len(FLAGS))
    return [Facts()._replace(**dict(zip(FLAGS, values, strict=True))) for values in combinations]


@pytest.mark.rule("LED-3", "LED-4", "LED-7", "LED-10", "LED-11", "LED-13")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_has_an_answer_in_each_state_whatever_the_facts(
    operation: Operation,
) -> None:
    for state, facts in product(ALL, every_facts()):
        row = step(operation, state, facts)
        assert (row.then is None) != (row.refusal is None)


@pytest.mark.rule("LED-8")
def test_nothing_but_a_finalization_settles_and_nothing_leaves_settled() -> None:
    reaching = {row.operation for row in TRANSITIONS if row.then == "settled"}
    assert reaching == {"finalize-settlement"}
    for operation, facts in product(OPERATIONS, every_facts()):
        assert step(operation, "settled", facts).then in {None, "same", "none"}


@pytest.mark.rule("LED-4")
def test_every_row_decides_for_some_state_and_facts() -> None:
    conflict = [facts._replace(conflict=CONFLICT) for facts in every_facts()]
    reached: set[Transition] = set()
    for operation, state in product(OPERATIONS, ALL):
        reached.update(step(operation, state, facts) for facts in every_facts() + conflict)
    assert reached == set(TRANSITIONS)


@pytest.mark.rule("LED-3")
def test_the_pages_show_the_tables_that_decide(tmp_path: Path) -> None:
    main([str(tmp_path)])
    for name, text in (
        (TRANSITIONS_PAGE, render_transitions()),
        (RECOVERY_PAGE, render_recovery()),
    ):
        assert (DOCS / name).read_text(encoding="utf-8") == text
        assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_a_conflict_is_shown_by_the_codes_of_its_errors() -> None:
    page = render_transitions()
    assert "| any | what is recorded says otherwise |  | approval-conflict |" in page
    assert "| conflict |" not in page
