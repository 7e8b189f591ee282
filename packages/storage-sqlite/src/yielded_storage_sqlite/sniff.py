"""Looks at a SQLite file without changing it, its side files or this process's locks (LAY-3).

Two ways to look. The main file alone, through SQLite with `immutable=1`: no lock, no side file, and
safe beside an open connection because SQLite itself keeps the descriptor while its process holds
locks. And, when side files hold more than that view shows, a private copy that SQLite recovers; a
child process makes it, since opening and closing the file here would drop this process's locks.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.errors import StorageUnavailable, StoreRefused
from yielded_core.layout.statements import HEADER_TABLE
from yielded_storage_sqlite.sniff_schema import pragma, read_found
from yielded_storage_sqlite.sniff_wal import Marks, Overlay

if TYPE_CHECKING:
    from collections.abc import Generator

    from yielded_core.layout.facts import Found

_COPY_PROGRAM: Final = """
import shutil, sys
for suffix in ("-wal", "-journal", ""):
    try:
        shutil.copyfile(sys.argv[1] + suffix, sys.argv[2] + suffix)
    except FileNotFoundError:
        pass
    except OSError as error:
        sys.exit(error.strerror)
"""
_PRIMARY_CODE: Final = 0xFF
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT})
"""A schema that does not parse is an SQLITE_ERROR."""


class FileState(NamedTuple):
    """What tells one state of a file from another without opening it."""

    inode: int
    size: int
    modified: int


class StoreFiles(NamedTuple):
    """The files of a database at one moment; None where there is none."""

    main: FileState | None
    wal: FileState | None
    journal: FileState | None

    @property
    def total_bytes(self) -> int:
        """How much a copy takes."""
        return sum(state.size for state in self if state is not None)


class View(NamedTuple):
    """What the main file shows by itself."""

    found: Found
    marks: Marks
    page_size: int
    header_root: int | None
    """The page that holds the header row; None without a header table."""

    def covered_by(self, overlay: Overlay) -> bool:
        """Whether the pages of a `-wal` could show another schema or another header row."""
        if not overlay.pages:
            return False
        return (
            overlay.page_size != self.page_size
            or overlay.marks not in (None, self.marks)
            or self.header_root in overlay.pages
        )


def side_file(path: Path, suffix: str) -> Path:
    """Return the path of a database's `-wal` or `-journal`."""
    return path.with_name(path.name + suffix)


def files_of(path: Path) -> StoreFiles:
    """Return the present state of a database's files, without opening any.

    Raises StoreRefused (`not-a-database`) for what is no regular file, StorageUnavailable for what
    cannot be looked at.
    """
    return StoreFiles(
        _state(path), _state(side_file(path, "-wal")), _state(side_file(path, "-journal"))
    )


def _state(path: Path) -> FileState | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        detail = f"{path} cannot be looked at: {error.strerror}"
        raise StorageUnavailable(detail=detail) from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreRefused(reason="not-a-database", detail=f"{path} is no regular file")
    return FileState(found.st_ino, found.st_size, found.st_mtime_ns)


def view_main_file(path: Path) -> View:
    """Read the main file alone, as it is. Raises as `translated` does.

    SQLite fills up a last page that is cut short, and takes one byte for an empty file; both are
    refused here.
    """
    uri = f"{path.as_uri()}?mode=ro&immutable=1&cache=private"
    with translated(path), closing(_connect(uri, uri=True)) as connection:
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND lower(name) = ?",
            (HEADER_TABLE,),
        ).fetchone()
        view = View(
            read_found(connection),
            Marks(*(_integer(connection, name) for name in Marks._fields)),
            _integer(connection, "page_size"),
            None if root is None else root[0],
        )
        pages = _integer(connection, "page_count")
    if pages == 0:
        raise StoreRefused(reason="not-a-database", detail=f"{path} is not a SQLite database")
    state = _state(path)
    if state is None or state.size < pages * view.page_size:
        raise StoreRefused(reason="corrupt", detail=f"{path} is cut short")
    return view


def view_recovered_copy(path: Path, files: StoreFiles) -> Found:
    """Read a private copy in which SQLite has played back `-wal` and `-journal`.

    Costs a child process and the space of the files in the folder for temporary files, and is
    needed only while side files hold a change of schema or header. Raises StorageUnavailable when
    the copy cannot be made, otherwise as `translated` does.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="yielded-inspect-"))
            copy = Path(folder) / "store"
            _copy(path, copy, files.total_bytes)
        except OSError as error:
            raise _not_copied(path, error.strerror or "no reason given") from error
        with translated(path), closing(_connect(os.fspath(copy), uri=False)) as connection:
            return read_found(connection)


def _copy(path: Path, copy: Path, total_bytes: int) -> None:
    if shutil.disk_usage(copy.parent).free < total_bytes:
        raise _not_copied(path, f"that takes {total_bytes} bytes of temporary space")
    made = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _COPY_PROGRAM, path, copy],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if made.returncode != 0:
        raise _not_copied(path, made.stderr.strip()[-200:] or f"status {made.returncode}")


def _not_copied(path: Path, reason: str) -> StorageUnavailable:
    return StorageUnavailable(detail=f"{path} cannot be copied to be looked at: {reason}")


def _connect(database: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(database, uri=uri, isolation_level=None)


def _integer(connection: sqlite3.Connection, name: str) -> int:
    value = pragma(connection, name)
    return value if isinstance(value, int) else 0


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Turn what SQLite raises into what we raise.

    StoreRefused (`not-a-database`, `corrupt`), or StorageUnavailable for what is no property of the
    file.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY_CODE
        name = getattr(error, "sqlite_errorname", "undecodable text")
        if code == sqlite3.SQLITE_NOTADB:
            detail = f"{path} is not a SQLite database"
            raise StoreRefused(reason="not-a-database", detail=detail) from error
        if code in _DAMAGE:
            detail = f"{path} is damaged or cut short ({name})"
            raise StoreRefused(reason="corrupt", detail=detail) from error
        raise StorageUnavailable(detail=f"{path} cannot be read ({name})") from error
