"""Appends and settlement publications that one statement commits (LOG-2 to LOG-5, LED-8).

Each is decided by the shared rules over what the process knows of the thread. The statement commits
it where that is still so. Where it is not, nothing was done, and a transaction decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from yielded_core.errors import YieldedError
from yielded_core.ledger.lane import token_digest
from yielded_core.log.append import ThreadState
from yielded_core.log.facts import facts_of
from yielded_core.log.offsets import offset_prefix
from yielded_core.log.progress import runs_of
from yielded_core.log.reads import stored_record
from yielded_core.ports.work import Published
from yielded_core.records.identifiers import Digest
from yielded_core.records.payloads import SubmissionSettled
from yielded_core.sql.ledger_statements import IN_TURN
from yielded_storage_postgres.dialect import in_schema
from yielded_storage_postgres.known import Known
from yielded_storage_postgres.names import is_own_key
from yielded_storage_postgres.planning import (
    GUARD,
    GUARD_PARAMETERS,
    MOVED,
    SEEN,
    NotPlanned,
    append_statement,
    plan_append,
    writes,
)
from yielded_storage_postgres.rendered import IS_CLAIMABLE, NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ledger.requests import Publish
    from yielded_core.ports.values import Appended, PreparedBatch, Tail
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_postgres.database import Database
    from yielded_storage_postgres.known import KnownThreads
    from yielded_storage_postgres.planning import Plan, Shape

_LOOK: Final = """
SELECT t.generation, t.epoch, t.tail_sequence, t.tail_digest, t.indexed_through, t.fact_revision,
       p.run_id, p.state
  FROM yielded_threads AS t
  LEFT JOIN yielded_run_progress AS p
    ON p.thread_id = t.thread_id AND p.generation = t.generation AND p.run_id = ANY($2::text[])
 WHERE t.thread_id = $1 AND t.epoch > 0
"""
_OWNED: Final = """
t.lane_version = seen.lane_version
AND t.owner_submission = $9 AND t.owner_token = $10 AND t.owner_epoch = t.epoch
"""
# Everything about the lane is seen in one snapshot, and counts where its version is the same behind
# the lock: every change of the ledger raises it.
_WORK: Final = """
work AS MATERIALIZED (
  SELECT s.queue_sequence FROM yielded_submissions AS s, seen
   WHERE s.thread_id = $1 AND s.generation = seen.generation
     AND s.submission_id = $9 AND s.receipt_id = $11 AND s.state <> 'settled')
"""
PUBLISH: Final = f"""
WITH {SEEN}, {_WORK},
moved AS (
  UPDATE yielded_threads AS t SET {MOVED}, lane_version = t.lane_version + 1
    FROM seen, work WHERE {GUARD} AND {_OWNED}
  RETURNING t.generation, work.queue_sequence),
published AS (
  UPDATE yielded_submissions AS s SET publisher = $10
    FROM moved
   WHERE s.thread_id = $1 AND s.generation = moved.generation
     AND s.queue_sequence = moved.queue_sequence)
"""
# The lane is released, and is claimable at once where the next one in turn is.
PUBLISH_AND_FINALIZE: Final = f"""
WITH {SEEN}, {_WORK},
behind AS MATERIALIZED (
  SELECT 1 FROM (
    SELECT s.state, s.abort_at FROM yielded_submissions AS s, seen
     WHERE s.thread_id = $1 AND s.generation = seen.generation
       AND {IN_TURN} AND s.submission_id <> $9
     ORDER BY s.queue_sequence LIMIT 1) AS s
   WHERE {IS_CLAIMABLE}),
moved AS (
  UPDATE yielded_threads AS t SET {MOVED}, lane_version = t.lane_version + 1,
         owner_submission = NULL, owner_attempt = NULL, owner_token = NULL, owner_epoch = NULL,
         lease_expires_at = NULL
    FROM seen, work WHERE {GUARD} AND {_OWNED}
  RETURNING t.generation, work.queue_sequence, coalesce($12::bigint, {NOW}) AS instant),
published AS (
  UPDATE yielded_submissions AS s
     SET publisher = $10, state = 'settled', suspension = NULL,
         settlement_id = $13, outcome = $14, settled_at = moved.instant
    FROM moved
   WHERE s.thread_id = $1 AND s.generation = moved.generation
     AND s.queue_sequence = moved.queue_sequence),
listed AS (
  INSERT INTO yielded_runnable AS r SELECT $1, moved.instant FROM moved, behind
  ON CONFLICT (thread_id) DO UPDATE SET since = least(r.since, excluded.since)),
unlisted AS (
  DELETE FROM yielded_runnable AS r USING moved
   WHERE r.thread_id = $1 AND NOT EXISTS (SELECT 1 FROM behind))
