"""The statements of the ledger, each named and with its reason."""

from __future__ import annotations

from typing import Final

# --- the clock ---

CLOCK: Final = "SELECT boot_id, boot_clock, instant FROM yielded_clock WHERE singleton = 1"
LATEST_LEASE: Final = "SELECT coalesce(max(since), 0) FROM yielded_runnable"
SET_CLOCK: Final = """
INSERT INTO yielded_clock VALUES (1, ?, ?, ?)
ON CONFLICT (singleton) DO UPDATE SET
  boot_id = excluded.boot_id, boot_clock = excluded.boot_clock, instant = excluded.instant
"""

# --- lanes ---

LANE: Final = """
SELECT generation, epoch, lane_version, last_queue_sequence, fact_revision,
       owner_submission, owner_attempt, owner_token, owner_epoch, lease_expires_at
  FROM yielded_threads WHERE thread_id = ?
"""
TAIL: Final = "SELECT tail_sequence, tail_digest FROM yielded_threads WHERE thread_id = ?"
SET_LANE: Final = """
UPDATE yielded_threads SET
  epoch = ?, lane_version = ?, last_queue_sequence = ?, fact_revision = ?,
  owner_submission = ?, owner_attempt = ?, owner_token = ?, owner_epoch = ?, lease_expires_at = ?
 WHERE thread_id = ?
"""
# A thread that nobody materialized has epoch 0, which no append carries.
INSERT_LANE: Final = """
INSERT INTO yielded_threads
  (thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,
   lane_version, last_queue_sequence)
VALUES (?, 1, 0, 0, ?, 0, ?, ?, ?)
"""
RUNNABLE_SINCE: Final = "SELECT since FROM yielded_runnable WHERE thread_id = ?"
SET_RUNNABLE: Final = """
INSERT INTO yielded_runnable VALUES (?, ?)
ON CONFLICT (thread_id) DO UPDATE SET since = excluded.since
"""
# A takeover ends every ownership: a lane that waits for the end of a lease is claimable at once.
TAKEN_OVER: Final = """
UPDATE yielded_runnable SET since = :now WHERE thread_id = :thread AND since > :now
"""
ALL_TAKEN_OVER: Final = "UPDATE yielded_runnable SET since = :now WHERE since > :now"
DELETE_RUNNABLE: Final = "DELETE FROM yielded_runnable WHERE thread_id = ?"
RUNNABLE: Final = """
SELECT thread_id, since FROM yielded_runnable
 WHERE since <= ? AND (since, thread_id) > (?, ?)
 ORDER BY since, thread_id LIMIT ?
"""

OWES_WORK: Final = """
SELECT 1 FROM yielded_submissions
 WHERE thread_id = ? AND generation = ? AND state <> 'settled' LIMIT 1
"""
# Whether anything was ever accepted, by the lane's own count.
HAS_LANE: Final = """
SELECT 1 FROM yielded_threads WHERE thread_id = ? AND last_queue_sequence > 0
"""

# --- submissions ---

CONTROL: Final = """
s.thread_id, s.submission_id, s.receipt_id, s.queue_sequence, s.principal, s.idempotency_key,
s.admission_group, s.input_digest, s.admission_digest, s.admitted_at, s.state, s.input_sequence,
s.host_submission, s.suspension, s.abort_author, s.abort_reason, s.abort_at,
s.settlement_id, s.outcome, s.settled_at, s.deferred_at
"""
_SELECT: Final = f"SELECT {CONTROL} FROM yielded_submissions AS s"  # noqa: S608 - own columns
_OF_LANE: Final = " WHERE s.thread_id = ? AND s.generation = ?"

