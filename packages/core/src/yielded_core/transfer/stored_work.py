"""The accepted work of a stored thread, for the audit against its log (CRT-6).

It is read before the log is: whatever the ledger says of the log is then in what is read of it.
"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import IO, TYPE_CHECKING, Self

import orjson

from yielded_core.errors import StorageFull
from yielded_core.ledger.archived import texts_fault
from yielded_core.ledger.audit import Accepted, Claims, WorkAudit
from yielded_core.records.identifiers import SubmissionId
from yielded_core.transfer.offload import off_loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from yielded_core.ledger.traces import WorkTraces
    from yielded_core.ports.values import Finding
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage


class StoredWork:
    """What the audit needs of each submission; a context manager, for its temporary file."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed on leaving

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    async def read(self, storage: Storage, thread: ThreadId) -> None:
        """Read the whole lane of a thread."""
        after = 0
        while True:
            page = await storage.ledger.facts(thread, after=after)
            if not page.facts:
                return
            await off_loop(partial(self._keep, page.facts))
            after = page.facts[-1].submission.queue_sequence

    def findings(self, traces: WorkTraces) -> tuple[Finding, ...]:
        """Audit the lane against what the whole log tells."""
        with WorkAudit() as audit:
            for work in self._kept():
                audit.take(work, traces.get(SubmissionId(work.submission_id)))
            return audit.finish()

    def _keep(self, entries: Sequence[SubmissionFacts]) -> None:
        lines = [_encoded(_accepted(entry)) for entry in entries]
        try:
            self._file.writelines(lines)
        except OSError as error:
            raise StorageFull("the temporary file of an audit cannot be written") from error

    def _kept(self) -> Iterator[Accepted]:
        self._file.seek(0)
        for line in self._file:
            fields = orjson.loads(line)
            work = Accepted(*fields)
            yield work._replace(key=tuple(work.key), claims=Claims(*work.claims))


def _encoded(work: Accepted) -> bytes:
    return orjson.dumps((*work[:-1], tuple(work.claims))) + b"\n"


def _accepted(entry: SubmissionFacts) -> Accepted:
    found = entry.submission
    settled = found.settled
    return Accepted(
        found.queue_sequence,
        found.submission_id,
        found.receipt_id,
        (found.principal, found.idempotency_key),
        found.group,
        found.input_digest,
        was_unknown=bool(entry.unknown_calls),
        deferred=found.deferred_at is not None,
        claims=Claims(
            texts_fault(entry) or "",
            found.input_sequence or 0,
            "" if settled is None else settled.outcome,
            "" if settled is None else settled.settlement_id,
        ),
    )
