"""The ports of the thread store. A port is what an adapter owes; it has no behaviour.

Every operation checks its identifiers and bounds before any I/O (InvalidInput). Every operation on
a thread that was never materialized raises ThreadNotMaterialized, on a deleted one ThreadDeleted.
Every operation can raise the StorageError family. Sequences count from 1; `after` is exclusive and
`through` inclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from yielded_core.log.progress import RunProgress
    from yielded_core.ports.values import (
        Appended,
        ArchiveRange,
        Batch,
        CapturedThread,
        Checkpoint,
        ImportState,
        IndexState,
        OperationEvidence,
        PreparedBatch,
        StoredBatch,
        Tail,
        ThreadIdentity,
        ThreadTail,
        Tombstone,
    )
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import Offset, RecordId, RunId, ThreadId, ToolCallId
    from yielded_core.records.prompt_record import PromptRecord


class ThreadReader(Protocol):
    """Reads of one snapshot of a thread: a live thread, or one being imported (ARC-8)."""

    async def tail(self, thread: ThreadId) -> ThreadTail:
        """Return sequence, digest and epoch (LOG-10)."""
        ...

    async def identity(self, thread: ThreadId) -> ThreadIdentity:
        """Return the tail, the first and the lineage record in one consistent read (LOG-10)."""
        ...

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        """Return up to `limit` (1 to 1,024) records after a sequence, ascending (LOG-8).

        Raises RecordUndecodable for a stored value that does not decode.
        """
        ...

    async def get_record(self, thread: ThreadId, record_id: RecordId) -> StoredRecord:
        """Return one record by its id, or raise RecordNotFound (LOG-11)."""
        ...

    async def get_run_input(self, thread: ThreadId, run: RunId) -> StoredRecord:
        """Return the original user input of a run, joined inputs excluded (LOG-11).

        Raises EvidenceFault (`evidence-missing`) when there is none, AmbiguousRunInput when there
        is more than one.
        """
        ...

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        """Return the records that a prompt is rebuilt from, ascending, in a range (LOG-12).

        A page shorter than `limit` (1 to 1,024) is the end of the range. `through` beyond the tail
        raises BeyondTail.
        """
        ...

    async def read_continuation(
        self, thread: ThreadId, run: RunId, *, through: int
    ) -> StoredRecord | None:
        """Return the newest RunContinuation of a run at or before a sequence (LOG-14)."""
        ...

    async def read_run_evidence(
        self, thread: ThreadId, run: RunId, *, after: int, through: int, limit: int = 8
    ) -> tuple[StoredRecord, ...]:
        """Return facts of one run in a range, ascending, 1 to 8 at a time (LOG-15)."""
        ...

    async def read_operation_evidence(
        self, thread: ThreadId, run: RunId, call: ToolCallId, *, through: int
    ) -> OperationEvidence:
        """Return one declared tool call with all that was recorded about it (LOG-15).

        Raises EvidenceFault (`evidence-missing`) when no declaration is indexed.
        """
        ...

    async def work_handoffs(
        self, thread: ThreadId, *, after: int = 0, limit: int = 256
    ) -> tuple[StoredRecord, ...]:
        """Return open preparations after a sequence, ascending, 1 to 256 at a time (LOG-15)."""
        ...

    async def read_batches(
        self, thread: ThreadId, *, after: int, through: int, byte_limit: int
    ) -> tuple[StoredBatch, ...]:
        """Return whole batches after a sequence, undecoded: at least one, then as many as fit.

        `after` must be 0 or the last sequence of a batch. Archived ranges are read as hot ones.
        """
        ...


class ThreadStore(ThreadReader, Protocol):
    """The thread log of a store (LOG-1 to LOG-19)."""

    async def materialize(self, thread: ThreadId, *, epoch: int) -> ThreadTail:
        """Register a thread at a producer epoch, or take it over at a higher one (LOG-1).

        Write with the epoch of the answer: a new thread of a restored store begins at `epoch` and
        2^32 more for each restore (STO-4). Raises FenceRejected for a lower epoch.
        """
        ...

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        """Commit a whole batch at the expected tail under the thread's epoch (LOG-2 to LOG-7).

        Raises, in this order: ThreadNotMaterialized, FenceRejected, AppendConflict
        (`batch-digest`, `record-identity`, `tail`), ProgressRefused (LOG-16).
        """
        ...

    def observe(
        self, thread: ThreadId, *, after: Offset | None = None
    ) -> AsyncGenerator[StoredRecord]:
        """Deliver every record after an offset, stored and new, until cancelled (LOG-9).

        Close the generator when done (`contextlib.aclosing`). Raises OffsetRefused for an offset
        of another thread, store or incarnation, or one beyond the tail.
        """
        ...

    async def threads(
        self, *, after: ThreadId | None = None, limit: int = 256
    ) -> tuple[ThreadTail, ...]:
        """Return threads by id, 1 to 1,024 at a time (LOG-19)."""
        ...

    async def capture(self, thread: ThreadId) -> CapturedThread:
        """Return the tail and the fact revision that an export binds to (ARC-2)."""
        ...

    async def run_progress(self, thread: ThreadId, run: RunId) -> RunProgress | None:
        """Return the counters that the next continuation of a run builds on (LOG-16)."""
        ...

    async def index_state(self, thread: ThreadId) -> IndexState:
        """Return how far the indexes reach (LOG-17)."""
        ...

    async def rebuild_indexes(
        self, thread: ThreadId, *, restart: bool = False, limit: int = 1_024
    ) -> IndexState:
        """Index the next whole batches; resumable (LOG-17).

        At least one batch, then as many as `limit` (1 to 1,024) records hold.
        `restart` drops the indexes first. While they are incomplete, reads that need them raise
        EvidenceFault (`index-incomplete`), and so do appends.
        """
        ...

    async def delete_thread(self, thread: ThreadId) -> Tombstone:
        """Remove a thread and leave a tombstone; repeating returns it (ARC-7).

        Raises ThreadInUse while work or handoffs are open.
        """
        ...


class ArchiveStore(Protocol):
    """Archive ranges and imports (ARC-4, ARC-6)."""

    async def seal_range(self, thread: ThreadId, *, through: int) -> ArchiveRange:
        """Close the oldest open batches, up to a sequence and the bounds of a range (ARC-6).

        Raises RangeRefused when no whole batch ends at or before `through`.
        """
        ...

    async def archive_range(self, thread: ThreadId, *, first: int) -> ArchiveRange:
        """Copy a sealed range, verify the copy, then free the hot rows; idempotent (ARC-6)."""
        ...

    async def ranges(self, thread: ThreadId) -> tuple[ArchiveRange, ...]:
        """Return the sealed and archived ranges, ascending."""
        ...

    async def import_state(self, thread: ThreadId) -> ImportState | None:
        """Return the import that is staged for a thread, or None."""
        ...

    async def begin_import(self, archive: ThreadTail) -> ImportState:
        """Begin to stage an archive that captured this tail, or resume it (ARC-4).

        Raises ImportRefused: `destination-not-empty`, or `in-progress` when another archive is
        staged.
        """
        ...

    async def stage_batches(
        self, thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        """Stage batches, each with its epoch, after those staged before, in one transaction.

        The rules of an append hold (ProgressRefused and AppendConflict included).
        """
        ...

    async def stage_work(self, thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        """Stage submissions by their places after those staged before, in one transaction (ARC-4).

        They are published as they are given: unowned, with their receipts, instants and states.
        Raises InvalidArgument for one that does not follow the one before it.
        """
        ...

    async def staged_work(
        self, thread: ThreadId, *, after: int = 0, limit: int = 256
    ) -> tuple[SubmissionFacts, ...]:
        """Return what `LedgerReader.facts` would return of the staged import once it is published.

        Raises ImportRefused (`discarded`).
        """
        ...

    def import_reader(self, thread: ThreadId) -> ThreadReader:
        """Return reads of exactly what would be published (ARC-8)."""
        ...

    async def publish_import(self, thread: ThreadId) -> ThreadTail:
        """Make a completely staged import visible in one transaction, its lane included (ARC-4).

        The epoch is the archive's, counted as that of a new thread (STO-4), or the destination's
        where that is higher. The lane has no owner and no lease.

        Raises ImportRefused: `not-complete`, `destination-not-empty`, `discarded`.
        """
        ...

    async def discard_import(self, thread: ThreadId) -> None:
        """Forget a staged import and free its rows; without one, a no-op."""
        ...


class CheckpointStore(Protocol):
    """Optional storage for application projections (LOG-13)."""

    async def save(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint bound to a batch tail; replaces one at the same sequence.

        Raises CheckpointRefused: `unsupported-version`, `ahead-of-tail`, `digest-mismatch`,
        `corrupt` (a state beyond bounded JSON).
        """
        ...

    async def load(self, thread: ThreadId, *, at_or_before: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint at or before a sequence, or None.

        Raises CheckpointRefused for a stored one that no longer binds or decodes.
        """
        ...
