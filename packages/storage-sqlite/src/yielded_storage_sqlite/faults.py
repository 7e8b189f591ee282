"""The one place where an error of SQLite becomes one of ours; the cause is chained."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from yielded_core.errors import (
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)

_BUSY: Final = "another process is writing; try again"
_FULL: Final = "the disk is full; free some space"
_READ_ONLY: Final = "the file or its folder cannot be written; check their permissions"
_CORRUPT: Final = "SQLite reports damage; verify the threads and restore a backup"

_BY_CODE: Final[dict[int, tuple[type[StorageError], str]]] = {
    sqlite3.SQLITE_BUSY: (StorageBusy, _BUSY),
    sqlite3.SQLITE_LOCKED: (StorageBusy, _BUSY),
    sqlite3.SQLITE_FULL: (StorageFull, _FULL),
    sqlite3.SQLITE_READONLY: (StorageReadOnly, _READ_ONLY),
    sqlite3.SQLITE_PERM: (StorageReadOnly, _READ_ONLY),
    sqlite3.SQLITE_CORRUPT: (StorageCorrupt, _CORRUPT),
    sqlite3.SQLITE_NOTADB: (StorageCorrupt, _CORRUPT),
    sqlite3.SQLITE_CONSTRAINT: (StorageCorrupt, "a stored row contradicts the layout; verify"),
    sqlite3.SQLITE_CANTOPEN: (StorageUnavailable, "the file cannot be opened; check its folder"),
    sqlite3.SQLITE_IOERR: (StorageUnavailable, "reading or writing the file failed"),
    sqlite3.SQLITE_NOMEM: (StorageUnavailable, "SQLite has no memory left"),
    sqlite3.SQLITE_TOOBIG: (StorageUnavailable, "a value is larger than this SQLite admits"),
}
_BY_EXTENDED_CODE: Final = {
    sqlite3.SQLITE_IOERR_SHMSIZE: (StorageFull, _FULL),  # the index of the log could not grow
}
_BY_ERRNO: Final[dict[int, tuple[type[StorageError], str]]] = {
    errno.ENOSPC: (StorageFull, _FULL),
    errno.EDQUOT: (StorageFull, "the disk quota is used up; free some space"),
    errno.EACCES: (StorageReadOnly, _READ_ONLY),
    errno.EPERM: (StorageReadOnly, _READ_ONLY),
    errno.EROFS: (StorageReadOnly, _READ_ONLY),
}
_PRIMARY_CODE: Final = 0xFF


def storage_fault(error: sqlite3.Error) -> StorageError:
    """Return the typed error for an error of SQLite; raise it `from` the original."""
    code = getattr(error, "sqlite_errorcode", None)
    kind, detail = StorageUnavailable, "SQLite failed in a way that has no name here"
    if isinstance(code, int):
        kind, detail = _BY_CODE.get(code & _PRIMARY_CODE, (kind, detail))
        kind, detail = _BY_EXTENDED_CODE.get(code, (kind, detail))
    name = getattr(error, "sqlite_errorname", None)
    return kind(f"{detail} ({name})" if name else detail)


def file_fault(error: OSError) -> StorageError:
    """Return the typed error for the lock file or its folder; raise it `from` the original."""
    detail = f"the lock file beside it cannot be opened ({error.strerror})"
    kind, detail = _BY_ERRNO.get(error.errno or 0, (StorageUnavailable, detail))
    return kind(detail)
