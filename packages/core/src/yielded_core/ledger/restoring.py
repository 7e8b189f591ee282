"""The state of a submission after an import, from its facts and what the log tells (ARC-4).

Nothing of a claim survives: no owner, no lease, no token. What was active goes on from the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.ledger.audit import host_of
from yielded_core.ledger.canonical_facts import canonical_facts
from yielded_core.ledger.operations.unknown import open_calls
from yielded_core.ports.work import Settled, SubmissionFacts, UnknownCall
from yielded_core.records.fields import milliseconds_of
from yielded_core.records.identifiers import SettlementId, SubmissionId, run_id
from yielded_core.records.payloads import ToolCallUnknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from yielded_core.ledger.archived import ArchivedWork
    from yielded_core.ledger.traces import Trace
    from yielded_core.ports.work import Submission
    from yielded_core.records.envelope import StoredRecord

_LEFT_OPEN: Final = "the log that was imported does not tell its outcome"
_RESOLVED: Final = "it was resolved before it was imported"


def needs_evidence(trace: Trace) -> bool:
    """Say whether only the records of its run tell if a submission is parked on unknown calls."""
    return bool(trace.in_doubt_from) and bool(trace.input_sequence) and not trace.settled_sequence


def restored(
    work: ArchivedWork, trace: Trace, evidence: Sequence[StoredRecord] = ()
) -> SubmissionFacts:
    """Return a submission as an import installs it.

    Settled once the log holds its settlement; joined to the host in whose run its input stands;
    unknown while a mutating call of its run is open and nobody resolved it; input-applied once its
    input is in the log; else ready. `evidence` are the records of its run, ascending, where
    `needs_evidence` asks for them. Raises EvidenceFault for records that contradict each other.
    """
    admitted = work.submission
    resolutions = tuple(resolution for _, resolution in work.resolutions)
    calls = {
        resolution.tool_call_id: UnknownCall(
            resolution.tool_call_id, run, _RESOLVED, resolution.resolved_at
        )
        for run, resolution in work.resolutions
    }
    for call in _left_open(admitted, evidence):
        calls.setdefault(call.tool_call_id, call)
    unknown_calls = tuple(calls[name] for name in sorted(calls))
    return SubmissionFacts(
        _placed(admitted, trace, in_doubt=bool(open_calls(unknown_calls, resolutions))),
        work.prepared.input,
        work.prepared.linkage,
        work.prepared.message,
        work.approvals,
        unknown_calls,
        resolutions,
    )


def _placed(admitted: Submission, trace: Trace, *, in_doubt: bool) -> Submission:
    host = host_of(admitted.submission_id, trace)
    placed = replace(
        admitted,
        state="ready",
        input_sequence=trace.input_sequence or None,
        host=None if host is None else SubmissionId(host),
    )
    if trace.outcome:
        settled = Settled(SettlementId(trace.settlement_id), trace.outcome, trace.settled_at)
        return replace(placed, state="settled", settled=settled)
    if not trace.input_sequence:
        return placed
    if host is not None:
        return replace(placed, state="joined")
    return replace(placed, state="unknown" if in_doubt else "input-applied")


def _left_open(admitted: Submission, evidence: Sequence[StoredRecord]) -> Iterator[UnknownCall]:
    run = run_id(admitted.submission_id)
    told = {
        payload.tool_call_id: (payload.reason, milliseconds_of(stored.record.created_at))
        for stored in evidence
        if isinstance(payload := stored.record.payload, ToolCallUnknown)
    }
    for call in canonical_facts(admitted, evidence).open_calls:
        newest = milliseconds_of(evidence[-1].record.created_at)
        reason, instant = told.get(call, (_LEFT_OPEN, newest))
        yield UnknownCall(call, run, reason, instant)
