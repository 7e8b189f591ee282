"""One transaction of a SQL store, as the operations of the ledger see it."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar

from yielded_core.errors import StorageCorrupt, ThreadDeleted
from yielded_core.ledger.lane import LaneState, runnable_since
from yielded_core.log import reads
from yielded_core.log.offsets import offset_prefix
from yielded_core.ports.values import Tail
from yielded_core.ports.work import (
    AbortIntent,
    AbortState,
    AdmittedWork,
    ApprovalDecision,
    RunnableLane,
    UnknownCall,
)
from yielded_core.records.identifiers import (
    BatchId,
    Digest,
    SubmissionId,
    ThreadId,
    abort_record_id,
)
from yielded_core.records.payloads import ToolCallSettled
from yielded_core.sql import ledger_rows as rows
from yielded_core.sql import ledger_statements as sql
from yielded_core.sql import log_writes
from yielded_core.sql.chunks import chunk_lines
from yielded_core.sql.log_statements import TOMBSTONE

if TYPE_CHECKING:
    from yielded_core.ledger.lane import Moment
    from yielded_core.ports.values import Appended, PreparedBatch
    from yielded_core.ports.work import (
        Reservation,
        ResolutionKind,
        Submission,
        UnknownResolution,
    )
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import (
        IdempotencyKey,
        Principal,
        RecordId,
        RunId,
        ToolCallId,
    )
    from yielded_core.sql.session import Clock, Execute, Row, Rows, Session, Values


class SqlEvidence:
    """LedgerEvidence over one connection, whose transaction sees nothing else change."""

    _writing: ClassVar[bool] = False

    def __init__(self, execute: Execute, incarnation: str, clock: Clock) -> None:
        self._execute = execute
        self._incarnation = incarnation
        self._clock = clock
        self._moment: Moment | None = None

    @property
    def moment(self) -> Moment:
        """The store's clocks, read once, and only where they are needed."""
        if self._moment is None:
            self._moment = self._clock.moment(self._execute, writing=self._writing)
        return self._moment

    # --- lanes ---

    def lane(self, thread: ThreadId) -> LaneState | None:
        """Return the lane of a thread."""
        row = self._execute(sql.LANE, (thread,)).fetchone()
        if row is not None:
            return rows.lane_of(thread, row)
        buried = self._execute(TOMBSTONE, (thread,)).fetchone()
        if buried is not None:
            raise ThreadDeleted(thread, buried[1])
        return None

    def tail(self, lane: LaneState) -> Tail:
        """Return the tail of the log."""
        sequence, digest = self._execute(sql.TAIL, (lane.thread_id,)).fetchone()
        return Tail(sequence, Digest(digest.hex()))

    # --- questions about more than one lane ---

    def find_work(self, submission: SubmissionId) -> AdmittedWork | None:
        """Return a submission of any live thread by its id alone."""
        row = self._execute(sql.FIND_WORK, (submission,)).fetchone()
        lane = None if row is None else self.lane(ThreadId(row[0]))
        found = None if lane is None else self.submission(lane, submission)
        return None if lane is None or found is None else self.work(lane, found)

    def abort_state(self, thread: ThreadId, submission: SubmissionId) -> AbortState | None:
        """Return the abort intent of a submission, in one statement (LED-9)."""
        name = abort_record_id(submission)
        key: Values = {"thread": thread, "submission": submission, "record": name}
        row = self._execute(sql.ABORT_STATE, key).fetchone()
        if row is None:
            return None
        author, reason, asked, record = row
        return AbortState(None if asked is None else AbortIntent(author, reason, asked), record)

    def nonterminal(self, after: tuple[ThreadId, int], limit: int) -> tuple[Submission, ...]:
        """Return unsettled submissions by (thread, sequence)."""
        thread, place = after
        row = self._execute(sql.LANE, (thread,)).fetchone()
        generation = 0 if row is None else row[0]
        found = self._execute(sql.NONTERMINAL, (thread, generation, place, limit))
        return tuple(map(rows.submission_of, found.fetchall()))

    def runnable(self, after: tuple[int, ThreadId], limit: int) -> tuple[RunnableLane, ...]:
        """Return lanes that are claimable now, by (since, thread)."""
        found = self._execute(sql.RUNNABLE, (self.moment.store, *after, limit))
        return tuple(RunnableLane(*row) for row in found.fetchall())

    # --- submissions ---

    def submission(self, lane: LaneState, submission: SubmissionId) -> Submission | None:
        """Return one submission."""
        return self._one(sql.SUBMISSION, (*_key(lane), submission))

    def by_key(
        self, lane: LaneState, principal: Principal, key: IdempotencyKey
    ) -> Submission | None:
        """Return the submission that was admitted under a key."""
        return self._one(sql.BY_KEY, (*_key(lane), principal, key))

    def occupant(self, lane: LaneState, group: str) -> SubmissionId | None:
        """Return the unsettled submission of a group."""
        row = self._execute(sql.OCCUPANT, (*_key(lane), group)).fetchone()
        return None if row is None else SubmissionId(row[0])

    def heads(self, lane: LaneState, count: int) -> tuple[Submission, ...]:
        """Return the first unsettled submissions that a claim does not skip."""
        found = self._execute(sql.HEADS, (*_key(lane), count))
        return tuple(map(rows.submission_of, found.fetchall()))

    def behind(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        """Return the first unsettled submissions after a place in the lane."""
        found = self._execute(sql.BEHIND, (*_key(lane), sequence, count))
        return tuple(map(rows.submission_of, found.fetchall()))

    def accepted(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        """Return the first submissions after a place in the lane, settled ones too."""
        found = self._execute(sql.ACCEPTED, (*_key(lane), sequence, count))
        return tuple(map(rows.submission_of, found.fetchall()))

    def work(self, lane: LaneState, submission: Submission) -> AdmittedWork:
        """Return a submission with what was admitted."""
        return AdmittedWork(submission, *map(rows.json_of, self.texts(lane, submission)))

    def texts(self, lane: LaneState, submission: Submission) -> tuple[bytes, bytes, bytes]:
        """Return the canonical texts of what was admitted, as stored."""
        row = self._execute(sql.ADMITTED, _place(lane, submission)).fetchone()
        if row is None:
            raise StorageCorrupt(f"what was admitted as {submission.submission_id} is missing")
        given, linkage, message = row
        return given, linkage, message

    # --- what belongs to a submission ---

    def approvals(self, lane: LaneState, submission: Submission) -> tuple[ApprovalDecision, ...]:
        """Return its decisions, by call."""
        found = self._execute(sql.APPROVALS, (*_key(lane), submission.submission_id))
        return tuple(ApprovalDecision(*row) for row in _by_call(found))

    def unknown_calls(self, lane: LaneState, submission: Submission) -> tuple[UnknownCall, ...]:
        """Return its calls of unknown outcome, by call."""
        found = self._execute(sql.UNKNOWN_CALLS, (*_key(lane), submission.submission_id))
        return tuple(UnknownCall(*row) for row in _by_call(found))

    def resolutions(self, lane: LaneState, submission: Submission) -> tuple[UnknownResolution, ...]:
        """Return its resolutions, by call, of both kinds."""
        found = self._execute(sql.RESOLUTIONS, (*_key(lane), submission.submission_id))
        return tuple(map(rows.resolution_of, _by_call(found)))

    def reservations(self, lane: LaneState, submission: Submission) -> tuple[Reservation, ...]:
        """Return its reservations, by call."""
        found = self._execute(sql.RESERVATIONS, (*_key(lane), submission.submission_id))
        return tuple(map(rows.reservation_of, _by_call(found)))

    # --- the log ---

    def sequence_of(self, lane: LaneState, record: RecordId) -> int | None:
        """Return where a record stands."""
        key: Values = {
            "thread": lane.thread_id,
            "generation": lane.generation,
            "record": record,
        }
        (sequence,) = self._execute(sql.RECORD_SEQUENCE, key).fetchone()
        return None if sequence is None else int(sequence)

    def record(self, lane: LaneState, record: RecordId) -> StoredRecord | None:
        """Return a record."""
        sequence = self.sequence_of(lane, record)
        return None if sequence is None else self._stored(lane, sequence)

    def tool_result(self, lane: LaneState, run: RunId, call: ToolCallId) -> StoredRecord | None:
        """Return the newest committed result of a call."""
        for (sequence,) in self._execute(sql.OPERATIONS, (*_key(lane), run, call)).fetchall():
            found = self._stored(lane, sequence)
            if isinstance(found.record.payload, ToolCallSettled):
                return found
        return None

    def publisher(self, lane: LaneState, submission: Submission) -> bytes | None:
        """Return the digest of the token that published its settlement record."""
        (token,) = self._execute(sql.PUBLISHER, _place(lane, submission)).fetchone()
        return None if token is None else bytes(token)

    def _one(self, statement: str, key: tuple[object, ...]) -> Submission | None:
        row = self._execute(statement, key).fetchone()
        return None if row is None else rows.submission_of(row)

    def _stored(self, lane: LaneState, sequence: int) -> StoredRecord:
        key = (*_key(lane), sequence)
        batch = self._execute(sql.BATCH_OF, key).fetchone()
        row = self._execute(sql.WIRE, key).fetchone()
        wire: bytes | None = self._archived(lane, sequence) if row is None else row[0]
        if batch is None or wire is None:
            raise reads.missing_record(lane.thread_id, sequence)
        prefix = offset_prefix(self._incarnation, lane.thread_id)
        return reads.stored_record(lane.thread_id, prefix, sequence, BatchId(batch[0]), wire)

    def _archived(self, lane: LaneState, sequence: int) -> bytes | None:
        row = self._execute(sql.CHUNK, (*_key(lane), sequence)).fetchone()
        if row is None or row[0] > sequence:
            return None
        lines = chunk_lines(row[1])
        place = sequence - int(row[0])
        return lines[place] if place < len(lines) else None


class SqlUnit(SqlEvidence):
    """LedgerUnit over the writing connection, whose transaction holds the lock."""

    _writing: ClassVar[bool] = True

    def __init__(self, connection: Session, incarnation: str, clock: Clock) -> None:
        super().__init__(connection.execute, incarnation, clock)
        self._connection = connection

    def create_lane(self, thread: ThreadId) -> LaneState:
        """Return the lane of a thread that is not there yet; saving it creates it."""
        return LaneState(thread, 1, 0, 0, 0, 0)

    def save_lane(self, lane: LaneState) -> None:
        """Write a lane, and keep `runnable` true to it and to its head (LED-17)."""
        counters = (lane.version, lane.last_queue_sequence, lane.fact_revision)
        moved = self._connection.execute(
            sql.SET_LANE, (lane.epoch, *counters, *rows.owner_columns(lane), lane.thread_id)
        )
        if not moved.rowcount:
            version, last, revision = counters
            self._execute(
                sql.INSERT_LANE, (lane.thread_id, log_writes.EMPTY_TAIL, revision, version, last)
            )
        self._save_runnable(lane)

    def _save_runnable(self, lane: LaneState) -> None:
        head = next(iter(self.heads(lane, 1)), None)
        row = self._execute(sql.RUNNABLE_SINCE, (lane.thread_id,)).fetchone()
        before = None if row is None else int(row[0])
        since = runnable_since(lane, head, before, self.moment.store)
        if since == before:
            return
        if since is None:
            self._execute(sql.DELETE_RUNNABLE, (lane.thread_id,))
        else:
            self._execute(sql.SET_RUNNABLE, (lane.thread_id, since))

    def add_submission(
        self, lane: LaneState, submission: Submission, given: bytes, linkage: bytes, message: bytes
    ) -> None:
        """Write a submission with the canonical texts of what was admitted."""
        place = _place(lane, submission)
        self._execute(
            sql.INSERT_SUBMISSION,
            (
                *place,
                submission.submission_id,
                submission.receipt_id,
                submission.principal,
                submission.idempotency_key,
                submission.group,
                bytes.fromhex(submission.input_digest),
                bytes.fromhex(submission.admission_digest),
                submission.admitted_at,
                submission.state,
            ),
        )
        self._execute(sql.INSERT_ADMITTED, (*place, given, linkage, message))

    def save_submission(self, lane: LaneState, submission: Submission) -> None:
        """Write the control fields that can change."""
        changed = rows.changing_columns(submission)
        self._execute(sql.SET_SUBMISSION, (*changed, *_place(lane, submission)))

    def add_approval(
        self, lane: LaneState, submission: Submission, approval: ApprovalDecision
    ) -> None:
        """Write a decision."""
        self._execute(
            sql.INSERT_APPROVAL,
            (
                *_key(lane),
                submission.submission_id,
                approval.tool_call_id,
                approval.decision,
                approval.resolver,
                approval.reason,
                approval.decided_at,
            ),
        )

    def add_unknown_call(self, lane: LaneState, submission: Submission, call: UnknownCall) -> None:
        """Write a call of unknown outcome."""
        told = (call.tool_call_id, call.run_id, call.reason, call.marked_at)
        self._execute(sql.INSERT_UNKNOWN_CALL, (*_key(lane), submission.submission_id, *told))

    def add_resolution(
        self,
        lane: LaneState,
        submission: Submission,
        resolution: UnknownResolution,
        kind: ResolutionKind,
    ) -> None:
        """Write a resolution."""
        self._execute(
            sql.INSERT_RESOLUTION,
            (
                *_key(lane),
                submission.submission_id,
                resolution.tool_call_id,
                kind,
                resolution.resolution,
                resolution.author,
                resolution.reason,
                rows.json_text(resolution.result),
                resolution.resolved_at,
            ),
        )

    def save_reservation(
        self, lane: LaneState, submission: Submission, reservation: Reservation
    ) -> None:
        """Write a reservation, new or changed."""
        columns = rows.reservation_columns(reservation)
        self._execute(sql.SET_RESERVATION, (*_key(lane), submission.submission_id, *columns))

    def append(self, lane: LaneState, batch: PreparedBatch) -> Appended:
        """Commit a batch at the current tail and epoch."""
        tail = self.tail(lane)
        return log_writes.append(self._connection, lane.thread_id, batch, tail, lane.epoch)

    def save_publisher(self, lane: LaneState, submission: Submission, token: bytes) -> None:
        """Keep the digest of the token that published its settlement record."""
        self._execute(sql.SET_PUBLISHER, (token, *_place(lane, submission)))


def _by_call(found: Rows) -> list[Row]:
    """Return rows that begin with a call in the order of those, where keys stand for long ones."""
    return sorted(found.fetchall(), key=itemgetter(0))


def _key(lane: LaneState) -> tuple[ThreadId, int]:
    return lane.thread_id, lane.generation


def _place(lane: LaneState, submission: Submission) -> tuple[ThreadId, int, int]:
    return lane.thread_id, lane.generation, submission.queue_sequence
