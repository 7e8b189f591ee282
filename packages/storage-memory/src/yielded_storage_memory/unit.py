"""One transaction of a memory store: nothing else runs between its first line and its last."""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING

from yielded_core.digest import EMPTY_TAIL_DIGEST
from yielded_core.errors import ThreadNotMaterialized
from yielded_core.ledger.lane import LaneState, is_skipped, runnable_since
from yielded_core.log import reads
from yielded_core.log.offsets import offset_prefix
from yielded_core.ports.values import Tail
from yielded_core.ports.work import AbortState, AdmittedWork, RunnableLane
from yielded_core.records.identifiers import abort_record_id
from yielded_core.records.payloads import ToolCallSettled
from yielded_storage_memory.lanes import Entry, LaneRows

if TYPE_CHECKING:
    from yielded_core.ledger.lane import Moment
    from yielded_core.ports.values import Appended, PreparedBatch
    from yielded_core.ports.work import (
        ApprovalDecision,
        Reservation,
        ResolutionKind,
        Submission,
        UnknownCall,
        UnknownResolution,
    )
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import (
        IdempotencyKey,
        Principal,
        RecordId,
        RunId,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )
    from yielded_storage_memory.lanes import Lanes
    from yielded_storage_memory.state import Thread
    from yielded_storage_memory.store import Store


