"""One tree of errors: each class has a stable code, typed fields and one line that says what to do.

The docstring of a class is its message; names in braces are its fields. A field holds identifiers,
numbers and reasons, never a payload, a secret or SQL, so that every error may be logged as it is.
`retryable` says whether the same call can succeed later without anything being changed.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(eq=False)
class YieldedError(Exception):
    """Something in the storage layer failed."""

    code: ClassVar[str] = "yielded"
    retryable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__init__(*(getattr(self, field.name) for field in fields(self)))

    def __str__(self) -> str:
        template = " ".join(inspect.cleandoc(type(self).__doc__ or "").split())
        return template.format_map(self.fields())

    def fields(self) -> dict[str, object]:
        """Return the typed fields by name, for logs and machine-readable output."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


# --- Input that is refused before any I/O --------------------------------------------------------


@dataclass(eq=False)
class InvalidInput(YieldedError):
    """The input is not valid."""

    code: ClassVar[str] = "invalid-input"


@dataclass(eq=False)
class InvalidIdentifier(InvalidInput):
    """The {kind} is not valid: {reason}."""

    code: ClassVar[str] = "invalid-identifier"
    kind: str
    reason: str


@dataclass(eq=False)
class InvalidArgument(InvalidInput):
    """The argument {name} is not valid: {reason}."""

    code: ClassVar[str] = "invalid-argument"
    name: str
    reason: str


@dataclass(eq=False)
class InvalidJson(InvalidInput):
    """The JSON value is refused: {reason}."""

    code: ClassVar[str] = "invalid-json"
    reason: str


@dataclass(eq=False)
class InvalidRecord(InvalidInput):
    """The record {record_id} is refused: field {field}: {rule}."""

    code: ClassVar[str] = "invalid-record"
    record_id: str
    field: str
    rule: str


@dataclass(eq=False)
class NonCanonical(InvalidInput):
    """The record {record_id} is not the canonical form of its own parse: encode it as RFC 8785."""

    code: ClassVar[str] = "non-canonical"
    record_id: str


@dataclass(eq=False)
class UnsupportedRecord(InvalidInput):
    """The record {record_id} has {what}, which this version does not know: use a newer version."""

    code: ClassVar[str] = "unsupported-record"
    record_id: str
    what: str


@dataclass(eq=False)
class InvalidBatch(InvalidInput):
    """The batch {batch_id} is refused: {reason}."""

    code: ClassVar[str] = "invalid-batch"
    batch_id: str
    reason: str


# --- What a thread answers -----------------------------------------------------------------------


@dataclass(eq=False)
class ThreadError(YieldedError):
    """The thread {thread} refuses the operation."""

    code: ClassVar[str] = "thread"
    thread: str


@dataclass(eq=False)
class ThreadNotMaterialized(ThreadError):
    """The thread {thread} was never materialized: materialize it first."""

    code: ClassVar[str] = "thread-not-materialized"


@dataclass(eq=False)
class ThreadDeleted(ThreadError):
    """The thread {thread} was deleted at sequence {sequence}: its id is never used again."""

    code: ClassVar[str] = "thread-deleted"
    sequence: int


@dataclass(eq=False)
class ThreadInUse(ThreadError):
    """The thread {thread} cannot be deleted: {reason}."""

    code: ClassVar[str] = "thread-in-use"
    reason: str


@dataclass(eq=False)
class FenceRejected(ThreadError):
    """The epoch {attempted} may not write to thread {thread}, whose epoch is {actual}: stop, or
    take the thread over at a higher epoch.
    """

    code: ClassVar[str] = "fence-rejected"
    actual: int
    attempted: int


@dataclass(eq=False)
class AppendConflict(ThreadError):
    """The append to thread {thread} conflicts ({reason}): the tail is sequence {sequence} with
    digest {digest}.
    """

    code: ClassVar[str] = "append-conflict"
    reason: str
    """`batch-digest`, `record-identity` or `tail`."""
    sequence: int
    digest: str


@dataclass(eq=False)
class ProgressRefused(ThreadError):
    """The append to thread {thread} breaks the progress of run {run} ({reason}): {detail}."""

    code: ClassVar[str] = "progress-refused"
    run: str
    reason: str
    """`continuation-bound`, `order`, `revision`, `last-fact`, `counters`, `references`,
    `accounting`, `placement` or `handoff`."""
    detail: str


@dataclass(eq=False)
class EvidenceFault(ThreadError):
    """The thread {thread} cannot answer from its indexes ({reason}): {detail}."""

    code: ClassVar[str] = "evidence-fault"
    reason: str
    """`evidence-missing`, `index-unavailable` or `index-incomplete`."""
    detail: str


