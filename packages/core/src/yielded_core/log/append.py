"""The decision of an append: accept, replay or refuse, in the order of LOG-3."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from yielded_core.digest import chain_digest
from yielded_core.errors import (
    AppendConflict,
    EvidenceFault,
    FenceRejected,
    ThreadDeleted,
    ThreadNotMaterialized,
)
from yielded_core.ports.values import Appended, Tail

if TYPE_CHECKING:
    from yielded_core.ports.values import PreparedBatch
    from yielded_core.records.identifiers import Digest, RecordId, ThreadId


class ThreadState(NamedTuple):
    """The row of a live thread, as every decision reads it."""

    thread_id: ThreadId
    generation: int
    epoch: int
    sequence: int
    digest: Digest
    indexed_through: int
    fact_revision: int

    @property
    def tail(self) -> Tail:
        """The actual tail."""
        return Tail(self.sequence, self.digest)


class KnownBatch(NamedTuple):
    """A batch already stored under the id that an append carries."""

    content_digest: Digest
    first_sequence: int
    tail: Tail


class Accepted(NamedTuple):
    """An append that may be written: where it begins, and the tail that it makes."""

    first_sequence: int
    tail: Tail


def require_live(
    thread: ThreadId, state: ThreadState | None, tombstone: Tail | None
) -> ThreadState:
    """Return the state of a live thread; else ThreadDeleted or ThreadNotMaterialized."""
    if state is not None:
        return state
    if tombstone is not None:
        raise ThreadDeleted(thread, tombstone.sequence)
    raise ThreadNotMaterialized(thread)


def decide_materialize(thread: ThreadId, current: int | None, epoch: int) -> bool:
    """Say whether the thread's epoch changes to `epoch`; a lower one is refused (LOG-1)."""
    if current is not None and epoch < current:
        raise FenceRejected(thread, current, epoch)
    return current is None or epoch > current


def check_fence(state: ThreadState, epoch: int) -> None:
    """Refuse every epoch but the thread's own (LOG-2)."""
    if epoch != state.epoch:
        raise FenceRejected(state.thread_id, state.epoch, epoch)


def decide_append(
    state: ThreadState,
    batch: PreparedBatch,
    expected: Tail,
    *,
    known: KnownBatch | None,
    taken: RecordId | None,
) -> Accepted | Appended:
    """Decide an append whose fence was checked: Accepted, or the first result again (LOG-4).

    `known` is the stored batch of the same id, `taken` a record id of the batch that the thread
    already holds. Raises AppendConflict in the order batch, record, tail (LOG-3).
    """
    if known is not None:
        if known.content_digest != batch.content_digest:
            raise AppendConflict(state.thread_id, "batch-digest", state.sequence, state.digest)
        return Appended(known.first_sequence, known.tail, replayed=True)
    if taken is not None or _names_one_twice(batch):
        raise AppendConflict(state.thread_id, "record-identity", state.sequence, state.digest)
    if expected != state.tail:
        raise AppendConflict(state.thread_id, "tail", state.sequence, state.digest)
    if state.indexed_through < state.sequence:
        detail = f"indexed through {state.indexed_through}; rebuild the indexes before appending"
        raise EvidenceFault(state.thread_id, "index-incomplete", detail)
    return accept(state.tail, batch)


def _names_one_twice(batch: PreparedBatch) -> bool:
    records = batch.records
    return len(records) > 1 and len({one.record.record_id for one in records}) < len(records)


def accept(tail: Tail, batch: PreparedBatch) -> Accepted:
    """Place a batch after a tail."""
    digest = chain_digest(tail.digest, batch.content)
    return Accepted(tail.sequence + 1, Tail(tail.sequence + len(batch.records), digest))
