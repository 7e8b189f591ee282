"""Saboteurs of listing, archives, imports and deletion (LOG-19, ARC)."""

from __future__ import annotations

from asyncio import to_thread
from base64 import urlsafe_b64decode
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from yielded_core.errors import RecordNotFound, ThreadNotMaterialized
from yielded_core.log import append, offsets, retention
from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Batch
from yielded_core.records import bounds
from yielded_core.transfer import files
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Archives, Threads
from yielded_testing.saboteurs.records import known_part

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from yielded_core.ports.threads import ArchiveStore, ThreadReader, ThreadStore
    from yielded_core.ports.values import (
        ArchiveRange,
        ImportState,
        PreparedBatch,
        StoredBatch,
        Tail,
        ThreadTail,
    )
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import RecordId, ThreadId
    from yielded_core.records.prompt_record import PromptRecord
    from yielded_core.transfer.files import ArchiveWriter

    _Writing = AbstractAsyncContextManager[ArchiveWriter]


class PagesByOffset(Threads):
    """The next page of threads begins so many threads on, not after a key."""

    def __init__(self, inner: ThreadStore, archives: ArchiveStore) -> None:
        super().__init__(inner, archives)
        self._given: dict[str, int] = {}

    async def threads(
        self, *, after: ThreadId | None = None, limit: int = 256
    ) -> tuple[ThreadTail, ...]:
        skipped = 0 if after is None else self._given.get(after, -1)
        if skipped < 0:
            page = await self.inner.threads(after=after, limit=limit)
        else:
            await self.inner.threads(limit=limit)
            page = (await self.inner.threads(limit=1_024))[skipped : skipped + limit]
        for number, each in enumerate(page, start=skipped + 1):
            self._given[each.thread_id] = number
        return page


class ExportsTheNewest(Threads):
    """Batches are read up to the tail of the moment, not up to the captured one."""

    async def read_batches(
        self, thread: ThreadId, *, after: int, through: int, byte_limit: int
    ) -> tuple[StoredBatch, ...]:
        await self.inner.read_batches(thread, after=after, through=through, byte_limit=byte_limit)
        tail = (await self.inner.tail(thread)).sequence
        return await self.inner.read_batches(
            thread, after=after, through=max(tail, through), byte_limit=byte_limit
        )


def _any_cursor(_right: object) -> Callable[..., dict[str, object]]:
    """A cursor is only its position: the thread that it was given out for is not compared."""

    def wrong(_incarnation: str, _thread: ThreadId, cursor: str) -> dict[str, object]:
        found: dict[str, object] = orjson.loads(urlsafe_b64decode(cursor.rpartition(".")[2]))
        return found

    return wrong


def _older_format(_right: str) -> str:
    """Pages name an older record format."""
    return "effect-agent/thread@2"


def _named_first(right: Callable[[Path], _Writing]) -> Callable[[Path], _Writing]:
    """An archive file has its name before it is whole."""

    @asynccontextmanager
    async def wrong(path: Path) -> AsyncGenerator[ArchiveWriter]:
        async with right(path) as archive:
            await to_thread(path.touch)
            yield archive

    return wrong


class DestinationAppears(Archives):
    """The destination is registered when its import begins, not when it is published."""

    async def begin_import(self, archive: ThreadTail) -> ImportState:
        state = await self.inner.begin_import(archive)
        await self.threads.materialize(archive.thread_id, epoch=archive.epoch)
        return state


