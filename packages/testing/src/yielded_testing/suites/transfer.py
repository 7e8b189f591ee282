"""Cases of export, verify and archive files (ARC-1 to ARC-3, ARC-5), through the store's ports."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from yielded_core.errors import ArchiveRefused, OffsetRefused
from yielded_core.records.identifiers import Cursor, ThreadId
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.files import read_archive, write_archive
from yielded_core.transfer.verify import verify_archive, verify_thread
from yielded_testing.suites.archive_pages import SECTIONS, parsed_pages, sealed_lines
from yielded_testing.suites.builders import (
    EMPTY_DIGEST,
    OTHER,
    THREAD,
    Writer,
    canonical,
    note,
    note_value,
    prepared_as_is,
)
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.support import refused, whole_log

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path

    from yielded_core.ports.values import TransferPage, Verification
    from yielded_core.storage import Storage


async def pages_of(
    storage: Storage, thread: ThreadId = THREAD, *, cursor: Cursor | None = None
) -> list[TransferPage]:
    """Return the pages of an export."""
    return [page async for page in export_pages(storage, thread, cursor=cursor)]


async def lines_of(storage: Storage, thread: ThreadId = THREAD) -> list[bytes]:
    """Return the lines of an archive of a thread."""
    return [page.text for page in await pages_of(storage, thread)]


async def streamed(lines: Iterable[bytes]) -> AsyncGenerator[bytes]:
    """Give lines as a file would."""
    for line in lines:
        yield line


def content_of(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return what pages say, without what differs from store to store: cursors and digests."""
    own = ("cursor", "pageDigest", "previousPageDigest", "threadId")
    return [
        {name: value for name, value in page.items() if name not in own}
        for page in parsed_pages(lines)
    ]


def failed(verification: Verification) -> list[str]:
    """Return the invariants that failed."""
    return [each.invariant for each in verification.findings if each.outcome == "failed"]


class ExportCases:
    """ARC-2: a stream of pages over one captured tail; ARC-1: its formats."""

    @pytest.mark.rule("ARC-1", "ARC-2")
    async def test_pages_are_batches_and_then_sections(self, storage: Storage) -> None:
        """One page a batch with exactly its stored records, then the sections, then no cursor."""
        await indexed_thread(storage)
        pages = await pages_of(storage)
        stored = await whole_log(storage)
        sections = ["batches"] * len(stored) + list(SECTIONS)
        assert [page.section for page in pages] == sections
        assert [page.last_sequence for page in pages[: len(stored)]] == [
            each.last_sequence for each in stored
        ]
        for page, each in zip(parsed_pages(page.text for page in pages), stored, strict=False):
            assert page["format"] == "effect-agent/thread-transfer@1"
            assert page["recordFormat"] == "effect-agent/thread@3"
            assert page["batch"]["batchId"] == each.batch_id
            assert page["batch"]["tailDigest"] == each.tail_digest
            wires = [canonical(record) for record in page["batch"]["records"]]
            assert wires == [wire for _, wire in each.records]
        cursors = [page.cursor for page in pages]
        assert cursors[-1] is None
        assert all(cursor is not None and len(cursor) <= 16_384 for cursor in cursors[:-1])
        assert len(set(cursors)) == len(cursors)

    @pytest.mark.rule("ARC-2")
    async def test_pages_are_canonical_and_linked(self, storage: Storage) -> None:
        """Each page is its canonical text, numbered, with the digest of the page before it."""
        await indexed_thread(storage)
        lines = await lines_of(storage)
        assert sealed_lines(parsed_pages(lines)) == lines

    @pytest.mark.rule("ARC-2")
    async def test_an_empty_thread_has_an_archive(self, storage: Storage) -> None:
        """It consists of the sections alone and captures the empty tail."""
        await Writer.begin(storage, epoch=12)
        lines = await lines_of(storage)
        captured = {each["section"]: each["captured"] for each in parsed_pages(lines)}
        assert tuple(captured) == SECTIONS
        expected = {"sequence": 0, "digest": EMPTY_DIGEST, "epoch": "12"}
        assert expected.items() <= captured["admissions"].items()

    @pytest.mark.rule("ARC-2")
    async def test_an_export_is_of_one_captured_tail(self, storage: Storage) -> None:
        """Appends and a takeover while it streams are left out of every page."""
        writer = await Writer.begin(storage)
        await writer.fill(2, 3, 1)
        before = await lines_of(storage)
        during: list[bytes] = []
        async with aclosing(export_pages(storage, THREAD)) as pages:
            async for page in pages:
                during.append(page.text)
                await writer.fill(1)
                writer = await Writer.begin(storage, epoch=writer.epoch + 1)
        assert during == before

    @pytest.mark.rule("ARC-2")
    async def test_every_cursor_resumes_its_export(self, storage: Storage) -> None:
        """The pages after any cursor are byte for byte those of the whole, despite new appends."""
        writer = await indexed_thread(storage)
        whole = await pages_of(storage)
        await writer.fill(3)
        for number, page in enumerate(whole[:-1], start=1):
            assert await pages_of(storage, cursor=page.cursor) == whole[number:]

    @pytest.mark.rule("ARC-2")
    async def test_a_cursor_belongs_to_its_thread(self, storage: Storage) -> None:
        """Another thread's, an altered and an invented cursor are OffsetRefused."""
        for thread in (THREAD, OTHER):
            await (await Writer.begin(storage, thread)).fill(2, 2)
        mine = (await pages_of(storage))[0].cursor
        other = (await pages_of(storage, OTHER))[0].cursor
        assert mine is not None
        assert other is not None
        middle = len(mine) // 2
        altered = mine[:middle] + ("A" if mine[middle] != "A" else "B") + mine[middle + 1 :]
        for forged in (other, altered, mine[:-8], mine + "x" * 20_000, "", "c1", "é"):
            work = pages_of(storage, cursor=Cursor(forged))
            assert (await refused(OffsetRefused, work)).thread == THREAD

    @pytest.mark.rule("ARC-2")
    async def test_pages_name_the_records_that_they_depend_on(self, storage: Storage) -> None:
        """What a continuation or an acknowledgement names outside its batch is listed, sorted."""
        await indexed_thread(storage)
        named = [page["dependencies"] for page in parsed_pages(await lines_of(storage))]
        assert named[:6] == [[], [], ["1/1"], [], ["closed"], []]
        assert all(each == [] for each in named[6:])

    @pytest.mark.rule("ARC-2", "ARC-6")
    async def test_an_export_reads_archived_ranges(self, storage: Storage) -> None:
        """The archive of a thread is the same before and after ranges of it are archived."""
        writer = await indexed_thread(storage)
        before = await lines_of(storage)
        for through in (8, writer.tail.sequence):
            sealed = await storage.archives.seal_range(THREAD, through=through)
            await storage.archives.archive_range(THREAD, first=sealed.first_sequence)
            assert await lines_of(storage) == before


