-- Rendered from layout_21.sql by yielded_core.layout.render; do not edit.

CREATE TABLE yielded_header (
  singleton SMALLINT NOT NULL,
  layout_version INT NOT NULL,
  record_format TEXT NOT NULL,
  options TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  epoch_floor BIGINT NOT NULL,
  CONSTRAINT yielded_header_key PRIMARY KEY (singleton),
  CONSTRAINT yielded_header_singleton CHECK (singleton = 1)
);

CREATE TABLE yielded_long_names (
  thread_id TEXT COLLATE "C" NOT NULL,
  name_key TEXT COLLATE "C" NOT NULL,
  name TEXT NOT NULL,
  CONSTRAINT yielded_long_names_key PRIMARY KEY (thread_id, name_key)
);

CREATE TABLE yielded_threads (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  indexed_through BIGINT NOT NULL,
  fact_revision BIGINT NOT NULL,
  lane_version BIGINT NOT NULL,
  last_queue_sequence BIGINT NOT NULL,
  owner_submission TEXT COLLATE "C",
  owner_attempt TEXT COLLATE "C",
  owner_token BYTEA,
  owner_epoch BIGINT,
  lease_expires_at BIGINT,
  CONSTRAINT yielded_threads_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_threads_tail CHECK (tail_sequence >= 0 AND OCTET_LENGTH(tail_digest) = 32)
);

CREATE TABLE yielded_tombstones (
  thread_id TEXT COLLATE "C" NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  deleted_at BIGINT NOT NULL,
  CONSTRAINT yielded_tombstones_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_tombstones_tail CHECK (tail_sequence >= 0 AND OCTET_LENGTH(tail_digest) = 32)
);

CREATE TABLE yielded_batches (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  last_sequence BIGINT NOT NULL,
  first_sequence BIGINT NOT NULL,
  batch_id TEXT COLLATE "C" NOT NULL,
  producer_id TEXT COLLATE "C" NOT NULL,
  epoch BIGINT NOT NULL,
  content_digest BYTEA NOT NULL,
  tail_digest BYTEA NOT NULL,
  epoch_seal BYTEA NOT NULL,
  CONSTRAINT yielded_batches_key PRIMARY KEY (thread_id, generation, last_sequence),
  CONSTRAINT yielded_batches_id UNIQUE (
    thread_id,
    generation,
    batch_id
  ),
  CONSTRAINT yielded_batches_span CHECK (first_sequence >= 1 AND last_sequence >= first_sequence),
  CONSTRAINT yielded_batches_digests CHECK (OCTET_LENGTH(content_digest) = 32 AND OCTET_LENGTH(tail_digest) = 32)
);

CREATE TABLE yielded_records (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  record_id TEXT COLLATE "C" NOT NULL,
  wire BYTEA NOT NULL,
  CONSTRAINT yielded_records_key PRIMARY KEY (thread_id, generation, sequence),
  CONSTRAINT yielded_records_id UNIQUE (
    thread_id,
    generation,
    record_id
  ),
  CONSTRAINT yielded_records_sequence CHECK (sequence >= 1)
);

CREATE TABLE yielded_ranges (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  first_sequence BIGINT NOT NULL,
  last_sequence BIGINT NOT NULL,
  state TEXT NOT NULL,
  record_count BIGINT NOT NULL,
  byte_count BIGINT NOT NULL,
  CONSTRAINT yielded_ranges_key PRIMARY KEY (thread_id, generation, first_sequence),
  CONSTRAINT yielded_ranges_span CHECK (first_sequence >= 1 AND last_sequence >= first_sequence),
  CONSTRAINT yielded_ranges_state CHECK (state IN ('sealed', 'archived'))
);

CREATE TABLE yielded_archived_chunks (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  last_sequence BIGINT NOT NULL,
  first_sequence BIGINT NOT NULL,
  content BYTEA NOT NULL,
  CONSTRAINT yielded_archived_chunks_key PRIMARY KEY (thread_id, generation, last_sequence),
  CONSTRAINT yielded_archived_chunks_span CHECK (first_sequence >= 1 AND last_sequence >= first_sequence)
);

CREATE TABLE yielded_archived_records (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  record_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_archived_records_key PRIMARY KEY (thread_id, generation, record_id)
);

CREATE TABLE yielded_run_facts (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_run_facts_key PRIMARY KEY (thread_id, generation, run_id, sequence)
);

CREATE TABLE yielded_operation_facts (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_operation_facts_key PRIMARY KEY (thread_id, generation, run_id, tool_call_id, sequence)
);

CREATE TABLE yielded_prompt_facts (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_prompt_facts_key PRIMARY KEY (thread_id, generation, sequence)
);

