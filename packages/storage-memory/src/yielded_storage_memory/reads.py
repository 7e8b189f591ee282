"""Reads of one snapshot of a thread: a live one, or one that is being imported (ARC-8)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol

from yielded_core.errors import RecordNotFound
from yielded_core.log import reads
from yielded_core.log.offsets import offset_prefix
from yielded_core.ports.values import OperationEvidence, StoredBatch, ThreadIdentity, ThreadTail
from yielded_core.records.bounds import EVIDENCE_RECORDS, PAGE_RECORDS, TRANSFER_FACTS
from yielded_core.records.identifiers import check_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from yielded_core.log.append import ThreadState
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import RecordId, RunId, ThreadId, ToolCallId
    from yielded_core.records.prompt_record import PromptRecord
    from yielded_storage_memory.state import Log


class Resolver(Protocol):
    """Finds the log that a read is about, once the storage may be used."""

    @property
    def incarnation(self) -> str:
        """Identity of the store's timeline."""
        ...

    def operation(self) -> AbstractContextManager[object]:
        """Hold closing back while an operation runs."""
        ...

    def resolve(self, thread: ThreadId) -> tuple[ThreadState, Log]:
        """Return the snapshot of a thread, or raise as the ports say."""
        ...


class MemoryReader:
    """The reads of the ports over dictionaries."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def tail(self, thread: ThreadId) -> ThreadTail:
        """Return sequence, digest and epoch (LOG-10)."""
        with self._resolver.operation():
            return _tail(self._resolve(thread)[0])

    async def identity(self, thread: ThreadId) -> ThreadIdentity:
        """Return the tail, the first and the lineage record (LOG-10)."""
        with self._resolver.operation():
            state, log = self._resolve(thread)
            first = [*self._records(state, log, range(1, min(2, state.sequence) + 1)), None, None]
            return ThreadIdentity(_tail(state), first[0], reads.lineage_of(first[1]))

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = PAGE_RECORDS
    ) -> tuple[StoredRecord, ...]:
        """Return records after a sequence (LOG-8)."""
        with self._resolver.operation():
            reads.check_after(after)
            reads.check_limit(limit, PAGE_RECORDS)
            state, log = self._resolve(thread)
            last = min(after + limit, state.sequence)
            return self._records(state, log, range(after + 1, last + 1))

    async def get_record(self, thread: ThreadId, record_id: RecordId) -> StoredRecord:
        """Return one record by its id (LOG-11)."""
        with self._resolver.operation():
            check_identifier(record_id, "record id")
            state, log = self._resolve(thread)
            sequence = log.record_index.get(record_id)
            if sequence is None:
                raise RecordNotFound(thread, record_id)
            return self._records(state, log, (sequence,))[0]

    async def get_run_input(self, thread: ThreadId, run: RunId) -> StoredRecord:
        """Return the original user input of a run (LOG-11)."""
        with self._resolver.operation():
            check_identifier(run, "run id")
            state, log = self._resolve(thread)
            reads.require_indexed(state, state.sequence)
            at = reads.single_run_input(thread, run, log.indexes.run_inputs.get(run, ()))
            return reads.check_run_input(thread, run, self._records(state, log, (at,))[0])

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        """Return the records that a prompt is rebuilt from (LOG-12)."""
        with self._resolver.operation():
            reads.check_after(after)
            reads.check_limit(limit, PAGE_RECORDS)
            state, log = self._resolve(thread)
            reads.check_through(state, through)
            reads.require_indexed(state, through)
            found = _between(log.indexes.prompts, after, through)[:limit]
            return tuple(
                reads.prompt_record(thread, sequence, log.wires[sequence - 1]) for sequence in found
            )

    async def read_continuation(
        self, thread: ThreadId, run: RunId, *, through: int
    ) -> StoredRecord | None:
        """Return the newest RunContinuation of a run in a range (LOG-14)."""
        with self._resolver.operation():
            check_identifier(run, "run id")
            state, log = self._resolve(thread)
            reads.check_through(state, through)
            reads.require_indexed(state, through)
            newest = _between(log.indexes.continuations.get(run, ()), 0, through)[-1:]
            found = next(iter(self._records(state, log, newest)), None)
            progress = log.indexes.progress.get(run)
            return reads.check_continuation(state, run, through, found, progress)

    async def read_run_evidence(
        self,
        thread: ThreadId,
        run: RunId,
        *,
        after: int,
        through: int,
        limit: int = EVIDENCE_RECORDS,
    ) -> tuple[StoredRecord, ...]:
        """Return facts of one run in a range (LOG-15)."""
        with self._resolver.operation():
            check_identifier(run, "run id")
            reads.check_after(after)
            reads.check_limit(limit, EVIDENCE_RECORDS)
            state, log = self._resolve(thread)
            reads.check_through(state, through)
            reads.require_indexed(state, through)
            indexed = log.indexes.run_facts.get(run, ())
            found = _between(indexed, after, through)[:limit]
            ends = len(found) < limit and through == state.sequence
            return reads.check_run_evidence(
                state,
                run,
                self._records(state, log, found),
                indexed=len(indexed) if ends else None,
                progress=log.indexes.progress.get(run),
            )

    async def read_operation_evidence(
        self, thread: ThreadId, run: RunId, call: ToolCallId, *, through: int
    ) -> OperationEvidence:
        """Return one declared tool call with all that was recorded about it (LOG-15)."""
        with self._resolver.operation():
            check_identifier(run, "run id")
            check_identifier(call, "tool call id")
            state, log = self._resolve(thread)
            reads.check_through(state, through)
            reads.require_indexed(state, through)
            found = _between(log.indexes.operations.get((run, call), ()), 0, through)
            records = self._records(state, log, found)
            return reads.operation_evidence(thread, run, call, records)

    async def work_handoffs(
        self, thread: ThreadId, *, after: int = 0, limit: int = TRANSFER_FACTS
    ) -> tuple[StoredRecord, ...]:
        """Return open preparations (LOG-15)."""
        with self._resolver.operation():
            reads.check_after(after)
            reads.check_limit(limit, TRANSFER_FACTS)
            state, log = self._resolve(thread)
            reads.require_indexed(state, state.sequence)
            found = [open_ for open_ in sorted(log.indexes.handoffs.values()) if open_ > after]
            return self._records(state, log, found[:limit])

    async def read_batches(
        self, thread: ThreadId, *, after: int, through: int, byte_limit: int
    ) -> tuple[StoredBatch, ...]:
        """Return whole batches after a sequence, undecoded."""
        with self._resolver.operation():
            state, log = self._resolve(thread)
            reads.check_batch_end(state, after)
            reads.check_through(state, through)
            if not log.ends_batch(after):
                raise reads.not_a_batch_end()
            found: list[StoredBatch] = []
            size = 0
            for batch in log.batches_after(after, through):
                size += sum(len(wire) for _, wire in batch.records)
                if found and size > byte_limit:
                    break
                found.append(batch)
            return tuple(found)

    def _resolve(self, thread: ThreadId) -> tuple[ThreadState, Log]:
        return self._resolver.resolve(check_identifier(thread, "thread id"))

    def _records(
        self, state: ThreadState, log: Log, sequences: Iterable[int]
    ) -> tuple[StoredRecord, ...]:
        prefix = offset_prefix(self._resolver.incarnation, state.thread_id)
        return tuple(
            reads.stored_record(
                state.thread_id,
                prefix,
                sequence,
                log.batch_of(sequence).batch_id,
                log.wires[sequence - 1],
            )
            for sequence in sequences
        )


def _tail(state: ThreadState) -> ThreadTail:
    return ThreadTail(state.thread_id, state.sequence, state.digest, state.epoch)


def _between(sequences: Sequence[int], after: int, through: int) -> Sequence[int]:
    return sequences[bisect_right(sequences, after) : bisect_right(sequences, through)]