class VerifyCases:
    """ARC-3: the chain re-computed from the empty tail, from a store and from an archive."""

    @pytest.mark.rule("ARC-3")
    async def test_a_right_log_is_verified(self, storage: Storage) -> None:
        """All is counted, every invariant passes, and the archive gives the same findings."""
        writer = await indexed_thread(storage)
        await writer.append(note("hostile", {"🧵": ["\u0000", -0.0, 1e21]}))
        stored = await whole_log(storage)
        found = await verify_thread(storage, THREAD)
        assert found.ok
        assert (found.thread_id, found.tail) == (THREAD, writer.tail)
        assert (found.records, found.batches) == (writer.tail.sequence, len(stored))
        assert found.wire_bytes == sum(len(wire) for each in stored for _, wire in each.records)
        assert {each.outcome for each in found.findings} == {"passed", "skipped"}
        archive = await verify_archive(streamed(await lines_of(storage)))
        assert (archive.ok, archive.tail, archive.records) == (True, found.tail, found.records)

    @pytest.mark.rule("ARC-3", "REC-7")
    async def test_a_record_that_is_not_what_was_digested_is_found(self, storage: Storage) -> None:
        """Stored bytes that differ from the digested ones break the chain."""
        writer = await Writer.begin(storage)
        await writer.fill(2)
        good = note("one", "good")
        given = prepared_as_is("damaged", [(good, canonical(note_value("one", "evil")))])
        right = prepared_as_is("damaged", [(good, canonical(note_value("one", "good")))])
        crossed = type(given)(
            given.batch_id, given.producer_id, given.records, right.content, right.content_digest
        )
        await writer.append_batch(crossed)
        await writer.fill(1)
        found = await verify_thread(storage, THREAD)
        assert failed(found) == ["digest-chain"]

    @pytest.mark.rule("ARC-3", "REC-4")
    @pytest.mark.parametrize("kind", ["space", "order", "twice", "number", "tag", "text"])
    async def test_a_record_that_is_not_canonical_is_found(
        self, storage: Storage, kind: str
    ) -> None:
        """Bytes that are not the canonical form of their parse fail, though digests are right."""
        wire = canonical(note_value("one", {"a": 1, "b": 2}))
        damaged = {
            "space": wire.replace(b'"a":1', b'"a": 1'),
            "order": wire.replace(b'"a":1,"b":2', b'"b":2,"a":1'),
            "twice": wire.replace(b'"a":1', b'"a":0,"a":1'),
            "number": wire.replace(b'"a":1', b'"a":1.0'),
            "tag": wire.replace(b"RepairAnnotated", b"FutureFamily"),
            "text": wire[:-1],
        }
        assert damaged[kind] != wire
        writer = await Writer.begin(storage)
        await writer.append_batch(prepared_as_is("damaged", [(note("one"), damaged[kind])]))
        found = await verify_thread(storage, THREAD)
        assert "schema-round-trip" in failed(found)
        assert not found.ok

    @pytest.mark.rule("ARC-3")
    async def test_a_record_under_another_id_is_found(self, storage: Storage) -> None:
        """The id by which a record is found is the one in its bytes."""
        writer = await Writer.begin(storage)
        wire = canonical(note_value("one"))
        await writer.append_batch(prepared_as_is("damaged", [(note("another"), wire)]))
        assert "schema-round-trip" in failed(await verify_thread(storage, THREAD))

    @pytest.mark.rule("ARC-3")
    async def test_incomplete_indexes_are_a_finding(self, storage: Storage) -> None:
        """Verification says that indexes do not reach the tail; it does not rebuild them."""
        await indexed_thread(storage)
        await storage.threads.rebuild_indexes(THREAD, restart=True, limit=1)
        assert failed(await verify_thread(storage, THREAD)) == ["index-agreement"]
        await storage.threads.rebuild_indexes(THREAD)
        assert (await verify_thread(storage, THREAD)).ok

    @pytest.mark.rule("ARC-3", "ARC-6")
    async def test_archived_ranges_are_verified(self, storage: Storage) -> None:
        """The chain is re-computed across the boundary, with the same counts."""
        writer = await indexed_thread(storage)
        before = await verify_thread(storage, THREAD)
        sealed = await storage.archives.seal_range(THREAD, through=writer.tail.sequence - 1)
        await storage.archives.archive_range(THREAD, first=sealed.first_sequence)
        assert await verify_thread(storage, THREAD) == before


