"""Cases of importing an archive: verified, installed whole, refused or resumed (ARC-4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from yielded_core.errors import (
    ArchiveRefused,
    ImportRefused,
    ThreadDeleted,
    ThreadNotMaterialized,
    YieldedError,
)
from yielded_core.records.envelope import decode_record
from yielded_core.records.payloads import RunContextRecorded
from yielded_core.transfer.importing import import_archive
from yielded_core.transfer.verify import verify_archive, verify_thread
from yielded_testing.suites.archive_pages import (
    Page,
    parsed_pages,
    rechained_pages,
    sealed_lines,
)
from yielded_testing.suites.builders import (
    OTHER,
    THREAD,
    Writer,
    canonical,
    note,
    note_value,
    record,
)
from yielded_testing.suites.evidence import prepared
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.runs import RunScript
from yielded_testing.suites.support import cancelled_at, refused, stored_names, whole_log
from yielded_testing.suites.transfer import content_of, lines_of, streamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ports.values import ThreadTail
    from yielded_core.storage import Storage


def moved(lines: Sequence[bytes]) -> list[bytes]:
    """Return an archive of the same log under the other thread's id."""
    return sealed_lines([{**page, "threadId": OTHER} for page in parsed_pages(lines)])


async def archive_of(storage: Storage) -> list[bytes]:
    """Write a thread whose obligations are closed and return its archive for the other thread."""
    run = RunScript()
    writer = await Writer.begin(storage, epoch=3)
    await writer.append(*run.begin(), run.continuation())
    await writer.append(note("two", {"🧵": ["\u0000", -0.0, 1e21, "é"]}), run.response(1))
    await writer.append(run.usage(), run.continuation())
    return moved(await lines_of(storage))


async def installed(storage: Storage, lines: Sequence[bytes]) -> ThreadTail:
    """Import an archive."""
    return await import_archive(storage, streamed(lines))


async def rejected(storage: Storage, lines: Sequence[bytes]) -> ArchiveRefused:
    """Return why an archive is refused, having shown that it left nothing behind."""
    fault = await refused(ArchiveRefused, installed(storage, lines))
    await refused(ThreadNotMaterialized, storage.threads.tail(OTHER))
    assert await storage.archives.import_state(OTHER) is None
    return fault


