"""Decides what a SQLite file is before anything may write to it; creates the layout (LAY-1 to 4).

The order of opening: `inspect_store` refuses what is not ours without a trace; then an ordinary
connection takes the write lock and asks `verify_current` again, since another process may have been
faster; and only a store that is still fresh gets `create_layout`, in that same transaction.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yielded_core.errors import (
    StorageMisused,
    StorageReadOnly,
    StorageUnavailable,
    StoreRefused,
)
from yielded_core.layout.classify import Current, Fresh, ambiguous, classify
from yielded_core.layout.facts import Header
from yielded_core.layout.statements import DEFAULT_OPTIONS, layout_statements
from yielded_core.records.bounds import LAYOUT_VERSION, RECORD_FORMAT
from yielded_storage_sqlite.sniff import (
    StoreFiles,
    files_of,
    side_file,
    view_main_file,
    view_recovered_copy,
)
from yielded_storage_sqlite.sniff_schema import APPLICATION_ID, read_found, reference_facts
from yielded_storage_sqlite.sniff_wal import Overlay, journal_pages, read_overlay

if TYPE_CHECKING:
    import sqlite3

    from yielded_core.layout.facts import Facts

LOOKS: Final = 10
"""How often a file is looked at while a writer keeps changing it and the view is refused."""
PAUSE_SECONDS: Final = 0.02
"""Between two looks: longer than the clock tick of a file's modification time."""


def inspect_store(path: str | os.PathLike[str], *, shared: bool) -> Fresh | Current:
    """Say what the file at `path` is; it, its side files and its folder stay as they are (LAY-3).

    Blocks for some milliseconds, and up to a second while a writer changes a file that looks wrong:
    a refusal is believed when two looks at unchanged files agree. `shared` says that living in
    somebody else's database is meant (LAY-1). Raises StoreRefused with every reason of LAY-3,
    StorageUnavailable when the folder does not exist or the file cannot be read, StorageReadOnly
    when there is nothing yet and nothing may be created.
    """
    resolved = Path(os.path.realpath(path))
    expected = reference_facts()
    previous: tuple[StoreFiles, dict[str, object]] | None = None
    looks = 0
    while True:
        files = files_of(resolved)
        looks += 1
        try:
            return _look(resolved, files, expected, shared=shared)
        except StoreRefused as refused:
            seen = (files, refused.fields())
            if seen == previous or looks == LOOKS:
                raise
            previous = seen
        time.sleep(PAUSE_SECONDS)  # noqa: TID251 - there is no event: a clock has to tick


def verify_current(connection: sqlite3.Connection, *, shared: bool) -> Fresh | Current:
    """Say what an open database is, within the caller's transaction, which holds the write lock.

    Nothing is changed. Raises StoreRefused as `inspect_store` does, and sqlite3.Error.
    """
    return classify(reference_facts(), read_found(connection), shared=shared)


def create_layout(
    connection: sqlite3.Connection, *, incarnation: str, created_at: int, shared: bool
) -> Header:
    """Create every object and the header row inside the caller's open transaction (LAY-1).

    `created_at` is in milliseconds since 1970. A file that is a store and nothing else is also
    marked in its first page; in a shared one those marks are somebody else's. Raises StorageMisused
    outside a transaction, and sqlite3.Error.
    """
    if not connection.in_transaction:
        raise StorageMisused(detail="the layout is created inside a transaction")
    for statement in layout_statements("sqlite"):
        connection.execute(statement)
    header = Header(LAYOUT_VERSION, RECORD_FORMAT, DEFAULT_OPTIONS, incarnation, created_at)
    connection.execute(
        "INSERT INTO yielded_header (singleton, layout_version, record_format, options,"
        " incarnation, created_at, epoch_floor) VALUES (1, ?, ?, ?, ?, ?, 0)",
        (
            header.layout_version,
            header.record_format,
            header.options,
            header.incarnation,
            header.created_at,
        ),
    )
    if not shared:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
    return header


def _look(path: Path, files: StoreFiles, expected: Facts, *, shared: bool) -> Fresh | Current:
    if files.main is None or files.main.size == 0:
        return _without_content(path, files)
    overlay, undone = _side_content(path)
    if overlay is not None and undone is None:
        try:
            view = view_main_file(path)
            if not view.covered_by(overlay):
                return classify(expected, view.found, shared=shared)
        except StoreRefused as refused:
            decided = refused.reason not in ("ambiguous", "corrupt")
            if decided or not overlay.pages:
                raise
    return classify(expected, view_recovered_copy(path, files), shared=shared)


def _without_content(path: Path, files: StoreFiles) -> Fresh:
    """Accept a missing or empty file that may be created, unless side files tell of a lost one."""
    folder = path.parent
    if not folder.is_dir():
        raise StorageUnavailable(detail=f"the folder {folder} does not exist")
    overlay, undone = _side_content(path)
    if overlay is None or overlay.pages:
        raise ambiguous((f"{path} has no content, but its -wal has",))
    if undone:
        raise ambiguous((f"{path} has no content, but its -journal has",))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageReadOnly(detail=f"nothing may be created in the folder {folder}")
    if files.main is not None and not os.access(path, os.W_OK):
        raise StorageReadOnly(detail=f"{path} may not be written")
    return Fresh()


def _side_content(path: Path) -> tuple[Overlay | None, int | None]:
    """Return what the `-wal` holds and what the `-journal` would undo."""
    try:
        return read_overlay(side_file(path, "-wal")), journal_pages(side_file(path, "-journal"))
    except OSError as error:
        detail = f"a side file of {path} cannot be read: {error.strerror}"
        raise StorageUnavailable(detail=detail) from error
