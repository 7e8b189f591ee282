"""Claims and renewals by one statement (LED-4, LED-6).

The statement grants what is free. Whatever else there is to say, a replay or a refusal, is said by
a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.ledger.lane import token_digest
from yielded_core.log.append import ThreadState
from yielded_core.ports.work import Grant
from yielded_core.records.bounds import LAST_EPOCH
from yielded_core.records.identifiers import Digest
from yielded_core.sql.ledger_rows import submission_of
from yielded_core.sql.ledger_statements import CONTROL, IN_TURN
from yielded_storage_postgres.dialect import in_schema
from yielded_storage_postgres.names import is_own_key
from yielded_storage_postgres.rendered import CLAIMED_STATE, IS_CLAIMABLE, NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ledger.requests import Claim, Renew
    from yielded_storage_postgres.database import Database
    from yielded_storage_postgres.known import KnownThreads

# The lease is on the row of the thread, which is locked and looked at again. What was seen of the
# lane before counts only where its version is still the same then. The clock is read once the lock
# is held: a row that nobody changed meanwhile is not looked at again, nor is what stands beside it.
CLAIM: Final = f"""
WITH seen AS MATERIALIZED (
  SELECT generation, lane_version FROM yielded_threads WHERE thread_id = $1),
head AS MATERIALIZED (
  SELECT s.queue_sequence, s.submission_id FROM (
    SELECT s.queue_sequence, s.submission_id, s.state, s.abort_at
      FROM yielded_submissions AS s, seen
     WHERE s.thread_id = $1 AND s.generation = seen.generation AND {IN_TURN}
     ORDER BY s.queue_sequence LIMIT 1) AS s
   WHERE {IS_CLAIMABLE}),
locked AS MATERIALIZED (
  SELECT t.thread_id FROM yielded_threads AS t, head WHERE t.thread_id = $1 FOR UPDATE OF t),
clock AS MATERIALIZED (
  SELECT coalesce($5::bigint, {NOW}) AS instant FROM locked),
won AS (
  UPDATE yielded_threads AS t
     SET epoch = t.epoch + 1, lane_version = t.lane_version + 1,
         owner_submission = head.submission_id, owner_attempt = $2, owner_token = $3,
         owner_epoch = t.epoch + 1, lease_expires_at = clock.instant + $4::bigint
    FROM seen, head, clock
   WHERE t.thread_id = $1
     AND t.generation = seen.generation AND t.lane_version = seen.lane_version
     AND (t.owner_epoch IS DISTINCT FROM t.epoch
          OR t.lease_expires_at <= clock.instant
             AND (t.owner_attempt <> $2 OR t.owner_token <> $3))
     AND t.epoch < {LAST_EPOCH}
  RETURNING t.lease_expires_at, t.generation, t.epoch, t.tail_sequence, t.tail_digest,
            t.indexed_through, t.fact_revision, head.queue_sequence),
listed AS (
  INSERT INTO yielded_runnable AS r SELECT $1, lease_expires_at FROM won
  ON CONFLICT (thread_id) DO UPDATE SET since = greatest(r.since, excluded.since))
UPDATE yielded_submissions AS s SET state = {CLAIMED_STATE}
  FROM won
 WHERE s.thread_id = $1 AND s.generation = won.generation
   AND s.queue_sequence = won.queue_sequence
RETURNING won.lease_expires_at, won.generation, won.epoch, won.tail_sequence, won.tail_digest,
          won.indexed_through, won.fact_revision, {CONTROL}
"""
RENEW: Final = f"""
WITH locked AS MATERIALIZED (
  SELECT thread_id FROM yielded_threads WHERE thread_id = $1 FOR UPDATE),
clock AS MATERIALIZED (
  SELECT coalesce($4::bigint, {NOW}) AS instant FROM locked),
renewed AS (
  UPDATE yielded_threads AS t
     SET lane_version = t.lane_version + 1,
         lease_expires_at = greatest(t.lease_expires_at, clock.instant + $3::bigint)
    FROM clock
   WHERE t.thread_id = $1 AND t.owner_token = $2 AND t.owner_epoch = t.epoch
  RETURNING t.lease_expires_at),
listed AS (
  UPDATE yielded_runnable AS r SET since = greatest(r.since, renewed.lease_expires_at)
    FROM renewed WHERE r.thread_id = $1)
SELECT lease_expires_at FROM renewed
"""


class Owning:
    """Claims and renewals over one open store."""

    def __init__(
        self, database: Database, known: KnownThreads, instant: Callable[[], int] | None
    ) -> None:
        """Follow the server's clock, or what `instant` returns."""
        self._database = database
        self._known = known
        self._instant = instant

    async def claim(self, asked: Claim) -> Grant | None:
        """Own a lane that is free; None where nothing was done."""
        thread, attempt = asked.thread_id, asked.attempt_id
        if asked.handoff is not None or not all(map(is_own_key, (thread, attempt))):
            return None
        found = await self._database.alone(
            in_schema(CLAIM, self._database.address.quoted_schema),
            thread,
            attempt,
            token_digest(asked.token),
            asked.lease,
            self._now(),
        )
        if not found:
            return None
        (row,) = await self._database.whole(found, thread)
        expires, generation, epoch, sequence, digest, indexed, revision, *control = row
        state = ThreadState(
            thread, generation, epoch, sequence, Digest(digest.hex()), indexed, revision
        )
        self._known.learn_state(state)
        return Grant(submission_of(control), attempt, epoch, expires, state.tail, replayed=False)

    async def renew(self, asked: Renew) -> int | None:
        """Extend an ownership; None where nothing was done."""
        if not is_own_key(asked.thread_id):
            return None
        found = await self._database.alone(
            in_schema(RENEW, self._database.address.quoted_schema),
            asked.thread_id,
            token_digest(asked.token),
            asked.lease,
            self._now(),
        )
        return int(found[0][0]) if found else None

    def _now(self) -> int | None:
        return None if self._instant is None else self._instant()
