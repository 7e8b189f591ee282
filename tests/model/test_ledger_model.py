"""The adapters do what the model of accepted work says, whatever they are given in which order.

The short form runs with every other test. The long form (`-m long`) goes on until every command
did something, and was refused, a hundred times (twenty on PostgreSQL, which takes longer), every
row of the transition table decided, and every row of the recovery classifier did so several times;
`-s` shows the counts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from yielded_core import recovering
from yielded_core.ledger import transitions
from yielded_core.ledger.recovery import RECOVERY, deciding_row
from yielded_core.ledger.transitions import ALL, TRANSITIONS, Transition
from yielded_storage_memory import open_storage as open_memory
from yielded_storage_sqlite import open_storage as open_sqlite
from yielded_testing.model import Adapter, Tally, check_ledger
from yielded_testing.saboteurs.model import WrongRule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from yielded_core.ledger.recovery_evidence import CanonicalFacts
    from yielded_core.ports.work import RecoverySnapshot
    from yielded_core.storage import Storage

MOST_ROUNDS: Final = 24
EXAMPLES_OF_A_ROUND: Final = 200
SEVERAL: Final = 20
"""How often every row of the classifier must have decided."""
UNREFUSED: Final = frozenset({"Advance", "NewIncarnation", "Reopen"})
"""What nothing refuses."""
UNCHANGING: Final = frozenset({"Reopen"})
"""What changes nothing that can be seen."""
TITLES: Final = 32
"""Commands that every adapter is given: each resolution and each authority counts by itself."""


DECIDED: Final = [(row.rule, row.situation) for row in RECOVERY]
"""What must have decided as often as SEVERAL says."""


class Case(NamedTuple):
    """An adapter, and how many sequences of how many commands the short form tries on it."""

    adapter: Adapter
    examples: int
    steps: int
    enough: int = 100
    """How often every command must do something, and be refused, in the long form."""


def _memory(folder: Path, clock: Callable[[], int]) -> Storage:
    del folder
    return open_memory(clock=clock)


def _sqlite(folder: Path, clock: Callable[[], int]) -> Storage:
    return open_sqlite(f"sqlite:///{folder}/store.db", clock=clock)


MEMORY: Final = Case(Adapter(_memory, survives_reopening=False), 63, 60)
SQLITE: Final = Case(Adapter(_sqlite, survives_reopening=True), 18, 36)
CASES: Final = (
    pytest.param(MEMORY, id="memory"),
    pytest.param(SQLITE, id="sqlite"),
    pytest.param(None, id="postgres"),  # on a server that the session starts
)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    given: Case | None = request.param
    if given is not None:
        return given
    stores = request.getfixturevalue("postgres_stores")
    return Case(Adapter(stores, survives_reopening=True), 12, 25, enough=20)


@pytest.mark.rule(
    "CRT-11",
    "LED-1",
    "LED-2",
    "LED-3",
    "LED-4",
    "LED-5",
    "LED-6",
    "LED-7",
    "LED-8",
    "LED-9",
    "LED-10",
    "LED-11",
    "LED-12",
    "LED-13",
    "LED-14",
    "LED-15",
    "LED-17",
)
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_an_adapter_does_what_the_model_says(case: Case) -> None:
    tally = check_ledger(case.adapter, examples=case.examples, steps=case.steps)
    assert tally.total() >= case.examples * case.steps // 2


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.rule("CRT-11")
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_every_command_and_every_row_is_reached(case: Case) -> None:
    tally = Tally()
    rows: Counter[Transition] = Counter()
    decided: Counter[tuple[str, str]] = Counter()
    stepping = WrongRule(transitions, "step", lambda right: _counted(right, rows))
    deciding = WrongRule(recovering, "classify", lambda right: _decided(right, decided))
    with stepping.active(), deciding.active():
        for _ in range(MOST_ROUNDS):
            tally.update(check_ledger(case.adapter, examples=EXAMPLES_OF_A_ROUND))
            if (
                not _missing(tally, case.enough)
                and len(rows) == len(TRANSITIONS)
                and not _seldom(decided)
            ):
                break
    lines = (*tally.lines(), *_row_lines(rows), *_decision_lines(decided))
    print("", *lines, sep="\n")  # noqa: T201 - the counts
    assert _missing(tally, case.enough) == {}
    assert _seldom(decided) == {}
    assert [_row_name(row) for row in TRANSITIONS if row not in rows] == []
    assert len(tally.titles()) == TITLES + case.adapter.survives_reopening


def _counted(right: Callable[..., Transition], rows: Counter[Transition]) -> Callable[..., Any]:
    """The right rule, which counts the rows that decide."""

    def step(*arguments: object) -> Transition:
        row = right(*arguments)
        rows[row] += 1
        return row

    return step


def _decided(
    right: Callable[..., object], decided: Counter[tuple[str, str]]
) -> Callable[..., object]:
    """The right classifier, which counts the rows that decide."""

    def classify(snapshot: RecoverySnapshot, facts: CanonicalFacts) -> object:
        row = deciding_row(snapshot, facts)
        decided[row.rule, row.situation] += 1
        return right(snapshot, facts)

    return classify


def _missing(tally: Tally, enough: int) -> dict[str, tuple[int, int]]:
    """Return the commands that did too little, or were refused too seldom."""
    counts = {title: (tally[title, "changed"], tally[title, "refused"]) for title in tally.titles()}
    return {
        title: (changed, refused)
        for title, (changed, refused) in counts.items()
        if (title not in UNCHANGING and changed < enough)
        or (title not in UNREFUSED and refused < enough)
    }


def _seldom(decided: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the rows of the classifier that decided too seldom."""
    return {row: decided[row] for row in DECIDED if decided[row] < SEVERAL}


def _row_lines(rows: Counter[Transition]) -> list[str]:
    return [f"{rows[row]:>8}  {_row_name(row)}" for row in TRANSITIONS]


def _decision_lines(decided: Counter[tuple[str, str]]) -> list[str]:
    return [
        f"{decided[row.rule, row.situation]:>8}  {row.rule}: {row.situation}" for row in RECOVERY
    ]


def _row_name(row: Transition) -> str:
    states = "any" if row.states == ALL else ", ".join(row.states)
    guard = f" ({row.guard.name})" if row.guard.name else ""
    return f"{row.operation}: {states}{guard} -> {row.then or row.refusal}"
