"""What each case calls of a storage and of the rules, so that a sweep can leave out the rest."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from yielded_testing.clock import wrapping
from yielded_testing.running import run_cases
from yielded_testing.saboteurs.model import WrongRule
from yielded_testing.saboteurs.proxies import (
    Archives,
    Bundle,
    Checkpoints,
    Ledger,
    Settlements,
    Threads,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_testing.cases import Case
    from yielded_testing.clock import OpenStorage
    from yielded_testing.saboteurs.model import Saboteur


def touched_by(
    cases: Iterable[Case], open_storage: OpenStorage, saboteurs: Iterable[Saboteur]
) -> dict[str, frozenset[str]]:
    """Run cases over a right storage and return what each calls, by its id.

    That is the operations of the ports, and those rules that one of the saboteurs replaces; a rule
    that is no function counts as called. Raises AssertionError for a case that fails: over a right
    storage none may.
    """
    seen: set[str] = set()
    always: set[str] = set()
    touched: dict[str, frozenset[str]] = {}
    recording = _recording(seen)
    with ExitStack() as rules:
        for saboteur in saboteurs:
            rule = saboteur.mistake
            if isinstance(rule, WrongRule):
                noted = WrongRule(rule.module, rule.name, partial(_noted, seen, always, rule.name))
                rules.enter_context(noted.active())
        for case in cases:
            seen.clear()
            outcome = run_cases([case], wrapping(open_storage, recording))[0]
            assert outcome.result == "passed", f"{case.id}: {outcome.detail}"
            touched[case.id] = frozenset(seen | always)
    return touched


def _noted(seen: set[str], always: set[str], name: str, right: Any) -> Any:  # noqa: ANN401 - a rule
    if not callable(right):
        always.add(name)
        return right

    @wraps(right)
    def noted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the rule takes
        seen.add(name)
        return right(*arguments, **named)

    return noted


def _recording(seen: set[str]) -> type[Bundle]:
    """Return a storage that notes the name of everything that is asked of it."""

    class Noting:
        def __getattribute__(self, name: str) -> object:
            seen.add(name)
            return super().__getattribute__(name)

    return type(
        "Recording",
        (Noting, Bundle),
        {
            "threads_type": type("RecordingThreads", (Noting, Threads), {}),
            "archives_type": type("RecordingArchives", (Noting, Archives), {}),
            "checkpoints_type": type("RecordingCheckpoints", (Noting, Checkpoints), {}),
            "ledger_type": type("RecordingLedger", (Noting, Ledger), {}),
            "settlements_type": type("RecordingSettlements", (Noting, Settlements), {}),
        },
    )
