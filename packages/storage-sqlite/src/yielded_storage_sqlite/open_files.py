"""Which files a storage has open: what stands under their names must still be these.

SQLite goes on writing to a file that was removed or replaced under its name, and nobody would ever
read what it wrote. So the names are looked up before each commit and each read: by `stat`, since
opening and closing one of these files would drop this process's locks on it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from yielded_core.errors import StorageUnavailable

_LOG: Final = "-wal"
_SUFFIXES: Final = ("", _LOG, "-shm")
"""The database, its write-ahead log and the index of that log."""


class OpenFiles:
    """The files of one database, as they were when a connection had just opened all of them."""

    def __init__(self, database: str) -> None:
        """Look at the files. Raises StorageUnavailable when one of them is not there."""
        self._paths = tuple(Path(database + suffix) for suffix in _SUFFIXES)
        self._opened = tuple(_identity(path) for path in self._paths)

    def check(self) -> None:
        """Raise StorageUnavailable when a name leads to another file by now, or to none."""
        for path, opened in zip(self._paths, self._opened, strict=True):
            if _identity(path) != opened:
                raise _changed()

    def log_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        try:
            return self._paths[_SUFFIXES.index(_LOG)].stat().st_size
        except OSError as error:
            raise _changed() from error


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise _changed() from error
    return found.st_dev, found.st_ino


def _changed() -> StorageUnavailable:
    detail = "the file or a side file was removed or replaced; put it back, or open the store again"
    return StorageUnavailable(detail)