@dataclass(eq=False)
class RecordNotFound(ThreadError):
    """The thread {thread} holds no record {record_id}."""

    code: ClassVar[str] = "record-not-found"
    record_id: str


@dataclass(eq=False)
class AmbiguousRunInput(ThreadError):
    """The thread {thread} holds {count} original inputs of run {run}: exactly one was expected."""

    code: ClassVar[str] = "ambiguous-run-input"
    run: str
    count: int


@dataclass(eq=False)
class RecordUndecodable(ThreadError):
    """The stored record {sequence} of thread {thread} does not decode: {reason}."""

    code: ClassVar[str] = "record-undecodable"
    sequence: int
    reason: str


@dataclass(eq=False)
class BeyondTail(ThreadError):
    """The sequence {attempted} is beyond the tail of thread {thread}, which is {tail}."""

    code: ClassVar[str] = "beyond-tail"
    attempted: int
    tail: int


@dataclass(eq=False)
class CheckpointRefused(ThreadError):
    """The checkpoint of thread {thread} at sequence {sequence} is refused ({reason})."""

    code: ClassVar[str] = "checkpoint-refused"
    sequence: int
    reason: str
    """`ahead-of-tail`, `digest-mismatch`, `unsupported-version` or `corrupt`."""


@dataclass(eq=False)
class OffsetRefused(ThreadError):
    """The offset or cursor is not one of thread {thread} in this store: {reason}."""

    code: ClassVar[str] = "offset-refused"
    reason: str


@dataclass(eq=False)
class ExportInvalidated(ThreadError):
    """The facts of thread {thread} changed while it was exported: start the export again."""

    code: ClassVar[str] = "export-invalidated"


# --- What the ledger answers ---------------------------------------------------------------------


@dataclass(eq=False)
class SubmissionError(ThreadError):
    """The submission {submission} of thread {thread} cannot do this."""

    code: ClassVar[str] = "submission"
    submission: str


@dataclass(eq=False)
class SubmissionNotFound(SubmissionError):
    """The thread {thread} holds no submission {submission}."""

    code: ClassVar[str] = "submission-not-found"


@dataclass(eq=False)
class NoSuchSubmission(YieldedError):
    """The store holds no submission {submission}."""

    code: ClassVar[str] = "no-such-submission"
    submission: str


@dataclass(eq=False)
class AdmissionConflict(SubmissionError):
    """Other work was admitted to thread {thread} under this key as submission {submission}: its
    digest is {existing}, that of the repeat {attempted}; use another key for other work.
    """

    code: ClassVar[str] = "admission-conflict"
    existing: str
    attempted: str


@dataclass(eq=False)
class AdmissionRefused(SubmissionError):
    """The work is not admitted to thread {thread} ({reason}): submission {submission} of the same
    group is not settled.
    """

    code: ClassVar[str] = "admission-refused"
    reason: str
    """`occupied`."""


@dataclass(eq=False)
class OwnershipLost(ThreadError):
    """The token does not own this work of thread {thread} any more, whose epoch is {actual}: stop,
    and claim again.
    """

    code: ClassVar[str] = "ownership-lost"
    actual: int


@dataclass(eq=False)
class EpochExhausted(ThreadError):
    """The thread {thread} has used its last epoch, {last}: export it into a new thread."""

    code: ClassVar[str] = "epoch-exhausted"
    last: int


@dataclass(eq=False)
class TransitionRefused(SubmissionError):
    """The operation {operation} is not for submission {submission} of thread {thread}, which is
    {state}.
    """

    code: ClassVar[str] = "transition-refused"
    operation: str
    state: str


@dataclass(eq=False)
class MarkerConflict(SubmissionError):
    """The input of submission {submission} of thread {thread} is marked at sequence {existing}: it
    cannot be marked anywhere else.
    """

    code: ClassVar[str] = "marker-conflict"
    existing: int


@dataclass(eq=False)
class SettlementConflict(SubmissionError):
    """The submission {submission} of thread {thread} is settled as {outcome}: nothing changes it
    any more.
    """

    code: ClassVar[str] = "settlement-conflict"
    outcome: str


@dataclass(eq=False)
class AuthorityRefused(SubmissionError):
    """The submission {submission} of thread {thread} cannot be settled as {authority}: {reason}."""

    code: ClassVar[str] = "authority-refused"
    authority: str
    reason: str


@dataclass(eq=False)
class JoinedToHost(SubmissionError):
    """The submission {submission} of thread {thread} has joined {host}: abort the host instead."""

    code: ClassVar[str] = "joined-to-host"
    host: str


