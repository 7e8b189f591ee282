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
--   * A line "-- compact" above a table says that its rows are short: SQLite keeps such a table in
--     the key's own tree (WITHOUT ROWID), so that a commit writes one page less. Never for rows with
--     a record's wire.
--   * A line "-- sqlite" or "-- postgres" above a table says that only that engine has it.
--   * An index stands here only if a query needs it.

-- What this store is. One row, written in the transaction that creates everything else.
CREATE TABLE yielded_header (
  singleton SMALLINT NOT NULL,
  layout_version INTEGER NOT NULL,
  record_format TEXT NOT NULL,
  options TEXT NOT NULL, -- canonical JSON: the variant of the layout
  incarnation TEXT NOT NULL, -- changes when the store is restored from a backup
  created_at BIGINT NOT NULL,
  epoch_floor BIGINT NOT NULL, -- added to the epoch that a thread begins at; each restore raises it
  CONSTRAINT yielded_header_key PRIMARY KEY (singleton),
  CONSTRAINT yielded_header_singleton CHECK (singleton = 1)
);

-- Identifiers that are too long for an entry of an index. Everywhere else stands their key; the one
-- of a thread's own id is in both columns. Rows stay after a thread is deleted, as its tombstone does.
-- postgres
CREATE TABLE yielded_long_names (
  thread_id TEXT COLLATE "C" NOT NULL,
  name_key TEXT COLLATE "C" NOT NULL,
  name TEXT NOT NULL,
  CONSTRAINT yielded_long_names_key PRIMARY KEY (thread_id, name_key)
);