class MemoryUnit:
    """LedgerUnit over dictionaries."""

    def __init__(self, store: Store, moment: Moment, lanes: Lanes | None = None) -> None:
        """See the lanes of a store, or those that an import stages."""
        self._store = store
        self._lanes = store.lanes if lanes is None else lanes
        self._moment = moment

    @property
    def moment(self) -> Moment:
        """The store's clocks."""
        return self._moment

    # --- lanes ---

    def lane(self, thread: ThreadId) -> LaneState | None:
        """Return the lane of a thread."""
        found = self._store.find(thread)
        rows = self._lanes.rows.get(thread)
        if found is None and rows is None:
            return None
        rows = rows or LaneRows()
        epoch = 0 if found is None else found.epoch
        return LaneState(
            thread,
            0,
            epoch,
            rows.version,
            rows.last_queue_sequence,
            rows.fact_revision,
            rows.ownership,
        )

    def create_lane(self, thread: ThreadId) -> LaneState:
        """Return the lane of a thread that is not materialized yet; saving it creates it."""
        return LaneState(thread, 0, 0, 0, 0, 0)

    def save_lane(self, lane: LaneState) -> None:
        """Write a lane, and keep `runnable` true to it (LED-17)."""
        thread = lane.thread_id
        rows = self._rows(lane)
        rows.version, rows.ownership = lane.version, lane.ownership
        rows.last_queue_sequence, rows.fact_revision = lane.last_queue_sequence, lane.fact_revision
        found = self._store.threads.get(thread)
        if found is not None:
            found.epoch, found.fact_revision = lane.epoch, lane.fact_revision
        head = next(iter(self.heads(lane, 1)), None)
        before = self._lanes.runnable.pop(thread, None)
        since = runnable_since(lane, head, before, self._moment.store)
        if since is not None:
            self._lanes.runnable[thread] = since

    def tail(self, lane: LaneState) -> Tail:
        """Return the tail of the log, which is empty before its thread is materialized."""
        found = self._store.threads.get(lane.thread_id)
        return Tail(0, EMPTY_TAIL_DIGEST) if found is None else found.log.tail

    # --- questions about more than one lane ---

    def find_work(self, submission: SubmissionId) -> AdmittedWork | None:
        """Return a submission of any thread by its id."""
        thread = self._lanes.threads.get(submission)
        lane = None if thread is None else self.lane(thread)
        found = None if lane is None else self.submission(lane, submission)
        return None if lane is None or found is None else self.work(lane, found)

    def abort_state(self, thread: ThreadId, submission: SubmissionId) -> AbortState | None:
        """Return the abort intent of a submission."""
        lane = self.lane(thread)
        found = None if lane is None else self.submission(lane, submission)
        if lane is None or found is None:
            return None
        name = abort_record_id(submission)
        return AbortState(found.abort, name if self.sequence_of(lane, name) is not None else None)

    def nonterminal(self, after: tuple[ThreadId, int], limit: int) -> tuple[Submission, ...]:
        """Return unsettled submissions by (thread, sequence)."""
        page: list[Submission] = []
        for thread in self._lanes.with_work(after[0]):
            for submission in self._lanes.rows[thread].open_submissions():
                if (thread, submission.queue_sequence) > after:
                    page.append(submission)
                    if len(page) == limit:
                        return tuple(page)
        return tuple(page)

    def runnable(self, after: tuple[int, ThreadId], limit: int) -> tuple[RunnableLane, ...]:
        """Return lanes that are claimable now, by (since, thread)."""
        found = (
            (since, thread)
            for thread, since in self._lanes.runnable.items()
            if since <= self._moment.store and (since, thread) > after
        )
        return tuple(RunnableLane(thread, since) for since, thread in heapq.nsmallest(limit, found))

    # --- submissions ---

    def submission(self, lane: LaneState, submission: SubmissionId) -> Submission | None:
        """Return one submission."""
        rows = self._lanes.rows.get(lane.thread_id)
        entry = None if rows is None else rows.entries.get(submission)
        return None if entry is None else entry.submission

    def by_key(
        self, lane: LaneState, principal: Principal, key: IdempotencyKey
    ) -> Submission | None:
        """Return the submission that was admitted under a key."""
        rows = self._lanes.rows.get(lane.thread_id)
        name = None if rows is None else rows.keys.get((principal, key))
        return None if name is None else self.submission(lane, name)

    def occupant(self, lane: LaneState, group: str) -> SubmissionId | None:
        """Return the unsettled submission of a group."""
        rows = self._lanes.rows.get(lane.thread_id) or LaneRows()
        of_group = (one.submission_id for one in rows.open_submissions() if one.group == group)
        return next(of_group, None)

    def heads(self, lane: LaneState, count: int) -> tuple[Submission, ...]:
        """Return the first unsettled submissions that a claim does not skip."""
        rows = self._lanes.rows.get(lane.thread_id) or LaneRows()
        found = (one for one in rows.open_submissions() if not is_skipped(one))
        return tuple(one for _, one in zip(range(count), found, strict=False))

    def behind(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        """Return the first unsettled submissions after a place in the lane."""
        rows = self._lanes.rows.get(lane.thread_id) or LaneRows()
        found = (one for one in rows.open_submissions() if one.queue_sequence > sequence)
        return tuple(one for _, one in zip(range(count), found, strict=False))

    def accepted(self, lane: LaneState, sequence: int, count: int) -> tuple[Submission, ...]:
        """Return the first submissions after a place in the lane, settled ones too."""
        rows = self._lanes.rows.get(lane.thread_id) or LaneRows()
        places = range(sequence + 1, min(sequence + count, len(rows.places)) + 1)
        return tuple(rows.entries[rows.places[place - 1]].submission for place in places)

    def work(self, lane: LaneState, submission: Submission) -> AdmittedWork:
        """Return a submission with what was admitted."""
        given, linkage, message = map(json.loads, self.texts(lane, submission))
        return AdmittedWork(submission, given, linkage, message)

    def texts(self, lane: LaneState, submission: Submission) -> tuple[bytes, bytes, bytes]:
        """Return the canonical texts of what was admitted."""
        entry = self._entry(lane, submission)
        return entry.given, entry.linkage, entry.message

    def add_submission(
        self, lane: LaneState, submission: Submission, given: bytes, linkage: bytes, message: bytes
    ) -> None:
        """Write a submission with the canonical texts of what was admitted."""
        rows = self._rows(lane)
        name = submission.submission_id
        rows.entries[name] = Entry(submission, given, linkage, message)
        rows.keys[submission.principal, submission.idempotency_key] = name
        rows.places.append(name)
        rows.unsettled[submission.queue_sequence] = name
        self._lanes.threads[name] = lane.thread_id
        self._lanes.note_work(lane.thread_id)

    def save_submission(self, lane: LaneState, submission: Submission) -> None:
        """Write the control fields that can change."""
        self._entry(lane, submission).submission = submission
        if submission.state == "settled":
            self._rows(lane).unsettled.pop(submission.queue_sequence, None)
            self._lanes.note_work(lane.thread_id)

    # --- what belongs to a submission ---

    def approvals(self, lane: LaneState, submission: Submission) -> tuple[ApprovalDecision, ...]:
        """Return its decisions, by call."""
        held = self._entry(lane, submission).approvals
        return tuple(held[call] for call in sorted(held))

    def add_approval(
        self, lane: LaneState, submission: Submission, approval: ApprovalDecision
    ) -> None:
        """Write a decision."""
        self._entry(lane, submission).approvals[approval.tool_call_id] = approval

    def unknown_calls(self, lane: LaneState, submission: Submission) -> tuple[UnknownCall, ...]:
        """Return its calls of unknown outcome, by call."""
        held = self._entry(lane, submission).unknown_calls
        return tuple(held[call] for call in sorted(held))

    def add_unknown_call(self, lane: LaneState, submission: Submission, call: UnknownCall) -> None:
        """Write a call of unknown outcome."""
        self._entry(lane, submission).unknown_calls[call.tool_call_id] = call

    def resolutions(self, lane: LaneState, submission: Submission) -> tuple[UnknownResolution, ...]:
        """Return its resolutions, by call, of both kinds."""
        held = self._entry(lane, submission).resolutions
        return tuple(held[key] for key in sorted(held))

    def add_resolution(
        self,
        lane: LaneState,
        submission: Submission,
        resolution: UnknownResolution,
        kind: ResolutionKind,
    ) -> None:
        """Write a resolution."""
        held = self._entry(lane, submission).resolutions
        held[resolution.tool_call_id, kind] = resolution

    def reservations(self, lane: LaneState, submission: Submission) -> tuple[Reservation, ...]:
        """Return its reservations, by call."""
        held = self._entry(lane, submission).reservations
        return tuple(held[call] for call in sorted(held))

    def save_reservation(
        self, lane: LaneState, submission: Submission, reservation: Reservation
    ) -> None:
        """Write a reservation, new or changed."""
        self._entry(lane, submission).reservations[reservation.tool_call_id] = reservation

    # --- the log, in the same transaction ---

    def sequence_of(self, lane: LaneState, record: RecordId) -> int | None:
        """Return where a record stands."""
        found = self._store.threads.get(lane.thread_id)
        return None if found is None else found.log.record_index.get(record)

    def record(self, lane: LaneState, record: RecordId) -> StoredRecord | None:
        """Return a record."""
        log = self._thread(lane).log
        sequence = log.record_index.get(record)
        return None if sequence is None else self._stored(lane, sequence)

    def tool_result(self, lane: LaneState, run: RunId, call: ToolCallId) -> StoredRecord | None:
        """Return the newest committed result of a call."""
        found = self._store.threads.get(lane.thread_id)
        if found is None:
            return None
        for sequence in reversed(found.log.indexes.operations.get((run, call), ())):
            record = self._stored(lane, sequence)
            if isinstance(record.record.payload, ToolCallSettled):
                return record
        return None

    def append(self, lane: LaneState, batch: PreparedBatch) -> Appended:
        """Commit a batch at the current tail and epoch."""
        found = self._thread(lane)
        return found.append(lane.thread_id, batch, found.log.tail, lane.epoch)

    def publisher(self, lane: LaneState, submission: Submission) -> bytes | None:
        """Return the digest of the token that published its settlement record."""
        return self._entry(lane, submission).publisher

    def save_publisher(self, lane: LaneState, submission: Submission, token: bytes) -> None:
        """Keep the digest of the token that published its settlement record."""
        self._entry(lane, submission).publisher = token

    def _rows(self, lane: LaneState) -> LaneRows:
        return self._lanes.rows.setdefault(lane.thread_id, LaneRows())

    def _entry(self, lane: LaneState, submission: Submission) -> Entry:
        return self._rows(lane).entries[submission.submission_id]

    def _thread(self, lane: LaneState) -> Thread:
        found = self._store.threads.get(lane.thread_id)
        if found is None:
            raise ThreadNotMaterialized(lane.thread_id)
        return found

    def _stored(self, lane: LaneState, sequence: int) -> StoredRecord:
        log = self._thread(lane).log
        prefix = offset_prefix(self._store.incarnation, lane.thread_id)
        batch = log.batch_of(sequence)
        wire = log.wires[sequence - 1]
        return reads.stored_record(lane.thread_id, prefix, sequence, batch.batch_id, wire)