@dataclass(eq=False)
class ApprovalConflict(SubmissionError):
    """The tool call {call} of submission {submission} of thread {thread} was {decision} already."""

    code: ClassVar[str] = "approval-conflict"
    call: str
    decision: str


@dataclass(eq=False)
class UnknownCallNotFound(SubmissionError):
    """The tool call {call} of submission {submission} of thread {thread} was never marked unknown:
    nothing is to be resolved.
    """

    code: ClassVar[str] = "unknown-call-not-found"
    call: str


@dataclass(eq=False)
class UnknownResolutionConflict(SubmissionError):
    """The tool call {call} of submission {submission} of thread {thread} cannot be resolved so
    ({reason}): {existing} stands.
    """

    code: ClassVar[str] = "unknown-resolution-conflict"
    call: str
    reason: str
    """`other-resolution`, `factual-first` or `committed-result`."""
    existing: str


@dataclass(eq=False)
class ChildReservationConflict(SubmissionError):
    """The reservation for tool call {call} of submission {submission} of thread {thread} does not
    allow this ({reason}); it is {status}.
    """

    code: ClassVar[str] = "child-reservation-conflict"
    call: str
    status: str
    """`none` or the status of the reservation."""
    reason: str


# --- Archives ------------------------------------------------------------------------------------


@dataclass(eq=False)
class ArchiveRefused(YieldedError):
    """The archive is refused at page {page} ({reason}): {detail}."""

    code: ClassVar[str] = "archive-refused"
    page: int
    reason: str
    """`format`, `incomplete`, `chain`, `page`, `record`, `dependency`, `obligation`, `bound` or
    `mismatch` (the archive is not the one that an interrupted import began with)."""
    detail: str


@dataclass(eq=False)
class ImportRefused(ThreadError):
    """The thread {thread} cannot be imported ({reason}): {detail}."""

    code: ClassVar[str] = "import-refused"
    reason: str
    """`destination-not-empty`, `in-progress`, `not-complete` or `discarded`."""
    detail: str


@dataclass(eq=False)
class RangeRefused(ThreadError):
    """The range {first} to {last} of thread {thread} cannot be archived: {reason}."""

    code: ClassVar[str] = "range-refused"
    first: int
    last: int
    reason: str


# --- The store -----------------------------------------------------------------------------------


@dataclass(eq=False)
class StorageError(YieldedError):
    """The store cannot do this: {detail}."""

    code: ClassVar[str] = "storage"
    detail: str


@dataclass(eq=False)
class StorageClosed(StorageError):
    """The storage is not open: {detail}."""

    code: ClassVar[str] = "storage-closed"


@dataclass(eq=False)
class StorageMisused(StorageError):
    """The storage is used from the wrong place: {detail}."""

    code: ClassVar[str] = "storage-misused"


@dataclass(eq=False)
class StorageUnavailable(StorageError):
    """The store does not answer: {detail}."""

    code: ClassVar[str] = "storage-unavailable"
    retryable: ClassVar[bool] = True


@dataclass(eq=False)
class StoreMissing(StorageError):
    """There is no store: {detail}."""

    code: ClassVar[str] = "store-missing"


@dataclass(eq=False)
class StorageBusy(StorageError):
    """The store was busy until the deadline: {detail}."""

    code: ClassVar[str] = "storage-busy"
    retryable: ClassVar[bool] = True


@dataclass(eq=False)
class StorageFull(StorageError):
    """The store has no room left: {detail}."""

    code: ClassVar[str] = "storage-full"
    retryable: ClassVar[bool] = True


@dataclass(eq=False)
class StorageReadOnly(StorageError):
    """The store cannot be written: {detail}."""

    code: ClassVar[str] = "storage-read-only"


@dataclass(eq=False)
class StorageCorrupt(StorageError):
    """The store is damaged: {detail}."""

    code: ClassVar[str] = "storage-corrupt"


@dataclass(eq=False)
class StoreRefused(StorageError):
    """The store is refused ({reason}) and was left as it was: {detail}."""

    code: ClassVar[str] = "store-refused"
    reason: str
    """`predecessor`, `newer`, `ambiguous`, `foreign`, `not-a-database` or `corrupt`."""
    differences: tuple[str, ...] = ()


@dataclass(eq=False)
class InvalidStoreUrl(StorageError):
    """The store URL is not valid: {detail}."""

    code: ClassVar[str] = "invalid-store-url"


@dataclass(eq=False)
class AdapterMissing(StorageError):
    """No adapter for {scheme}:// is installed: {detail}."""

    code: ClassVar[str] = "adapter-missing"
    scheme: str


@dataclass(eq=False)
class NotOffered(StorageError):
    """This adapter does not offer the operation: {detail}."""

    code: ClassVar[str] = "not-offered"
