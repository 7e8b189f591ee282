"""Progress of a run: its counters, and what a RunContinuation must agree with (LOG-14, LOG-16).

`RunProgress` is kept by the store for every run, one row, and moves only here. A continuation is
no fact of its run: it states the counters that follow from the facts, so a wrong one is refused
before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from yielded_core.errors import ProgressRefused
from yielded_core.log.facts import TERMINAL_TAGS
from yielded_core.log.placement import check_placement
from yielded_core.records import bounds
from yielded_core.records.canonical import canonical_json
from yielded_core.records.payloads import (
    ModelResponseRecorded,
    RunContextRecorded,
    RunContinuation,
    RunPolicyUsageReserved,
    SubmissionSettled,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from yielded_core.log.facts import RecordFacts
    from yielded_core.records.envelope import EncodedRecord
    from yielded_core.records.identifiers import RecordId, RunId, ThreadId
    from yielded_core.records.payloads import Accounting, EvidenceReference, Payload

_FALLING_COUNTERS: Final = frozenset({"last_input_tokens", "last_output_tokens"})
"""Counters of the accounting that describe the last call alone, and so may fall."""


class FactReference(NamedTuple):
    """A record by its id and the digest of its canonical bytes (REC-7)."""

    record_id: str
    digest: str


class RunProgress(NamedTuple):
    """Counters of one run after its newest record."""

    record_count: int = 0
    record_bytes: int = 0
    turn: int = 0
    turn_bytes: int = 0
    terminal_records: int = 0
    terminal_bytes: int = 0
    terminal_usage_bytes: int = 0
    suffix_records: int = 0
    """Facts after the newest continuation, terminal ones apart."""
    suffix_bytes: int = 0
    revision: int = 0
    """Revision of the newest continuation; 0 before the first."""
    reserved_tool_calls: int = 0
    """Programmatic tool calls that the newest RunPolicyUsageReserved counts."""
    finalization_reserved: bool = False
    submission: str | None = None
    original_input: FactReference | None = None
    saved_context: FactReference | None = None
    latest_response: FactReference | None = None
    terminal: FactReference | None = None
    accounting: Mapping[str, int] | None = None
    """Accounting of the newest continuation, by wire name of its counters."""

    def encode(self) -> bytes:
        """Return the stored form: the values in their order, as an array of JSON."""
        return orjson.dumps(tuple(self), default=tuple, option=orjson.OPT_SORT_KEYS)

    @staticmethod
    def decode(text: bytes) -> RunProgress:
        """Read the stored form."""
        *counters, original, saved, latest, terminal, accounting = orjson.loads(text)
        references = map(_decoded, (original, saved, latest, terminal))
        return RunProgress._make((*counters, *references, accounting))


def _decoded(reference: list[str] | None) -> FactReference | None:
    return None if reference is None else FactReference(*reference)


def runs_of(facts: Iterable[RecordFacts]) -> tuple[RunId, ...]:
    """Return the runs whose progress an append moves, each once, in order of appearance."""
    found: dict[RunId, None] = {}
    for fact in facts:
        if fact.run is not None:
            found[fact.run] = None
        elif fact.continuation is not None:
            found[fact.continuation.run_id] = None
    return tuple(found)


def advance_runs(
    thread: ThreadId,
    facts: Sequence[RecordFacts],
    before: Mapping[RunId, RunProgress],
) -> dict[RunId, RunProgress]:
    """Return the progress of every run that a batch touches, or raise ProgressRefused (LOG-16)."""
    check_placement(thread, facts)
    after: dict[RunId, RunProgress] = {}
    last_fact: dict[RunId, RecordFacts] = {}
    continued: set[RunId] = set()
    for fact in facts:
        continuation = fact.continuation
        run = fact.run if continuation is None else continuation.run_id
        if run is None:
            continue
        progress = after.get(run) or before.get(run) or RunProgress()
        if run in continued:
            reason = "a fact follows it" if continuation is None else "there is a second one"
            raise ProgressRefused(thread, run, "order", f"one continuation a batch: {reason}")
        if continuation is None:
            _check_reserved(thread, run, progress, fact.payload)
            after[run] = _with_fact(progress, fact)
            last_fact[run] = fact
        else:
            _check_continuation(thread, fact, continuation, progress, last_fact.get(run))
            after[run] = _with_continuation(progress, continuation)
            continued.add(run)
    for run, progress in after.items():
        _check_bounds(thread, run, progress)
    return after


def check_handoffs(
    thread: ThreadId, facts: Iterable[RecordFacts], is_open: Collection[RecordId]
) -> None:
    """Refuse to close a preparation that is not open: each is closed exactly once (LOG-15)."""
    known = set(is_open)
    for fact in facts:
        if fact.opens_handoff:
            known.add(fact.record_id)
        elif fact.closes_handoff is not None:
            if fact.closes_handoff not in known:
                detail = f"{fact.closes_handoff} is no open preparation"
                raise ProgressRefused(thread, "(none)", "handoff", detail)
            known.discard(fact.closes_handoff)


def _with_fact(progress: RunProgress, fact: RecordFacts) -> RunProgress:
    size = len(fact.encoded.wire)
    payload = fact.payload
    if fact.tag in TERMINAL_TAGS:
        return progress._replace(
            terminal_records=progress.terminal_records + 1,
            terminal_bytes=progress.terminal_bytes + size,
            terminal_usage_bytes=progress.terminal_usage_bytes + _usage_bytes(payload),
            terminal=_reference(fact.encoded),
        )
    turn_bytes = progress.turn_bytes + size
    newest: dict[str, Any] = {}
    if isinstance(payload, ModelResponseRecorded):
        newest["latest_response"] = _reference(fact.encoded)
        if payload.turn > progress.turn:
            newest["turn"], turn_bytes = payload.turn, size
    elif isinstance(payload, RunContextRecorded):
        newest["saved_context"] = _reference(fact.encoded)
    elif isinstance(payload, RunPolicyUsageReserved):
        newest["reserved_tool_calls"] = payload.programmatic_tool_calls
        newest["finalization_reserved"] = payload.finalization_used
    elif fact.run_input and progress.original_input is None:
        newest["original_input"] = _reference(fact.encoded)
    return progress._replace(
        record_count=progress.record_count + 1,
        record_bytes=progress.record_bytes + size,
        turn_bytes=turn_bytes,
        suffix_records=progress.suffix_records + 1,
        suffix_bytes=progress.suffix_bytes + size,
        **newest,
    )


def _with_continuation(progress: RunProgress, continuation: RunContinuation) -> RunProgress:
    return progress._replace(
        suffix_records=0,
        suffix_bytes=0,
        revision=continuation.revision,
        submission=continuation.submission_id,
        accounting=_counters(continuation.accounting),
    )


def _check_reserved(thread: ThreadId, run: RunId, progress: RunProgress, payload: Payload) -> None:
    """Refuse a reservation of policy usage that takes an earlier one back."""
    if isinstance(payload, RunPolicyUsageReserved) and (
        payload.programmatic_tool_calls < progress.reserved_tool_calls
        or (progress.finalization_reserved and not payload.finalization_used)
    ):
        raise ProgressRefused(thread, run, "accounting", "reserved policy usage regressed")


def _check_continuation(
    thread: ThreadId,
    fact: RecordFacts,
    continuation: RunContinuation,
    progress: RunProgress,
    last: RecordFacts | None,
) -> None:
    run = continuation.run_id
    if len(fact.encoded.wire) > bounds.CONTINUATION_BYTES:
        detail = f"longer than {bounds.CONTINUATION_BYTES} bytes"
        raise ProgressRefused(thread, run, "continuation-bound", detail)
    if continuation.revision != progress.revision + 1:
        detail = f"{continuation.revision} does not follow {progress.revision}"
        raise ProgressRefused(thread, run, "revision", detail)
    if last is None or _named(continuation.last_fact) != _reference(last.encoded):
        detail = "it is not the run's last fact in the same batch"
        raise ProgressRefused(thread, run, "last-fact", detail)
    for name, given, actual in _stated_counters(continuation, progress):
        if given != actual:
            detail = f"{name} is {given} where the records make {actual}"
            raise ProgressRefused(thread, run, "counters", detail)
    for name, agrees in _stated_references(continuation, progress):
        if not agrees:
            detail = f"{name} is not what the run holds"
            raise ProgressRefused(thread, run, "references", detail)
    counters = _counters(continuation.accounting)
    for name, counter in (progress.accounting or {}).items():
        if name not in _FALLING_COUNTERS and counters[name] < counter:
            raise ProgressRefused(thread, run, "accounting", f"{name} regressed")


def _stated_counters(
    continuation: RunContinuation, progress: RunProgress
) -> Iterator[tuple[str, int, int]]:
    yield "recordCount", continuation.record_count, progress.record_count
    yield "recordBytes", continuation.record_bytes, progress.record_bytes
    yield "turn", continuation.turn, progress.turn
    yield "turnBytes", continuation.turn_bytes, progress.turn_bytes
    yield "terminalBytes", continuation.terminal_bytes, progress.terminal_bytes
    yield "terminalRecords", continuation.terminal_records, progress.terminal_records
    yield "terminalUsageBytes", continuation.terminal_usage_bytes, progress.terminal_usage_bytes


def _stated_references(
    continuation: RunContinuation, progress: RunProgress
) -> Iterator[tuple[str, bool]]:
    yield "submissionId", progress.submission in {None, continuation.submission_id}
    yield "originalInput", _named(continuation.original_input) == progress.original_input
    yield "savedContext", _named(continuation.saved_context) == progress.saved_context
    yield "latestResponse", _named(continuation.latest_response) == progress.latest_response
    yield "terminal", _named(continuation.terminal) == progress.terminal


def _check_bounds(thread: ThreadId, run: RunId, progress: RunProgress) -> None:
    limits = [
        ("facts", progress.record_count, bounds.RUN_RECORDS),
        ("bytes of facts", progress.record_bytes, bounds.RUN_BYTES),
        ("bytes of one turn", progress.turn_bytes, bounds.TURN_BYTES),
        ("terminal facts", progress.terminal_records, bounds.TERMINAL_RECORDS),
        ("bytes of terminal facts", progress.terminal_bytes, bounds.TERMINAL_BYTES),
    ]
    if progress.revision:
        limits += [
            ("facts after the continuation", progress.suffix_records, bounds.SUFFIX_RECORDS),
            ("bytes after the continuation", progress.suffix_bytes, bounds.SUFFIX_BYTES),
        ]
    for what, found, limit in limits:
        if found > limit:
            detail = f"{found} {what} where {limit} is the bound"
            raise ProgressRefused(thread, run, "continuation-bound", detail)


def _usage_bytes(payload: object) -> int:
    if not isinstance(payload, SubmissionSettled) or payload.usage_summary is None:
        return 0
    return len(canonical_json(payload.usage_summary))


def _reference(encoded: EncodedRecord) -> FactReference:
    return FactReference(encoded.record.record_id, encoded.digest)


def _named(reference: EvidenceReference | None) -> FactReference | None:
    return None if reference is None else FactReference(reference.record_id, reference.digest)


def _counters(accounting: Accounting) -> dict[str, int]:
    return {name: int(getattr(accounting, name)) for name in type(accounting).model_fields}
