"""Rules of reading that every adapter shares: bounds of a page, and no silent empties (LOG-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_core.errors import (
    AmbiguousRunInput,
    BeyondTail,
    EvidenceFault,
    InvalidArgument,
    InvalidRecord,
    OffsetRefused,
    RecordUndecodable,
    UnsupportedRecord,
)
from yielded_core.log.facts import facts_of
from yielded_core.log.offsets import offset_at
from yielded_core.ports.values import OperationEvidence
from yielded_core.records.bounded_json import SAFE_INTEGER
from yielded_core.records.envelope import EncodedRecord, StoredRecord, decode_record
from yielded_core.records.payloads import (
    ModelResponseRecorded,
    RunContinuation,
    SubagentLineageRecorded,
)
from yielded_core.records.prompt_record import PromptRecord, decode_prompt_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.log.append import ThreadState
    from yielded_core.log.progress import RunProgress
    from yielded_core.records.identifiers import BatchId, RunId, ThreadId, ToolCallId


def check_limit(limit: int, most: int) -> int:
    """Return a page limit of 1 to `most`, or raise InvalidArgument."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise InvalidArgument("limit", f"it is not an integer from 1 to {most}")
    return limit


def check_sequence(sequence: int, name: str) -> int:
    """Return a sequence from 0 that a record can have, or raise InvalidArgument."""
    if type(sequence) is not int or not 0 <= sequence <= SAFE_INTEGER:
        raise InvalidArgument(name, f"it is not an integer from 0 to {SAFE_INTEGER}")
    return sequence


def check_after(after: int) -> int:
    """Return a position that a record can have, or raise InvalidArgument."""
    return check_sequence(after, "after")


def check_offset(state: ThreadState, sequence: int) -> int:
    """Return the sequence of an offset that this thread can have given out (LOG-9)."""
    if sequence > state.sequence:
        raise OffsetRefused(state.thread_id, "it is beyond the tail of this thread")
    return sequence


def check_batch_end(state: ThreadState, after: int) -> int:
    """Return a position that could be the end of a batch, or raise InvalidArgument."""
    if check_after(after) > state.sequence:
        raise not_a_batch_end()
    return after


def not_a_batch_end() -> InvalidArgument:
    """Return the refusal of a position in the middle of a batch or beyond the tail."""
    return InvalidArgument("after", "it is neither 0 nor the last sequence of a batch")


def check_through(state: ThreadState, through: int) -> int:
    """Return a sequence that the thread has reached, or raise BeyondTail (LOG-12)."""
    if type(through) is not int or through < 0:
        raise InvalidArgument("through", "it is not an integer from 0")
    if through > state.sequence:
        raise BeyondTail(state.thread_id, through, state.sequence)
    return through


def require_indexed(state: ThreadState, through: int) -> None:
    """Refuse to answer from indexes that do not reach a sequence (LOG-17)."""
    if state.indexed_through >= through:
        return
    reason = "index-incomplete" if state.indexed_through else "index-unavailable"
    detail = f"indexed through {state.indexed_through} of {through}; rebuild the indexes"
    raise EvidenceFault(state.thread_id, reason, detail)


def stored_record(
    thread: ThreadId, prefix: str, sequence: int, batch: BatchId, wire: bytes
) -> StoredRecord:
    """Decode a stored record, or raise RecordUndecodable without its content (LOG-8)."""
    try:
        record = decode_record(wire)
    except (InvalidRecord, UnsupportedRecord) as error:
        reason = error.what if isinstance(error, UnsupportedRecord) else error.rule
        raise RecordUndecodable(thread, sequence, reason) from None
    return StoredRecord(thread, sequence, batch, offset_at(prefix, sequence), record, wire)


def prompt_record(thread: ThreadId, sequence: int, wire: bytes) -> PromptRecord:
    """Decode the projection that a prompt needs, or raise RecordUndecodable (LOG-12)."""
    try:
        return decode_prompt_record(sequence, wire)
    except (InvalidRecord, UnsupportedRecord) as error:
        reason = error.what if isinstance(error, UnsupportedRecord) else error.rule
        raise RecordUndecodable(thread, sequence, reason) from None


