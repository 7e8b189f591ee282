"""Importing an archive: everything is verified, staged where no reader sees it, then published."""

from __future__ import annotations

import hashlib
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from yielded_core.errors import (
    AppendConflict,
    ArchiveRefused,
    ImportRefused,
    InvalidInput,
    ProgressRefused,
    StorageCorrupt,
    YieldedError,
)
from yielded_core.log.verifier import CHAIN, SEQUENCE
from yielded_core.transfer.checking import READ_BYTES, ArchiveCheck, grouped
from yielded_core.transfer.offload import off_loop
from yielded_core.transfer.work import WorkImport

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Sequence

    from yielded_core.log.verifier import Fault
    from yielded_core.ports.values import (
        ImportState,
        StoredBatch,
        Tail,
        ThreadTail,
    )
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage
    from yielded_core.transfer.checking import CheckedPage

_CHAIN: Final = frozenset({CHAIN, SEQUENCE})


async def import_archive(
    storage: Storage,
    lines: AsyncIterable[bytes],
    *,
    on_page: Callable[[int], None] | None = None,
) -> ThreadTail:
    """Install an archive as a new thread and return its tail (ARC-4).

    `lines` are the lines of the archive in order; a generator is closed at the end. `on_page` is
    told the number of each page once its batch is staged. Nothing is visible before all of the
    archive is verified, and what was staged was read back and found equal. A refused archive leaves
    the destination as it was. An import that was cancelled or cut off stays staged: the same call
    resumes it, and `discard_import` forgets it.

    Raises ArchiveRefused, and ImportRefused (`destination-not-empty`, `in-progress`, `discarded`).
    """
    with ArchiveCheck() as check:
        work = _Import(storage, check)
        try:
            async with aclosing(grouped(lines)) as groups:
                async for group in groups:
                    for page in await work.stage(group):
                        if on_page is not None:
                            on_page(page)
            return await work.publish()
        except (ArchiveRefused, ImportRefused) as refusal:
            await work.discard(refusal)
            raise


