"""Accepted work as the facts of an archive, and read back from them (ARC-2, ARC-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from yielded_core.errors import StorageCorrupt
from yielded_core.ledger.operations.admission import content_digest, prepare_admission
from yielded_core.ledger.operations.unknown import kind_of
from yielded_core.ports.work import (
    AbortIntent,
    Admission,
    ApprovalDecision,
    Submission,
    UnknownResolution,
)
from yielded_core.records.canonical import canonical_json, sha256_hex
from yielded_core.records.fields import instant_of, instant_text, milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from yielded_core.ledger.operations.admission import PreparedAdmission
    from yielded_core.log.fact_schema import AbortFact, AdmissionFact, ApprovalFact, ResolutionFact
    from yielded_core.ports.work import FactSection, SubmissionFacts
    from yielded_core.records.identifiers import RunId, ThreadId


class ArchivedWork(NamedTuple):
    """One submission with everything that an archive says about it."""

    prepared: PreparedAdmission
    queue_sequence: int
    admitted_at: int
    abort: AbortIntent | None
    approvals: tuple[ApprovalDecision, ...]
    resolutions: tuple[tuple[RunId, UnknownResolution], ...]
    """Each with the run of its call."""
    deferred_at: int | None = None

    @property
    def submission(self) -> Submission:
        """The submission as it was admitted, its digests computed again."""
        prepared = self.prepared
        return Submission(
            prepared.thread_id,
            prepared.submission_id,
            prepared.receipt_id,
            self.queue_sequence,
            prepared.admission.principal,
            prepared.admission.idempotency_key,
            prepared.admission.group,
            prepared.input_digest,
            prepared.admission_digest,
            self.admitted_at,
            abort=self.abort,
            deferred_at=self.deferred_at,
        )


# --- Writing -------------------------------------------------------------------------------------


def facts_in(section: FactSection, entry: SubmissionFacts) -> Iterator[bytes]:
    """Return the canonical texts of the facts of one section that belong to a submission."""
    return _WRITERS[section](entry)


def texts_fault(entry: SubmissionFacts) -> str | None:
    """Say what tells that the texts of a submission are not what was admitted, or None (LED-1)."""
    found = entry.submission
    if sha256_hex(entry.input) != found.input_digest:
        return "its input is not what its digest stands for"
    digest = content_digest(found.group, found.input_digest, entry.linkage, entry.message)
    if digest != found.admission_digest:
        return "its group, linkage or message is not what its digest stands for"
    return None


def _admission(entry: SubmissionFacts) -> Iterator[bytes]:
    found = entry.submission
    fault = texts_fault(entry)
    if fault is not None:
        raise StorageCorrupt(f"submission {found.submission_id}: {fault}")
    value: dict[str, object] = {
        "admittedAt": _text(found.admitted_at),
        "idempotencyKey": found.idempotency_key,
        "input": orjson.Fragment(entry.input),
        "linkage": orjson.Fragment(entry.linkage),
        "message": orjson.Fragment(entry.message),
        "principal": found.principal,
        "queueSequence": found.queue_sequence,
        "receiptId": found.receipt_id,
        "submissionId": found.submission_id,
    }
    if found.group is not None:
        value["group"] = found.group
    if found.deferred_at is not None:
        value["deferredAt"] = _text(found.deferred_at)
    yield _encoded(value)


def _abort(entry: SubmissionFacts) -> Iterator[bytes]:
    abort = entry.submission.abort
    if abort is not None:
        yield _encoded(
            {
                "author": abort.author,
                "reason": abort.reason,
                "requestedAt": _text(abort.requested_at),
                "submissionId": entry.submission.submission_id,
            }
        )


def _approvals(entry: SubmissionFacts) -> Iterator[bytes]:
    for one in entry.approvals:
        yield _encoded(
            {
                "decidedAt": _text(one.decided_at),
                "decision": one.decision,
                "reason": one.reason,
                "resolver": one.resolver,
                "submissionId": entry.submission.submission_id,
                "toolCallId": one.tool_call_id,
            }
        )


def _resolutions(entry: SubmissionFacts) -> Iterator[bytes]:
    runs = {call.tool_call_id: call.run_id for call in entry.unknown_calls}
    for one in entry.resolutions:
        if one.tool_call_id not in runs:
            detail = f"a resolved call of {entry.submission.submission_id} was never marked unknown"
            raise StorageCorrupt(detail)
        value: dict[str, object] = {
            "author": one.author,
            "kind": kind_of(one.resolution),
            "reason": one.reason,
            "resolution": one.resolution,
            "resolvedAt": _text(one.resolved_at),
            "runId": runs[one.tool_call_id],
            "submissionId": entry.submission.submission_id,
            "toolCallId": one.tool_call_id,
        }
        if one.result is not None:
            value["result"] = orjson.Fragment(canonical_json(one.result))
        yield _encoded(value)


_WRITERS: Final[Mapping[FactSection, Callable[[SubmissionFacts], Iterator[bytes]]]] = {
    "admissions": _admission,
    "abortCommands": _abort,
    "approvals": _approvals,
    "resolutions": _resolutions,
}


def _encoded(value: Mapping[str, object]) -> bytes:
    return b"%b" % orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _text(milliseconds: int) -> str:
    try:
        return instant_text(instant_of(milliseconds))
    except OverflowError:
        raise StorageCorrupt("an instant of accepted work is none") from None


# --- Reading -------------------------------------------------------------------------------------


def archived_work(
    thread: ThreadId,
    fact: AdmissionFact,
    abort: AbortFact | None,
    approvals: Iterable[ApprovalFact],
    resolutions: Iterable[ResolutionFact],
) -> ArchivedWork:
    """Return a submission from its facts. Raises InvalidInput for what no ledger would accept."""
    admission = Admission(
        thread,
        fact.principal,
        fact.idempotency_key,
        fact.input,
        fact.group,
        fact.linkage,
        fact.message,
    )
    return ArchivedWork(
        prepare_admission(admission, fact.submission_id, fact.receipt_id),
        fact.queue_sequence,
        milliseconds_of(fact.admitted_at),
        None
        if abort is None
        else AbortIntent(abort.author, abort.reason, milliseconds_of(abort.requested_at)),
        tuple(
            ApprovalDecision(
                one.tool_call_id,
                one.decision,
                one.resolver,
                one.reason,
                milliseconds_of(one.decided_at),
            )
            for one in approvals
        ),
        tuple(
            (
                one.run_id,
                UnknownResolution(
                    one.tool_call_id,
                    one.resolution,
                    one.author,
                    one.reason,
                    one.result,
                    milliseconds_of(one.resolved_at),
                ),
            )
            for one in resolutions
        ),
        None if fact.deferred_at is None else milliseconds_of(fact.deferred_at),
    )
