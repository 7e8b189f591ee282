"""The statements of the write path, each named and with its reason."""

from __future__ import annotations

from typing import Final

THREAD: Final = """
SELECT generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision
  FROM yielded_threads WHERE thread_id = ? AND epoch > 0
"""
TOMBSTONE: Final = """
SELECT epoch, tail_sequence, tail_digest FROM yielded_tombstones WHERE thread_id = ?
"""
# The row may be there at epoch 0: work was admitted before the thread was materialized.
INSERT_THREAD: Final = """
INSERT INTO yielded_threads
  (thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,
   lane_version, last_queue_sequence)
VALUES (?, 1, ?, 0, ?, 0, 0, 0, 0)
ON CONFLICT (thread_id) DO UPDATE SET epoch = excluded.epoch
"""
SET_EPOCH: Final = "UPDATE yielded_threads SET epoch = ? WHERE thread_id = ?"

MOVE_TAIL: Final = """
UPDATE yielded_threads SET tail_sequence = ?, tail_digest = ?, indexed_through = ?
 WHERE thread_id = ?
"""
# What a thread already holds of a batch: the batch of that id, then a record of one of its ids. One
# statement, since each costs more than what it looks up.
_HELD: Final = """
SELECT content_digest, first_sequence, last_sequence, tail_digest, NULL
  FROM yielded_batches
 WHERE thread_id = :thread AND generation = :generation AND batch_id = :batch
UNION ALL
SELECT NULL, NULL, NULL, NULL, record_id
  FROM yielded_records
 WHERE thread_id = :thread AND generation = :generation AND record_id IN ({names})
UNION ALL
SELECT NULL, NULL, NULL, NULL, record_id
  FROM yielded_archived_records
 WHERE thread_id = :thread AND generation = :generation AND record_id IN ({names})
 LIMIT 2
"""
HELD_OF_ONE: Final = _HELD.format(names=":names")
# The ids of a batch come as one JSON array, so that the statement is one whatever their number.
HELD_OF_MANY: Final = _HELD.format(names="SELECT value FROM json_each(:names)")
INSERT_BATCH: Final = """
INSERT INTO yielded_batches
  (thread_id, generation, last_sequence, first_sequence, batch_id, producer_id, epoch,
   content_digest, tail_digest, epoch_seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_RECORD: Final = """
INSERT INTO yielded_records (thread_id, generation, sequence, record_id, wire)
VALUES (?, ?, ?, ?, ?)
"""

# --- index tables ---

INSERT_RUN_FACT: Final = "INSERT INTO yielded_run_facts VALUES (?, ?, ?, ?)"
INSERT_OPERATION_FACT: Final = "INSERT INTO yielded_operation_facts VALUES (?, ?, ?, ?, ?)"
INSERT_PROMPT_FACT: Final = "INSERT INTO yielded_prompt_facts VALUES (?, ?, ?)"
INSERT_CONTINUATION: Final = "INSERT INTO yielded_continuations VALUES (?, ?, ?, ?, ?)"
INSERT_RUN_INPUT: Final = "INSERT INTO yielded_run_inputs VALUES (?, ?, ?, ?)"
INSERT_HANDOFF: Final = "INSERT INTO yielded_handoffs VALUES (?, ?, ?, ?)"
OPEN_HANDOFF: Final = """
SELECT 1 FROM yielded_handoffs WHERE thread_id = ? AND generation = ? AND record_id = ?
"""
CLOSE_HANDOFF: Final = """
DELETE FROM yielded_handoffs WHERE thread_id = ? AND generation = ? AND record_id = ?
"""
COUNT_HANDOFFS: Final = """
SELECT count(*) FROM yielded_handoffs WHERE thread_id = ? AND generation = ?
"""
RUN_PROGRESS: Final = """
SELECT state FROM yielded_run_progress WHERE thread_id = ? AND generation = ? AND run_id = ?
"""
SET_RUN_PROGRESS: Final = """
INSERT INTO yielded_run_progress VALUES (?, ?, ?, ?)
ON CONFLICT (thread_id, generation, run_id) DO UPDATE SET state = excluded.state
"""
FACT_ROWS: Final = (
    INSERT_RUN_FACT,
    INSERT_OPERATION_FACT,
    INSERT_RUN_INPUT,
    INSERT_PROMPT_FACT,
    INSERT_CONTINUATION,
    INSERT_HANDOFF,
    CLOSE_HANDOFF,
)
"""What indexes facts, in the order in which it runs: a batch may close what it opens."""
SET_INDEXED: Final = "UPDATE yielded_threads SET indexed_through = ? WHERE thread_id = ?"
BATCHES_TO_INDEX: Final = """
SELECT first_sequence, last_sequence FROM yielded_batches
 WHERE thread_id = ? AND generation = ? AND last_sequence > ? ORDER BY last_sequence LIMIT ?