class FileCases:
    """ARC-5: an archive file is one page a line, compressed by its extension."""

    @pytest.mark.rule("ARC-5")
    @pytest.mark.parametrize("name", ["thread.jsonl", "thread.jsonl.zst", "thread.jsonl.gz"])
    async def test_a_file_holds_the_pages(
        self, storage: Storage, tmp_path: Path, name: str
    ) -> None:
        """What is read from a file is what was exported, and verifies."""
        await indexed_thread(storage)
        path = tmp_path / name
        async with write_archive(path) as archive:
            async for page in export_pages(storage, THREAD):
                await archive.write(page.text)
        read = [line async for line in read_archive(path)]
        assert read == await lines_of(storage)
        assert (await verify_archive(read_archive(path))).ok
        raw = path.read_bytes()
        plain = b"".join(line + b"\n" for line in read)
        assert (raw == plain) == name.endswith(".jsonl")

    @pytest.mark.rule("ARC-5")
    async def test_a_file_has_its_name_only_when_it_is_whole(
        self, storage: Storage, tmp_path: Path
    ) -> None:
        """An export that is interrupted leaves no file behind."""
        await indexed_thread(storage)
        first = (await lines_of(storage))[0]
        folder = tmp_path / "archives"
        folder.mkdir()

        async def interrupted() -> None:
            async with write_archive(folder / "thread.jsonl.zst") as archive:
                await archive.write(first)
                raise InterruptedError

        with pytest.raises(InterruptedError):
            await interrupted()
        assert not any(folder.iterdir())

    @pytest.mark.rule("ARC-5")
    @pytest.mark.parametrize("name", ["thread.jsonl.zst", "thread.jsonl.gz", "thread.jsonl"])
    async def test_a_file_that_is_cut_off_is_refused(
        self, storage: Storage, tmp_path: Path, name: str
    ) -> None:
        """A part of a file is never taken for the whole."""
        await indexed_thread(storage)
        path = tmp_path / name
        async with write_archive(path) as archive:
            for line in await lines_of(storage):
                await archive.write(line)
        path.write_bytes(path.read_bytes()[:-20])
        await refused(ArchiveRefused, verify_archive(read_archive(path)))
