"""The state of one thread's log: batches, records and their indexes, over dictionaries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yielded_core.digest import EMPTY_TAIL_DIGEST, epoch_seal
from yielded_core.log.append import (
    Accepted,
    KnownBatch,
    ThreadState,
    check_fence,
    decide_append,
)
from yielded_core.log.facts import RecordFacts, facts_of
from yielded_core.log.progress import RunProgress, advance_runs, check_handoffs, runs_of
from yielded_core.ports.values import Appended, PreparedBatch, StoredBatch, Tail
from yielded_core.records.envelope import EncodedRecord, decode_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ports.values import ArchiveRange
    from yielded_core.records.identifiers import BatchId, RecordId, RunId, ThreadId, ToolCallId
    from yielded_storage_memory.checkpoints import StoredCheckpoint


@dataclass
class Indexes:
    """What is rebuilt from the records (LOG-17): sequences, ascending, by what they answer."""

    through: int = 0
    run_facts: dict[RunId, list[int]] = field(default_factory=lambda: defaultdict(list))
    operations: dict[tuple[RunId, ToolCallId], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    prompts: list[int] = field(default_factory=list)
    continuations: dict[RunId, list[int]] = field(default_factory=lambda: defaultdict(list))
    run_inputs: dict[RunId, list[int]] = field(default_factory=lambda: defaultdict(list))
    handoffs: dict[RecordId, int] = field(default_factory=dict)
    progress: dict[RunId, RunProgress] = field(default_factory=dict)

    def plan(self, thread: ThreadId, facts: Sequence[RecordFacts]) -> dict[RunId, RunProgress]:
        """Check facts against LOG-16 and return the progress they lead to; changes nothing."""
        check_handoffs(thread, facts, self.handoffs)
        before = {run: self.progress[run] for run in runs_of(facts) if run in self.progress}
        return advance_runs(thread, facts, before)

    def add(self, facts: Sequence[RecordFacts], progress: dict[RunId, RunProgress]) -> None:
        """Index facts whose plan was accepted."""
        for fact in facts:
            if fact.run is not None:
                self.run_facts[fact.run].append(fact.sequence)
                for call in fact.calls:
                    self.operations[fact.run, call].append(fact.sequence)
                if fact.run_input:
                    self.run_inputs[fact.run].append(fact.sequence)
            if fact.prompt:
                self.prompts.append(fact.sequence)
            if fact.continuation is not None:
                self.continuations[fact.continuation.run_id].append(fact.sequence)
            if fact.opens_handoff:
                self.handoffs[fact.record_id] = fact.sequence
            if fact.closes_handoff is not None:
                self.handoffs.pop(fact.closes_handoff, None)
            self.through = fact.sequence
        self.progress.update(progress)


@dataclass
class Log:
    """One generation of a thread: what an import stages, and what a live thread shows."""

    batches: list[StoredBatch] = field(default_factory=list)
    batch_index: dict[BatchId, int] = field(default_factory=dict)
    last_sequences: list[int] = field(default_factory=list)
    """Last sequence of each batch, so that a batch is found by bisection."""
    wires: list[bytes] = field(default_factory=list)
    """Wire of the record at each sequence, from 1."""
    record_index: dict[RecordId, int] = field(default_factory=dict)
    indexes: Indexes = field(default_factory=Indexes)
    ranges: list[ArchiveRange] = field(default_factory=list)
    checkpoints: dict[int, StoredCheckpoint] = field(default_factory=dict)

    @property
    def tail(self) -> Tail:
        """Sequence and digest after the last batch."""
        if not self.batches:
            return Tail(0, EMPTY_TAIL_DIGEST)
        last = self.batches[-1]
        return Tail(last.last_sequence, last.tail_digest)

    def known(self, batch: BatchId) -> KnownBatch | None:
        """Return the stored batch of an id as an append decision reads it."""
        index = self.batch_index.get(batch)
        if index is None:
            return None
        stored = self.batches[index]
        tail = Tail(stored.last_sequence, stored.tail_digest)
        return KnownBatch(stored.content_digest, stored.first_sequence, tail)

    def taken(self, batch: PreparedBatch) -> RecordId | None:
        """Return a record id of a batch that the log already holds."""
        for encoded in batch.records:
            if encoded.record.record_id in self.record_index:
                return encoded.record.record_id
        return None

    def batch_of(self, sequence: int) -> StoredBatch:
        """Return the batch that holds a record."""
        return self.batches[bisect_left(self.last_sequences, sequence)]

    def ends_batch(self, sequence: int) -> bool:
        """Say whether a sequence is 0 or the last of a batch."""
        if not 1 <= sequence <= self.tail.sequence:
            return sequence == 0
        return self.batch_of(sequence).last_sequence == sequence

    def batches_after(self, sequence: int, through: int) -> list[StoredBatch]:
        """Return the whole batches in a range."""
        first = bisect_right(self.last_sequences, sequence)
        last = bisect_right(self.last_sequences, through)
        return self.batches[first:last]

    def commit(
        self, thread: ThreadId, batch: PreparedBatch, accepted: Accepted, epoch: int
    ) -> None:
        """Add an accepted batch, or raise ProgressRefused and change nothing (LOG-16)."""
        first = accepted.first_sequence
        facts = [facts_of(first + index, encoded) for index, encoded in enumerate(batch.records)]
        progress = self.indexes.plan(thread, facts)
        records = tuple((fact.record_id, fact.encoded.wire) for fact in facts)
        self.batch_index[batch.batch_id] = len(self.batches)
        self.batches.append(
            StoredBatch(
                batch.batch_id,
                batch.producer_id,
                epoch,
                first,
                accepted.tail.sequence,
                batch.content_digest,
                accepted.tail.digest,
                records,
                epoch_seal(epoch, batch.content_digest, accepted.tail.digest),
            )
        )
        self.last_sequences.append(accepted.tail.sequence)
        for fact in facts:
            self.record_index[fact.record_id] = fact.sequence
            self.wires.append(fact.encoded.wire)
        self.indexes.add(facts, progress)

    def reindex(self, thread: ThreadId, limit: int) -> None:
        """Index the next whole batches: at least one, then as many as `limit` records hold."""
        indexed = 0
        for batch in self.batches_after(self.indexes.through, self.tail.sequence):
            indexed += len(batch.records)
            if indexed > limit and indexed > len(batch.records):
                return
            facts = [
                facts_of(batch.first_sequence + index, EncodedRecord(decode_record(wire), wire))
                for index, (_, wire) in enumerate(batch.records)
            ]
            self.indexes.add(facts, self.indexes.plan(thread, facts))


@dataclass
class Thread:
    """A live thread."""

    epoch: int
    log: Log = field(default_factory=Log)
    fact_revision: int = 0

    def append(
        self, thread: ThreadId, batch: PreparedBatch, expected: Tail, epoch: int
    ) -> Appended:
        """Commit a whole batch at the expected tail, or change nothing (LOG-2 to LOG-5)."""
        state = self.state(thread)
        check_fence(state, epoch)
        decision = decide_append(
            state,
            batch,
            expected,
            known=self.log.known(batch.batch_id),
            taken=self.log.taken(batch),
        )
        if not isinstance(decision, Accepted):
            return decision
        self.log.commit(thread, batch, decision, epoch)
        return Appended(decision.first_sequence, decision.tail, replayed=False)

    def state(self, thread: ThreadId) -> ThreadState:
        """Return the row that every decision reads."""
        tail = self.log.tail
        return ThreadState(
            thread,
            0,
            self.epoch,
            tail.sequence,
            tail.digest,
            self.log.indexes.through,
            self.fact_revision,
        )
