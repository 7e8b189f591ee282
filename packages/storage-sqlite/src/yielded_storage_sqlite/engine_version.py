"""What the SQLite that runs here lacks, for an operator to know (STO-1)."""

from __future__ import annotations

import sqlite3
from typing import Final

_FIXED: Final = (3, 51, 3)
_FIXED_BRANCHES: Final = ((3, 50, 7), (3, 44, 6))
"""Releases that brought the fix of the write-ahead log's reset, the first one for all later."""


def resets_log_safely(version: tuple[int, int, int]) -> bool:
    """Say whether a SQLite may write and checkpoint on two connections at the same moment.

    Before the fix, a checkpoint that raced with a commit which began the write-ahead log anew could
    leave out committed pages later on.
    """
    return version >= _FIXED or any(
        version[:2] == branch[:2] and version >= branch for branch in _FIXED_BRANCHES
    )


def engine_notes(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> tuple[str, ...]:
    """Return what to know about a version of SQLite; nothing for one without known faults."""
    if resets_log_safely(version):
        return ()
    number = ".".join(str(part) for part in version)
    note = (
        f"SQLite {number} lacks the fix of the write-ahead log's reset (3.51.3, 3.50.7, 3.44.6): "
        "only writers of this package checkpoint, one at a time under their lock file; let no "
        "other program write to the file or checkpoint it"
    )
    return (note,)
