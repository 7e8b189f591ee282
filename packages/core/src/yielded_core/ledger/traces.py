"""What the log tells about each submission, collected while it streams by (LED-8, CRT-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import orjson

from yielded_core.records.canonical import json_digest
from yielded_core.records.fields import milliseconds_of
from yielded_core.records.identifiers import (
    SubmissionId,
    input_record_id,
    run_id,
    settlement_record_id,
)
from yielded_core.records.payloads import (
    ModelResponseRecorded,
    SubmissionSettled,
    ToolCallSettled,
    ToolCallUnknown,
    UserInputRecorded,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_core.log.states import States
    from yielded_core.ports.work import Outcome
    from yielded_core.records.envelope import EncodedRecord
    from yielded_core.records.identifiers import RecordId, RunId

_RUN: Final = run_id(SubmissionId(""))
"""What the name of a submission's run begins with."""
_CALLS: Final = (ModelResponseRecorded, ToolCallSettled, ToolCallUnknown)
_FAMILIES: Final = frozenset((UserInputRecorded, SubmissionSettled, *_CALLS))


class Trace(NamedTuple):
    """One submission in the log; a sequence is 0, and a text empty, where there is nothing."""

    input_sequence: int = 0
    input_digest: str = ""
    input_run: str = ""
    settled_sequence: int = 0
    settled_at: int = 0
    settlement_id: str = ""
    receipt_id: str = ""
    outcome: Outcome | Literal[""] = ""
    open_calls: int = 0
    """Calls that its run declared and that have no result so far."""
    declared_at: int = 0
    """Sequence of the newest response that declares calls."""
    unknown_at: int = 0
    """Sequence of the first call of its run that was recorded to be unknown."""

    @property
    def never_ran(self) -> bool:
        """Say whether it was settled as aborted without any input."""
        return self.outcome == "aborted" and not self.input_sequence

    @property
    def in_doubt_from(self) -> int:
        """From which sequence on it may have been parked on an unknown call; 0 for never."""
        return self.unknown_at or (self.declared_at if self.open_calls else 0)

    def encode(self) -> bytes:
        """Return it as text for a temporary file."""
        return orjson.dumps(tuple(self))

    @staticmethod
    def decode(text: bytes) -> Trace:
        """Read what `encode` returned."""
        return Trace(*orjson.loads(text))


class WorkTraces:
    """The traces of every submission, after the records applied so far."""

    def __init__(self, states: States[Trace]) -> None:
        self._states = states

    def get(self, submission: SubmissionId) -> Trace:
        """Return what the log tells about a submission, which may be nothing."""
        return self._states.get(submission) or Trace()

    def apply(self, first: int, records: Iterable[EncodedRecord]) -> None:
        """Apply the records from a sequence on."""
        for sequence, encoded in enumerate(records, first):
            payload = encoded.record.payload
            if type(payload) not in _FAMILIES:
                continue
            if isinstance(payload, UserInputRecorded):
                self._input(sequence, encoded.record.record_id, payload)
            elif isinstance(payload, SubmissionSettled):
                self._settlement(sequence, encoded, payload)
            elif isinstance(payload, _CALLS):
                self._call(sequence, payload)

    def _input(self, sequence: int, name: RecordId, payload: UserInputRecorded) -> None:
        submission = payload.submission_id
        if submission is None or name != input_record_id(submission):
            return
        self._states.put(
            submission,
            self.get(submission)._replace(
                input_sequence=sequence,
                input_digest=json_digest(payload.input),
                input_run=payload.run_id or run_id(submission),
            ),
        )

    def _settlement(
        self, sequence: int, encoded: EncodedRecord, payload: SubmissionSettled
    ) -> None:
        submission = payload.submission_id
        if encoded.record.record_id != settlement_record_id(submission):
            return
        self._states.put(
            submission,
            self.get(submission)._replace(
                settled_sequence=sequence,
                settled_at=milliseconds_of(encoded.record.created_at),
                settlement_id=payload.settlement_id,
                receipt_id=payload.receipt_id,
                outcome=payload.outcome,
            ),
        )

    def _call(
        self, sequence: int, payload: ModelResponseRecorded | ToolCallSettled | ToolCallUnknown
    ) -> None:
        submission = submission_of(payload.run_id)
        if submission is None:
            return
        trace = self.get(submission)
        if isinstance(payload, ToolCallUnknown):
            trace = trace._replace(unknown_at=trace.unknown_at or sequence)
        elif isinstance(payload, ToolCallSettled):
            trace = trace._replace(open_calls=max(0, trace.open_calls - 1))
        elif payload.tool_operations:
            count = trace.open_calls + len(payload.tool_operations)
            trace = trace._replace(open_calls=count, declared_at=sequence)
        self._states.put(submission, trace)


def submission_of(run: RunId | str) -> SubmissionId | None:
    """Return the submission that a run is named after, or None (REC-2)."""
    return SubmissionId(run.removeprefix(_RUN)) if run.startswith(_RUN) else None
