"""Importing: everything is verified before anything is visible, and a refusal leaves no trace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pytest

from yielded_core.digest import batch_content, chain_digest
from yielded_core.errors import (
    AppendConflict,
    ArchiveRefused,
    ImportRefused,
    StorageBusy,
    StorageCorrupt,
    StorageUnavailable,
    ThreadDeleted,
    ThreadNotMaterialized,
    YieldedError,
)
from yielded_core.log.pages import read_page, seal_page
from yielded_core.ports.values import ThreadTail
from yielded_core.transfer import importing
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.importing import import_archive
from yielded_core.transfer.verify import verify_thread
from yielded_testing.sample_parts import Subject
from yielded_testing.samples import sample_payload
from yielded_testing.suites.archive_pages import (
    Page,
    archive_lines,
    parsed_pages,
    rechained_pages,
    sealed_lines,
    stored_log,
)
from yielded_testing.suites.builders import (
    EMPTY,
    EMPTY_DIGEST,
    OTHER,
    THREAD,
    Writer,
    batch,
    note,
    notes,
    record,
)
from yielded_testing.suites.support import whole_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from yielded_core.ports.threads import ThreadReader
    from yielded_core.ports.values import ImportState, PreparedBatch, StoredBatch, Tail
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage

Refusal = TypeVar("Refusal", bound=YieldedError)
LOG = stored_log(*(batch(f"batch-{each}", *notes(f"note-{each}", 3)) for each in range(700)))
LINES = archive_lines(LOG, epoch=5)
SMALL = archive_lines(LOG[:3], epoch=5)


async def sent(lines: Sequence[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def refused(kind: type[Refusal], storage: Storage, lines: Sequence[bytes]) -> Refusal:
    """Return the error of an import that must leave the destination as it was."""
    before = await storage.threads.threads()
    with pytest.raises(kind) as caught:
        await import_archive(storage, sent(lines))
    assert await storage.threads.threads() == before
    return caught.value


async def untouched(storage: Storage) -> None:
    assert await storage.archives.import_state(THREAD) is None
    with pytest.raises(ThreadNotMaterialized):
        await storage.threads.tail(THREAD)


# --- A right archive -----------------------------------------------------------------------------


@pytest.mark.rule("ARC-4")
async def test_a_thread_arrives_byte_for_byte(storage: Storage, destination: Storage) -> None:
    writer = await Writer.begin(storage, epoch=2)
    await writer.fill(1, 256, 3)
    await storage.threads.materialize(THREAD, epoch=7)
    writer.epoch = 7
    await writer.append(*notes("late", 2))
    pages = [page.text async for page in export_pages(storage, THREAD)]
    told: list[int] = []
    tail = await import_archive(destination, sent(pages), on_page=told.append)
    assert tail == await storage.threads.tail(THREAD) == await destination.threads.tail(THREAD)
    assert await whole_log(destination) == await whole_log(storage)
    assert told == list(range(1, 10))
    assert await destination.archives.import_state(THREAD) is None
    assert (await verify_thread(destination, THREAD)).ok
    again = [page.text async for page in export_pages(destination, THREAD)]
    seals = ("cursor", "pageDigest", "previousPageDigest")
    for page in (*(here := parsed_pages(pages)), *(there := parsed_pages(again))):
        for seal in seals:
            page.pop(seal, None)
    assert here == there


@pytest.mark.rule("ARC-4")
async def test_an_empty_thread_arrives(destination: Storage) -> None:
    tail = await import_archive(destination, sent(archive_lines([], epoch=3)))
    assert tail == ThreadTail(THREAD, 0, EMPTY_DIGEST, 3)
    assert await destination.threads.tail(THREAD) == tail


@pytest.mark.rule("ARC-4")
async def test_a_thread_that_only_is_registered_receives_the_archive(destination: Storage) -> None:
    await destination.threads.materialize(THREAD, epoch=9)
    assert (await import_archive(destination, sent(SMALL))).epoch == 9
    assert await whole_log(destination) == LOG[:3]


@pytest.mark.rule("ARC-4")
async def test_nothing_is_visible_before_all_of_it(destination: Storage) -> None:
    seen: list[int] = []

    async def watched() -> AsyncIterator[bytes]:
        for number, line in enumerate(LINES):
            seen.append(len(await destination.threads.threads()))
            if number == 600:
                state = await destination.archives.import_state(THREAD)
                assert state is not None
                assert 0 < state.staged.sequence < state.tail.sequence
            yield line

    await import_archive(destination, watched())
    assert set(seen) == {0}
    assert await whole_log(destination) == LOG


@pytest.mark.rule("ARC-4")
async def test_batches_are_staged_in_bounded_groups(
    destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = destination.archives.stage_batches
    sizes: list[tuple[int, int]] = []

    async def measured(
        thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        sizes.append((len(batches), sum(len(each.content) for each, _ in batches)))
        return await stage(thread, batches)

    monkeypatch.setattr(destination.archives, "stage_batches", measured)
    await import_archive(destination, sent(LINES))
    assert [count for count, _ in sizes] == [256, 256, 188]
    sizes.clear()
    wide = [batch(f"wide-{each}", note(f"w-{each}", "x" * 250_000)) for each in range(9)]
    await import_archive(destination, sent(archive_lines(stored_log(*wide), thread=OTHER)))
    assert [count for count, _ in sizes] == [4, 4, 1]
    assert max(size for _, size in sizes) < 1_048_576


# --- Archives that are refused -------------------------------------------------------------------


@pytest.mark.rule("ARC-4")
@pytest.mark.parametrize("index", range(8))
async def test_a_changed_byte_on_any_page_is_refused(destination: Storage, index: int) -> None:
    line = bytearray(SMALL[index])
    line[len(line) // 2] ^= 1
    error = await refused(
        ArchiveRefused, destination, [*SMALL[:index], bytes(line), *SMALL[index + 1 :]]
    )
    assert error.page == index + 1
    await untouched(destination)


@pytest.mark.rule("ARC-4", "ARC-5")
@pytest.mark.parametrize("count", [0, 1, 3, 300, 600, 700, 704])
async def test_an_archive_that_is_cut_off_is_refused(destination: Storage, count: int) -> None:
    error = await refused(ArchiveRefused, destination, LINES[:count])
    assert (error.reason, error.page) == ("incomplete", count + 1)
    await untouched(destination)


def _record(pages: list[Page], **changes: object) -> None:
    pages[1]["batch"]["records"][0] |= changes


def _same_record(pages: list[Page]) -> None:
    pages[2]["batch"]["records"][0] = pages[0]["batch"]["records"][1]


def _same_batch(pages: list[Page]) -> None:
    pages[2]["batch"]["batchId"] = pages[0]["batch"]["batchId"]


def _lower_epoch(pages: list[Page]) -> None:
    pages[0]["batch"]["epoch"] = "5"


def _higher_epoch(pages: list[Page]) -> None:
    pages[2]["batch"]["epoch"] = "6"


def _depends(pages: list[Page]) -> None:
    pages[1]["dependencies"] = ["note-0-1"]


FORGERIES: dict[str, tuple[Callable[[list[Page]], None], str]] = {
    "a record without its family": (lambda pages: _record(pages, family="other"), "record"),
    "a record without an id": (lambda pages: _record(pages, recordId=""), "record"),
    "a record of no known payload": (lambda pages: _record(pages, payload={"_tag": "X"}), "record"),
    "a record twice": (_same_record, "record"),
    "a batch id twice": (_same_batch, "record"),
    "an epoch that falls": (_lower_epoch, "chain"),
    "an epoch above the thread's": (_higher_epoch, "chain"),
    "a dependency that no record names": (_depends, "dependency"),
}


@pytest.mark.rule("ARC-4")
@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forged_log_whose_digests_are_right_is_refused(
    destination: Storage, name: str
) -> None:
    forge, reason = FORGERIES[name]
    pages = parsed_pages(SMALL)
    forge(pages)
    error = await refused(ArchiveRefused, destination, sealed_lines(rechained_pages(pages)))
    assert error.reason == reason
    await untouched(destination)


@pytest.mark.rule("ARC-4", "REC-7")
@pytest.mark.parametrize("place", ["tailDigest", "records"])
async def test_a_broken_chain_is_refused(destination: Storage, place: str) -> None:
    pages = parsed_pages(SMALL)
    if place == "records":
        pages[1]["batch"]["records"][1]["deploymentId"] = "deployment-2"
    else:
        pages[1]["batch"]["tailDigest"] = pages[2]["batch"]["previousTailDigest"] = "a" * 64
    error = await refused(ArchiveRefused, destination, sealed_lines(pages))
    assert (error.reason, error.page) == ("chain", 2)
    await untouched(destination)


@pytest.mark.rule("ARC-4", "REC-4")
async def test_a_record_that_is_not_canonical_is_refused(destination: Storage) -> None:
    """Its page and its chain are right: `1.0` is the text that they were made over."""
    page = read_page(archive_lines(stored_log(batch("batch-1", note("a", 1))))[0], 1)[0]
    assert page.batch is not None
    ((name, wire),) = page.batch.records
    wire = wire.replace(b'"details":1', b'"details":1.0')
    content = batch_content(page.batch.batch_id, page.batch.producer_id, [wire])
    tail = chain_digest(EMPTY_DIGEST, content)
    made = replace(page.batch, records=((name, wire),), tail_digest=tail)
    captured = replace(page.captured, tail=replace(page.captured.tail, digest=tail))
    line = seal_page(replace(page, batch=made, captured=captured)).text
    error = await refused(ArchiveRefused, destination, [line])
    assert (error.reason, error.page) == ("record", 1)
    assert "canonical" in error.detail
    await untouched(destination)


@pytest.mark.rule("ARC-4")
async def test_a_missing_dependency_is_refused(destination: Storage) -> None:
    context = record("context", sample_payload("RunContextRecorded", Subject()))
    filler = [note(f"record-{number}") for number in range(1, 7)]
    named = {1: ["record-2", "record-5"]}
    missing = stored_log(batch("batch-1", *filler[:4], *notes("x", 2)), batch("batch-2", context))
    error = await refused(ArchiveRefused, destination, archive_lines(missing, dependencies=named))
    assert error.reason == "dependency"
    right = stored_log(batch("batch-1", *filler), batch("batch-2", context))
    error = await refused(ArchiveRefused, destination, archive_lines(right))
    assert (error.reason, error.page) == ("dependency", 2)
    await untouched(destination)
    await import_archive(destination, sent(archive_lines(right, dependencies=named)))
    assert await whole_log(destination) == right


@pytest.mark.rule("ARC-4", "LOG-16")
async def test_progress_that_no_store_would_have_accepted_is_refused(destination: Storage) -> None:
    continuation = record("continuation", sample_payload("RunContinuation", Subject()))
    log = stored_log(batch("batch-1", continuation))
    names = ["completed-1", "context-1", "input:submission-1", "response-1"]
    error = await refused(ArchiveRefused, destination, archive_lines(log, dependencies={0: names}))
    assert error.reason == "record"
    assert "continuation-evidence" in error.detail
    await untouched(destination)


@pytest.mark.rule("ARC-4")
@pytest.mark.parametrize("tag", ["PeerMessagePrepared", "SubagentRequested"])
async def test_an_obligation_owned_elsewhere_is_refused(destination: Storage, tag: str) -> None:
    log = stored_log(batch("batch-1", record("record-27", sample_payload(tag, Subject()))))
    error = await refused(ArchiveRefused, destination, archive_lines(log))
    assert error.reason == "obligation"
    await untouched(destination)


@pytest.mark.rule("ARC-4")
async def test_facts_that_this_version_cannot_install_are_refused(destination: Storage) -> None:
    pages = parsed_pages(SMALL)
    pages[7]["facts"] = [{"submissionId": "submission-1"}]
    error = await refused(ArchiveRefused, destination, sealed_lines(pages))
    assert (error.reason, error.page) == ("obligation", 8)
    await untouched(destination)


# --- Destinations --------------------------------------------------------------------------------


@pytest.mark.rule("ARC-4")
async def test_a_destination_that_holds_records_is_refused(destination: Storage) -> None:
    writer = await Writer.begin(destination)
    await writer.fill(2)
    error = await refused(ImportRefused, destination, SMALL)
    assert error.reason == "destination-not-empty"
    assert (await destination.threads.tail(THREAD)).sequence == 2
    assert await destination.archives.import_state(THREAD) is None


@pytest.mark.rule("ARC-4")
async def test_a_destination_that_is_written_to_meanwhile_is_refused(destination: Storage) -> None:
    async def raced() -> AsyncIterator[bytes]:
        for number, line in enumerate(LINES):
            if number == 600:
                await (await Writer.begin(destination)).fill(2)
            yield line

    with pytest.raises(ImportRefused) as caught:
        await import_archive(destination, raced())
    assert caught.value.reason == "destination-not-empty"
    assert (await destination.threads.tail(THREAD)).sequence == 2
    assert await destination.archives.import_state(THREAD) is None


@pytest.mark.rule("ARC-4", "ARC-7")
async def test_the_id_of_a_deleted_thread_is_refused(destination: Storage) -> None:
    await destination.threads.materialize(THREAD, epoch=1)
    await destination.threads.delete_thread(THREAD)
    await refused(ThreadDeleted, destination, SMALL)


# --- Interruptions -------------------------------------------------------------------------------


async def interrupted(storage: Storage, lines: Sequence[bytes], after: int) -> ImportState:
    """Cancel an import while it waits for the line after so many."""
    waiting = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        for line in lines[:after]:
            yield line
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(import_archive(storage, slow()))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    state = await storage.archives.import_state(THREAD)
    assert state is not None
    return state


@pytest.mark.rule("ARC-4", "ARC-5")
async def test_an_interrupted_import_is_resumed(
    destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await interrupted(destination, LINES, 600)
    assert state.staged == replace(EMPTY, sequence=1_536, digest=LOG[511].tail_digest)
    assert await destination.threads.threads() == ()
    staged: list[int] = []
    stage = destination.archives.stage_batches

    async def counted(
        thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        staged.append(len(batches))
        return await stage(thread, batches)

    monkeypatch.setattr(destination.archives, "stage_batches", counted)
    await import_archive(destination, sent(LINES))
    assert sum(staged) == 700 - 512
    assert await whole_log(destination) == LOG


@pytest.mark.rule("ARC-4")
async def test_it_can_be_cancelled_at_every_await_and_resumed(
    destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def on_loop(work: Callable[[], Refusal]) -> Refusal:
        await asyncio.sleep(0)
        return work()

    monkeypatch.setattr(importing, "off_loop", on_loop)
    cancelled = 0
    while True:
        task = asyncio.create_task(import_archive(destination, sent(SMALL)))
        for _ in range(cancelled):
            await asyncio.sleep(0)
        if task.done():
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await destination.threads.threads() == ()
        cancelled += 1
    assert cancelled > 3
    await task
    assert await whole_log(destination) == LOG[:3]


@pytest.mark.rule("ARC-4")
async def test_another_archive_of_a_staged_thread_is_refused_and_changes_nothing(
    destination: Storage,
) -> None:
    state = await interrupted(destination, LINES, 600)
    other = stored_log(batch("batch-1", *notes("other", 3)))
    error = await refused(ImportRefused, destination, archive_lines(other))
    assert error.reason == "in-progress"
    assert await destination.archives.import_state(THREAD) == state
    await destination.archives.discard_import(THREAD)
    await import_archive(destination, sent(archive_lines(other)))
    assert await whole_log(destination) == other


@pytest.mark.rule("ARC-4")
async def test_a_damaged_copy_of_a_staged_archive_is_refused_and_discarded(
    destination: Storage,
) -> None:
    await interrupted(destination, LINES, 600)
    damaged = list(LINES)
    damaged[300] = damaged[300].replace(b"note-300", b"note-301")
    error = await refused(ArchiveRefused, destination, damaged)
    assert error.page == 301
    await untouched(destination)


@pytest.mark.rule("ARC-4")
async def test_what_was_staged_must_be_the_beginning_of_the_archive(
    destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = destination.archives.begin_import
    for tail in (replace(EMPTY, sequence=4), replace(EMPTY, sequence=6)):

        async def elsewhere(archive: ThreadTail, tail: Tail = tail) -> ImportState:
            return replace(await begin(archive), staged=tail)

        monkeypatch.setattr(destination.archives, "begin_import", elsewhere)
        error = await refused(ArchiveRefused, destination, SMALL)
        assert (error.reason, error.page) == ("mismatch", 2)
        await untouched(destination)


@pytest.mark.rule("ARC-4")
async def test_two_imports_of_one_archive_do_not_install_it_twice(destination: Storage) -> None:
    results = await asyncio.gather(
        import_archive(destination, sent(LINES)),
        import_archive(destination, sent(LINES)),
        return_exceptions=True,
    )
    installed = [each for each in results if isinstance(each, ThreadTail)]
    lost = [each for each in results if isinstance(each, ImportRefused)]
    assert len(installed) == len(lost) == 1
    assert await whole_log(destination) == LOG


# --- The store fails -----------------------------------------------------------------------------


@pytest.mark.rule("ARC-4")
async def test_a_store_that_fails_keeps_what_was_staged(
    destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = destination.archives.stage_batches
    calls: list[int] = []

    async def failing(
        thread: ThreadId, batches: Sequence[tuple[PreparedBatch, int]]
    ) -> ImportState:
        calls.append(len(batches))
        if len(calls) == 2:
            raise StorageBusy("another process writes")
        return await stage(thread, batches)

    monkeypatch.setattr(destination.archives, "stage_batches", failing)
    await refused(StorageBusy, destination, LINES)
    state = await destination.archives.import_state(THREAD)
    assert state is not None
    assert state.staged.sequence == 768
    await import_archive(destination, sent(LINES))
    assert await whole_log(destination) == LOG


@pytest.mark.rule("ARC-4")
async def test_a_batch_that_the_store_refuses_is_named(
    destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(thread: ThreadId, _batches: object) -> ImportState:
        raise AppendConflict(thread, "record-identity", 0, EMPTY_DIGEST)

    monkeypatch.setattr(destination.archives, "stage_batches", refusing)
    error = await refused(ArchiveRefused, destination, SMALL)
    assert (error.reason, error.page) == ("record", 1)
    await untouched(destination)


@pytest.mark.rule("ARC-4")
async def test_a_refusal_that_cannot_be_cleaned_up_says_so(
    destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(_thread: ThreadId) -> None:
        raise StorageUnavailable("it went away")

    monkeypatch.setattr(destination.archives, "discard_import", failing)
    error = await refused(ArchiveRefused, destination, LINES[:600])
    assert error.reason == "incomplete"
    assert "it went away" in "".join(error.__notes__)


class ChangedReader:
    """Reads of a staged import in which one batch is another one."""

    def __init__(self, log: Sequence[StoredBatch]) -> None:
        self.log = log

    async def read_batches(
        self, _thread: ThreadId, *, after: int, **_options: int
    ) -> tuple[StoredBatch, ...]:
        return tuple(each for each in self.log if each.first_sequence > after)


@pytest.mark.rule("ARC-4", "ARC-8")
@pytest.mark.parametrize("change", ["wire", "record id", "epoch", "batch", "end"])
async def test_what_was_staged_is_compared_byte_for_byte_before_it_is_published(
    destination: Storage, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    log = list(LOG[:3])
    (name, wire), *others = log[1].records
    if change == "wire":
        log[1] = replace(log[1], records=((name, wire + b" "), *others))
    elif change == "record id":
        log[1] = replace(log[1], records=(others[0], (name, wire), *others[1:]))
    elif change == "epoch":
        log[1] = replace(log[1], epoch=2)
    elif change == "batch":
        del log[1]
    else:
        del log[2]

    def reader(_thread: ThreadId) -> ThreadReader:
        return ChangedReader(log)  # pyright: ignore[reportReturnType]

    monkeypatch.setattr(destination.archives, "import_reader", reader)
    await refused(StorageCorrupt, destination, SMALL)
    assert await destination.threads.threads() == ()
