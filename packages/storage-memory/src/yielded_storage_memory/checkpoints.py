"""Checkpoints over dictionaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yielded_core.log.checkpoints import check_binding, decode_state, encode_checkpoint
from yielded_core.log.reads import check_sequence
from yielded_core.ports.values import Checkpoint
from yielded_core.records.identifiers import check_identifier

if TYPE_CHECKING:
    from yielded_core.records.identifiers import Digest, ThreadId
    from yielded_storage_memory.state import Log
    from yielded_storage_memory.store import Store


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint with its state as canonical text, so that no caller can change it."""

    schema_version: int
    tail_digest: Digest
    state: bytes
    created_at: str


class MemoryCheckpoints:
    """CheckpointStore of one process and its lifetime."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def save(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint bound to a batch tail (LOG-13)."""
        with self._store.operation():
            text = encode_checkpoint(checkpoint)
            log = self._store.resolve(check_identifier(checkpoint.thread_id, "thread id"))[1]
            sequence = checkpoint.through_sequence
            check_binding(checkpoint, log.tail.sequence, _digest_at(log, sequence))
            log.checkpoints[sequence] = StoredCheckpoint(
                checkpoint.schema_version, checkpoint.tail_digest, text, checkpoint.created_at
            )

    async def load(self, thread: ThreadId, *, at_or_before: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint at or before a sequence (LOG-13)."""
        if at_or_before is not None:
            check_sequence(at_or_before, "at_or_before")
        with self._store.operation():
            log = self._store.resolve(check_identifier(thread, "thread id"))[1]
            known = [at for at in log.checkpoints if at_or_before is None or at <= at_or_before]
            if not known:
                return None
            sequence = max(known)
            stored = log.checkpoints[sequence]
            state = decode_state(thread, sequence, stored.schema_version, stored.state)
            checkpoint = Checkpoint(thread, sequence, stored.tail_digest, state, stored.created_at)
            check_binding(checkpoint, log.tail.sequence, _digest_at(log, sequence))
            return checkpoint


def _digest_at(log: Log, sequence: int) -> Digest | None:
    if not 1 <= sequence <= log.tail.sequence:
        return None
    batch = log.batch_of(sequence)
    return batch.tail_digest if batch.last_sequence == sequence else None
