"""Which pages a `-wal` file holds beyond the main file, read without SQLite.

No POSIX lock is ever taken on a `-wal` or `-journal`, so reading one in a process that has the
store open drops nothing; the main file and `-shm` are never opened here. Checksums are not
verified: counting a frame that SQLite would not count only makes the answer more cautious. The
formats are the published ones (https://sqlite.org/fileformat2.html, sections 3 and 4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_WAL_HEADER: Final = struct.Struct(">IIIIII8x")
_WAL_MAGIC: Final = (0x377F0682, 0x377F0683)
_WAL_VERSION: Final = 3_007_000
_FRAMES_AT_ONCE: Final = 256
_SMALLEST_PAGE: Final = 512
_LARGEST_PAGE: Final = 65_536
_MARKS: Final = struct.Struct(">40xI16xI4xI")
_JOURNAL_HEADER: Final = struct.Struct(">8s8xI")
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")


class Marks(NamedTuple):
    """The fields of a database's first page that change with its schema or identity."""

    schema_version: int
    user_version: int
    application_id: int


@dataclass(frozen=True, slots=True)
class Overlay:
    """The committed pages of a `-wal`."""

    page_size: int
    pages: frozenset[int]
    marks: Marks | None
    """Those of the newest committed first page; None when the `-wal` holds none."""


EMPTY: Final = Overlay(0, frozenset(), None)


def read_overlay(path: Path) -> Overlay | None:
    """Return what a `-wal` file holds, `EMPTY` without frames, None when it is not understood.

    Memory is bounded by the number of pages, not by the length of the file. Raises OSError.
    """
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return EMPTY
    with file:
        header = file.read(_WAL_HEADER.size)
        if not header:
            return EMPTY
        if len(header) < _WAL_HEADER.size:
            return None
        magic, version, page_size, _, *salts = _WAL_HEADER.unpack(header)
        known_size = _SMALLEST_PAGE <= page_size <= _LARGEST_PAGE
        if magic not in _WAL_MAGIC or version != _WAL_VERSION or not known_size:
            return None
        return _committed(file, page_size, (salts[0], salts[1]))


def _committed(file: BinaryIO, page_size: int, salts: tuple[int, int]) -> Overlay:
    frame = struct.Struct(f">IIII8x{_MARKS.size}s{page_size - _MARKS.size}x")
    pages: set[int] = set()
    marks: Marks | None = None
    pending: set[int] = set()
    pending_marks: Marks | None = None
    while chunk := file.read(frame.size * _FRAMES_AT_ONCE):
        whole = len(chunk) - len(chunk) % frame.size
        for page, size_after_commit, salt1, salt2, start in frame.iter_unpack(chunk[:whole]):
            if (salt1, salt2) != salts:
                return Overlay(page_size, frozenset(pages), marks)
            pending.add(page)
            if page == 1:
                pending_marks = Marks(*_MARKS.unpack(start))
            if size_after_commit:
                pages |= pending
                marks = pending_marks or marks
                pending, pending_marks = set(), None
        if whole != len(chunk):
            break
    return Overlay(page_size, frozenset(pages), marks)


def journal_pages(path: Path) -> int | None:
    """Return how many pages the database had before the transaction that a `-journal` undoes.

    None when there is no journal, or one whose transaction is over. Raises OSError.
    """
    try:
        with path.open("rb", buffering=0) as file:
            header = file.read(_JOURNAL_HEADER.size)
    except FileNotFoundError:
        return None
    if len(header) < _JOURNAL_HEADER.size:
        return None
    magic, pages = _JOURNAL_HEADER.unpack(header)
    return pages if magic == _JOURNAL_MAGIC else None
