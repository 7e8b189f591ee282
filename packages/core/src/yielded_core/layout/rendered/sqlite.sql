-- Rendered from layout_21.sql by yielded_core.layout.render; do not edit.

CREATE TABLE yielded_header (
  singleton INTEGER NOT NULL,
  layout_version INTEGER NOT NULL,
  record_format TEXT NOT NULL,
  options TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  epoch_floor INTEGER NOT NULL,
  CONSTRAINT yielded_header_key PRIMARY KEY (singleton),
  CONSTRAINT yielded_header_singleton CHECK (singleton = 1)
) STRICT;

CREATE TABLE yielded_threads (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  tail_sequence INTEGER NOT NULL,
  tail_digest BLOB NOT NULL,
  indexed_through INTEGER NOT NULL,
  fact_revision INTEGER NOT NULL,
  lane_version INTEGER NOT NULL,
  last_queue_sequence INTEGER NOT NULL,
  owner_submission TEXT,
  owner_attempt TEXT,
  owner_token BLOB,
  owner_epoch INTEGER,
  lease_expires_at INTEGER,
  CONSTRAINT yielded_threads_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_threads_tail CHECK (tail_sequence >= 0 AND LENGTH(tail_digest) = 32)
) STRICT;

CREATE TABLE yielded_tombstones (
  thread_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  tail_sequence INTEGER NOT NULL,
  tail_digest BLOB NOT NULL,
  deleted_at INTEGER NOT NULL,
  CONSTRAINT yielded_tombstones_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_tombstones_tail CHECK (tail_sequence >= 0 AND LENGTH(tail_digest) = 32)
) STRICT;

