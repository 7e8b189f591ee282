-- Layout 21: every table of a store, in the dialect of PostgreSQL.
--
-- This file is the layout. What the adapters run is rendered from it (see render.py) and committed
-- under rendered/; a test holds both equal. Conventions:
--
--   * Every name begins with yielded_. Constraints are named, so that an engine's message says which.
--   * Every column is NOT NULL unless a comment says what its absence means.
--   * Keys lead with thread_id, so that a store can be distributed by thread. Identifiers sort by
--     code point (COLLATE "C").
--   * generation separates the published rows of a thread from rows that an import stages or that
--     were given up: only the rows of yielded_threads.generation are visible.
--   * Digests are the 32 bytes of a SHA-256. Instants are milliseconds since 1970 (BIGINT), except
--     where a record's own text is kept.
--   * A line "-- compact" above a table says that its rows are little more than its key: SQLite
--     keeps such a table in the key's own tree (WITHOUT ROWID). Never for rows with a record's wire.
--   * An index stands here only if a query needs it.

-- What this store is. One row, written in the transaction that creates everything else.
CREATE TABLE yielded_header (
  singleton SMALLINT NOT NULL,
  layout_version INTEGER NOT NULL,
  record_format TEXT NOT NULL,
  options TEXT NOT NULL, -- canonical JSON: the variant of the layout
  incarnation TEXT NOT NULL, -- changes when the store is restored from a backup
  created_at BIGINT NOT NULL,
  CONSTRAINT yielded_header_key PRIMARY KEY (singleton),
  CONSTRAINT yielded_header_singleton CHECK (singleton = 1)
);

-- One row per thread: who may write (epoch) and where the log ends (sequence 0 and 32 zero bytes
-- when it is empty). Every append updates it first.
CREATE TABLE yielded_threads (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  indexed_through BIGINT NOT NULL, -- the index tables are complete up to this sequence
  fact_revision BIGINT NOT NULL, -- raised by each change of a fact that an export captures
  CONSTRAINT yielded_threads_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_threads_tail CHECK (
    tail_sequence >= 0 AND octet_length(tail_digest) = 32
  )
);

-- The last tail of each deleted thread. Its id is never used again.
CREATE TABLE yielded_tombstones (
  thread_id TEXT COLLATE "C" NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  deleted_at BIGINT NOT NULL,
  CONSTRAINT yielded_tombstones_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_tombstones_tail CHECK (
    tail_sequence >= 0 AND octet_length(tail_digest) = 32
  )
);

-- One row per batch: its place, the digest of its content (idempotency) and of the chain behind it.
-- The text of a batch is that of its records; it is not stored twice.
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
  epoch_seal BYTEA NOT NULL, -- tells a changed epoch, which neither digest covers
  CONSTRAINT yielded_batches_key PRIMARY KEY (thread_id, generation, last_sequence),
  CONSTRAINT yielded_batches_id UNIQUE (thread_id, generation, batch_id),
  CONSTRAINT yielded_batches_span CHECK (
    first_sequence >= 1 AND last_sequence >= first_sequence
  ),
  CONSTRAINT yielded_batches_digests CHECK (
    octet_length(content_digest) = 32 AND octet_length(tail_digest) = 32
  )
);

-- The records that are not archived. wire is their exact canonical UTF-8 text.
CREATE TABLE yielded_records (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  record_id TEXT COLLATE "C" NOT NULL,
  wire BYTEA NOT NULL,
  CONSTRAINT yielded_records_key PRIMARY KEY (thread_id, generation, sequence),
  CONSTRAINT yielded_records_id UNIQUE (thread_id, generation, record_id),
  CONSTRAINT yielded_records_sequence CHECK (sequence >= 1)
);

-- Ranges of whole batches on their way to the archive. Records in no range are open; a sealed range
-- will be copied; an archived one was copied to chunks, and its rows above are gone.
CREATE TABLE yielded_ranges (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  first_sequence BIGINT NOT NULL,
  last_sequence BIGINT NOT NULL,
  state TEXT NOT NULL,
  record_count BIGINT NOT NULL,
  byte_count BIGINT NOT NULL,
  CONSTRAINT yielded_ranges_key PRIMARY KEY (thread_id, generation, first_sequence),
  CONSTRAINT yielded_ranges_span CHECK (
    first_sequence >= 1 AND last_sequence >= first_sequence
  ),
  CONSTRAINT yielded_ranges_state CHECK (state IN ('sealed', 'archived'))
);