SUBMISSION: Final = f"{_SELECT} {_OF_LANE} AND s.submission_id = ?"
BY_KEY: Final = f"{_SELECT} {_OF_LANE} AND s.principal = ? AND s.idempotency_key = ?"
OCCUPANT: Final = """
SELECT submission_id FROM yielded_submissions
 WHERE thread_id = ? AND generation = ? AND admission_group = ? AND state <> 'settled'
"""
# Word for word the predicate of its partial index, so that parked unknowns are never walked over.
IN_TURN: Final = "s.state <> 'settled' AND (s.state <> 'unknown' OR s.abort_at IS NOT NULL)"
HEADS: Final = f"""
{_SELECT} {_OF_LANE} AND {IN_TURN}
 ORDER BY s.queue_sequence LIMIT ?
"""
BEHIND: Final = f"""
{_SELECT} {_OF_LANE} AND s.state <> 'settled' AND s.queue_sequence > ?
 ORDER BY s.queue_sequence LIMIT ?
"""
# By the primary key, settled ones too: what an export reads.
ACCEPTED: Final = f"""
{_SELECT} {_OF_LANE} AND s.queue_sequence > ? ORDER BY s.queue_sequence LIMIT ?
"""
# How far the work of an import is staged, and how many facts it consists of.
STAGED_WORK: Final = """
SELECT coalesce(max(queue_sequence), 0) FROM yielded_submissions
 WHERE thread_id = ? AND generation = ?
"""
COUNT_FACTS: Final = """
SELECT
  (SELECT count(*) + count(abort_at) + count(deferred_at) FROM yielded_submissions
    WHERE thread_id = :thread AND generation = :generation)
  + (SELECT count(*) FROM yielded_approvals
      WHERE thread_id = :thread AND generation = :generation)
  + (SELECT count(*) FROM yielded_resolutions
      WHERE thread_id = :thread AND generation = :generation)
"""
# By the id alone: the index of ids, then the thread that it names, whose generation must be live.
FIND_WORK: Final = """
SELECT s.thread_id FROM yielded_submissions AS s
  JOIN yielded_threads AS t ON t.thread_id = s.thread_id AND t.generation = s.generation
 WHERE s.submission_id = ?
"""
# The order of the partial index of unsettled rows. The rows of the cursor's own thread up to its
# place are passed over, so that a page costs what it holds and at most one lane more.
NONTERMINAL: Final = f"""
{_SELECT}
  JOIN yielded_threads AS t ON t.thread_id = s.thread_id AND t.generation = s.generation
 WHERE s.state <> 'settled' AND (s.thread_id, s.generation, s.queue_sequence) > (?, ?, ?)
 ORDER BY s.thread_id, s.generation, s.queue_sequence LIMIT ?
"""
# One statement whose rows are those of one thread, one submission and one record.
ABORT_STATE: Final = """
SELECT s.abort_author, s.abort_reason, s.abort_at,
       coalesce(
         (SELECT record_id FROM yielded_records AS r
           WHERE r.thread_id = :thread AND r.generation = t.generation AND record_id = :record),
         (SELECT record_id FROM yielded_archived_records AS a
           WHERE a.thread_id = :thread AND a.generation = t.generation AND record_id = :record))
  FROM yielded_threads AS t
  JOIN yielded_submissions AS s
    ON s.thread_id = t.thread_id AND s.generation = t.generation AND s.submission_id = :submission
 WHERE t.thread_id = :thread
"""
ADMITTED: Final = """
SELECT input, linkage, message FROM yielded_admissions
 WHERE thread_id = ? AND generation = ? AND queue_sequence = ?
"""
INSERT_SUBMISSION: Final = """
INSERT INTO yielded_submissions
  (thread_id, generation, queue_sequence, submission_id, receipt_id, principal, idempotency_key,
   admission_group, input_digest, admission_digest, admitted_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_ADMITTED: Final = "INSERT INTO yielded_admissions VALUES (?, ?, ?, ?, ?, ?)"
SET_SUBMISSION: Final = """
UPDATE yielded_submissions SET
  state = ?, input_sequence = ?, host_submission = ?, suspension = ?,
  abort_author = ?, abort_reason = ?, abort_at = ?, settlement_id = ?, outcome = ?, settled_at = ?,
  deferred_at = ?
 WHERE thread_id = ? AND generation = ? AND queue_sequence = ?
"""
PUBLISHER: Final = """
SELECT publisher FROM yielded_submissions
 WHERE thread_id = ? AND generation = ? AND queue_sequence = ?
"""
SET_PUBLISHER: Final = """
UPDATE yielded_submissions SET publisher = ?
 WHERE thread_id = ? AND generation = ? AND queue_sequence = ?
"""

# --- what belongs to a submission ---

APPROVALS: Final = """
SELECT tool_call_id, decision, resolver, reason, decided_at FROM yielded_approvals
 WHERE thread_id = ? AND generation = ? AND submission_id = ? ORDER BY tool_call_id
"""
INSERT_APPROVAL: Final = "INSERT INTO yielded_approvals VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
UNKNOWN_CALLS: Final = """
SELECT tool_call_id, run_id, reason, marked_at FROM yielded_unknown_calls
 WHERE thread_id = ? AND generation = ? AND submission_id = ? ORDER BY tool_call_id
"""
INSERT_UNKNOWN_CALL: Final = "INSERT INTO yielded_unknown_calls VALUES (?, ?, ?, ?, ?, ?, ?)"
RESOLUTIONS: Final = """
SELECT tool_call_id, resolution, author, reason, result, resolved_at FROM yielded_resolutions
 WHERE thread_id = ? AND generation = ? AND submission_id = ? ORDER BY tool_call_id, kind
"""
INSERT_RESOLUTION: Final = "INSERT INTO yielded_resolutions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
RESERVATIONS: Final = """
SELECT tool_call_id, reservation_id, digest, status, child_thread, child_submission, accounting
  FROM yielded_reservations
 WHERE thread_id = ? AND generation = ? AND submission_id = ? ORDER BY tool_call_id
"""
SET_RESERVATION: Final = """
INSERT INTO yielded_reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (thread_id, generation, submission_id, tool_call_id) DO UPDATE SET
  status = excluded.status, child_thread = excluded.child_thread,
  child_submission = excluded.child_submission, accounting = excluded.accounting
"""

# --- the log ---

RECORD_SEQUENCE: Final = """
SELECT coalesce(
  (SELECT sequence FROM yielded_records
    WHERE thread_id = :thread AND generation = :generation AND record_id = :record),
  (SELECT sequence FROM yielded_archived_records
    WHERE thread_id = :thread AND generation = :generation AND record_id = :record))
"""
BATCH_OF: Final = """
SELECT batch_id FROM yielded_batches
 WHERE thread_id = ? AND generation = ? AND last_sequence >= ? ORDER BY last_sequence LIMIT 1
"""
OPERATIONS: Final = """
SELECT sequence FROM yielded_operation_facts
 WHERE thread_id = ? AND generation = ? AND run_id = ? AND tool_call_id = ?
 ORDER BY sequence DESC
"""
WIRE: Final = """
SELECT wire FROM yielded_records WHERE thread_id = ? AND generation = ? AND sequence = ?
"""
CHUNK: Final = """
SELECT first_sequence, content FROM yielded_archived_chunks
 WHERE thread_id = ? AND generation = ? AND last_sequence >= ? ORDER BY last_sequence LIMIT 1
"""
