"""Checking an archive while its lines stream by: its pages, and the log that they hold."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from yielded_core.errors import ArchiveRefused
from yielded_core.ledger.audit import Accepted
from yielded_core.ledger.traces import WorkTraces
from yielded_core.log.archive import ArchiveReader
from yielded_core.log.dependencies import dependencies_among
from yielded_core.log.verifier import LogVerifier
from yielded_core.transfer.spill import spilled_states, spilled_traces
from yielded_core.transfer.spool import FactSpool

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterator
    from types import TracebackType

    from yielded_core.ledger.archived import ArchivedWork
    from yielded_core.ledger.traces import Trace
    from yielded_core.log.pages import Page
    from yielded_core.log.verifier import Fault
    from yielded_core.ports.values import CapturedThread, PreparedBatch

READ_BYTES: Final = 4 * 1_048_576
"""Wire that is read from a store at a time, undecoded; a single batch may be larger."""
GROUP_BYTES: Final = 1_048_576
"""Text that is worked on, and staged, at a time; a single line may be longer. Decoded records take
ten to thirty times the memory of their text."""
GROUP_LINES: Final = 256


@dataclass(frozen=True, slots=True)
class CheckedPage:
    """A page with its batch decoded; None without a batch, or where a part is unreadable."""

    page: Page
    prepared: PreparedBatch | None


class CheckedWork(NamedTuple):
    """A submission of an archive, and what the archive's log tells about it."""

    page: int
    """The page of its admission."""
    work: ArchivedWork
    trace: Trace

    @property
    def accepted(self) -> Accepted:
        """The submission as the audit looks at it."""
        found = self.work.submission
        return Accepted(
            found.queue_sequence,
            found.submission_id,
            found.receipt_id,
            (found.principal, found.idempotency_key),
            found.group,
            found.input_digest,
            was_unknown=bool(self.work.resolutions),
            deferred=found.deferred_at is not None,
        )


class ArchiveCheck:
    """Takes the lines of an archive in order; a context manager, for its temporary files."""

    def __init__(self) -> None:
        self._reader = ArchiveReader()
        self._resources = ExitStack()
        self._verifier: LogVerifier | None = None
        self._spool: FactSpool | None = None
        self._traces = WorkTraces(self._resources.enter_context(spilled_traces()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def take(self, line: bytes) -> CheckedPage:
        """Return the next page, or raise ArchiveRefused for one that is out of place."""
        page = self._reader.read(line)
        if self._verifier is None:
            states = self._resources.enter_context(spilled_states())
            verifier = LogVerifier(page.thread_id, states)
            self._verifier = self._resources.enter_context(verifier)
            self._spool = self._resources.enter_context(FactSpool(page.thread_id))
        if page.batch is None:
            if self._spool is not None:
                self._spool.add(page.section, page.number, page.facts)
            return CheckedPage(page, None)
        prepared = self._verifier.feed(page.batch)
        if prepared is not None:
            self._traces.apply(page.batch.first_sequence, prepared.records)
            named = dependencies_among(encoded.record for encoded in prepared.records)
            if named != page.dependencies:
                detail = "it does not name the records that it depends on"
                raise ArchiveRefused(page.number, "dependency", detail)
        return CheckedPage(page, prepared)

    def finish(self) -> tuple[CapturedThread, LogVerifier]:
        """Return what was captured and who verified it, or raise ArchiveRefused (`incomplete`)."""
        captured = self._reader.finish()
        if self._verifier is None:  # pragma: no cover - what is finished was begun
            raise ArchiveRefused(1, "incomplete", "it has no page")
        return captured, self._verifier

    def work(self) -> Iterator[CheckedWork]:
        """Return the submissions in the order of their lane, once the whole archive was taken.

        Raises ArchiveRefused as `FactSpool.merged` does.
        """
        for page, work in () if self._spool is None else self._spool.merged():
            yield CheckedWork(page, work, self._traces.get(work.prepared.submission_id))

    @property
    def pages(self) -> int:
        """How many pages were taken."""
        return self._reader.pages

    @property
    def fault(self) -> Fault | None:
        """The first fault of the log found so far."""
        return None if self._verifier is None else self._verifier.fault


async def grouped(lines: AsyncIterable[bytes]) -> AsyncGenerator[list[bytes], None]:
    """Yield lines in groups of at most 256 and about 1 MiB; closes the generator they come from."""
    group: list[bytes] = []
    size = 0
    try:
        async for line in lines:
            if group and (len(group) >= GROUP_LINES or size + len(line) > GROUP_BYTES):
                yield group
                group, size = [], 0
            group.append(line)
            size += len(line)
        if group:
            yield group
    finally:
        if isinstance(lines, AsyncGenerator):
            await lines.aclose()
