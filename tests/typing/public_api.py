"""What the type checker must infer from the public API (TEST-009).

Nothing here runs: the checker reads it with the rest of the tree. An ignored error is one that
must be there, because an unnecessary ignore is an error itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from yielded_core import (
    Admission,
    Admitted,
    Appended,
    AttemptId,
    Batch,
    BatchId,
    DeploymentId,
    Digest,
    Grant,
    IdempotencyKey,
    Offset,
    OwnershipToken,
    PreparedBatch,
    Principal,
    ProducerId,
    Record,
    RecordId,
    RunId,
    Storage,
    StoredRecord,
    Submission,
    Tail,
    ThreadId,
    ThreadTail,
    instant_now,
    open_storage,
    prepare_batch,
)
from yielded_core.ports.ledger import SettlementPublisher, SubmissionLedger
from yielded_core.ports.threads import ArchiveStore, CheckpointStore, ThreadReader, ThreadStore
from yielded_core.ports.values import (
    ArchiveRange,
    Checkpoint,
    ImportState,
    StorageInfo,
    StoredBatch,
    ThreadIdentity,
    Tombstone,
)
from yielded_core.ports.work import AdmittedWork, Indeterminate, NotAdmitted
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.records.prompt_record import PromptRecord

if TYPE_CHECKING:
    from yielded_storage_memory import MemoryStorage
    from yielded_storage_sqlite import SqliteStorage

THREAD = ThreadId("thread")


async def a_storage_is_what_its_url_names() -> None:
    async with open_storage("sqlite:///agents.db") as storage:
        assert_type(storage, Storage)
        assert_type(storage.threads, ThreadStore)
        assert_type(storage.archives, ArchiveStore)
        assert_type(storage.checkpoints, CheckpointStore | None)
        assert_type(await storage.info(), StorageInfo)


def adapters_are_storages(memory: MemoryStorage, sqlite: SqliteStorage) -> list[Storage]:
    return [memory, sqlite]


async def an_append_returns_what_was_committed(storage: Storage) -> None:
    before = await storage.threads.materialize(THREAD, epoch=1)
    assert_type(before, ThreadTail)
    assert_type(before.tail, Tail)
    record = Record(
        record_id=RecordId("record"),
        created_at=instant_now(),
        deployment_id=DeploymentId("deployment"),
        payload=UserInputRecorded(kind="user", input={"text": "hello"}),
    )
    batch = Batch(BatchId("batch"), ProducerId("producer"), (record,))
    prepared = prepare_batch(batch)
    assert_type(prepared, PreparedBatch)
    done = await storage.threads.append(THREAD, prepared, expected=before.tail, epoch=1)
    assert_type(done, Appended)
    assert_type(done.tail.digest, Digest)


async def reads_return_records(storage: Storage) -> None:
    threads = storage.threads
    assert_type(await threads.read(THREAD), tuple[StoredRecord, ...])
    assert_type(await threads.identity(THREAD), ThreadIdentity)
    assert_type(
        await threads.read_prompt(THREAD, after=0, through=1, limit=8), tuple[PromptRecord, ...]
    )
    assert_type(
        await threads.read_batches(THREAD, after=0, through=1, byte_limit=1),
        tuple[StoredBatch, ...],
    )
    async for stored in threads.observe(THREAD):
        assert_type(stored, StoredRecord)
        assert_type(stored.offset, Offset)


async def archives_and_checkpoints(storage: Storage, checkpoints: CheckpointStore) -> None:
    assert_type(await storage.archives.seal_range(THREAD, through=8), ArchiveRange)
    assert_type(await storage.archives.import_state(THREAD), ImportState | None)
    assert_type(storage.archives.import_reader(THREAD), ThreadReader)
    assert_type(await storage.threads.delete_thread(THREAD), Tombstone)
    assert_type(await checkpoints.load(THREAD), Checkpoint | None)


async def identifiers_do_not_mix(storage: Storage, run: RunId) -> None:
    await storage.threads.tail(run)  # pyright: ignore[reportArgumentType]
    await storage.threads.tail("thread")  # pyright: ignore[reportArgumentType]
    await storage.threads.get_record(THREAD, run)  # pyright: ignore[reportArgumentType]


async def an_append_names_its_tail_and_epoch(storage: Storage, batch: Batch) -> None:
    await storage.threads.append(THREAD, batch, epoch=1)  # pyright: ignore[reportCallIssue]
    await storage.threads.append(  # pyright: ignore[reportCallIssue]
        THREAD, batch, expected=Tail(0, Digest("0" * 64))
    )


def payloads_are_closed() -> None:
    UserInputRecorded(kind="other", input=None)  # pyright: ignore[reportArgumentType]
    UserInputRecorded(kind="user", input=None, inptu=None)  # pyright: ignore[reportCallIssue]


async def accepted_work_has_types_of_its_own(storage: Storage) -> None:
    ledger = storage.ledger
    assert_type(ledger, SubmissionLedger)
    assert_type(storage.settlements, SettlementPublisher)
    work = Admission(THREAD, Principal("somebody"), IdempotencyKey("key"), {"a": [1, None]})
    admitted = await ledger.admit(work)
    assert_type(admitted, Admitted)
    assert_type(await ledger.mark_ready(THREAD, admitted.submission_id), Submission)
    token = OwnershipToken("token")
    grant = await ledger.claim(THREAD, attempt=AttemptId("attempt"), token=token)
    assert_type(grant, Grant | None)
    assert_type(await ledger.renew(THREAD, token=token), int)
    assert_type(await ledger.lookup(admitted.submission_id), AdmittedWork | None)
    answer = await ledger.resolve_admission(THREAD, work.principal, work.idempotency_key)
    assert_type(answer, NotAdmitted | AdmittedWork | Indeterminate)
    await ledger.mark_ready(admitted.submission_id, THREAD)  # pyright: ignore[reportArgumentType]
    await ledger.renew(THREAD, token=admitted.receipt_id)  # pyright: ignore[reportArgumentType]
