"""Renders the two tables of the ledger for people: `python -m yielded_core.ledger.page FOLDER`.

The state machine and the recovery classifier are data; these pages show the data that decides.
"""

from __future__ import annotations

import sys
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yielded_core.errors import (
    ApprovalConflict,
    ChildReservationConflict,
    MarkerConflict,
    UnknownCallNotFound,
    UnknownResolutionConflict,
)
from yielded_core.ledger.recovery import RECOVERY
from yielded_core.ledger.transitions import ALL, TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yielded_core.errors import SubmissionError
    from yielded_core.ledger.transitions import Operation, Transition

TRANSITIONS_PAGE: Final = "transitions.md"
RECOVERY_PAGE: Final = "recovery.md"
_RECOVERY_HEAD: Final = """\
# What recovery decides

Made by `python -m yielded_core.ledger.page` from the table that decides; do not edit it. The rules
are [RCV-1 to RCV-11](ledger.md#recovery). The first row that fits decides, and the last one always
fits. Under RCV-12 evidence that cannot be read is `Blocked`, which permits nothing.

| rule | situation | decision |
| --- | --- | --- |
"""
_HEAD: Final = """\
# What each operation does in each state

Made by `python -m yielded_core.ledger.page` from the table that decides; do not edit it. The rules
behind it are [LED-3 to LED-14](ledger.md#the-submission-ledger). Of the rows of an operation the
first one decides whose states and condition fit.

Renewing and releasing a lease change no state: they need the token that owns the lane (LED-6).

`same` leaves the state as it is. `resumed` is what the submission was before it waited:
input-applied once its input is marked, else running. `none` answers that there is nothing to do.
"""
_CONFLICTS: Final[Mapping[Operation, tuple[type[SubmissionError], ...]]] = {
    "mark-input-applied": (MarkerConflict,),
    "mark-joined": (MarkerConflict,),
    "record-approval-decision": (ApprovalConflict,),
    "record-unknown-resolution": (UnknownCallNotFound, UnknownResolutionConflict),
    "change-reservation": (ChildReservationConflict,),
}
"""What an operation finds recorded otherwise."""


def render_transitions() -> str:
    """Return the state machine as Markdown, one section for each operation."""
    sections = [_HEAD]
    for operation, rows in groupby(TRANSITIONS, attrgetter("operation")):
        sections.append(f"## {operation}\n")
        sections.append("| state | condition | next state | error |")
        sections.append("| --- | --- | --- | --- |")
        sections.extend(_row(row) for row in rows)
        sections.append("")
    return "\n".join(sections)


def render_recovery() -> str:
    """Return the recovery classifier as Markdown, one row for each of its rows."""
    rows = (f"| {row.rule} | {row.situation} | {row.decision.__name__} |\n" for row in RECOVERY)
    return _RECOVERY_HEAD + "".join(rows)


def _row(row: Transition) -> str:
    states = "any" if row.states == ALL else ", ".join(row.states)
    return f"| {states} | {row.guard.name} | {row.then or ''} | {_error(row)} |"


def _error(row: Transition) -> str:
    if row.refusal != "conflict":
        return row.refusal or ""
    return ", ".join(error.code for error in _CONFLICTS[row.operation])


def main(arguments: Sequence[str]) -> None:
    """Write the pages into the folder that is given."""
    (folder,) = arguments
    Path(folder, TRANSITIONS_PAGE).write_text(render_transitions(), encoding="utf-8")
    Path(folder, RECOVERY_PAGE).write_text(render_recovery(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