class ImportCases:
    """ARC-4: what is installed, and what is refused with the destination untouched."""

    @pytest.mark.rule("ARC-4")
    async def test_an_archive_is_installed_as_it_was(self, storage: Storage) -> None:
        """Ids, order, instants, epochs, wires and digests; it verifies and exports the same."""
        lines = await archive_of(storage)
        source = await storage.threads.tail(THREAD)
        tail = await installed(storage, lines)
        assert (tail.thread_id, tail.tail, tail.epoch) == (OTHER, source.tail, 3)
        assert await whole_log(storage, OTHER) == await whole_log(storage)
        assert (await verify_thread(storage, OTHER)).ok
        assert content_of(await lines_of(storage, OTHER)) == content_of(lines)
        run = RunScript().run
        there = await storage.threads.read_continuation(THREAD, run, through=7)
        here = await storage.threads.read_continuation(OTHER, run, through=7)
        assert here is not None
        assert there is not None
        assert (here.sequence, here.wire) == (there.sequence, there.wire)

    @pytest.mark.rule("ARC-4", "REC-4")
    async def test_unknown_fields_are_installed(self, storage: Storage) -> None:
        """Members that this version does not know come through byte for byte."""
        value = note_value("one", {"known": True})
        value["futureEnvelope"] = {"b": [1.5, None], "a": "🧵"}
        await (await Writer.begin(storage)).append(decode_record(canonical(value)))
        await installed(storage, moved(await lines_of(storage)))
        assert (await storage.threads.read(OTHER))[0].wire == canonical(value)

    @pytest.mark.rule("ARC-4")
    async def test_the_log_goes_on_where_it_was_captured(self, storage: Storage) -> None:
        """The installed thread is appended to at its epoch, and its run at its next revision."""
        lines = await archive_of(storage)
        tail = await installed(storage, lines)
        writer = Writer(storage, OTHER, tail.epoch, tail.tail)
        await writer.append(note("next"))
        assert (await verify_thread(storage, OTHER)).ok

    @pytest.mark.rule("ARC-4")
    async def test_unknown_calls_stay_unknown(self, storage: Storage) -> None:
        """A tool call without a known outcome is imported as it is; nothing resolves it."""
        run = RunScript()
        writer = await Writer.begin(storage)
        await writer.append(*run.begin(), run.response(1), run.fact("ToolCallUnknown"))
        await installed(storage, moved(await lines_of(storage)))
        assert await whole_log(storage, OTHER) == await whole_log(storage)

    @pytest.mark.slow_case
    @pytest.mark.rule("ARC-4")
    async def test_a_changed_byte_is_refused(self, storage: Storage) -> None:
        """A byte changed anywhere in a page is found, and the page named (a sample of places)."""
        lines = await archive_of(storage)
        for number, line in enumerate(lines, start=1):
            for place in range(number, len(line), 61):
                changed = bytes([*line[:place], line[place] ^ 1, *line[place + 1 :]])
                damaged = [*lines[: number - 1], changed, *lines[number:]]
                fault = await refused(ArchiveRefused, installed(storage, damaged))
                assert fault.page == number
        await refused(ThreadNotMaterialized, storage.threads.tail(OTHER))
        assert await storage.archives.import_state(OTHER) is None

    @pytest.mark.rule("ARC-4")
    @pytest.mark.parametrize("kind", ["last", "middle", "first", "swapped", "twice", "none"])
    async def test_missing_and_misplaced_pages_are_refused(
        self, storage: Storage, kind: str
    ) -> None:
        """An archive is all of its pages, each once, in order."""
        lines = await archive_of(storage)
        damaged = {
            "last": lines[:-1],
            "middle": [*lines[:2], *lines[3:]],
            "first": lines[1:],
            "swapped": [lines[1], lines[0], *lines[2:]],
            "twice": [*lines[:2], lines[1], *lines[2:]],
            "none": [],
        }
        await rejected(storage, damaged[kind])

    @pytest.mark.rule("ARC-4", "REC-7")
    async def test_a_forged_record_breaks_the_chain(self, storage: Storage) -> None:
        """With page digests made right again, the chain of the log still tells."""
        pages = parsed_pages(await archive_of(storage))
        pages[1]["batch"]["records"][0]["payload"]["reason"] = "forged"
        assert (await rejected(storage, sealed_lines(pages))).reason == "chain"

    @pytest.mark.rule("ARC-4", "REC-4")
    @pytest.mark.parametrize("kind", ["tag", "version", "field", "instant", "name"])
    async def test_a_record_that_does_not_decode_is_refused(
        self, storage: Storage, kind: str
    ) -> None:
        """Though page digests and the chain are right: unknown families, versions, wrong fields."""
        pages = parsed_pages(await archive_of(storage))
        wrong = pages[1]["batch"]["records"][0]
        changes: dict[str, tuple[Page, str, Any]] = {
            "tag": (wrong["payload"], "_tag", "FutureFamily"),
            "version": (wrong, "schemaVersion", 2.0),
            "field": (wrong["payload"], "reason", 7.0),
            "instant": (wrong, "createdAt", "2026-01-02T03:04:05.678901Z"),
            "name": (wrong, "recordId", ""),
        }
        holder, name, value = changes[kind]
        holder[name] = value
        assert (await rejected(storage, sealed_lines(rechained_pages(pages)))).reason in {
            "record",
            "chain",
        }

    @pytest.mark.rule("ARC-4", "REC-4")
    async def test_a_repeated_key_is_refused(self, storage: Storage) -> None:
        """Text that is not the canonical form of its own parse is no page."""
        lines = await archive_of(storage)
        twice = lines[1].replace(b'"reason":', b'"reason":"first","reason":')
        assert twice != lines[1]
        assert (await rejected(storage, [lines[0], twice, *lines[2:]])).page == 2

    @pytest.mark.rule("ARC-4", "LOG-16")
    async def test_progress_is_judged_as_in_an_append(self, storage: Storage) -> None:
        """A continuation that does not follow from the facts is refused, right digests or not."""
        pages = parsed_pages(await archive_of(storage))
        continuation = pages[2]["batch"]["records"][1]
        assert continuation["payload"]["_tag"] == "RunContinuation"
        continuation["payload"]["recordCount"] += 1
        await rejected(storage, sealed_lines(rechained_pages(pages)))

    @pytest.mark.rule("ARC-4")
    async def test_a_missing_dependency_is_refused(self, storage: Storage) -> None:
        """A record that another one retains, and that is nowhere in the archive."""
        writer = await Writer.begin(storage)
        await writer.append(note("one"))
        context = RunScript().payload("RunContextRecorded")
        assert isinstance(context, RunContextRecorded)
        await writer.append(record("context", context))
        fault = await rejected(storage, moved(await lines_of(storage)))
        assert fault.reason == "dependency"

    @pytest.mark.rule("ARC-4")
    @pytest.mark.parametrize("kind", ["message", "child"])
    async def test_what_another_thread_owns_is_refused(self, storage: Storage, kind: str) -> None:
        """No import takes over the obligation of an open message delivery, or of an open child."""
        run = RunScript()
        writer = await Writer.begin(storage)
        await writer.append(*run.begin(), run.response(1))
        await writer.append(
            prepared("open") if kind == "message" else run.fact("SubagentRequested")
        )
        fault = await rejected(storage, moved(await lines_of(storage)))
        assert fault.reason == "obligation"

    @pytest.mark.rule("ARC-4")
    async def test_a_destination_with_records_is_left_alone(self, storage: Storage) -> None:
        """It is refused with the reason, and its own log goes on."""
        lines = await archive_of(storage)
        writer = await Writer.begin(storage, OTHER)
        await writer.fill(2)
        fault = await refused(ImportRefused, installed(storage, lines))
        assert (fault.thread, fault.reason) == (OTHER, "destination-not-empty")
        assert await stored_names(storage, OTHER) == ["note-1", "note-2"]
        await writer.fill(1)

    @pytest.mark.rule("ARC-4")
    async def test_an_archive_is_installed_once(self, storage: Storage) -> None:
        """A second import of it, or one into a deleted thread, is refused."""
        lines = await archive_of(storage)
        await installed(storage, lines)
        fault = await refused(ImportRefused, installed(storage, lines))
        assert fault.reason == "destination-not-empty"
        await storage.threads.delete_thread(OTHER)
        await refused(ThreadDeleted, installed(storage, lines))

    @pytest.mark.rule("ARC-4")
    async def test_progress_is_told(self, storage: Storage) -> None:
        """Each page is told once, in order."""
        lines = await archive_of(storage)
        told: list[int] = []
        await import_archive(storage, streamed(lines), on_page=told.append)
        assert told == list(range(1, len(lines) + 1))

    @pytest.mark.rule("ARC-4", "ARC-5")
    @pytest.mark.parametrize("then", ["resume", "discard"])
    async def test_an_interrupted_import_leaves_nothing_installed(
        self, storage: Storage, then: str
    ) -> None:
        """Cancelled at each await, it is invisible or whole; then it resumes or is discarded."""
        lines = await archive_of(storage)
        source = await storage.threads.tail(THREAD)
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            outcome = await cancelled_at(installed(storage, lines), point)
            visible = bool(await storage.threads.threads(after=THREAD))
            if visible:
                assert (await storage.threads.tail(OTHER)).tail == source.tail
                break
            assert await stored_names(storage) != []
            await refused(ThreadNotMaterialized, storage.threads.read(OTHER))
            if then == "discard":
                await storage.archives.discard_import(OTHER)
                assert await storage.archives.import_state(OTHER) is None
        if not await storage.threads.threads(after=THREAD):
            await installed(storage, lines)
        assert await whole_log(storage, OTHER) == await whole_log(storage)
        assert (await verify_thread(storage, OTHER)).ok

    @pytest.mark.rule("ARC-4")
    async def test_two_imports_of_one_thread_install_it_once(self, storage: Storage) -> None:
        """Of two imports at once one succeeds; the other is refused or finds it done."""
        lines = await archive_of(storage)
        outcomes = await asyncio.gather(
            installed(storage, lines), installed(storage, lines), return_exceptions=True
        )
        faults = [each for each in outcomes if isinstance(each, BaseException)]
        assert all(isinstance(each, YieldedError) for each in faults)
        if len(faults) == 2:
            await installed(storage, lines)
        assert await whole_log(storage, OTHER) == await whole_log(storage)


class ArchiveVerifyCases:
    """ARC-3 over archives: what verify finds is what import refuses."""

    @pytest.mark.rule("ARC-3")
    async def test_a_changed_archive_does_not_verify(self, storage: Storage) -> None:
        """A changed page is refused; a forged record is found by the chain."""
        lines = await archive_of(storage)
        assert (await verify_archive(streamed(lines))).ok
        changed = [lines[0], lines[1].replace(b"a note", b"a nope"), *lines[2:]]
        await refused(ArchiveRefused, verify_archive(streamed(changed)))
        pages = parsed_pages(lines)
        pages[1]["batch"]["records"][0]["payload"]["reason"] = "forged"
        found = await verify_archive(streamed(sealed_lines(pages)))
        assert not found.ok

    @pytest.mark.rule("ARC-3")
    async def test_an_archive_verifies_without_its_store(self, storage: Storage) -> None:
        """Deleting the thread changes nothing for its archive, which streams a page at a time."""
        await indexed_thread(storage)
        lines = await lines_of(storage)
        before = await verify_archive(streamed(lines))
        again = await verify_archive(streamed(lines))
        assert (again, again.ok) == (before, True)