class _Import:
    """One import: how far it was checked and staged."""

    def __init__(self, storage: Storage, check: ArchiveCheck) -> None:
        self._storage = storage
        self._check = check
        self._read = _Fingerprint()
        self._state: ImportState | None = None
        self._begun: ThreadId | None = None
        """The thread whose staged import is this one's to discard."""

    async def stage(self, lines: Sequence[bytes]) -> Sequence[int]:
        """Check the next lines and stage their batches; return the numbers of their pages."""
        checked = await off_loop(partial(self._checked, lines))
        state = self._state or await self._begin(checked[0].page.captured.tail)
        new = [each for each in checked if _is_new(each, state.staged)]
        self._state = await self._staged(state, new) if new else state
        return [each.page.number for each in checked]

    async def publish(self) -> ThreadTail:
        """Verify what spans the whole archive, compare it with what was staged, and publish it."""
        captured, verifier = self._check.finish()
        thread = captured.tail.thread_id
        last = self._check.pages
        await off_loop(partial(verifier.finish, captured.tail))
        _refuse_fault(last, verifier.fault)
        obligation = await off_loop(verifier.obligation)
        if obligation is not None:
            raise ArchiveRefused(last, "obligation", obligation)
        await WorkImport(self._storage, self._check, captured.tail).install()
        await self._read_back(captured.tail)
        return await self._storage.archives.publish_import(thread)

    async def discard(self, refusal: ArchiveRefused | ImportRefused) -> None:
        """Forget what was staged for a refused archive, unless it is another import's."""
        other = isinstance(refusal, ImportRefused) and refusal.reason == "in-progress"
        if self._begun is None or other:
            return
        try:
            await self._storage.archives.discard_import(self._begun)
        except YieldedError as error:
            refusal.add_note(f"what was staged is still there: {error}")

    def _checked(self, lines: Sequence[bytes]) -> list[CheckedPage]:
        checked: list[CheckedPage] = []
        for line in lines:
            found = self._check.take(line)
            _refuse_fault(found.page.number, self._check.fault)
            if found.page.batch is not None:
                self._read.add(found.page.batch)
            checked.append(found)
        return checked

    async def _begin(self, captured: ThreadTail) -> ImportState:
        try:
            state = await self._storage.archives.begin_import(captured)
        except ImportRefused as refusal:
            if refusal.reason != "in-progress":
                self._begun = captured.thread_id
            raise
        self._begun = captured.thread_id
        return state

    async def _staged(self, state: ImportState, new: Sequence[CheckedPage]) -> ImportState:
        thread = state.thread_id
        batches = [
            (each.prepared, each.page.batch.epoch)
            for each in new
            if each.prepared is not None and each.page.batch is not None
        ]
        try:
            return await self._storage.archives.stage_batches(thread, batches)
        except (AppendConflict, InvalidInput, ProgressRefused) as error:
            now = await self._storage.archives.import_state(thread)
            if now is not None and now.staged != state.staged:
                detail = "another import stages the same archive"
                raise ImportRefused(thread, "in-progress", detail) from error
            raise ArchiveRefused(new[0].page.number, "record", str(error)) from error

    async def _read_back(self, captured: ThreadTail) -> None:
        """Compare what would be published, byte for byte, with what was verified (ARC-8)."""
        reader = self._storage.archives.import_reader(captured.thread_id)
        staged = _Fingerprint()
        while staged.sequence < captured.sequence:
            batches = await reader.read_batches(
                captured.thread_id,
                after=staged.sequence,
                through=captured.sequence,
                byte_limit=READ_BYTES,
            )
            before = staged.sequence
            await off_loop(partial(staged.add_all, batches))
            if staged.sequence <= before:
                break
        if not staged.equals(self._read):
            raise StorageCorrupt("what was staged is not what the archive holds; discard it")


class _Fingerprint:
    """A digest over everything that a sequence of batches holds."""

    def __init__(self) -> None:
        self.sequence = 0
        self._digest = hashlib.sha256()

    def add(self, batch: StoredBatch) -> None:
        """Add the next batch."""
        head = (
            batch.batch_id,
            batch.producer_id,
            batch.epoch,
            batch.first_sequence,
            batch.last_sequence,
            batch.content_digest,
            batch.tail_digest,
            batch.epoch_seal,
            [(record_id, len(wire)) for record_id, wire in batch.records],
        )
        self._digest.update(orjson.dumps(head))
        self._digest.update(b"".join(wire for _, wire in batch.records))
        self.sequence = batch.last_sequence

    def add_all(self, batches: Sequence[StoredBatch]) -> None:
        """Add the next batches."""
        for batch in batches:
            self.add(batch)

    def equals(self, other: _Fingerprint) -> bool:
        """Say whether the other one saw the same batches."""
        return self._digest.digest() == other._digest.digest()


def _is_new(checked: CheckedPage, staged: Tail) -> bool:
    """Say whether a page's batch is to be staged; one staged before must end where that one did."""
    batch = checked.page.batch
    if batch is None:
        return False
    ends_there = batch.last_sequence == staged.sequence
    spans = batch.first_sequence <= staged.sequence < batch.last_sequence
    if spans or (ends_there and batch.tail_digest != staged.digest):
        detail = "its batches are not those that were staged before the interruption"
        raise ArchiveRefused(checked.page.number, "mismatch", detail)
    return batch.first_sequence > staged.sequence


def _refuse_fault(page: int, fault: Fault | None) -> None:
    if fault is not None:
        reason = "chain" if fault.invariant in _CHAIN else "record"
        detail = f"{fault.invariant} at sequence {fault.sequence}: {fault.detail}"
        raise ArchiveRefused(page, "dependency" if fault.dependency else reason, detail)
