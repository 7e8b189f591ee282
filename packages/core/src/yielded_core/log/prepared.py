"""Preparing a batch: validated, encoded and digested once, before the first await (LOG-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_core.digest import batch_content, content_digest
from yielded_core.errors import InvalidBatch
from yielded_core.log.placement import check_company
from yielded_core.ports.values import Batch, PreparedBatch
from yielded_core.records.bounds import BATCH_BYTES, BATCH_RECORDS
from yielded_core.records.envelope import EncodedRecord, encode_record, encoded_from_wire
from yielded_core.records.identifiers import BatchId, ProducerId, check_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence


def prepare_batch(batch: Batch | PreparedBatch) -> PreparedBatch:
    """Return the batch encoded and digested; a prepared one is returned as it is.

    Raises InvalidIdentifier, InvalidBatch, InvalidRecord or UnsupportedRecord (REC-1 to REC-6).
    """
    if isinstance(batch, PreparedBatch):
        return batch
    _check_count(batch.batch_id, len(batch.records))
    return _prepared(
        batch.batch_id, batch.producer_id, tuple(encode_record(record) for record in batch.records)
    )


def prepare_stored(batch: BatchId, producer: ProducerId, records: Sequence[bytes]) -> PreparedBatch:
    """Return a batch made from stored bytes, as import and verify read them.

    Raises NonCanonical as well as what `prepare_batch` raises.
    """
    _check_count(batch, len(records))
    return _prepared(batch, producer, tuple(encoded_from_wire(wire) for wire in records))


def _check_count(batch: BatchId, records: int) -> None:
    if not 1 <= records <= BATCH_RECORDS:
        raise InvalidBatch(batch, f"it has {records} records, not 1 to {BATCH_RECORDS}")


def _prepared(
    batch: BatchId, producer: ProducerId, records: tuple[EncodedRecord, ...]
) -> PreparedBatch:
    check_identifier(batch, "batch id")
    check_identifier(producer, "producer id")
    check_company(batch, records)
    wires = [record.wire for record in records]
    if sum(map(len, wires)) > BATCH_BYTES:
        raise InvalidBatch(batch, f"its records are longer than {BATCH_BYTES} bytes")
    content = batch_content(batch, producer, wires)
    return PreparedBatch(batch, producer, records, content, content_digest(content))
