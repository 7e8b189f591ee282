"""What a record means to the indexes: a pure reading of its payload (LOG-11 to LOG-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_core.records.identifiers import RunId, ToolCallId, run_id
from yielded_core.records.payloads import (
    ModelResponseRecorded,
    PeerMessagePrepared,
    RunContinuation,
    UserInputRecorded,
    WorkHandoffCompleted,
)
from yielded_core.records.prompt_record import PROMPT_TAGS

if TYPE_CHECKING:
    from yielded_core.records.envelope import EncodedRecord
    from yielded_core.records.identifiers import RecordId
    from yielded_core.records.payloads import Payload

TERMINAL_TAGS: Final = frozenset(
    {"ModelCompleted", "RunCompleted", "RunFailed", "SubmissionSettled"}
)
"""Facts that end a run, counted apart from its evidence (LOG-14)."""

_SPECIAL_TAGS: Final = frozenset(
    {"UserInputRecorded", "RunContinuation", "PeerMessagePrepared", "WorkHandoffCompleted"}
)


class RecordFacts(NamedTuple):
    """One record as the indexes see it."""

    sequence: int
    record_id: RecordId
    tag: str
    payload: Payload
    encoded: EncodedRecord
    run: RunId | None
    """The run whose evidence the record is; None for a continuation, which is no fact."""
    calls: tuple[ToolCallId, ...]
    """Tool calls that the record declares or tells about."""
    prompt: bool
    run_input: bool
    """The original user input of `run`; inputs joined from another submission are not."""
    continuation: RunContinuation | None
    opens_handoff: bool
    closes_handoff: RecordId | None


def facts_of(sequence: int, encoded: EncodedRecord) -> RecordFacts:
    """Read what a record at a sequence contributes to the indexes."""
    record = encoded.record
    payload = record.payload
    tag = payload.tag
    run: RunId | None = payload.__dict__.get("run_id")  # getattr is slow where there is none
    plain = RecordFacts(
        sequence,
        record.record_id,
        tag,
        payload,
        encoded,
        run,
        () if run is None else _calls(payload),
        tag in PROMPT_TAGS,
        run_input=False,
        continuation=None,
        opens_handoff=False,
        closes_handoff=None,
    )
    return _special(plain, payload) if tag in _SPECIAL_TAGS else plain


def _special(facts: RecordFacts, payload: Payload) -> RecordFacts:
    """Add what only a few families mean."""
    if isinstance(payload, UserInputRecorded):
        return facts._replace(run_input=_is_original(payload))
    if isinstance(payload, RunContinuation):
        return facts._replace(run=None, calls=(), continuation=payload)
    if isinstance(payload, PeerMessagePrepared):
        return facts._replace(opens_handoff=True)
    if isinstance(payload, WorkHandoffCompleted):
        return facts._replace(closes_handoff=payload.preparation_id)
    return facts


def _calls(payload: Payload) -> tuple[ToolCallId, ...]:
    if isinstance(payload, ModelResponseRecorded):
        return tuple(operation.tool_call_id for operation in payload.tool_operations)
    call: ToolCallId | None = payload.__dict__.get("tool_call_id")
    return () if call is None else (call,)


def _is_original(payload: UserInputRecorded) -> bool:
    if payload.kind != "user" or payload.run_id is None:
        return False
    return payload.submission_id is None or payload.run_id == run_id(payload.submission_id)
