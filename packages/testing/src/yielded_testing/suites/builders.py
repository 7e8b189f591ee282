"""Records, batches and writers that the cases are made of.

Nothing here asks the rules of the log: canonical text, digests and the chain are computed by other
means (`json`, `rfc8785`, `hashlib`), so that a rule that every adapter shares can still be caught.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

import rfc8785

from yielded_core.ports.values import Appended, Batch, PreparedBatch, Tail
from yielded_core.records.envelope import EncodedRecord, Record
from yielded_core.records.identifiers import (
    BatchId,
    DeploymentId,
    Digest,
    ProducerId,
    RecordId,
    ThreadId,
)
from yielded_core.records.model import WireModel
from yielded_core.records.payloads import RepairAnnotated
from yielded_testing.samples import all_samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from yielded_core.errors import AppendConflict
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.payloads import Payload
    from yielded_core.storage import Storage

THREAD: Final = ThreadId("thread-1")
OTHER: Final = ThreadId("thread-2")
PRODUCER: Final = ProducerId("producer-1")
EMPTY_DIGEST: Final = Digest("0" * 64)
EMPTY: Final = Tail(0, EMPTY_DIGEST)
INSTANT: Final = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
INSTANT_TEXT: Final = "2026-01-02T03:04:05.678Z"
NOWHERE: Final = Digest("f" * 64)
"""A digest that no tail has."""


def record(record_id: str, payload: Payload) -> Record:
    """Wrap a payload as a record."""
    return Record(
        record_id=RecordId(record_id),
        created_at=INSTANT,
        deployment_id=DeploymentId("deployment-1"),
        payload=payload,
    )


def note(record_id: str, details: JsonValue = None) -> Record:
    """Return a record that belongs to no run and that no index but the record's id finds."""
    return record(record_id, RepairAnnotated(reason="a note", details=details))


def notes(prefix: str, count: int, details: JsonValue = None) -> tuple[Record, ...]:
    """Return notes `prefix-1`, `prefix-2` and so on."""
    return tuple(note(f"{prefix}-{number}", details) for number in range(1, count + 1))


def note_value(record_id: str, details: JsonValue = None) -> dict[str, Any]:
    """Return the JSON value that a note is on the wire."""
    return {
        "recordId": record_id,
        "family": "thread",
        "schemaVersion": 1,
        "createdAt": INSTANT_TEXT,
        "deploymentId": "deployment-1",
        "payload": {"_tag": "RepairAnnotated", "reason": "a note", "details": details},
    }


def batch(batch_id: str, *records: Record, producer: ProducerId = PRODUCER) -> Batch:
    """Return a batch of records."""
    return Batch(BatchId(batch_id), producer, records)


def canonical(value: object) -> bytes:
    """Return the RFC 8785 text of a JSON value whose numbers are doubles or small integers."""
    return rfc8785.dumps(cast("Any", value))


def parsed(text: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read canonical text; integers become doubles, which write the same text again."""
    return json.loads(text, parse_int=float)


def wire_of(model: WireModel) -> dict[str, object]:
    """Return the JSON value of a model by its wire names; absent keys have no value."""
    value: dict[str, object] = {}
    for name, each in type(model).model_fields.items():
        member = cast("object", getattr(model, name))
        if member is not None or each.is_required():
            value[each.alias or name] = _plain(member)
    return value


def _plain(value: object) -> object:
    if isinstance(value, WireModel):
        return wire_of(value)
    if isinstance(value, tuple):
        return [_plain(member) for member in cast("tuple[object, ...]", value)]
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1_000:03d}Z"
    return value


def record_bytes(given: Record) -> bytes:
    """Return the canonical bytes that a record must be stored as."""
    return canonical(wire_of(given))


def record_digest(given: Record) -> Digest:
    """Return the SHA-256 of a record's canonical bytes."""
    return Digest(hashlib.sha256(record_bytes(given)).hexdigest())


def next_digest(
    previous: str, batch_id: str, wires: Iterable[bytes], producer: str = PRODUCER
) -> Digest:
    """Compute the tail digest that a batch makes, from the words of REC-7 alone."""
    value = {
        "batch": {
            "batchId": batch_id,
            "producerId": producer,
            "records": [parsed(wire) for wire in wires],
        },
        "previousTailDigest": previous,
    }
    return Digest(hashlib.sha256(canonical(value)).hexdigest())


def prepared_as_is(
    batch_id: str, records: Sequence[tuple[Record, bytes]], content_digest: str = NOWHERE
) -> PreparedBatch:
    """Return a prepared batch that claims any bytes for its records: how a damaged one arrives."""
    content = b'{"batchId":%b,"producerId":%b,"records":[%b]}' % (
        json.dumps(batch_id).encode(),
        json.dumps(PRODUCER).encode(),
        b",".join(wire for _, wire in records),
    )
    return PreparedBatch(
        BatchId(batch_id),
        PRODUCER,
        tuple(EncodedRecord(given, wire) for given, wire in records),
        content,
        Digest(content_digest),
    )


def actual_tail(conflict: AppendConflict) -> Tail:
    """Return the tail that a conflict reports, from which its caller goes on."""
    return Tail(conflict.sequence, Digest(conflict.digest))


@dataclass
class Writer:
    """Appends to one thread at one epoch, always at the tail that the last append returned."""

    storage: Storage
    thread: ThreadId = THREAD
    epoch: int = 1
    tail: Tail = EMPTY
    appended: list[Appended] = field(default_factory=list[Appended])

    @staticmethod
    async def begin(storage: Storage, thread: ThreadId = THREAD, epoch: int = 1) -> Writer:
        """Materialize a thread, or take it over, and write at its tail."""
        at = await storage.threads.materialize(thread, epoch=epoch)
        return Writer(storage, thread, at.epoch, at.tail)

    async def append(self, *records: Record, batch_id: str | None = None) -> Appended:
        """Append records as one batch, called `batch-` and its first sequence by default."""
        name = batch_id or f"batch-{self.tail.sequence + 1}"
        return await self.append_batch(batch(name, *records))

    async def append_batch(self, given: Batch | PreparedBatch) -> Appended:
        """Append a batch and move on to the tail that it made."""
        done = await self.storage.threads.append(
            self.thread, given, expected=self.tail, epoch=self.epoch
        )
        self.tail = done.tail
        self.appended.append(done)
        return done

    async def fill(self, *sizes: int, prefix: str = "note") -> list[Appended]:
        """Append batches of notes of these sizes; the records are `prefix-1` and so on."""
        made: list[Appended] = []
        for size in sizes:
            first = self.tail.sequence + 1
            numbers = range(first, first + size)
            made.append(await self.append(*(note(f"{prefix}-{number}") for number in numbers)))
        return made


async def append_every_family(writer: Writer) -> list[Record]:
    """Append a record of every family but RunContinuation, whose counters must be right."""
    samples = {each.payload.tag: each for each in all_samples()}
    del samples["RunContinuation"]
    first, second = samples.pop("ThreadCreated"), samples.pop("SubagentLineageRecorded")
    await writer.append(first)
    await writer.append(second)
    await writer.append(*samples.values())
    return [first, second, *samples.values()]
