"""Reading the pages of one archive in order: one whole thread, nothing changed, nothing missing.

The pages are judged here (ARC-2): their links, their order and that they are complete. What the
batches hold is for the log's verifier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.digest import EMPTY_TAIL_DIGEST
from yielded_core.errors import ArchiveRefused
from yielded_core.log.fact_schema import FACTS
from yielded_core.log.pages import BATCHES, FACT_SECTIONS, FIRST_PAGE_DIGEST, read_page
from yielded_core.ports.values import Tail

if TYPE_CHECKING:
    from yielded_core.log.pages import Page
    from yielded_core.ports.values import CapturedThread, StoredBatch

_SECTIONS: Final = (BATCHES, *FACT_SECTIONS)


class ArchiveReader:
    """Takes the lines of an archive and returns their pages, each judged against those before."""

    def __init__(self) -> None:
        self._pages = 0
        self._digest = FIRST_PAGE_DIGEST
        self._captured: CapturedThread | None = None
        self._tail = Tail(0, EMPTY_TAIL_DIGEST)
        self._section = 0
        self._complete = False

    @property
    def pages(self) -> int:
        """How many pages were read."""
        return self._pages

    def read(self, line: bytes) -> Page:
        """Return the next page; raises ArchiveRefused with its position and the reason."""
        number = self._pages + 1
        if self._complete:
            raise ArchiveRefused(number, "page", "it follows the last page")
        page, digest = read_page(line, number)
        if page.previous_page_digest != self._digest:
            detail = "it does not continue the page before it"
            raise ArchiveRefused(number, "page", detail)
        if self._captured is None:
            self._captured = page.captured
        elif page.captured != self._captured:
            raise ArchiveRefused(number, "page", "it is of another thread or another capture")
        self._check_section(page)
        if page.batch is not None:
            self._tail = self._continued(page, page.batch)
        self._check_end(page)
        self._pages, self._digest = number, digest
        return page

    def finish(self) -> CapturedThread:
        """Return what the archive captured, or raise ArchiveRefused (`incomplete`)."""
        if self._captured is None or not self._complete:
            detail = "the archive ends before its last page"
            raise ArchiveRefused(self._pages + 1, "incomplete", detail)
        return self._captured

    def _check_section(self, page: Page) -> None:
        section = _SECTIONS.index(page.section)
        if section not in {self._section, self._section + 1}:
            detail = f"a page of {page.section} does not follow one of {_SECTIONS[self._section]}"
            raise ArchiveRefused(page.number, "incomplete", detail)
        captured = page.captured.tail.tail
        if section and self._tail != captured:
            detail = f"the batches end at {self._tail.sequence} of {captured.sequence}"
            raise ArchiveRefused(page.number, "incomplete", detail)
        if page.facts and page.section not in FACTS:
            detail = f"facts of {page.section} cannot be taken over by this version"
            raise ArchiveRefused(page.number, "obligation", detail)
        self._section = section

    def _continued(self, page: Page, batch: StoredBatch) -> Tail:
        previous = Tail(batch.first_sequence - 1, page.previous_tail_digest)
        if previous != self._tail:
            detail = f"its batch does not continue the log at {self._tail.sequence}"
            raise ArchiveRefused(page.number, "chain", detail)
        captured = page.captured.tail
        if batch.last_sequence > captured.sequence:
            detail = f"its batch ends beyond the captured tail {captured.sequence}"
            raise ArchiveRefused(page.number, "chain", detail)
        return Tail(batch.last_sequence, batch.tail_digest)

    def _check_end(self, page: Page) -> None:
        if page.cursor is not None:
            return
        if page.section != _SECTIONS[-1]:
            detail = f"it is marked as the last, before every page of {_SECTIONS[-1]}"
            raise ArchiveRefused(page.number, "incomplete", detail)
        self._complete = True
