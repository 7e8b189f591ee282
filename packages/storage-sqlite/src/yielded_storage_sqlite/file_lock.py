"""The lock that writers of one file queue for: fair between processes, unlike SQLite's own.

SQLite's busy handler sleeps and tries again, so that one of several busy processes can starve for a
second; the kernel hands a file lock on in order. It is a file of its own beside the database,
because opening and closing the database itself would drop this process's locks on it.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from typing import TYPE_CHECKING, Final, Self

from yielded_core.errors import StorageMisused

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK_SUFFIX: Final = "-writer"


class FileLock:
    """An exclusive lock between processes, and between storages of one process."""

    def __init__(self, database: str) -> None:
        """Open the lock file, making it if needed. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._file: int | None = os.open(database + LOCK_SUFFIX, flags, 0o666)
        # A forked child shares the lock with its parent; if it kept the file, a parent that dies
        # while it holds the lock would leave it locked for as long as the child lives.
        os.register_at_fork(after_in_child=_closing(self))

    def __enter__(self) -> Self:
        """Wait for the lock, in order of arrival."""
        if self._file is None:
            raise StorageMisused("the lock between writers was given back")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        """Hand the lock on."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the lock file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _closing(lock: FileLock) -> Callable[[], None]:
    known = weakref.ref(lock)

    def close() -> None:
        held = known()
        if held is not None:
            held.close()

    return close
