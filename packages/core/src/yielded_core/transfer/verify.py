"""Verifying a thread of a store, or an archive, against the invariants of a log (ARC-3, CRT-6)."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

from yielded_core.errors import (
    CheckpointRefused,
    EvidenceFault,
    InvalidArgument,
    NotOffered,
    StorageCorrupt,
)
from yielded_core.ledger.audit import WorkAudit
from yielded_core.ledger.traces import WorkTraces
from yielded_core.log.verifier import LogVerifier
from yielded_core.ports.values import Finding, Verification
from yielded_core.transfer.checking import READ_BYTES, ArchiveCheck, grouped
from yielded_core.transfer.offload import off_loop
from yielded_core.transfer.spill import spilled_states, spilled_traces
from yielded_core.transfer.stored_work import StoredWork

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Sequence

    from yielded_core.ports.values import StoredBatch, ThreadTail
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage

CHECKPOINTS: Final = "checkpoint-binding"
INDEXES: Final = "index-agreement"


async def verify_thread(
    storage: Storage, thread: ThreadId, *, on_records: Callable[[int], None] | None = None
) -> Verification:
    """Verify a thread as it is now; `on_records` is told the number of records verified so far.

    What is wrong with the thread is in the findings. Raises ThreadNotMaterialized, ThreadDeleted
    and the StorageError family.
    """
    await storage.threads.tail(thread)
    with (
        StoredWork() as work,
        spilled_states() as states,
        spilled_traces() as kept,
        LogVerifier(thread, states) as verifier,
    ):
        await work.read(storage, thread)
        captured = await storage.threads.capture(thread)
        traces = WorkTraces(kept)
        await _feed_stored(storage, captured.tail, verifier, traces, on_records)
        findings = await off_loop(partial(verifier.finish, captured.tail))
        return _verification(
            captured.tail,
            verifier,
            (
                *findings,
                *await off_loop(partial(work.findings, traces)),
                await _checkpoints(storage, captured.tail),
                await _indexes(storage, thread),
            ),
        )


async def verify_archive(lines: AsyncIterable[bytes]) -> Verification:
    """Verify the log that an archive holds, from its lines in order.

    A generator of lines is closed at the end. Raises ArchiveRefused where the archive itself is not
    whole: a page that is changed, missing or out of place.
    """
    with ArchiveCheck() as check:
        async with aclosing(grouped(lines)) as groups:
            async for group in groups:
                await off_loop(partial(_take, check, group))
        captured, verifier = check.finish()
        findings = await off_loop(partial(verifier.finish, captured.tail))
        return _verification(
            captured.tail,
            verifier,
            (
                *findings,
                *await off_loop(partial(_archived_work, check)),
                Finding(CHECKPOINTS, "skipped", "an archive holds no checkpoints"),
                Finding(INDEXES, "skipped", "an archive holds no indexes"),
            ),
        )


def _archived_work(check: ArchiveCheck) -> tuple[Finding, ...]:
    with WorkAudit() as audit:
        for one in check.work():
            audit.take(one.accepted, one.trace)
        return audit.finish()


async def _feed_stored(
    storage: Storage,
    tail: ThreadTail,
    verifier: LogVerifier,
    traces: WorkTraces,
    on_records: Callable[[int], None] | None,
) -> None:
    after = 0
    while after < tail.sequence:
        try:
            batches = await storage.threads.read_batches(
                tail.thread_id, after=after, through=tail.sequence, byte_limit=READ_BYTES
            )
        except (EvidenceFault, InvalidArgument, StorageCorrupt) as error:
            verifier.unreadable(str(error))
            return
        await off_loop(partial(_feed, verifier, traces, batches))
        if not batches or batches[-1].last_sequence <= after:
            return
        after = batches[-1].last_sequence
        if on_records is not None:
            on_records(verifier.records)


def _feed(verifier: LogVerifier, traces: WorkTraces, batches: Sequence[StoredBatch]) -> None:
    for batch in batches:
        prepared = verifier.feed(batch)
        if prepared is not None:
            traces.apply(batch.first_sequence, prepared.records)


def _take(check: ArchiveCheck, lines: Sequence[bytes]) -> None:
    for line in lines:
        check.take(line)


async def _checkpoints(storage: Storage, tail: ThreadTail) -> Finding:
    """Load every checkpoint, the newest first: loading one checks what it binds to (LOG-13)."""
    if storage.checkpoints is None:
        return Finding(CHECKPOINTS, "skipped", "the store offers no checkpoints")
    found = 0
    through = tail.sequence
    while through > 0:
        try:
            checkpoint = await storage.checkpoints.load(tail.thread_id, at_or_before=through)
        except CheckpointRefused as error:
            return Finding(CHECKPOINTS, "failed", f"sequence {error.sequence}: {error.reason}")
        if checkpoint is None:
            break
        found += 1
        through = checkpoint.through_sequence - 1
    return Finding(CHECKPOINTS, "passed", f"{found} checkpoints")


async def _indexes(storage: Storage, thread: ThreadId) -> Finding:
    try:
        state = await storage.threads.index_state(thread)
    except NotOffered as error:
        return Finding(INDEXES, "skipped", error.detail)
    detail = f"indexed through {state.indexed_through} of {state.tail_sequence}"
    return Finding(INDEXES, "passed" if state.complete else "failed", detail)


def _verification(
    tail: ThreadTail, verifier: LogVerifier, findings: tuple[Finding, ...]
) -> Verification:
    return Verification(
        tail.thread_id,
        tail.tail,
        verifier.records,
        verifier.batches,
        verifier.wire_bytes,
        findings,
    )
