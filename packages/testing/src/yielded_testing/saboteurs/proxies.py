"""The ports of a right storage, passed on; a saboteur overrides what it does wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, cast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from types import TracebackType

    from yielded_core.log.progress import RunProgress
    from yielded_core.ports.ledger import SettlementPublisher, SubmissionLedger
    from yielded_core.ports.threads import ArchiveStore, CheckpointStore, ThreadReader, ThreadStore
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
        StorageInfo,
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
    from yielded_core.storage import Storage


class Threads:
    """A ThreadStore that passes every operation on."""

    def __init__(self, inner: ThreadStore, archives: ArchiveStore) -> None:
        self.inner = inner
        self.archives = archives

    async def tail(self, thread: ThreadId) -> ThreadTail:
        return await self.inner.tail(thread)

    async def identity(self, thread: ThreadId) -> ThreadIdentity:
        return await self.inner.identity(thread)

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        return await self.inner.read(thread, after=after, limit=limit)

    async def get_record(self, thread: ThreadId, record_id: RecordId) -> StoredRecord:
        return await self.inner.get_record(thread, record_id)

    async def get_run_input(self, thread: ThreadId, run: RunId) -> StoredRecord:
        return await self.inner.get_run_input(thread, run)

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        return await self.inner.read_prompt(thread, after=after, through=through, limit=limit)

    async def read_continuation(
        self, thread: ThreadId, run: RunId, *, through: int
    ) -> StoredRecord | None:
        return await self.inner.read_continuation(thread, run, through=through)

    async def read_run_evidence(
        self, thread: ThreadId, run: RunId, *, after: int, through: int, limit: int = 8
    ) -> tuple[StoredRecord, ...]:
        return await self.inner.read_run_evidence(
            thread, run, after=after, through=through, limit=limit
        )

    async def read_operation_evidence(
        self, thread: ThreadId, run: RunId, call: ToolCallId, *, through: int
    ) -> OperationEvidence:
        return await self.inner.read_operation_evidence(thread, run, call, through=through)

    async def work_handoffs(
        self, thread: ThreadId, *, after: int = 0, limit: int = 256
    ) -> tuple[StoredRecord, ...]:
        return await self.inner.work_handoffs(thread, after=after, limit=limit)

    async def read_batches(
        self, thread: ThreadId, *, after: int, through: int, byte_limit: int
    ) -> tuple[StoredBatch, ...]:
        return await self.inner.read_batches(
            thread, after=after, through=through, byte_limit=byte_limit
        )

    async def materialize(self, thread: ThreadId, *, epoch: int) -> ThreadTail:
        return await self.inner.materialize(thread, epoch=epoch)

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        return await self.inner.append(thread, batch, expected=expected, epoch=epoch)

    def observe(
        self, thread: ThreadId, *, after: Offset | None = None
    ) -> AsyncGenerator[StoredRecord]:
        return self.inner.observe(thread, after=after)

    async def threads(
        self, *, after: ThreadId | None = None, limit: int = 256
    ) -> tuple[ThreadTail, ...]:
        return await self.inner.threads(after=after, limit=limit)

    async def capture(self, thread: ThreadId) -> CapturedThread:
        return await self.inner.capture(thread)

    async def run_progress(self, thread: ThreadId, run: RunId) -> RunProgress | None:
        return await self.inner.run_progress(thread, run)

    async def index_state(self, thread: ThreadId) -> IndexState:
        return await self.inner.index_state(thread)

    async def rebuild_indexes(
        self, thread: ThreadId, *, restart: bool = False, limit: int = 1_024
    ) -> IndexState:
        return await self.inner.rebuild_indexes(thread, restart=restart, limit=limit)

    async def delete_thread(self, thread: ThreadId) -> Tombstone:
        return await self.inner.delete_thread(thread)


class Archives:
    """An ArchiveStore that passes every operation on."""

    def __init__(self, inner: ArchiveStore, threads: ThreadStore, reads: type[Threads]) -> None:
        self.inner = inner
        self.threads = threads
        self._reads = reads

    async def seal_range(self, thread: ThreadId, *, through: int) -> ArchiveRange:
        return await self.inner.seal_range(thread, through=through)

    async def archive_range(self, thread: ThreadId, *, first: int) -> ArchiveRange:
        return await self.inner.archive_range(thread, first=first)

    async def ranges(self, thread: ThreadId) -> tuple[ArchiveRange, ...]:
        return await self.inner.ranges(thread)

    async def import_state(self, thread: ThreadId) -> ImportState | None:
        return await self.inner.import_state(thread)

    async def begin_import(self, archive: ThreadTail) -> ImportState:
        return await self.inner.begin_import(archive)

    async def stage_batches(
        self, thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        return await self.inner.stage_batches(thread, batches)

    async def stage_work(self, thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        return await self.inner.stage_work(thread, entries)

    async def staged_work(
        self, thread: ThreadId, *, after: int = 0, limit: int = 256
    ) -> tuple[SubmissionFacts, ...]:
        return await self.inner.staged_work(thread, after=after, limit=limit)

    def import_reader(self, thread: ThreadId) -> ThreadReader:
        return self._reads(cast("ThreadStore", self.inner.import_reader(thread)), self.inner)

    async def publish_import(self, thread: ThreadId) -> ThreadTail:
        return await self.inner.publish_import(thread)

    async def discard_import(self, thread: ThreadId) -> None:
        await self.inner.discard_import(thread)


class Checkpoints:
    """A CheckpointStore that passes every operation on."""

    def __init__(self, inner: CheckpointStore) -> None:
        self.inner = inner

    async def save(self, checkpoint: Checkpoint) -> None:
        await self.inner.save(checkpoint)

    async def load(self, thread: ThreadId, *, at_or_before: int | None = None) -> Checkpoint | None:
        return await self.inner.load(thread, at_or_before=at_or_before)


class Ledger:
    """A SubmissionLedger that passes every operation on."""

    def __init__(self, inner: SubmissionLedger) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


class Settlements:
    """A SettlementPublisher that passes every operation on."""

    def __init__(self, inner: SettlementPublisher) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


class Bundle:
    """A storage that passes everything on, each port through a proxy of its own."""

    threads_type: type[Threads] = Threads
    archives_type: type[Archives] = Archives
    checkpoints_type: type[Checkpoints] = Checkpoints
    ledger_type: type[Ledger] = Ledger
    settlements_type: type[Settlements] = Settlements

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self._threads = self.threads_type(inner.threads, inner.archives)
        self._archives = self.archives_type(inner.archives, inner.threads, self.threads_type)
        offered = inner.checkpoints
        self._checkpoints = None if offered is None else self.checkpoints_type(offered)

        self._ledger: object = self.ledger_type(inner.ledger)
        self._settlements: object = self.settlements_type(inner.settlements)

    @property
    def threads(self) -> Threads:
        return self._threads

    @property
    def archives(self) -> Archives:
        return self._archives

    @property
    def checkpoints(self) -> Checkpoints | None:
        return self._checkpoints

    @property
    def ledger(self) -> SubmissionLedger:
        return cast("SubmissionLedger", self._ledger)

    @property
    def settlements(self) -> SettlementPublisher:
        return cast("SettlementPublisher", self._settlements)

    async def info(self) -> StorageInfo:
        return await self.inner.info()

    async def new_incarnation(self) -> str:
        return await self.inner.new_incarnation()

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.inner.__aexit__(kind, error, trace)