"""
_OWNER_PARAMETERS: Final = 3
_FINAL_PARAMETERS: Final = 3


class Appending:
    """Appends by one statement, over one open store."""

    def __init__(
        self, database: Database, known: KnownThreads, instant: Callable[[], int] | None
    ) -> None:
        """Follow the server's clock, or what `instant` returns."""
        self._database = database
        self._known = known
        self._instant = instant

    async def append(
        self, thread: ThreadId, batch: PreparedBatch, expected: Tail, epoch: int
    ) -> Appended | None:
        """Commit a batch; None where that was not possible and nothing was done."""
        planned = await self._planned(thread, batch, expected, epoch)
        if planned is None:
            return None
        known, plan = planned
        text = append_statement(self._schema, plan.shape)
        return plan.appended if await self._commit(known, plan, text, ()) else None

    async def publish(self, asked: Publish) -> Published | None:
        """Publish the settlement of owned work; None where nothing was done."""
        batch, thread = asked.batch, asked.thread_id
        content = batch.records[0].record.payload
        if asked.authority != "owned" or not isinstance(content, SubmissionSettled):
            return None
        names = (content.submission_id, content.receipt_id, content.settlement_id)
        planned = None
        if all(map(is_own_key, names)):
            planned = await self._planned(thread, batch, None, None)
        if planned is None:
            return None
        known, plan = planned
        token = token_digest(asked.token)
        values: tuple[object, ...] = (content.submission_id, token, content.receipt_id)
        if asked.finalize:
            now = None if self._instant is None else self._instant()
            values += (now, content.settlement_id, content.outcome)
        text = publish_statement(self._schema, plan.shape, finalize=asked.finalize)
        if not await self._commit(known, plan, text, values):
            return None
        prefix = offset_prefix(self._database.incarnation, thread)
        tail, wire = plan.appended.tail, batch.records[0].wire
        record = stored_record(thread, prefix, tail.sequence, batch.batch_id, wire)
        return Published(record, tail, replayed=False)

    @property
    def _schema(self) -> str:
        return self._database.address.quoted_schema

    async def _planned(
        self, thread: ThreadId, batch: PreparedBatch, expected: Tail | None, epoch: int | None
    ) -> tuple[Known, Plan] | None:
        """Plan an append at a tail and epoch, or at those that the thread has."""
        known = self._known.get(thread)
        plan = known and _plan(known, batch, expected, epoch)
        if known is None or plan is None:
            known = await self._look(thread, batch)
            plan = known and _plan(known, batch, expected, epoch)
        return None if known is None or plan is None else (known, plan)

    async def _look(self, thread: ThreadId, batch: PreparedBatch) -> Known | None:
        """Read what an append of a batch rests on; None where there is no such thread."""
        runs = runs_of(facts_of(0, encoded) for encoded in batch.records)
        if not all(map(is_own_key, (thread, *runs))):
            return None
        found = await self._database.alone(in_schema(_LOOK, self._schema), thread, list(runs))
        if not found:
            return None
        generation, epoch, sequence, digest, indexed, revision, *_ = found[0]
        state = ThreadState(
            thread, generation, epoch, sequence, Digest(digest.hex()), indexed, revision
        )
        progress: dict[str, bytes | None] = dict.fromkeys(runs)
        progress.update((row[6], row[7]) for row in found if row[6] is not None)
        return Known(state, progress)

    async def _commit(
        self, known: Known, plan: Plan, text: str, values: tuple[object, ...]
    ) -> bool:
        """Commit a plan where the thread is as it was known to be."""
        thread = known.state.thread_id
        done = await self._database.alone(text, *plan.guard, *values, *plan.values, touches=thread)
        if done:
            self._known.learn(known.after(plan.appended.tail, plan.progress))
        else:
            self._known.forget(thread)
        return bool(done)


def _plan(
    known: Known, batch: PreparedBatch, expected: Tail | None, epoch: int | None
) -> Plan | None:
    """Plan over what is known; None where that does not do."""
    state = known.state
    if (expected or state.tail) != state.tail or (epoch or state.epoch) != state.epoch:
        return None
    try:
        return plan_append(state, known.progress, batch, state.tail, state.epoch)
    except (NotPlanned, YieldedError):
        return None  # a refusal is decided where nothing moves meanwhile


@lru_cache(maxsize=1_024)
def publish_statement(schema: str, shape: Shape, *, finalize: bool) -> str:
    """Return the statement that publishes a plan of a shape: one row where it did, else none."""
    text = PUBLISH_AND_FINALIZE if finalize else PUBLISH
    first = GUARD_PARAMETERS + _OWNER_PARAMETERS + finalize * _FINAL_PARAMETERS + 1
    return in_schema(f"{text}{writes(shape, first)} SELECT 1 FROM moved", schema)
