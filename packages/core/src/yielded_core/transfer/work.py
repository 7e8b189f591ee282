"""Importing accepted work: checked against the log, staged in the order of its lane (ARC-4)."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson

from yielded_core.errors import (
    ArchiveRefused,
    EvidenceFault,
    ImportRefused,
    InvalidInput,
    StorageCorrupt,
)
from yielded_core.ledger.audit import AGREEMENT, WorkAudit
from yielded_core.ledger.restoring import needs_evidence, restored
from yielded_core.records.bounds import EVIDENCE_RECORDS, TRANSFER_FACTS
from yielded_core.records.canonical import canonical_json
from yielded_core.records.identifiers import run_id
from yielded_core.transfer.checking import GROUP_BYTES, GROUP_LINES
from yielded_core.transfer.offload import off_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from yielded_core.ports.values import ThreadTail
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.storage import Storage
    from yielded_core.transfer.checking import ArchiveCheck, CheckedWork

_OTHER: Final = "its work is not what was staged before the interruption"


class WorkImport:
    """The lane of one import whose batches are all staged."""

    def __init__(self, storage: Storage, check: ArchiveCheck, captured: ThreadTail) -> None:
        self._archives = storage.archives
        self._check = check
        self._tail = captured
        self._thread = captured.thread_id

    async def install(self) -> None:
        """Check and stage every submission of the archive, and compare what was staged with it.

        Raises ArchiveRefused: `record` and `dependency` as the facts are read, `record` where they
        and the log do not agree, `mismatch` where an interrupted import staged others.
        """
        state = await self._archives.import_state(self._thread)
        staged = 0 if state is None else state.work
        wanted = _WorkFingerprint()
        with WorkAudit() as audit:
            groups = _grouped(self._check.work())
            while group := await off_loop(partial(next, groups, ())):
                await off_loop(partial(_judge, audit, group))
                entries = [await self._restored(one) for one in group]
                await off_loop(partial(wanted.add, entries))
                await self._stage(group[0].page, staged, entries)
            await off_loop(audit.finish)
            _refuse_disagreement(audit, self._check.pages)
        await self._read_back(wanted, staged)

    async def _stage(self, page: int, staged: int, entries: Sequence[SubmissionFacts]) -> None:
        """Stage what was not before; what was must be the same."""
        new = [one for one in entries if one.submission.queue_sequence > staged]
        known = entries[: len(entries) - len(new)]
        if known:
            first, last = (known[at].submission.queue_sequence for at in (0, -1))
            read = _WorkFingerprint()
            after = first - 1
            while after < last:
                found = await self._archives.staged_work(
                    self._thread, after=after, limit=min(last - after, TRANSFER_FACTS)
                )
                if not found:
                    break
                await off_loop(partial(read.add, found))
                after = found[-1].submission.queue_sequence
            same = _WorkFingerprint()
            await off_loop(partial(same.add, known))
            if not read.equals(same):
                raise ArchiveRefused(page, "mismatch", _OTHER)
        if not new:
            return
        try:
            await self._archives.stage_work(self._thread, new)
        except InvalidInput as error:
            now = await self._archives.import_state(self._thread)
            if now is not None and now.work >= new[0].submission.queue_sequence:
                detail = "another import stages the same archive"
                raise ImportRefused(self._thread, "in-progress", detail) from error
            raise ArchiveRefused(page, "record", str(error)) from error

    async def _restored(self, checked: CheckedWork) -> SubmissionFacts:
        evidence: list[StoredRecord] = []
        if needs_evidence(checked.trace):
            evidence = await self._evidence(checked)
        try:
            return await off_loop(partial(restored, checked.work, checked.trace, evidence))
        except EvidenceFault as error:
            raise ArchiveRefused(checked.page, "record", str(error)) from None

    async def _evidence(self, checked: CheckedWork) -> list[StoredRecord]:
        """Read the records of a submission's run from what is staged."""
        reader = self._archives.import_reader(self._thread)
        run = run_id(checked.work.prepared.submission_id)
        found: list[StoredRecord] = []
        while True:
            page = await reader.read_run_evidence(
                self._thread,
                run,
                after=found[-1].sequence if found else 0,
                through=self._tail.sequence,
            )
            found.extend(page)
            if len(page) < EVIDENCE_RECORDS:
                return found

    async def _read_back(self, wanted: _WorkFingerprint, staged: int) -> None:
        """Compare what would be published with what was verified (ARC-8)."""
        read = _WorkFingerprint()
        while True:
            found = await self._archives.staged_work(self._thread, after=read.place)
            if not found:
                break
            await off_loop(partial(read.add, found))
        if staged > wanted.place:
            raise ArchiveRefused(self._check.pages, "mismatch", _OTHER)
        if not read.equals(wanted):
            raise StorageCorrupt("the work that was staged is not what the archive holds")


class _WorkFingerprint:
    """A digest over everything that a sequence of submissions consists of."""

    def __init__(self) -> None:
        self.place = 0
        self._digest = hashlib.sha256()

    def add(self, entries: Iterable[SubmissionFacts]) -> None:
        """Add the next submissions."""
        for entry in entries:
            resolutions = [
                (one.tool_call_id, one.resolution, one.author, one.reason, one.resolved_at)
                for one in entry.resolutions
            ]
            told = (entry.submission, entry.approvals, entry.unknown_calls, resolutions)
            texts = (
                orjson.dumps(told),
                entry.input,
                entry.linkage,
                entry.message,
                *(canonical_json(one.result) for one in entry.resolutions),
            )
            for text in texts:
                self._digest.update(len(text).to_bytes(8, "big") + text)
            self.place = entry.submission.queue_sequence

    def equals(self, other: _WorkFingerprint) -> bool:
        """Say whether the other one saw the same submissions."""
        return self._digest.digest() == other._digest.digest()


def _grouped(work: Iterator[CheckedWork]) -> Iterator[list[CheckedWork]]:
    """Return submissions in groups of at most 256 and about 1 MiB of text."""
    group: list[CheckedWork] = []
    size = 0
    for one in work:
        prepared = one.work.prepared
        length = len(prepared.input) + len(prepared.linkage) + len(prepared.message)
        if group and (len(group) >= GROUP_LINES or size + length > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(one)
        size += length
    if group:
        yield group


def _judge(audit: WorkAudit, group: Sequence[CheckedWork]) -> None:
    for one in group:
        audit.take(one.accepted, one.trace)
        _refuse_disagreement(audit, one.page)


def _refuse_disagreement(audit: WorkAudit, page: int) -> None:
    """Refuse work that the log contradicts. Its order is for `verify` to judge (CRT-6)."""
    fault = audit.fault(AGREEMENT)
    if fault is not None:
        detail = f"{fault.invariant} at submission {fault.place}: {fault.detail}"
        raise ArchiveRefused(page, "record", detail)
