"""The facts of an archive, kept in temporary files until the whole of it was read (ARC-4).

What is said of a submission stands in several sections, all in the order of the lane: one pass over
all of them at once puts it together again.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Self, cast

from yielded_core.errors import ArchiveRefused, InvalidInput, StorageFull
from yielded_core.ledger.archived import ArchivedWork, archived_work
from yielded_core.log.fact_schema import ResolutionFact, read_fact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from yielded_core.log.fact_schema import AbortFact, AdmissionFact, ApprovalFact, Fact
    from yielded_core.ports.work import FactSection
    from yielded_core.records.identifiers import SubmissionId, ThreadId

_NUMBER: Final = 8
"""Bytes of a page number and of a length in the files."""


class SpooledWork(NamedTuple):
    """A submission put together, and the page of its admission."""

    page: int
    work: ArchivedWork


class FactSpool:
    """Facts by section; a context manager, for its temporary files.

    It is used by one thread at a time.
    """

    def __init__(self, thread: ThreadId) -> None:
        self._thread = thread
        self._resources = ExitStack()
        self._files: dict[FactSection, IO[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def add(self, section: str, page: int, facts: Iterable[bytes]) -> None:
        """Check facts of a page and keep them; raises ArchiveRefused (`record`)."""
        for text in facts:
            known = cast("FactSection", section)
            _read(known, page, text)
            file = self._files.get(known)
            if file is None:
                file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the spool
                self._files[known] = self._resources.enter_context(file)
            head = page.to_bytes(_NUMBER, "big") + len(text).to_bytes(_NUMBER, "big")
            try:
                file.write(head + text)
            except OSError as error:
                raise StorageFull("the temporary file of an archive cannot be written") from error

    def merged(self) -> Iterator[SpooledWork]:
        """Return the submissions in the order of the lane.

        Raises ArchiveRefused (`record`) for one that is out of order or that no ledger would have
        accepted, and (`dependency`) for a fact whose submission is not there, or not where its
        section goes on.
        """
        aborts, approvals, resolutions = (
            _Ahead(self._stored(section))
            for section in ("abortCommands", "approvals", "resolutions")
        )
        for expected, (page, fact) in enumerate(self._stored("admissions"), 1):
            admission = cast("AdmissionFact", fact)
            if admission.queue_sequence != expected:
                detail = f"place {admission.queue_sequence} of the lane follows {expected - 1}"
                raise ArchiveRefused(page, "record", detail)
            name = admission.submission_id
            abort = aborts.of(name)
            try:
                work = archived_work(
                    self._thread,
                    admission,
                    cast("AbortFact | None", next(iter(abort), None)),
                    cast("list[ApprovalFact]", approvals.of(name)),
                    cast("list[ResolutionFact]", resolutions.of(name)),
                )
            except InvalidInput as error:
                raise ArchiveRefused(page, "record", str(error)) from None
            yield SpooledWork(page, work)
        for ahead in (aborts, approvals, resolutions):
            ahead.require_end()

    def _stored(self, section: FactSection) -> Iterator[tuple[int, Fact]]:
        file = self._files.get(section)
        if file is None:
            return
        file.seek(0)
        while head := file.read(2 * _NUMBER):
            page = int.from_bytes(head[:_NUMBER], "big")
            yield page, read_fact(section, file.read(int.from_bytes(head[_NUMBER:], "big")))


class _Ahead:
    """The facts of one section, taken submission by submission."""

    def __init__(self, facts: Iterator[tuple[int, Fact]]) -> None:
        self._facts = facts
        self._next = next(facts, None)

    def of(self, submission: SubmissionId) -> list[Fact]:
        """Return the next facts as far as they belong to a submission, each call once, in order."""
        found: list[Fact] = []
        while self._next is not None and self._next[1].submission_id == submission:
            page, fact = self._next
            if found and _call(fact) <= _call(found[-1]):
                detail = "the facts of a submission repeat a call or are out of order"
                raise ArchiveRefused(page, "record", detail)
            found.append(fact)
            self._next = next(self._facts, None)
        return found

    def require_end(self) -> None:
        """Refuse a fact that belongs to no submission."""
        if self._next is not None:
            page, _ = self._next
            detail = "it has a fact of a submission that is not there, or not in this order"
            raise ArchiveRefused(page, "dependency", detail)


def _call(fact: Fact) -> tuple[str, str]:
    kind = fact.kind if isinstance(fact, ResolutionFact) else ""
    return getattr(fact, "tool_call_id", ""), kind


def _read(section: FactSection, page: int, text: bytes) -> None:
    try:
        read_fact(section, text)
    except InvalidInput as error:
        raise ArchiveRefused(page, "record", str(error)) from None
