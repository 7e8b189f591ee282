"""Deliberately wrong adapters, each one small mistake, and the sweep that must find each (CRT-8).

A saboteur that no case finds is a hole in the suites; one that fails a case of another rule shows
that the case is marked too narrowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_testing.clock import wrapping
from yielded_testing.running import run_cases
from yielded_testing.saboteurs import (
    archived_work,
    archives,
    bundle,
    ledger_admission,
    ledger_finding,
    ledger_joining,
    ledger_lanes,
    ledger_leases,
    ledger_settling,
    ledger_waiting,
    reading,
    records,
    recovering,
    runs,
    writing,
)
from yielded_testing.saboteurs.model import Saboteur
from yielded_testing.saboteurs.touching import touched_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from yielded_testing.cases import Case
    from yielded_testing.clock import OpenStorage
    from yielded_testing.running import Outcome

__all__ = ["SABOTEURS", "Saboteur", "run_saboteur", "touched_by"]

SABOTEURS: Final = (
    *records.SABOTEURS,
    *writing.SABOTEURS,
    *reading.SABOTEURS,
    *runs.SABOTEURS,
    *archives.SABOTEURS,
    *archived_work.SABOTEURS,
    *bundle.SABOTEURS,
    *ledger_admission.SABOTEURS,
    *ledger_lanes.SABOTEURS,
    *ledger_leases.SABOTEURS,
    *ledger_settling.SABOTEURS,
    *ledger_joining.SABOTEURS,
    *ledger_waiting.SABOTEURS,
    *ledger_finding.SABOTEURS,
    *recovering.SABOTEURS,
)

_PATIENCE: Final = 1.0
"""Seconds; a wrong adapter that never answers costs no more for each case."""


def run_saboteur(
    saboteur: Saboteur,
    open_storage: OpenStorage,
    cases: Iterable[Case],
    *,
    touched: Mapping[str, frozenset[str]] | None = None,
) -> list[Outcome]:
    """Run cases over a saboteur of a storage, each over a storage of its own.

    `open_storage` returns a right storage, not yet opened, of a fresh store. Slow cases are left
    out, but for the one that must find the saboteur. With `touched`, which `touched_by` gives,
    cases that call nothing of what is wrong are left out too: they cannot notice anything.
    """
    chosen = [
        case
        for case in cases
        if case.name == saboteur.caught_by
        or (not case.slow and (touched is None or saboteur.touches & touched[case.id]))
    ]
    with saboteur.active():
        return run_cases(chosen, wrapping(open_storage, saboteur.wrap), patience=_PATIENCE)
