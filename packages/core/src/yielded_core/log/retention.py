"""Rules of what enters and leaves a thread whole: imports, ranges, deletion (ARC-4 to ARC-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from yielded_core.errors import (
    ImportRefused,
    InvalidIdentifier,
    RangeRefused,
    ThreadDeleted,
    ThreadInUse,
)
from yielded_core.log.reads import check_sequence
from yielded_core.ports.values import ArchiveRange, Tail, ThreadTail
from yielded_core.records.bounds import LAST_EPOCH, RANGE_BYTES, RANGE_RECORDS
from yielded_core.records.identifiers import check_digest, check_epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_core.log.append import ThreadState
    from yielded_core.records.identifiers import ThreadId

_Staged = TypeVar("_Staged")

RESTORE_LEAP: Final = 2**32
"""How far every epoch rises when a restored store begins a new timeline (STO-4)."""


class BatchExtent(NamedTuple):
    """Where a batch stands and how large it is."""

    first_sequence: int
    last_sequence: int
    byte_count: int


def open_begins_at(ranges: Sequence[ArchiveRange]) -> int:
    """Return the sequence of the oldest record that is in no range."""
    return ranges[-1].last_sequence + 1 if ranges else 1


def plan_range(
    thread: ThreadId, first: int, through: int, batches: Iterable[BatchExtent]
) -> ArchiveRange:
    """Choose the whole batches of the next range, from `first` on, in order (ARC-6).

    At least one batch, then as many as 1,024 records and 32 MiB hold. Raises RangeRefused when no
    whole batch ends at or before `through`.
    """
    last, size = 0, 0
    for batch in batches:
        records = batch.last_sequence - first + 1
        fits = records <= RANGE_RECORDS and size + batch.byte_count <= RANGE_BYTES
        if batch.last_sequence > through or not fits:
            break
        last, size = batch.last_sequence, size + batch.byte_count
    if not last:
        raise RangeRefused(thread, first, through, "no whole open batch ends there")
    return ArchiveRange(first, last, "sealed", last - first + 1, size)


def sealed_range(thread: ThreadId, first: int, ranges: Iterable[ArchiveRange]) -> ArchiveRange:
    """Return the range that begins at a sequence, sealed or archived; else RangeRefused."""
    for found in ranges:
        if found.first_sequence == first:
            return found
    raise RangeRefused(thread, first, first, "no sealed range begins there")


def decide_import(
    archive: ThreadTail,
    destination: ThreadState | None,
    tombstone: Tail | None,
    staged: ThreadTail | None,
    *,
    accepted_work: bool,
) -> bool:
    """Say whether an import begins anew (True) or goes on with what is staged (False) (ARC-4).

    Raises InvalidInput for a tail that no archive can have captured.
    """
    thread = archive.thread_id
    check_epoch(archive.epoch)
    check_sequence(archive.sequence, "sequence")
    check_digest("digest", archive.digest)
    check_destination(thread, destination, tombstone, accepted_work=accepted_work)
    if staged is None:
        return True
    if staged != archive:
        detail = "another archive is staged; discard it first"
        raise ImportRefused(thread, "in-progress", detail)
    return False


def check_destination(
    thread: ThreadId,
    destination: ThreadState | None,
    tombstone: Tail | None,
    *,
    accepted_work: bool,
) -> None:
    """Refuse a destination that has records or a lane, or whose id was used and deleted."""
    if tombstone is not None:
        raise ThreadDeleted(thread, tombstone.sequence)
    if destination is not None and destination.sequence:
        detail = f"it already has {destination.sequence} records"
        raise ImportRefused(thread, "destination-not-empty", detail)
    if accepted_work:
        raise ImportRefused(thread, "destination-not-empty", "work was accepted for it")


def require_staged(thread: ThreadId, staged: _Staged | None) -> _Staged:
    """Return the staged import, or raise ImportRefused (`discarded`)."""
    if staged is None:
        raise ImportRefused(thread, "discarded", "no import is staged; begin one")
    return staged


def decide_publish(
    archive: ThreadTail,
    staged: Tail,
    destination: ThreadState | None,
    tombstone: Tail | None,
    *,
    accepted_work: bool,
    floor: int,
) -> ThreadTail:
    """Return the tail that a completely staged import gives its thread (ARC-4, STO-4)."""
    thread = archive.thread_id
    check_destination(thread, destination, tombstone, accepted_work=accepted_work)
    if staged != archive.tail:
        detail = f"staged through {staged.sequence} of {archive.sequence}"
        raise ImportRefused(thread, "not-complete", detail)
    begins = first_epoch(archive.epoch, floor)
    epoch = max(begins, destination.epoch if destination else 0)
    return ThreadTail(thread, archive.sequence, archive.digest, epoch)


def check_deletable(thread: ThreadId, open_handoffs: int, *, owes_work: bool) -> None:
    """Refuse to delete a thread with open obligations (ARC-7)."""
    if owes_work:
        raise ThreadInUse(thread, "accepted work is not settled")
    if open_handoffs:
        raise ThreadInUse(thread, f"{open_handoffs} handoffs are open")


def leap(epoch: int) -> int:
    """Return an epoch of the timeline after a restore (STO-4)."""
    return _raised(epoch, RESTORE_LEAP)


def first_epoch(epoch: int, floor: int) -> int:
    """Return the epoch that a thread begins at, above those of every lost timeline (STO-4).

    `floor` is what the restores of the store raised every epoch by. A thread that the backup did
    not know begins as high as if it had been there, or its lost epochs would be granted again.
    """
    return _raised(epoch, floor)


def _raised(epoch: int, by: int) -> int:
    if epoch + by > LAST_EPOCH:
        raise InvalidIdentifier("epoch", "no epoch is left after a restore")
    return epoch + by
