"""Which records outside a batch its records name (ARC-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.records.envelope import decode_record
from yielded_core.records.payloads import (
    RunContextRecorded,
    RunContinuation,
    WorkHandoffCompleted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yielded_core.ports.values import StoredBatch
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import RecordId
    from yielded_core.records.payloads import Payload

_REFERRING: Final = (RunContinuation, RunContextRecorded, WorkHandoffCompleted)
"""Only these families name other records."""
_MARKS: Final = tuple(f'"_tag":"{family.__name__}"'.encode() for family in _REFERRING)
"""Their tags in a record's text: where none occurs, the record need not be decoded."""


def dependencies_of(batch: StoredBatch) -> tuple[str, ...]:
    """Return the ids of records outside the batch that its records name, each once, sorted.

    Raises InvalidRecord or UnsupportedRecord where a record that may name others does not decode.
    """
    inside = {record_id for record_id, _ in batch.records}
    records = (
        decode_record(wire) for _, wire in batch.records if any(mark in wire for mark in _MARKS)
    )
    return _outside(records, inside)


def dependencies_among(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the same as `dependencies_of`, from the decoded records of the batch."""
    decoded = tuple(records)
    return _outside(decoded, {record.record_id for record in decoded})


def _outside(records: Iterable[Record], inside: set[RecordId]) -> tuple[str, ...]:
    named = {name for record in records for name in _references(record.payload)}
    return tuple(sorted(named - inside))


def _references(payload: Payload) -> Iterator[RecordId]:
    if isinstance(payload, RunContinuation):
        named = (
            payload.original_input,
            payload.saved_context,
            payload.latest_response,
            payload.terminal,
            payload.last_fact,
        )
        yield from (reference.record_id for reference in named if reference is not None)
    elif isinstance(payload, RunContextRecorded):
        yield from (reference.record_id for reference in payload.retained)
    elif isinstance(payload, WorkHandoffCompleted):
        yield payload.preparation_id
