"""Exporting a thread: a stream of pages over one captured tail (ARC-2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from yielded_core.digest import EMPTY_TAIL_DIGEST, batch_content, chain_digest
from yielded_core.errors import (
    ExportInvalidated,
    InvalidInput,
    OffsetRefused,
    StorageCorrupt,
)
from yielded_core.ledger.archived import facts_in
from yielded_core.log.dependencies import dependencies_of
from yielded_core.log.fact_schema import FACTS
from yielded_core.log.offsets import open_cursor, seal_cursor
from yielded_core.log.page_schema import CapturedPart, ExportPosition
from yielded_core.log.pages import (
    BATCHES,
    FACT_SECTIONS,
    FIRST_PAGE_DIGEST,
    Page,
    page_digest,
    seal_page,
)
from yielded_core.ports.values import CapturedThread, Tail, ThreadTail, TransferPage
from yielded_core.records.bounds import TRANSFER_FACTS
from yielded_core.records.model import wire_of
from yielded_core.transfer.checking import READ_BYTES
from yielded_core.transfer.offload import off_loop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from yielded_core.ports.values import StoredBatch
    from yielded_core.ports.work import FactSection, SubmissionFacts
    from yielded_core.records.identifiers import Cursor, Digest, ThreadId
    from yielded_core.storage import Storage

FACT_BYTES: Final = 4 * 1_048_576
"""Text of the facts of one page; a single fact may be longer, and a page is a few times as large
while it is made.
"""


@dataclass(frozen=True, slots=True)
class _Position:
    """What an export has done: the state between two pages, and all that a cursor holds."""

    incarnation: str
    captured: CapturedThread
    pages: int
    page_digest: Digest
    """Digest of the page before, or `FIRST_PAGE_DIGEST`."""
    tail: Tail
    """Tail after the batches exported so far."""
    sections: int
    """Sections of facts exported so far."""
    place: int = 0
    """Place in the lane of the last submission of whose facts of this section all are exported."""
    taken: int = 0
    """How many facts of the next one are."""

    @property
    def thread(self) -> ThreadId:
        return self.captured.tail.thread_id

    def cursor(self, content: Digest) -> Cursor:
        """Return the cursor of a page with this content digest, after which this is true."""
        tail = self.captured.tail
        position = ExportPosition(
            captured=CapturedPart(
                sequence=tail.sequence,
                digest=tail.digest,
                epoch=str(tail.epoch),
                fact_revision=self.captured.fact_revision,
            ),
            pages=self.pages,
            content=content,
            sequence=self.tail.sequence,
            digest=self.tail.digest,
            sections=self.sections,
            place=self.place,
            taken=self.taken,
        )
        return seal_cursor(self.incarnation, self.thread, wire_of(position).value)


async def export_pages(
    storage: Storage, thread: ThreadId, *, cursor: Cursor | None = None
) -> AsyncGenerator[TransferPage, None]:
    """Yield the pages of a thread as it is now, or those after a page's cursor (ARC-2).

    Appends made meanwhile are left out. The pages after a cursor are byte for byte those that the
    interrupted export would have yielded. Close the generator when leaving it early.

    Raises OffsetRefused for a cursor of another thread, store or incarnation; ExportInvalidated
    when facts that change independently of the log changed since the capture; StorageCorrupt when
    the log is not what its chain says, since no archive of it could be imported.
    """
    incarnation = (await storage.info()).incarnation
    now = await storage.threads.capture(thread)
    if cursor is None:
        begin = Tail(0, EMPTY_TAIL_DIGEST)
        position = _Position(incarnation, now, 0, FIRST_PAGE_DIGEST, begin, 0)
    else:
        position = _resumed(incarnation, now, cursor)
    through = position.captured.tail.sequence
    while position.tail.sequence < through:
        batches = await storage.threads.read_batches(
            thread, after=position.tail.sequence, through=through, byte_limit=READ_BYTES
        )
        pages, position = await off_loop(partial(_batch_pages, position, batches))
        for page in pages:
            yield page
    if position.tail != position.captured.tail.tail:
        raise StorageCorrupt(f"the batches do not make the tail at {through}")
    while position.sections < len(FACT_SECTIONS):
        facts, after = await _next_facts(storage, position)
        page, position = await off_loop(partial(_facts_page, position, facts, after))
        yield page


async def _next_facts(storage: Storage, position: _Position) -> tuple[list[bytes], _Position]:
    """Return the facts of the next page, and the position after it but for what a page adds.

    What was read is of the captured revision, or it is not returned: ExportInvalidated.
    """
    if position.sections == len(FACTS):
        current = await storage.threads.capture(position.thread)
        _require_revision(position, current.fact_revision)
        return [], replace(position, sections=position.sections + 1)
    section = tuple(FACTS)[position.sections]
    facts = PageFacts(position.place, position.taken)
    read = position.place
    while True:
        found = await storage.ledger.facts(position.thread, after=read, only=section)
        _require_revision(position, found.fact_revision)
        if not found.facts:
            return facts.texts, replace(position, sections=position.sections + 1, place=0, taken=0)
        if not await off_loop(partial(facts.take, section, found.facts)):
            return facts.texts, replace(position, place=facts.place, taken=facts.taken)
        read = found.facts[-1].submission.queue_sequence


class PageFacts:
    """The facts of one page: as many as its bounds hold, whatever pieces they are read in."""

    def __init__(self, place: int, taken: int) -> None:
        self.texts: list[bytes] = []
        self.place = place
        """Place of the last submission of whose facts all are taken."""
        self.taken = taken
        """How many facts of the next one are."""
        self._size = 0

    def take(self, section: FactSection, entries: Sequence[SubmissionFacts]) -> bool:
        """Take the facts of the next submissions; say whether all of them fitted."""
        for entry in entries:
            for text in islice(facts_in(section, entry), self.taken, None):
                full = len(self.texts) >= TRANSFER_FACTS or self._size + len(text) > FACT_BYTES
                if full and self.texts:
                    return False
                self.texts.append(text)
                self._size += len(text)
                self.place, self.taken = entry.submission.queue_sequence - 1, self.taken + 1
            if self.taken:
                self.place, self.taken = entry.submission.queue_sequence, 0
        return True


def _require_revision(position: _Position, revision: int) -> None:
    if revision != position.captured.fact_revision:
        raise ExportInvalidated(position.thread)


def _resumed(incarnation: str, now: CapturedThread, cursor: Cursor) -> _Position:
    thread = now.tail.thread_id
    try:
        found = ExportPosition.model_validate(
            open_cursor(incarnation, thread, cursor), by_alias=True, by_name=False
        )
    except ValidationError:
        raise OffsetRefused(thread, "the cursor holds no position of an export") from None
    part = found.captured
    tail = ThreadTail(thread, part.sequence, part.digest, int(part.epoch))
    if part.fact_revision != now.fact_revision:
        raise ExportInvalidated(thread)
    replaced = tail.sequence == now.tail.sequence and tail.digest != now.tail.digest
    if tail.sequence > now.tail.sequence or replaced:
        raise OffsetRefused(thread, "the thread no longer holds what the export captured")
    return _Position(
        incarnation,
        CapturedThread(tail, part.fact_revision),
        found.pages,
        page_digest(found.content, cursor),
        Tail(found.sequence, found.digest),
        found.sections,
        found.place,
        found.taken,
    )


def _batch_pages(
    position: _Position, batches: Sequence[StoredBatch]
) -> tuple[list[TransferPage], _Position]:
    if not batches:
        raise StorageCorrupt(f"no batch follows sequence {position.tail.sequence}")
    pages: list[TransferPage] = []
    for batch in batches:
        tail = _chained(position.tail, batch)
        try:
            dependencies = dependencies_of(batch)
        except InvalidInput as error:
            raise StorageCorrupt(f"the batch at {batch.first_sequence}: {error}") from None
        page = Page(
            thread_id=position.thread,
            number=position.pages + 1,
            captured=position.captured,
            section=BATCHES,
            batch=batch,
            previous_tail_digest=position.tail.digest,
            facts=(),
            dependencies=dependencies,
            cursor=None,
            previous_page_digest=position.page_digest,
        )
        after = replace(position, pages=page.number, tail=tail)
        sealed = seal_page(page, after.cursor)
        pages.append(TransferPage(sealed.text, BATCHES, sealed.cursor, batch.last_sequence))
        position = replace(after, page_digest=sealed.digest)
    return pages, position


def _chained(tail: Tail, batch: StoredBatch) -> Tail:
    """Return the tail after a batch, or raise StorageCorrupt where the chain is broken."""
    wires = [wire for _, wire in batch.records]
    content = batch_content(batch.batch_id, batch.producer_id, wires)
    made = Tail(tail.sequence + len(wires), chain_digest(tail.digest, content))
    if batch.first_sequence != tail.sequence + 1 or made != Tail(
        batch.last_sequence, batch.tail_digest
    ):
        detail = f"the batch at {batch.first_sequence} does not continue the chain; verify it"
        raise StorageCorrupt(detail)
    return made


def _facts_page(
    position: _Position, facts: Sequence[bytes], after: _Position
) -> tuple[TransferPage, _Position]:
    section = FACT_SECTIONS[position.sections]
    page = Page(
        thread_id=position.thread,
        number=position.pages + 1,
        captured=position.captured,
        section=section,
        batch=None,
        previous_tail_digest=position.tail.digest,
        facts=tuple(facts),
        dependencies=(),
        cursor=None,
        previous_page_digest=position.page_digest,
    )
    after = replace(after, pages=page.number)
    more = after.sections < len(FACT_SECTIONS)
    sealed = seal_page(page, after.cursor if more else None)
    return TransferPage(sealed.text, section, sealed.cursor), replace(
        after, page_digest=sealed.digest
    )
