"""Rules across the records of a batch, and of where a record may stand in its thread (REC-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.errors import InvalidBatch, ProgressRefused
from yielded_core.records.payloads import (
    SubagentJoined,
    SubagentLineageRecorded,
    ToolCallResolved,
    ToolCallSettled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_core.log.facts import RecordFacts
    from yielded_core.records.envelope import EncodedRecord
    from yielded_core.records.identifiers import BatchId, ThreadId
    from yielded_core.records.payloads import Payload

_COMPANIONS: Final = frozenset((SubagentJoined, SubagentLineageRecorded, ToolCallResolved))
"""Families that have a rule about the rest of their batch."""
_PLACES: Final = {"ThreadCreated": 1, "SubagentLineageRecorded": 2}
"""The one sequence at which a record of a family may stand."""


def check_company(batch: BatchId, records: Sequence[EncodedRecord]) -> None:
    """Refuse a batch in which a record lacks the one that it must be committed with.

    A tool call resolved with a result, and a joined child, come with the ToolCallSettled of the
    same call; a lineage record has a batch of its own. Raises InvalidBatch.
    """
    payloads = [encoded.record.payload for encoded in records]
    if not _COMPANIONS.intersection(map(type, payloads)):
        return
    needed = [payload for payload in payloads if _needs_result(payload)]
    if needed:
        settled = {_call(payload) for payload in payloads if isinstance(payload, ToolCallSettled)}
        for payload in needed:
            if _call(payload) not in settled:
                reason = f"{payload.tag} comes with the ToolCallSettled of its call"
                raise InvalidBatch(batch, reason)
    if len(payloads) > 1 and any(isinstance(one, SubagentLineageRecorded) for one in payloads):
        raise InvalidBatch(batch, "SubagentLineageRecorded has a batch of its own")


def check_placement(thread: ThreadId, facts: Iterable[RecordFacts]) -> None:
    """Refuse a ThreadCreated that is not the first record, a lineage that is not the second."""
    for fact in facts:
        place = _PLACES.get(fact.tag)
        if place is not None and fact.sequence != place:
            detail = f"{fact.tag} stands at sequence {place} alone"
            raise ProgressRefused(thread, "(none)", "placement", detail)


def _needs_result(payload: Payload) -> bool:
    if isinstance(payload, ToolCallResolved):
        return payload.resolution == "completed-with-result"
    return isinstance(payload, SubagentJoined)


def _call(payload: Payload) -> tuple[str, str]:
    return getattr(payload, "run_id", ""), getattr(payload, "tool_call_id", "")