class OneEpochForAll(Archives):
    """Imported batches are given the epoch of the archive instead of their own."""

    async def begin_import(self, archive: ThreadTail) -> ImportState:
        self._epoch = archive.epoch
        return await self.inner.begin_import(archive)

    async def stage_batches(
        self, thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        return await self.inner.stage_batches(
            thread, [(prepared, self._epoch) for prepared, _ in batches]
        )

    def __init__(self, inner: ArchiveStore, threads: ThreadStore, reads: type[Threads]) -> None:
        super().__init__(inner, threads, reads)
        self._epoch = 1


class ImportsKnownFields(Archives):
    """Imported records are written again from the fields that this version knows."""

    async def stage_batches(
        self, thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        known = [(_rewritten(prepared), epoch) for prepared, epoch in batches]
        return await self.inner.stage_batches(thread, known)


def _rewritten(prepared: PreparedBatch) -> PreparedBatch:
    records = tuple(known_part(encoded.record) for encoded in prepared.records)
    return prepare_batch(Batch(prepared.batch_id, prepared.producer_id, records))


class KeepsDiscarded(Archives):
    """Discarding an import leaves what was staged."""

    async def discard_import(self, thread: ThreadId) -> None:
        await self.inner.import_state(thread)


class StagesOneByOne(Archives):
    """A group of batches is staged in a transaction for each."""

    async def stage_batches(
        self, thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        state = await self.inner.stage_batches(thread, ())
        for each in batches:
            state = await self.inner.stage_batches(thread, [each])
        return state


def _archive_s_epoch(right: Callable[..., Any]) -> Callable[..., Any]:
    """A published import takes the archive's epoch, also where the destination's is higher."""

    def wrong(archive: ThreadTail, *others: Any, **named: Any) -> ThreadTail:  # noqa: ANN401
        tail: ThreadTail = right(archive, *others, **named)
        return replace(tail, epoch=archive.epoch)

    return wrong


def _any_part(right: Callable[..., Any]) -> Callable[..., Any]:
    """An import can be published before all of its archive is staged."""

    def wrong(archive: ThreadTail, staged: Tail, *others: Any, **named: Any) -> Any:  # noqa: ANN401
        part = replace(archive, sequence=staged.sequence, digest=staged.digest)
        return right(part, staged, *others, **named)

    return wrong


class ForgetsArchived(Threads):
    """A record is looked up by its id among the records that are not archived."""

    async def get_record(self, thread: ThreadId, record_id: RecordId) -> StoredRecord:
        found = await self.inner.get_record(thread, record_id)
        if found.sequence <= await _archived_through(self.archives, thread):
            raise RecordNotFound(thread, record_id)
        return found


class PromptsWithoutArchived(Threads):
    """A prompt is rebuilt from the records that are not archived."""

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        page = await self.inner.read_prompt(thread, after=after, through=through, limit=limit)
        last = await _archived_through(self.archives, thread)
        return tuple(each for each in page if each.sequence > last)


async def _archived_through(archives: ArchiveStore, thread: ThreadId) -> int:
    """Return the last archived sequence of a thread; 0 without one."""
    try:
        ranges = await archives.ranges(thread)
    except ThreadNotMaterialized:  # a thread that is being imported
        return 0
    return max((each.last_sequence for each in ranges if each.state == "archived"), default=0)


def _one_more(right: int) -> int:
    """An archive range may hold one record more."""
    return right + 1


class ArchivesUnsealed(Archives):
    """Sealing a range archives it at once."""

    async def seal_range(self, thread: ThreadId, *, through: int) -> ArchiveRange:
        sealed = await self.inner.seal_range(thread, through=through)
        return await self.inner.archive_range(thread, first=sealed.first_sequence)


def _no_tombstone(right: Callable[..., Any]) -> Callable[..., Any]:
    """A deleted thread is answered as one that was never registered."""

    def wrong(thread: ThreadId, state: object, _tombstone: object) -> Any:  # noqa: ANN401
        return right(thread, state, None)

    return wrong


def _deletes_open_work(_right: object) -> Callable[..., None]:
    """A thread with open handoffs is deleted."""

    def wrong(*_arguments: object, **_named: object) -> None:
        return None

    return wrong


class ReaderOfTheStart(Archives):
    """A reader of an import keeps the tail that it saw first."""

    def import_reader(self, thread: ThreadId) -> ThreadReader:
        return _FirstTail(cast("ThreadStore", self.inner.import_reader(thread)), self.inner)


class _FirstTail(Threads):
    _seen: ThreadTail | None = None

    async def tail(self, thread: ThreadId) -> ThreadTail:
        now = await self.inner.tail(thread)
        self._seen = self._seen or now
        return self._seen


SABOTEURS: Final = (
    Saboteur("pages-by-offset", ("LOG-19",), "test_a_page_begins_after_a_key", PagesByOffset),
    Saboteur(
        "exports-the-newest",
        ("ARC-2",),
        "test_every_cursor_resumes_its_export",
        ExportsTheNewest,
    ),
    Saboteur(
        "any-cursor",
        ("ARC-2", "STO-4"),
        "test_a_cursor_belongs_to_its_thread",
        WrongRule(offsets, "open_cursor", _any_cursor),
    ),
    Saboteur(
        "older-format",
        ("ARC-1", "ARC-3", "ARC-4", "ARC-5"),
        "test_pages_are_batches_and_then_sections",
        WrongRule(bounds, "RECORD_FORMAT", _older_format),
    ),
    Saboteur(
        "named-before-it-is-whole",
        ("ARC-5",),
        "test_a_file_has_its_name_only_when_it_is_whole",
        WrongRule(files, "write_archive", _named_first),
    ),
    Saboteur(
        "destination-appears",
        ("ARC-4",),
        "test_nothing_is_visible_before_it_is_published",
        DestinationAppears,
    ),
    Saboteur("one-epoch-for-all", ("ARC-4",), "test_everything_is_kept", OneEpochForAll),
    Saboteur(
        "imports-known-fields",
        ("ARC-4", "REC-4"),
        "test_unknown_fields_are_installed",
        ImportsKnownFields,
    ),
    Saboteur(
        "publishes-a-part",
        ("ARC-4",),
        "test_what_is_not_complete_is_not_published",
        WrongRule(retention, "decide_publish", _any_part),
    ),
    Saboteur("keeps-discarded", ("ARC-4",), "test_a_discarded_import_is_gone", KeepsDiscarded),
    Saboteur(
        "stages-one-by-one",
        ("ARC-4",),
        "test_a_group_is_staged_whole_or_not_at_all",
        StagesOneByOne,
    ),
    Saboteur(
        "archive-s-epoch",
        ("ARC-4",),
        "test_the_higher_epoch_stays",
        WrongRule(retention, "decide_publish", _archive_s_epoch),
    ),
    Saboteur(
        "forgets-archived-records",
        ("ARC-6",),
        "test_every_read_is_the_same_before_and_after",
        ForgetsArchived,
    ),
    Saboteur(
        "prompts-without-archived",
        ("ARC-6",),
        "test_every_read_is_the_same_before_and_after",
        PromptsWithoutArchived,
    ),
    Saboteur(
        "range-one-more",
        ("ARC-6",),
        "test_a_range_holds_up_to_1_024_records",
        WrongRule(bounds, "RANGE_RECORDS", _one_more),
    ),
    Saboteur(
        "archives-unsealed",
        ("ARC-6",),
        "test_whole_batches_are_sealed_from_the_oldest",
        ArchivesUnsealed,
    ),
    Saboteur(
        "no-tombstone",
        ("ARC-7",),
        "test_every_operation_tells_that_a_thread_was_deleted",
        WrongRule(append, "require_live", _no_tombstone),
    ),
    Saboteur(
        "deletes-open-work",
        ("ARC-7",),
        "test_a_thread_with_open_work_is_kept",
        WrongRule(retention, "check_deletable", _deletes_open_work),
    ),
    Saboteur(
        "reader-of-the-start",
        ("ARC-8",),
        "test_a_reader_sees_what_is_staged_so_far",
        ReaderOfTheStart,
    ),
)