-- One row per thread: who may write (epoch) and where the log ends (sequence 0 and 32 zero bytes
-- when it is empty). Every append updates it first. It is the row of the thread's lane as well: its
-- one ownership stands here, and every change of the lane raises lane_version, so that whoever holds
-- the row knows everything that a concurrent change could move. Epoch 0: work was admitted, but the
-- thread is not materialized.
CREATE TABLE yielded_threads (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  tail_sequence BIGINT NOT NULL,
  tail_digest BYTEA NOT NULL,
  indexed_through BIGINT NOT NULL, -- the index tables are complete up to this sequence
  fact_revision BIGINT NOT NULL, -- raised by each change of a fact that an export captures
  lane_version BIGINT NOT NULL,
  last_queue_sequence BIGINT NOT NULL,
  owner_submission TEXT COLLATE "C", -- this and the next four: NULL while nobody owns the lane
  owner_attempt TEXT COLLATE "C",
  owner_token BYTEA, -- SHA-256 of the token
  owner_epoch BIGINT, -- counts only while it is the epoch
  lease_expires_at BIGINT,
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
-- compact
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

-- What the next append is checked against, per run: its counters and references, as a JSON array.
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

-- What was accepted, in the order of its lane. Only control fields: they change, and are scanned.
CREATE TABLE yielded_submissions (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  queue_sequence BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  receipt_id TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  idempotency_key TEXT COLLATE "C" NOT NULL,
  admission_group TEXT COLLATE "C", -- NULL: of no group
  input_digest BYTEA NOT NULL,
  admission_digest BYTEA NOT NULL,
  admitted_at BIGINT NOT NULL,
  state TEXT NOT NULL,
  input_sequence BIGINT, -- NULL until the input is marked in the log
  host_submission TEXT COLLATE "C", -- NULL: joins no other
  suspension BYTEA, -- NULL while it waits for nothing; JSON
  abort_author TEXT, -- this and the next two: NULL while no abort is asked for
  abort_reason TEXT,
  abort_at BIGINT,
  settlement_id TEXT COLLATE "C", -- this and the next two: NULL until it is finalized
  outcome TEXT,
  settled_at BIGINT,
  deferred_at BIGINT, -- NULL: no later submission was claimed past it
  publisher BYTEA, -- SHA-256 of the token that published its settlement; NULL before
  CONSTRAINT yielded_submissions_key PRIMARY KEY (thread_id, generation, queue_sequence),
  CONSTRAINT yielded_submissions_id UNIQUE (thread_id, generation, submission_id),
  CONSTRAINT yielded_submissions_once UNIQUE (
    thread_id, generation, principal, idempotency_key
  ),
  CONSTRAINT yielded_submissions_state CHECK (
    state IN (
      'admitted', 'ready', 'joining', 'joined', 'running', 'input-applied', 'suspended',
      'unknown', 'settled'
    )
  ),
  CONSTRAINT yielded_submissions_settled CHECK ((state = 'settled') = (settled_at IS NOT NULL))
);
-- Finds a submission by its id alone.
CREATE INDEX yielded_submissions_locator ON yielded_submissions (submission_id);
-- The unsettled ones, for scans and for what is behind a host.
CREATE INDEX yielded_submissions_unsettled
  ON yielded_submissions (thread_id, generation, queue_sequence)
  WHERE state <> 'settled';
-- The head of a lane: with the predicate of a claim, so that parked unknowns are not walked over.
CREATE INDEX yielded_submissions_head
  ON yielded_submissions (thread_id, generation, queue_sequence)
  WHERE state <> 'settled' AND (state <> 'unknown' OR abort_at IS NOT NULL);
-- The unsettled submission of a group.
CREATE INDEX yielded_submissions_group
  ON yielded_submissions (thread_id, generation, admission_group)
  WHERE admission_group IS NOT NULL AND state <> 'settled';

-- The canonical JSON of what was admitted. It never changes.
CREATE TABLE yielded_admissions (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  queue_sequence BIGINT NOT NULL,
  input BYTEA NOT NULL,
  linkage BYTEA NOT NULL,
  message BYTEA NOT NULL,
  CONSTRAINT yielded_admissions_key PRIMARY KEY (thread_id, generation, queue_sequence)
);

-- Decisions about tool calls.
CREATE TABLE yielded_approvals (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  decision TEXT NOT NULL,
  resolver TEXT NOT NULL,
  reason TEXT NOT NULL,
  decided_at BIGINT NOT NULL,
  CONSTRAINT yielded_approvals_key PRIMARY KEY (
    thread_id, generation, submission_id, tool_call_id
  ),
  CONSTRAINT yielded_approvals_decision CHECK (decision IN ('approved', 'denied'))
);

-- Tool calls whose outcome nobody knows.
CREATE TABLE yielded_unknown_calls (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  reason TEXT NOT NULL,
  marked_at BIGINT NOT NULL,
  CONSTRAINT yielded_unknown_calls_key PRIMARY KEY (
    thread_id, generation, submission_id, tool_call_id
  )
);

-- What people decided about them: what to do, and what happened.
CREATE TABLE yielded_resolutions (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  resolution TEXT NOT NULL,
  author TEXT NOT NULL,
  reason TEXT NOT NULL,
  result BYTEA, -- canonical JSON of a result; NULL without one
  resolved_at BIGINT NOT NULL,
  CONSTRAINT yielded_resolutions_key PRIMARY KEY (
    thread_id, generation, submission_id, tool_call_id, kind
  ),
  CONSTRAINT yielded_resolutions_kind CHECK (kind IN ('execution', 'factual'))
);

-- What a parent holds for its children, one for each of its calls.
CREATE TABLE yielded_reservations (
  thread_id TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  reservation_id TEXT COLLATE "C" NOT NULL,
  digest BYTEA NOT NULL,
  status TEXT NOT NULL,
  child_thread TEXT COLLATE "C", -- this and the next: NULL until a child is attached
  child_submission TEXT COLLATE "C",
  accounting BYTEA, -- canonical JSON; NULL until the release begins
  CONSTRAINT yielded_reservations_key PRIMARY KEY (
    thread_id, generation, submission_id, tool_call_id
  ),
  CONSTRAINT yielded_reservations_status CHECK (
    status IN ('reserved', 'attached', 'releasing', 'released')
  )
);

-- Lanes whose head may be claimed, since when or, under a lease, from when on. A table of its own,
-- so that the busy row of a thread needs no index for it.
-- compact
CREATE TABLE yielded_runnable (
  thread_id TEXT COLLATE "C" NOT NULL,
  since BIGINT NOT NULL,
  CONSTRAINT yielded_runnable_key PRIMARY KEY (thread_id)
);
CREATE INDEX yielded_runnable_since ON yielded_runnable (since, thread_id);

-- Where the clock of leases is anchored: a boot of the machine, its clock since then, the instant
-- that this was. No row before the first change of a lane. PostgreSQL asks its own clock.
-- sqlite
CREATE TABLE yielded_clock (
  singleton SMALLINT NOT NULL,
  boot_id TEXT NOT NULL,
  boot_clock BIGINT NOT NULL,
  instant BIGINT NOT NULL,
  CONSTRAINT yielded_clock_key PRIMARY KEY (singleton),
  CONSTRAINT yielded_clock_singleton CHECK (singleton = 1)
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
