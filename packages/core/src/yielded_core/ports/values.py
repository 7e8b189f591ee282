"""The values that cross the ports: plain, frozen, without behaviour beyond their own shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import EncodedRecord, Record, StoredRecord
    from yielded_core.records.identifiers import (
        BatchId,
        Cursor,
        Digest,
        ProducerId,
        RecordId,
        RunId,
        ThreadId,
    )

Durability: TypeAlias = Literal["non-durable", "durable-file", "durable-server"]
LeaseLifetime: TypeAlias = Literal["process", "durable"]


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """What a storage says it is (STO-1)."""

    adapter: str
    version: str
    durability: Durability
    lease_lifetime: LeaseLifetime
    incarnation: str
    """Identity of this store's timeline; every offset and cursor carries it (STO-4)."""
    settings: Mapping[str, str]
    """The durability settings in force, as read back from the engine."""
    optional_ports: frozenset[str]
    """Names of the optional ports offered, such as `checkpoints`."""
    notes: tuple[str, ...] = ()
    """What an operator should know, such as an extra index found."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a thread ends: the expected tail of an append (LOG-5)."""

    sequence: int
    """Sequence of the last record; 0 for a thread without records."""
    digest: Digest
    """Digest of the chain after the last batch."""


@dataclass(frozen=True, slots=True)
class ThreadTail:
    """The tail of a thread with the producer epoch that may write to it (LOG-10)."""

    thread_id: ThreadId
    sequence: int
    digest: Digest
    epoch: int

    @property
    def tail(self) -> Tail:
        """The part that an append declares."""
        return Tail(self.sequence, self.digest)


@dataclass(frozen=True, slots=True)
class ThreadIdentity:
    """What a thread is, in one consistent read (LOG-10)."""

    tail: ThreadTail
    first: StoredRecord | None
    lineage: StoredRecord | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What a client appends: 1 to 256 records that are committed together (LOG-2)."""

    batch_id: BatchId
    producer_id: ProducerId
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch validated, encoded and digested once; a retry reuses it (LOG-6)."""

    batch_id: BatchId
    producer_id: ProducerId
    records: tuple[EncodedRecord, ...]
    content: bytes
    """Canonical bytes of batch id, producer id and records (REC-7)."""
    content_digest: Digest
    """Recognizes a replay; never part of the chain (LOG-4)."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The committed result of an append; a replay returns the first one (LOG-4)."""

    first_sequence: int
    tail: Tail
    """The tail that this batch made, which need not be the thread's newest."""
    replayed: bool


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One whole batch as stored, undecoded: the evidence of verify and export (ARC-3)."""

    batch_id: BatchId
    producer_id: ProducerId
    epoch: int
    first_sequence: int
    last_sequence: int
    content_digest: Digest
    tail_digest: Digest
    records: tuple[tuple[RecordId, bytes], ...]
    """Record id as indexed, and exact wire, ascending from `first_sequence`."""
    epoch_seal: str
    """Tells a changed epoch, which the chain does not cover (`digest.epoch_seal`)."""


@dataclass(frozen=True, slots=True)
class CapturedThread:
    """What an export holds on to while it streams (ARC-2)."""

    tail: ThreadTail
    fact_revision: int
    """Changes with every fact that is independent of the log."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An application's projection of a thread (LOG-13). Nothing in execution reads it."""

    thread_id: ThreadId
    through_sequence: int
    tail_digest: Digest
    state: JsonValue
    created_at: str
    """Instant as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class IndexState:
    """How far the indexes of a thread reach (LOG-17)."""

    indexed_through: int
    tail_sequence: int

    @property
    def complete(self) -> bool:
        """Whether every record is indexed."""
        return self.indexed_through >= self.tail_sequence


@dataclass(frozen=True, slots=True)
class Handoff:
    """An open preparation: listed until its destination acknowledged it (LOG-15)."""

    record: StoredRecord


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a deleted thread (ARC-7)."""

    thread_id: ThreadId
    tail: Tail
    epoch: int


@dataclass(frozen=True, slots=True)
class ArchiveRange:
    """Whole batches that left the hot rows, or are about to (ARC-6)."""

    first_sequence: int
    last_sequence: int
    state: Literal["sealed", "archived"]
    record_count: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class ImportState:
    """How far an import into a thread was staged (ARC-4)."""

    thread_id: ThreadId
    tail: Tail
    """Tail that the archive captured."""
    staged: Tail
    """Tail of the batches staged so far; the next page continues here."""
    complete: bool
    """Whether all of its batches are staged."""
    work: int = 0
    """Place in the lane of the last submission staged so far; 0 before the first."""


@dataclass(frozen=True, slots=True)
class TransferPage:
    """One page of an export (ARC-2)."""

    text: bytes
    """Canonical JSON of the page, one line of an archive file."""
    section: str
    """`batches`, or the name of a section of facts."""
    cursor: Cursor | None
    """Where the next page begins; None on the last."""
    last_sequence: int = 0
    """Sequence of the last record on a page of `batches`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one invariant (CRT-6)."""

    invariant: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found about one thread (ARC-3)."""

    thread_id: ThreadId
    tail: Tail
    records: int
    batches: int
    wire_bytes: int
    findings: tuple[Finding, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether no invariant failed."""
        return all(finding.outcome != "failed" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class OperationEvidence:
    """One declared tool call with everything recorded about it (LOG-15)."""

    run_id: RunId
    declaration: StoredRecord
    facts: tuple[StoredRecord, ...]
    """Results, approvals, steps and resolutions, ascending."""
