"""Verifying a thread in a store, and an archive: what is found, and what is beyond a finding."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import (
    ArchiveRefused,
    CheckpointRefused,
    EvidenceFault,
    NotOffered,
    StorageUnavailable,
    ThreadNotMaterialized,
)
from yielded_core.log import verifier as names
from yielded_core.ports.values import Checkpoint, Finding, IndexState, StoredBatch
from yielded_core.transfer.verify import CHECKPOINTS, INDEXES, verify_archive, verify_thread
from yielded_testing.suites.archive_pages import (
    archive_lines,
    parsed_pages,
    rechained_pages,
    sealed_lines,
    stored_log,
)
from yielded_testing.suites.builders import INSTANT_TEXT, THREAD, Writer, batch, notes
from yielded_testing.suites.support import whole_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from yielded_core.ports.values import Verification
    from yielded_core.records.identifiers import Digest, ThreadId
    from yielded_core.storage import Storage

LOG = stored_log(batch("batch-1", *notes("a", 2)), batch("batch-2", *notes("b", 1)))
LINES = archive_lines(LOG)


async def sent(lines: Sequence[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


def failed(found: Verification) -> dict[str, str]:
    return {each.invariant: each.detail for each in found.findings if each.outcome == "failed"}


def finding(found: Verification, name: str) -> Finding:
    return next(each for each in found.findings if each.invariant == name)


# --- A store -------------------------------------------------------------------------------------


@pytest.mark.rule("ARC-3")
async def test_a_right_thread_is_counted_and_every_invariant_has_its_row(storage: Storage) -> None:
    writer = await Writer.begin(storage, epoch=2)
    await writer.fill(3, 1, 256)
    told: list[int] = []
    found = await verify_thread(storage, THREAD, on_records=told.append)
    assert found.ok
    assert (found.thread_id, found.tail) == (THREAD, writer.tail)
    assert (found.records, found.batches) == (260, 3)
    log = await whole_log(storage)
    assert found.wire_bytes == sum(len(wire) for each in log for _, wire in each.records)
    assert told == [260]
    assert [each.invariant for each in found.findings] == [
        "schema-round-trip",
        "record-identity",
        "sequence-contiguity",
        "digest-chain",
        "continuation-evidence",
        "terminal-uniqueness",
        "fifo-input-order",
        "fifo-settlement-order",
        "ledger-log-agreement",
        "all-settled",
        "checkpoint-binding",
        "index-agreement",
    ]


@pytest.mark.rule("ARC-3")
async def test_the_thread_is_verified_as_it_was_when_it_began(storage: Storage) -> None:
    writer = await Writer.begin(storage)
    await writer.fill(*[1] * 50)
    large = [batch(f"large-{each}", *notes(f"l{each}", 1, "x" * 900_000)) for each in range(9)]
    for each in large:
        await writer.append_batch(each)
    task = asyncio.create_task(verify_thread(storage, THREAD))
    await asyncio.sleep(0)
    await writer.fill(4)
    found = await task
    assert found.ok
    assert found.records == 59


@pytest.mark.rule("ARC-3", "LOG-1")
async def test_a_thread_that_is_not_there_is_an_error(storage: Storage) -> None:
    with pytest.raises(ThreadNotMaterialized):
        await verify_thread(storage, THREAD)
    await storage.threads.materialize(THREAD, epoch=1)
    assert (await verify_thread(storage, THREAD)).ok


@pytest.mark.rule("ARC-3")
@pytest.mark.parametrize(
    ("log", "invariants"),
    [
        (LOG, set[str]()),
        (LOG[:1], {names.SEQUENCE}),
        (LOG[1:], {names.SEQUENCE, names.CHAIN}),
        ([LOG[0], LOG[0], LOG[1]], {names.SEQUENCE, names.CHAIN, names.IDENTITY}),
        ([LOG[0], replace(LOG[1], epoch=0)], {names.CHAIN, names.SEQUENCE}),
        ([LOG[0], replace(LOG[1], last_sequence=2)], {names.SEQUENCE}),
        ([], {names.SEQUENCE}),
    ],
)
async def test_a_damaged_store_is_swept_to_its_end(
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    log: Sequence[StoredBatch],
    invariants: set[str],
) -> None:
    writer = await Writer.begin(storage)
    await writer.append_batch(batch("batch-1", *notes("a", 2)))
    await writer.append_batch(batch("batch-2", *notes("b", 1)))
    given = iter([log])

    async def read(_thread: ThreadId, **_options: int) -> tuple[StoredBatch, ...]:
        return tuple(next(given, ()))

    monkeypatch.setattr(storage.threads, "read_batches", read)
    found = await verify_thread(storage, THREAD)
    assert set(failed(found)) == invariants
    assert found.ok == (not invariants)


@pytest.mark.rule("ARC-3")
async def test_a_store_that_cannot_give_a_batch_is_a_finding_or_an_error(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await Writer.begin(storage)).fill(2)
    faults: list[Exception] = [
        EvidenceFault(THREAD, "evidence-missing", "record 2 is not there"),
        StorageUnavailable("it went away"),
    ]

    async def read(_thread: ThreadId, **_options: int) -> tuple[StoredBatch, ...]:
        raise faults.pop(0)

    monkeypatch.setattr(storage.threads, "read_batches", read)
    found = await verify_thread(storage, THREAD)
    assert set(failed(found)) == {names.SEQUENCE}
    assert "record 2 is not there" in failed(found)[names.SEQUENCE]
    with pytest.raises(StorageUnavailable):
        await verify_thread(storage, THREAD)


@pytest.mark.rule("ARC-3", "LOG-17")
async def test_the_indexes_must_reach_the_tail(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await Writer.begin(storage)).fill(2)
    assert finding(await verify_thread(storage, THREAD), INDEXES).outcome == "passed"

    async def behind(_thread: ThreadId) -> IndexState:
        return IndexState(1, 2)

    async def without(_thread: ThreadId) -> IndexState:
        raise NotOffered("it has no indexes")

    monkeypatch.setattr(storage.threads, "index_state", behind)
    found = finding(await verify_thread(storage, THREAD), INDEXES)
    assert found == Finding(INDEXES, "failed", "indexed through 1 of 2")
    monkeypatch.setattr(storage.threads, "index_state", without)
    found = finding(await verify_thread(storage, THREAD), INDEXES)
    assert found == Finding(INDEXES, "skipped", "it has no indexes")


def checkpoint(sequence: int, digest: Digest) -> Checkpoint:
    return Checkpoint(THREAD, sequence, digest, {"n": sequence}, INSTANT_TEXT)


@pytest.mark.rule("ARC-3", "LOG-13")
async def test_every_checkpoint_must_bind(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = storage.checkpoints
    assert checkpoints is not None
    writer = await Writer.begin(storage)
    found = finding(await verify_thread(storage, THREAD), CHECKPOINTS)
    assert found == Finding(CHECKPOINTS, "passed", "0 checkpoints")
    for _ in range(3):
        await writer.fill(2)
        await checkpoints.save(checkpoint(writer.tail.sequence, writer.tail.digest))
    found = finding(await verify_thread(storage, THREAD), CHECKPOINTS)
    assert found == Finding(CHECKPOINTS, "passed", "3 checkpoints")
    load = checkpoints.load

    async def damaged(thread: ThreadId, *, at_or_before: int | None = None) -> Checkpoint | None:
        if at_or_before is not None and at_or_before < 4:
            raise CheckpointRefused(thread, 2, "digest-mismatch")
        return await load(thread, at_or_before=at_or_before)

    monkeypatch.setattr(checkpoints, "load", damaged)
    found = finding(await verify_thread(storage, THREAD), CHECKPOINTS)
    assert found == Finding(CHECKPOINTS, "failed", "sequence 2: digest-mismatch")


@pytest.mark.rule("ARC-3", "LOG-13")
async def test_a_store_without_checkpoints_is_not_asked_for_them(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    monkeypatch.setattr(type(storage), "checkpoints", None)
    found = finding(await verify_thread(storage, THREAD), CHECKPOINTS)
    assert found.outcome == "skipped"


# --- An archive ----------------------------------------------------------------------------------


@pytest.mark.rule("ARC-3")
async def test_a_right_archive_passes() -> None:
    found = await verify_archive(sent(LINES))
    assert found.ok
    assert (found.thread_id, found.records, found.batches) == (THREAD, 3, 2)
    assert found.tail.digest == LOG[-1].tail_digest
    assert finding(found, INDEXES).outcome == finding(found, CHECKPOINTS).outcome == "skipped"


@pytest.mark.rule("ARC-3")
async def test_an_archive_that_is_not_whole_is_an_error() -> None:
    for lines in ([], LINES[:-1], LINES[1:], [*LINES, LINES[0]], [LINES[0][:-1], *LINES[1:]]):
        with pytest.raises(ArchiveRefused):
            await verify_archive(sent(lines))


@pytest.mark.rule("ARC-3")
async def test_a_faulty_log_in_a_whole_archive_is_a_finding() -> None:
    pages = parsed_pages(LINES)
    pages[0]["batch"]["records"][1]["family"] = "other"
    found = await verify_archive(sent(sealed_lines(rechained_pages(pages))))
    assert set(failed(found)) == {names.SCHEMA}
    assert failed(found)[names.SCHEMA].startswith("sequence 2: ")
    pages = parsed_pages(LINES)
    pages[1]["batch"]["records"][0]["recordId"] = "a-1"
    found = await verify_archive(sent(sealed_lines(rechained_pages(pages))))
    assert set(failed(found)) == {names.IDENTITY}
    pages = parsed_pages(LINES)
    pages[1]["batch"]["records"][0]["deploymentId"] = "deployment-2"
    found = await verify_archive(sent(sealed_lines(pages)))
    assert set(failed(found)) == {names.CHAIN}