-- The records of archived ranges, compressed: lines of canonical JSON, about a mebibyte a row, so
-- that no read holds more than a few at a time.
CREATE TABLE yielded_archived_chunks (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  last_sequence BIGINT NOT NULL,
  first_sequence BIGINT NOT NULL,
  content BYTEA NOT NULL,
  CONSTRAINT yielded_archived_chunks_key PRIMARY KEY (thread_id, generation, last_sequence),
  CONSTRAINT yielded_archived_chunks_span CHECK (
    first_sequence >= 1 AND last_sequence >= first_sequence
  )
);

-- Where an archived record is, by its id.
-- compact
CREATE TABLE yielded_archived_records (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  record_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_archived_records_key PRIMARY KEY (thread_id, generation, record_id)
);

-- The index tables. Each is rebuilt from the records, grants nothing, and is complete up to
-- yielded_threads.indexed_through.

-- The facts of a run.
-- compact
CREATE TABLE yielded_run_facts (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_run_facts_key PRIMARY KEY (thread_id, generation, run_id, sequence)
);

-- The facts of one tool call of a run.
-- compact
CREATE TABLE yielded_operation_facts (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_operation_facts_key PRIMARY KEY (
    thread_id, generation, run_id, tool_call_id, sequence
  )
);

-- The records that a prompt is rebuilt from.
-- compact
CREATE TABLE yielded_prompt_facts (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_prompt_facts_key PRIMARY KEY (thread_id, generation, sequence)
);

-- The continuations of a run, newest last.
-- compact
CREATE TABLE yielded_continuations (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  CONSTRAINT yielded_continuations_key PRIMARY KEY (thread_id, generation, run_id, sequence)
);

-- The original user inputs of a run; a right log has one.
-- compact
CREATE TABLE yielded_run_inputs (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_run_inputs_key PRIMARY KEY (thread_id, generation, run_id, sequence)
);

-- What the next append is checked against, per run: its counters and references, as canonical JSON.
-- compact
CREATE TABLE yielded_run_progress (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  state BYTEA NOT NULL,
  CONSTRAINT yielded_run_progress_key PRIMARY KEY (thread_id, generation, run_id)
);

-- The work handoffs that are prepared and not yet acknowledged, by record id and in log order.
-- compact
CREATE TABLE yielded_handoffs (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  record_id TEXT COLLATE "C" NOT NULL,
  sequence BIGINT NOT NULL,
  CONSTRAINT yielded_handoffs_key PRIMARY KEY (thread_id, generation, record_id)
);

CREATE INDEX yielded_handoffs_sequence ON yielded_handoffs (thread_id, generation, sequence);

-- Projections that an application keeps, each bound to a batch's tail. Execution never reads them.
CREATE TABLE yielded_checkpoints (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  through_sequence BIGINT NOT NULL,
  schema_version INTEGER NOT NULL,
  tail_digest BYTEA NOT NULL,
  state BYTEA NOT NULL,
  created_at TEXT NOT NULL, -- the checkpoint's own instant, as text
  CONSTRAINT yielded_checkpoints_key PRIMARY KEY (thread_id, generation, through_sequence),
  CONSTRAINT yielded_checkpoints_digest CHECK (octet_length(tail_digest) = 32)
);

-- An import under way: the tail and epoch that its archive captured, and how far its invisible
-- generation is staged.
CREATE TABLE yielded_imports (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  staged_through BIGINT NOT NULL,
  staged_digest BYTEA NOT NULL,
  CONSTRAINT yielded_imports_key PRIMARY KEY (thread_id),
  CONSTRAINT yielded_imports_digests CHECK (
    octet_length(tail_digest) = 32 AND octet_length(staged_digest) = 32
  )
);

-- Generations that nothing reads any more, to be purged in bounded transactions.
-- compact
CREATE TABLE yielded_garbage (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  CONSTRAINT yielded_garbage_key PRIMARY KEY (thread_id, generation)
);