"""
WIRES: Final = """
SELECT sequence, record_id, wire FROM yielded_records
 WHERE thread_id = ? AND generation = ? AND sequence BETWEEN ? AND ? ORDER BY sequence
"""
# Without the end of the last one, every later chunk of the thread would be looked at.
CHUNKS: Final = """
SELECT first_sequence, content FROM yielded_archived_chunks
 WHERE thread_id = :thread AND generation = :generation AND first_sequence <= :last
   AND last_sequence BETWEEN :first AND coalesce(
     (SELECT min(last_sequence) FROM yielded_archived_chunks
       WHERE thread_id = :thread AND generation = :generation AND last_sequence >= :last), :last)
 ORDER BY last_sequence
"""
INDEX_TABLES: Final = (
    "yielded_run_facts",
    "yielded_operation_facts",
    "yielded_prompt_facts",
    "yielded_continuations",
    "yielded_run_inputs",
    "yielded_run_progress",
    "yielded_handoffs",
)

# --- archive ranges ---

RANGES: Final = """
SELECT first_sequence, last_sequence, state, record_count, byte_count FROM yielded_ranges
 WHERE thread_id = ? AND generation = ? ORDER BY first_sequence
"""
OPEN_EXTENTS: Final = """
SELECT b.first_sequence, b.last_sequence,
       (SELECT sum(length(r.wire)) FROM yielded_records r
         WHERE r.thread_id = b.thread_id AND r.generation = b.generation
           AND r.sequence BETWEEN b.first_sequence AND b.last_sequence)
  FROM yielded_batches b
 WHERE b.thread_id = ? AND b.generation = ? AND b.last_sequence >= ?
 ORDER BY b.last_sequence LIMIT 1025
"""
INSERT_RANGE: Final = "INSERT INTO yielded_ranges VALUES (?, ?, ?, ?, ?, ?, ?)"
SET_ARCHIVED: Final = """
UPDATE yielded_ranges SET state = 'archived'
 WHERE thread_id = ? AND generation = ? AND first_sequence = ?
"""
INSERT_CHUNK: Final = "INSERT INTO yielded_archived_chunks VALUES (?, ?, ?, ?, ?)"
INSERT_ARCHIVED_RECORD: Final = "INSERT INTO yielded_archived_records VALUES (?, ?, ?, ?)"
FREE_RECORDS: Final = """
DELETE FROM yielded_records
 WHERE thread_id = ? AND generation = ? AND sequence BETWEEN ? AND ?
"""

# --- imports ---

IMPORT: Final = """
SELECT generation, epoch, tail_sequence, tail_digest, staged_through, staged_digest
  FROM yielded_imports WHERE thread_id = ?
