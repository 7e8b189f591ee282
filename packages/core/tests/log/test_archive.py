"""Pages in order: what makes an archive whole, and how each way of breaking it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import ArchiveRefused
from yielded_core.log.archive import ArchiveReader
from yielded_core.ports.values import CapturedThread, ThreadTail
from yielded_testing.suites.archive_pages import (
    Page,
    archive_lines,
    parsed_pages,
    rechained_pages,
    sealed_lines,
    stored_log,
)
from yielded_testing.suites.builders import EMPTY_DIGEST, OTHER, THREAD, batch, notes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOG = stored_log(
    batch("batch-1", *notes("a", 1)),
    batch("batch-2", *notes("b", 3)),
    batch("batch-3", *notes("c", 2)),
)
LINES = archive_lines(LOG, epoch=4)
PAGES = parsed_pages(LINES)
OTHERS = archive_lines(LOG, thread=OTHER, epoch=4)


def read(lines: Sequence[bytes]) -> CapturedThread:
    reader = ArchiveReader()
    for line in lines:
        reader.read(line)
    return reader.finish()


def refusal(lines: Sequence[bytes]) -> ArchiveRefused:
    with pytest.raises(ArchiveRefused) as caught:
        read(lines)
    return caught.value


@pytest.mark.rule("ARC-2")
def test_a_whole_archive_gives_its_batches_and_what_it_captured() -> None:
    reader = ArchiveReader()
    pages = [reader.read(line) for line in LINES]
    assert [page.batch for page in pages] == [*LOG, *[None] * 5]
    assert reader.pages == 8
    tail = ThreadTail(THREAD, 6, LOG[-1].tail_digest, 4)
    assert reader.finish() == CapturedThread(tail, 0)


@pytest.mark.rule("ARC-2")
def test_the_archive_of_an_empty_thread_has_its_sections_alone() -> None:
    lines = archive_lines([])
    assert len(lines) == 5
    assert read(lines).tail == ThreadTail(THREAD, 0, EMPTY_DIGEST, 1)


@pytest.mark.rule("ARC-2", "ARC-4")
@pytest.mark.parametrize("count", range(8))
def test_an_archive_that_ends_early_is_incomplete(count: int) -> None:
    refused = refusal(LINES[:count])
    assert (refused.reason, refused.page) == ("incomplete", count + 1)


@pytest.mark.rule("ARC-2", "ARC-4")
@pytest.mark.parametrize("index", range(7))
def test_a_dropped_page_is_missed_where_the_next_one_stands(index: int) -> None:
    refused = refusal(LINES[:index] + LINES[index + 1 :])
    assert (refused.reason, refused.page) == ("page", index + 1)


@pytest.mark.rule("ARC-2", "ARC-4")
@pytest.mark.parametrize("index", range(8))
def test_a_doubled_page_is_refused(index: int) -> None:
    refused = refusal(LINES[: index + 1] + LINES[index:])
    assert (refused.reason, refused.page) == ("page", index + 2)


@pytest.mark.rule("ARC-2", "ARC-4")
@pytest.mark.parametrize("index", range(7))
def test_pages_in_another_order_are_refused(index: int) -> None:
    lines = list(LINES)
    lines[index : index + 2] = reversed(lines[index : index + 2])
    refused = refusal(lines)
    assert (refused.reason, refused.page) == ("page", index + 1)


@pytest.mark.rule("ARC-2", "ARC-4")
@pytest.mark.parametrize("index", range(8))
def test_a_page_of_another_thread_is_refused(index: int) -> None:
    lines = [*LINES[:index], OTHERS[index], *LINES[index + 1 :]]
    assert refusal(lines).page == (index + 1 if index else 2)


def _without(index: int) -> Callable[[list[Page]], list[Page]]:
    return lambda pages: pages[:index] + pages[index + 1 :]


def _moved(pages: list[Page]) -> list[Page]:
    return [*pages[:3], pages[4], pages[3], *pages[5:]]


def _last_is(index: int) -> Callable[[list[Page]], list[Page]]:
    def changed(pages: list[Page]) -> list[Page]:
        pages[index].pop("cursor")
        return pages

    return changed


def _with(index: int, **changes: object) -> Callable[[list[Page]], list[Page]]:
    def changed(pages: list[Page]) -> list[Page]:
        pages[index] |= changes
        return pages

    return changed


def _in_batch(index: int, **changes: object) -> Callable[[list[Page]], list[Page]]:
    def changed(pages: list[Page]) -> list[Page]:
        pages[index]["batch"] |= changes
        return pages

    return changed


def _captured(index: int, **changes: object) -> Callable[[list[Page]], list[Page]]:
    def changed(pages: list[Page]) -> list[Page]:
        pages[index]["captured"] |= changes
        return pages

    return changed


FORGERIES: dict[str, tuple[Callable[[list[Page]], list[Page]], str, int]] = {
    "no first batch": (_without(0), "chain", 1),
    "no batch in the middle": (_without(1), "chain", 2),
    "no last batch": (_without(2), "incomplete", 3),
    "no section in the middle": (_without(5), "incomplete", 6),
    "no first section": (_without(3), "incomplete", 4),
    "no last section": (_without(7), "incomplete", 8),
    "sections in another order": (_moved, "incomplete", 4),
    "a batch after the facts": (lambda pages: [*pages[:4], pages[2], *pages[4:]], "incomplete", 5),
    "a batch twice": (lambda pages: [*pages[:2], *pages[1:]], "chain", 3),
    "no cursor on a page of batches": (_last_is(2), "incomplete", 3),
    "no cursor on a section before the last": (_last_is(6), "incomplete", 7),
    "a cursor on the last page": (_with(7, cursor="more"), "incomplete", 9),
    "another thread": (_with(4, threadId=OTHER), "page", 5),
    "another captured tail": (_captured(1, digest="a" * 64), "page", 2),
    "another captured epoch": (_captured(3, epoch="5"), "page", 4),
    "another revision of facts": (_captured(4, factRevision=1), "page", 5),
    "another previous tail": (_in_batch(1, previousTailDigest="a" * 64), "chain", 2),
    "another first sequence": (_in_batch(1, firstSequence=3), "chain", 2),
    "facts that cannot be taken over": (_with(7, facts=[{"submissionId": "s"}]), "obligation", 8),
}


@pytest.mark.rule("ARC-2", "ARC-4")
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_archive_whose_page_digests_are_right_is_refused(name: str) -> None:
    forge, reason, page = FORGERIES[name]
    lines = sealed_lines(forge(parsed_pages(LINES)))
    refused = refusal(lines)
    assert (refused.reason, refused.page) == (reason, page)


@pytest.mark.rule("ARC-2", "ARC-4")
def test_batches_beyond_the_captured_tail_are_refused() -> None:
    pages = parsed_pages(LINES)
    for page in pages:
        page["captured"] |= {"sequence": 4, "digest": LOG[1].tail_digest}
    refused = refusal(sealed_lines(pages))
    assert (refused.reason, refused.page) == ("chain", 3)
    assert read(sealed_lines([*pages[:2], *pages[3:]])).tail.sequence == 4


@pytest.mark.rule("ARC-2")
def test_more_pages_of_a_section_may_follow_each_other() -> None:
    pages = parsed_pages(LINES)
    doubled = [*pages[:5], {**pages[4], "cursor": "again"}, *pages[5:]]
    assert read(sealed_lines(rechained_pages(doubled))) == read(LINES)
