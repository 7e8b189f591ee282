"""Finding a repeated or a missing identity among any number of them, in bounded memory."""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from itertools import islice
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

LAST_PLACE: Final = 2**63 - 1

_KEY: Final = 16
_WHERE: Final = 8
_ENTRY: Final = _KEY + _WHERE + 1
_ADDED: Final = b"\x00"
_NAMED: Final = b"\x01"
"""Sorts after `_ADDED` where both stand at the same place."""
_IN_MEMORY: Final = 65_536
"""Entries held before a sorted run of them is written to a temporary file: about 5 MiB."""
_FAN_IN: Final = 32
"""Runs of one level that are merged into one of the next, which bounds the open files."""
_READ_ENTRIES: Final = 1_024


class IdentityFaults(NamedTuple):
    """The first place of each kind of fault; None where there is none."""

    repeated: int | None
    """Where an identity stands that stood before."""
    missing: int | None
    """Where an identity should stand that was named."""


class IdentitySet:
    """Collects identities with their places, and what was said about them; judges at the end.

    An identity counts as the first 128 bits of a digest. A place is an integer from 0 to
    `LAST_PLACE`.
    """

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._entries: list[bytes] = []
        self._levels: list[list[IO[bytes]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, identity: str, where: int) -> None:
        """Take an identity that stands at a place."""
        self._take(identity, where, _ADDED)

    def name(self, identity: str, where: int) -> None:
        """Take the statement that an identity stands at a place, added before or after this."""
        self._take(identity, where, _NAMED)

    def faults(self) -> IdentityFaults:
        """Say whether an identity was added twice, or named where it does not stand."""
        repeated: int | None = None
        missing: int | None = None
        key = stands = b""
        for entry in self._sorted():
            where = entry[_KEY:-1]
            if entry[:_KEY] != key:
                key, stands = entry[:_KEY], b""
            if entry[-1:] == _NAMED:
                if where != stands:
                    missing = _lower(missing, where)
            else:
                if stands:
                    repeated = _lower(repeated, where)
                stands = where
        return IdentityFaults(repeated, missing)

    def close(self) -> None:
        """Remove the temporary files."""
        for level in self._levels:
            for run in level:
                run.close()
        self._levels = []

    def _take(self, identity: str, where: int, kind: bytes) -> None:
        key = hashlib.blake2b(identity.encode(errors="surrogatepass"), digest_size=_KEY).digest()
        self._entries.append(key + where.to_bytes(_WHERE, "big") + kind)
        if len(self._entries) >= self._in_memory:
            self._spill()

    def _spill(self) -> None:
        self._entries.sort()
        self._push(_written(self._entries), 0)
        self._entries = []

    def _push(self, run: IO[bytes], level: int) -> None:
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) == _FAN_IN:
            merged = _written(heapq.merge(*map(_read, runs)))
            for each in runs:
                each.close()
            runs.clear()
            self._push(merged, level + 1)

    def _sorted(self) -> Iterator[bytes]:
        self._entries.sort()
        return heapq.merge(self._entries, *(_read(run) for level in self._levels for run in level))


def _lower(known: int | None, where: bytes) -> int:
    found = int.from_bytes(where, "big")
    return found if known is None else min(known, found)


def _written(entries: Iterable[bytes]) -> IO[bytes]:
    run = tempfile.TemporaryFile()  # noqa: SIM115 - it lives until close()
    ordered = iter(entries)
    while block := b"".join(islice(ordered, _READ_ENTRIES)):
        run.write(block)
    return run


def _read(run: IO[bytes]) -> Iterator[bytes]:
    run.seek(0)
    while block := run.read(_ENTRY * _READ_ENTRIES):
        for start in range(0, len(block), _ENTRY):
            yield block[start : start + _ENTRY]