CREATE TABLE yielded_continuations (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  CONSTRAINT yielded_continuations_key PRIMARY KEY (thread_id, generation, run_id, sequence)
);

CREATE TABLE yielded_run_inputs (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_run_inputs_key PRIMARY KEY (thread_id, generation, run_id, sequence)
);

CREATE TABLE yielded_run_progress (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  state BYTEA NOT NULL,
  CONSTRAINT yielded_run_progress_key PRIMARY KEY (thread_id, generation, run_id)
);

CREATE TABLE yielded_handoffs (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  record_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_handoffs_key PRIMARY KEY (thread_id, generation, record_id)
);

CREATE INDEX yielded_handoffs_sequence ON yielded_handoffs(thread_id, generation, sequence);

CREATE TABLE yielded_checkpoints (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  through_sequence BIGINT NOT NULL,
  schema_version INT NOT NULL,
  tail_digest BYTEA NOT NULL,
  state BYTEA NOT NULL,
  created_at TEXT NOT NULL,
  CONSTRAINT yielded_checkpoints_key PRIMARY KEY (thread_id, generation, through_sequence),
  CONSTRAINT yielded_checkpoints_digest CHECK (OCTET_LENGTH(tail_digest) = 32)
);

CREATE TABLE yielded_submissions (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  queue_sequence BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  receipt_id TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  idempotency_key TEXT COLLATE "C" NOT NULL,
  admission_group TEXT COLLATE "C",
  input_digest BYTEA NOT NULL,
  admission_digest BYTEA NOT NULL,
  admitted_at BIGINT NOT NULL,
  state TEXT NOT NULL,
  input_sequence BIGINT,
  host_submission TEXT COLLATE "C",
  suspension BYTEA,
  abort_author TEXT,
  abort_reason TEXT,
  abort_at BIGINT,
  settlement_id TEXT COLLATE "C",
  outcome TEXT,
  settled_at BIGINT,
  deferred_at BIGINT,
  publisher BYTEA,
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
);

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
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  queue_sequence BIGINT NOT NULL,
  input BYTEA NOT NULL,
  linkage BYTEA NOT NULL,
  message BYTEA NOT NULL,
  CONSTRAINT yielded_admissions_key PRIMARY KEY (thread_id, generation, queue_sequence)
);

CREATE TABLE yielded_approvals (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  decision TEXT NOT NULL,
  resolver TEXT NOT NULL,
  reason TEXT NOT NULL,
  decided_at BIGINT NOT NULL,
  CONSTRAINT yielded_approvals_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id),
  CONSTRAINT yielded_approvals_decision CHECK (decision IN ('approved', 'denied'))
);

CREATE TABLE yielded_unknown_calls (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  reason TEXT NOT NULL,
  marked_at BIGINT NOT NULL,
  CONSTRAINT yielded_unknown_calls_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id)
);

CREATE TABLE yielded_resolutions (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  resolution TEXT NOT NULL,
  author TEXT NOT NULL,
  reason TEXT NOT NULL,
  result BYTEA,
  resolved_at BIGINT NOT NULL,
  CONSTRAINT yielded_resolutions_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id, kind),
  CONSTRAINT yielded_resolutions_kind CHECK (kind IN ('execution', 'factual'))
);

CREATE TABLE yielded_reservations (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  reservation_id TEXT COLLATE "C" NOT NULL,
  digest BYTEA NOT NULL,
  status TEXT NOT NULL,
  child_thread TEXT COLLATE "C",
  child_submission TEXT COLLATE "C",
  accounting BYTEA,
  CONSTRAINT yielded_reservations_key PRIMARY KEY (thread_id, generation, submission_id, tool_call_id),
  CONSTRAINT yielded_reservations_status CHECK (status IN ('reserved', 'attached', 'releasing', 'released'))
);

CREATE TABLE yielded_runnable (
  thread_id TEXT COLLATE "C" NOT NULL,
  since BIGINT NOT NULL,
  CONSTRAINT yielded_runnable_key PRIMARY KEY (thread_id)
);

CREATE INDEX yielded_runnable_since ON yielded_runnable(since, thread_id);

CREATE TABLE yielded_imports (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  staged_through BIGINT NOT NULL,
  staged_digest BYTEA NOT NULL,
  CONSTRAINT yielded_imports_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_imports_digests CHECK (OCTET_LENGTH(tail_digest) = 32 AND OCTET_LENGTH(staged_digest) = 32)
);

CREATE TABLE yielded_garbage (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  CONSTRAINT yielded_garbage_key PRIMARY KEY (thread_id, generation)
);
