"""Questions that one statement answers: a tail, an abort, what was admitted under a key.

Where the statement finds nothing, a snapshot of several says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.ledger.operations.admission import replayed
from yielded_core.ports.values import ThreadTail
from yielded_core.ports.work import AbortIntent, AbortState
from yielded_core.records.identifiers import Digest, abort_record_id
from yielded_core.sql.ledger_rows import submission_of
from yielded_core.sql.ledger_statements import ABORT_STATE, CONTROL
from yielded_core.sql.log_statements import THREAD
from yielded_storage_postgres.dialect import in_schema, statement
from yielded_storage_postgres.names import is_own_key

if TYPE_CHECKING:
    from yielded_core.ledger.requests import Admit, ReadAbortIntent
    from yielded_core.ports.work import Admitted
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_postgres.database import Database

_ADMITTED: Final = f"""
SELECT {CONTROL}
  FROM yielded_threads AS t
  JOIN yielded_submissions AS s ON s.thread_id = t.thread_id AND s.generation = t.generation
 WHERE t.thread_id = $1 AND s.principal = $2 AND s.idempotency_key = $3
"""


class Asking:
    """Questions over one open store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def _schema(self) -> str:
        return self._database.address.quoted_schema

    async def tail(self, thread: ThreadId) -> ThreadTail | None:
        """Return the tail of a thread; None where it is not there."""
        if not is_own_key(thread):
            return None
        found = await self._database.alone(statement(THREAD, self._schema).text, thread)
        if not found:
            return None
        _, epoch, sequence, digest, *_ = found[0]
        return ThreadTail(thread, sequence, Digest(digest.hex()), epoch)

    async def abort_state(self, asked: ReadAbortIntent) -> AbortState | None:
        """Return the abort of a submission; None where that is not there (LED-9)."""
        record = abort_record_id(asked.submission_id)
        named = {
            "thread": asked.thread_id,
            "submission": asked.submission_id,
            "record": record,
        }
        if not all(map(is_own_key, named.values())):
            return None
        prepared = statement(ABORT_STATE, self._schema)
        found = await self._database.alone(prepared.text, *prepared.arranged(named))
        if not found:
            return None
        ((author, reason, requested, at),) = await self._database.whole(found, asked.thread_id)
        intent = None if requested is None else AbortIntent(author, reason, requested)
        return AbortState(intent, None if at is None else record)

    async def replayed(self, asked: Admit) -> Admitted | None:
        """Return the receipt of work that was admitted before; None where it was not (LED-1).

        Raises AdmissionConflict.
        """
        admission = asked.work.admission
        names = (admission.thread_id, admission.principal, admission.idempotency_key)
        if not all(map(is_own_key, names)):
            return None
        found = await self._database.alone(in_schema(_ADMITTED, self._schema), *names)
        if not found:
            return None
        (row,) = await self._database.whole(found, admission.thread_id)
        return replayed(asked.work, submission_of(row))
