-- Rendered from layout_21.sql by yielded_core.layout.render; do not edit.

CREATE TABLE yielded_header (
  singleton SMALLINT NOT NULL,
  layout_version INT NOT NULL,
  record_format TEXT NOT NULL,
  options TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT yielded_header_key PRIMARY KEY (singleton),
  CONSTRAINT yielded_header_singleton CHECK (singleton = 1)
);

CREATE TABLE yielded_threads (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  indexed_through BIGINT NOT NULL,
  fact_revision BIGINT NOT NULL,
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