CREATE TABLE yielded_batches (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL,
  first_sequence INTEGER NOT NULL,
  batch_id TEXT NOT NULL,
  producer_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  content_digest BLOB NOT NULL,
  tail_digest BLOB NOT NULL,
  epoch_seal BLOB NOT NULL,
  CONSTRAINT yielded_batches_key PRIMARY KEY (thread_id, generation, last_sequence),
  CONSTRAINT yielded_batches_id UNIQUE (
    thread_id,
    generation,
    batch_id
  ),
  CONSTRAINT yielded_batches_span CHECK (first_sequence >= 1 AND last_sequence >= first_sequence),
  CONSTRAINT yielded_batches_digests CHECK (LENGTH(content_digest) = 32 AND LENGTH(tail_digest) = 32)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_records (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  record_id TEXT NOT NULL,
  wire BLOB NOT NULL,
  CONSTRAINT yielded_records_key PRIMARY KEY (thread_id, generation, sequence),
  CONSTRAINT yielded_records_id UNIQUE (
    thread_id,
    generation,
    record_id
  ),
  CONSTRAINT yielded_records_sequence CHECK (sequence >= 1)
) STRICT;

CREATE TABLE yielded_ranges (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  first_sequence INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL,
  state TEXT NOT NULL,
  record_count INTEGER NOT NULL,
  byte_count INTEGER NOT NULL,
  CONSTRAINT yielded_ranges_key PRIMARY KEY (thread_id, generation, first_sequence),
  CONSTRAINT yielded_ranges_span CHECK (first_sequence >= 1 AND last_sequence >= first_sequence),
  CONSTRAINT yielded_ranges_state CHECK (state IN ('sealed', 'archived'))
) STRICT;

CREATE TABLE yielded_archived_chunks (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL,
  first_sequence INTEGER NOT NULL,
  content BLOB NOT NULL,
  CONSTRAINT yielded_archived_chunks_key PRIMARY KEY (thread_id, generation, last_sequence),
  CONSTRAINT yielded_archived_chunks_span CHECK (first_sequence >= 1 AND last_sequence >= first_sequence)
) STRICT;

CREATE TABLE yielded_archived_records (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  record_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT yielded_archived_records_key PRIMARY KEY (thread_id, generation, record_id)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_run_facts (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT yielded_run_facts_key PRIMARY KEY (thread_id, generation, run_id, sequence)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_operation_facts (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT yielded_operation_facts_key PRIMARY KEY (thread_id, generation, run_id, tool_call_id, sequence)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_prompt_facts (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT yielded_prompt_facts_key PRIMARY KEY (thread_id, generation, sequence)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_continuations (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  CONSTRAINT yielded_continuations_key PRIMARY KEY (thread_id, generation, run_id, sequence)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_run_inputs (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT yielded_run_inputs_key PRIMARY KEY (thread_id, generation, run_id, sequence)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_run_progress (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  state BLOB NOT NULL,
  CONSTRAINT yielded_run_progress_key PRIMARY KEY (thread_id, generation, run_id)
) WITHOUT ROWID, STRICT;

CREATE TABLE yielded_handoffs (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  record_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT yielded_handoffs_key PRIMARY KEY (thread_id, generation, record_id)
) WITHOUT ROWID, STRICT;

CREATE INDEX yielded_handoffs_sequence ON yielded_handoffs(thread_id, generation, sequence);

CREATE TABLE yielded_checkpoints (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  through_sequence INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  tail_digest BLOB NOT NULL,
  state BLOB NOT NULL,
  created_at TEXT NOT NULL,
  CONSTRAINT yielded_checkpoints_key PRIMARY KEY (thread_id, generation, through_sequence),
  CONSTRAINT yielded_checkpoints_digest CHECK (LENGTH(tail_digest) = 32)
) STRICT;

CREATE TABLE yielded_submissions (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  queue_sequence INTEGER NOT NULL,
  submission_id TEXT NOT NULL,
  receipt_id TEXT NOT NULL,
  principal TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  admission_group TEXT,
  input_digest BLOB NOT NULL,
  admission_digest BLOB NOT NULL,
  admitted_at INTEGER NOT NULL,
  state TEXT NOT NULL,
  input_sequence INTEGER,
  host_submission TEXT,
  suspension BLOB,
  abort_author TEXT,
  abort_reason TEXT,
  abort_at INTEGER,
  settlement_id TEXT,
  outcome TEXT,
  settled_at INTEGER,
  deferred_at INTEGER,
  publisher BLOB,
  CONSTRAINT yielded_submissions_key PRIMARY KEY (thread_id, generation, queue_sequence),
  CONSTRAINT yielded_submissions_id UNIQUE (
    thread_id,
    generation,
    submission_id
  ),
  CONSTRAINT yielded_submissions_once UNIQUE (
    thread_id,
    generation,
    principal,
    idempotency_key
  ),
  CONSTRAINT yielded_submissions_state CHECK (state IN (
    'admitted',
    'ready',
    'joining',
    'joined',
    'running',
    'input-applied',
    'suspended',
    'unknown',
    'settled'
  )),
  CONSTRAINT yielded_submissions_settled CHECK ((
    state = 'settled'
  ) = (
    settled_at IS NOT NULL
  ))
) STRICT;

CREATE INDEX yielded_submissions_locator ON yielded_submissions(submission_id);

CREATE INDEX yielded_submissions_unsettled ON yielded_submissions(thread_id, generation, queue_sequence)
WHERE
  state <> 'settled';

CREATE INDEX yielded_submissions_head ON yielded_submissions(thread_id, generation, queue_sequence)
WHERE
  state <> 'settled' AND (
    state <> 'unknown' OR abort_at IS NOT NULL
  );

CREATE INDEX yielded_submissions_group ON yielded_submissions(thread_id, generation, admission_group)
WHERE
  admission_group IS NOT NULL AND state <> 'settled';

CREATE TABLE yielded_admissions (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  queue_sequence INTEGER NOT NULL,
  input BLOB NOT NULL,
  linkage BLOB NOT NULL,
  message BLOB NOT NULL,
  CONSTRAINT yielded_admissions_key PRIMARY KEY (thread_id, generation, queue_sequence)
) STRICT;

CREATE TABLE yielded_approvals (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  submission_id TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  decision TEXT NOT NULL,
  resolver TEXT NOT NULL,
  reason TEXT NOT NULL,
  decided_at INTEGER NOT NULL,
  CONSTRAINT yielded_approvals_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id),
  CONSTRAINT yielded_approvals_decision CHECK (decision IN ('approved', 'denied'))
) STRICT;

CREATE TABLE yielded_unknown_calls (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  submission_id TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  reason TEXT NOT NULL,
  marked_at INTEGER NOT NULL,
  CONSTRAINT yielded_unknown_calls_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id)
) STRICT;

CREATE TABLE yielded_resolutions (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  submission_id TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  resolution TEXT NOT NULL,
  author TEXT NOT NULL,
  reason TEXT NOT NULL,
  result BLOB,
  resolved_at INTEGER NOT NULL,
  CONSTRAINT yielded_resolutions_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id, kind),
  CONSTRAINT yielded_resolutions_kind CHECK (kind IN ('execution', 'factual'))
) STRICT;

CREATE TABLE yielded_reservations (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  submission_id TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  reservation_id TEXT NOT NULL,
  digest BLOB NOT NULL,
  status TEXT NOT NULL,
  child_thread TEXT,
  child_submission TEXT,
  accounting BLOB,
  CONSTRAINT yielded_reservations_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id),
  CONSTRAINT yielded_reservations_status CHECK (status IN ('reserved', 'attached', 'releasing', 'released'))
) STRICT;

CREATE TABLE yielded_runnable (
  thread_id TEXT NOT NULL,
  since INTEGER NOT NULL,
  CONSTRAINT yielded_runnable_key PRIMARY KEY (thread_id)
) WITHOUT ROWID, STRICT;

CREATE INDEX yielded_runnable_since ON yielded_runnable(since, thread_id);

CREATE TABLE yielded_clock (
  singleton INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  boot_clock INTEGER NOT NULL,
  instant INTEGER NOT NULL,
  CONSTRAINT yielded_clock_key PRIMARY KEY (singleton),
  CONSTRAINT yielded_clock_singleton CHECK (singleton = 1)
) STRICT;

CREATE TABLE yielded_imports (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  tail_sequence INTEGER NOT NULL,
  tail_digest BLOB NOT NULL,
  staged_through INTEGER NOT NULL,
  staged_digest BLOB NOT NULL,
  CONSTRAINT yielded_imports_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_imports_digests CHECK (LENGTH(tail_digest) = 32 AND LENGTH(staged_digest) = 32)
) STRICT;

CREATE TABLE yielded_garbage (
  thread_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  CONSTRAINT yielded_garbage_key PRIMARY KEY (thread_id, generation)
) WITHOUT ROWID, STRICT;