"""
INSERT_IMPORT: Final = "INSERT INTO yielded_imports VALUES (?, ?, ?, ?, ?, ?, ?)"
MOVE_STAGED: Final = """
UPDATE yielded_imports SET staged_through = ?, staged_digest = ? WHERE thread_id = ?
"""
DELETE_IMPORT: Final = "DELETE FROM yielded_imports WHERE thread_id = ?"
PUBLISH_THREAD: Final = """
INSERT INTO yielded_threads
  (thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,
   lane_version, last_queue_sequence)
VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)
ON CONFLICT (thread_id) DO UPDATE SET
  generation = excluded.generation, epoch = excluded.epoch,
  tail_sequence = excluded.tail_sequence, tail_digest = excluded.tail_digest,
  indexed_through = excluded.indexed_through
"""
# A thread is materialized at generation 1, so that an import never stages there; and no generation
# is used again while rows of an earlier use may still wait to be purged.
NEXT_GENERATION: Final = """
SELECT 1 + max(
  coalesce((SELECT generation FROM yielded_threads WHERE thread_id = :thread), 1),
  coalesce((SELECT max(generation) FROM yielded_garbage WHERE thread_id = :thread), 0))
"""

# --- deletion ---

DELETE_THREAD: Final = "DELETE FROM yielded_threads WHERE thread_id = ?"
INSERT_TOMBSTONE: Final = "INSERT INTO yielded_tombstones VALUES (?, ?, ?, ?, ?)"
INSERT_GARBAGE: Final = "INSERT INTO yielded_garbage VALUES (?, ?) ON CONFLICT DO NOTHING"
GARBAGE: Final = "SELECT thread_id, generation FROM yielded_garbage LIMIT 1"
DELETE_GARBAGE: Final = "DELETE FROM yielded_garbage WHERE thread_id = ? AND generation = ?"
PURGED_TABLES: Final = (
    ("yielded_records", "sequence"),
    ("yielded_batches", "last_sequence"),
    ("yielded_ranges", "first_sequence"),
    ("yielded_archived_chunks", "last_sequence"),
    ("yielded_archived_records", "record_id"),
    ("yielded_run_facts", "run_id, sequence"),
    ("yielded_operation_facts", "run_id, tool_call_id, sequence"),
    ("yielded_prompt_facts", "sequence"),
    ("yielded_continuations", "run_id, sequence"),
    ("yielded_run_inputs", "run_id, sequence"),
    ("yielded_run_progress", "run_id"),
    ("yielded_handoffs", "record_id"),
    ("yielded_checkpoints", "through_sequence"),
    ("yielded_submissions", "queue_sequence"),
    ("yielded_admissions", "queue_sequence"),
    ("yielded_approvals", "submission_id, tool_call_id"),
    ("yielded_unknown_calls", "submission_id, tool_call_id"),
    ("yielded_resolutions", "submission_id, tool_call_id, kind"),
    ("yielded_reservations", "submission_id, tool_call_id"),
)
"""Every table with a generation, and the rest of its key, by which a purge is bounded."""

# --- checkpoints ---

BATCH_ENDING_AT: Final = """
SELECT tail_digest FROM yielded_batches
 WHERE thread_id = ? AND generation = ? AND last_sequence = ?
"""
SET_CHECKPOINT: Final = """
INSERT INTO yielded_checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (thread_id, generation, through_sequence) DO UPDATE SET
  schema_version = excluded.schema_version, tail_digest = excluded.tail_digest,
  state = excluded.state, created_at = excluded.created_at
"""

# --- the store ---

INCARNATION: Final = "SELECT incarnation FROM yielded_header WHERE singleton = 1"
SET_INCARNATION: Final = """
UPDATE yielded_header SET incarnation = ?, epoch_floor = ? WHERE singleton = 1
"""
EPOCH_FLOOR: Final = "SELECT epoch_floor FROM yielded_header WHERE singleton = 1"
HIGHEST_EPOCH: Final = "SELECT coalesce(max(epoch), 0) FROM yielded_threads"
RAISE_EPOCHS: Final = "UPDATE yielded_threads SET epoch = epoch + ? WHERE epoch > 0"