def lineage_of(second: StoredRecord | None) -> StoredRecord | None:
    """Return the second record of a thread where it is a lineage record (LOG-10)."""
    if second is None or not isinstance(second.record.payload, SubagentLineageRecorded):
        return None
    return second


def single_run_input(thread: ThreadId, run: RunId, found: Sequence[int]) -> int:
    """Return where the one original input of a run is; none or several is a fault (LOG-11)."""
    if not found:
        raise EvidenceFault(thread, "evidence-missing", f"run {run} has no original input")
    if len(found) > 1:
        raise AmbiguousRunInput(thread, run, len(found))
    return found[0]


def check_run_input(thread: ThreadId, run: RunId, record: StoredRecord) -> StoredRecord:
    """Return the original input of a run, if the locator led to it (LOG-17)."""
    facts = facts_of(record.sequence, EncodedRecord(record.record, record.wire))
    if not facts.run_input or facts.run != run:
        raise _corrupt_locator(thread, record.sequence)
    return record


def check_continuation(
    state: ThreadState,
    run: RunId,
    through: int,
    found: StoredRecord | None,
    progress: RunProgress | None,
) -> StoredRecord | None:
    """Return what the index found, if the run's counters bear it out (LOG-14, LOG-17)."""
    revision = 0
    if found is not None:
        payload = found.record.payload
        if not isinstance(payload, RunContinuation) or payload.run_id != run:
            raise _corrupt_locator(state.thread_id, found.sequence)
        revision = payload.revision
    expected = 0 if progress is None else progress.revision
    if through == state.sequence and revision != expected:
        detail = f"run {run} stands at revision {expected}, the index finds {revision}"
        raise EvidenceFault(state.thread_id, "evidence-missing", detail)
    return found


def check_run_evidence(
    state: ThreadState,
    run: RunId,
    found: Sequence[StoredRecord],
    *,
    indexed: int | None,
    progress: RunProgress | None,
) -> tuple[StoredRecord, ...]:
    """Return a page of run evidence, if every locator and the total bear it out (LOG-15, LOG-17).

    `indexed` is the number of facts that the index lists for the whole run, given where the page
    ends at the tail; None elsewhere.
    """
    for record in found:
        if getattr(record.record.payload, "run_id", None) != run:
            raise _corrupt_locator(state.thread_id, record.sequence)
    if progress is None:
        raise EvidenceFault(state.thread_id, "evidence-missing", f"run {run} has no facts")
    total = progress.record_count + progress.terminal_records
    if indexed is not None and indexed != total:
        detail = f"run {run} has {total} facts, the index lists {indexed}"
        raise EvidenceFault(state.thread_id, "index-incomplete", detail)
    return tuple(found)


def operation_evidence(
    thread: ThreadId, run: RunId, call: ToolCallId, found: Sequence[StoredRecord]
) -> OperationEvidence:
    """Split the records of one tool call into its declaration and its facts (LOG-15)."""
    declaration: StoredRecord | None = None
    facts: list[StoredRecord] = []
    for record in found:
        payload = record.record.payload
        if isinstance(payload, ModelResponseRecorded) and declaration is None:
            declared = {operation.tool_call_id for operation in payload.tool_operations}
            if call not in declared or payload.run_id != run:
                raise _corrupt_locator(thread, record.sequence)
            declaration = record
        elif getattr(payload, "tool_call_id", None) == call:
            facts.append(record)
        else:
            raise _corrupt_locator(thread, record.sequence)
    if declaration is None:
        raise EvidenceFault(thread, "evidence-missing", f"tool call {call} is not declared")
    return OperationEvidence(run, declaration, tuple(facts))


def missing_record(thread: ThreadId, sequence: int) -> EvidenceFault:
    """Return the fault for a locator that points at no record."""
    return EvidenceFault(thread, "evidence-missing", f"record {sequence} is not there")


def _corrupt_locator(thread: ThreadId, sequence: int) -> EvidenceFault:
    detail = f"the locator of record {sequence} points at another record"
    return EvidenceFault(thread, "evidence-missing", detail)
