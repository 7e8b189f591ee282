"""The log and the ledger of durable agents: what a client of any adapter needs, in one import.

Payload families are in `yielded_core.records.payloads`, errors in `yielded_core.errors`, ports in
`yielded_core.ports`. A name is imported when it is first used, so that a command which needs none
of the schemas does not wait for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yielded_core.log.prepared import prepare_batch
    from yielded_core.ports.values import Appended, Batch, PreparedBatch, Tail, ThreadTail
    from yielded_core.ports.work import Admission, Admitted, Grant, Submission, Suspension
    from yielded_core.records.envelope import EncodedRecord, Record, StoredRecord
    from yielded_core.records.fields import instant_now
    from yielded_core.records.identifiers import (
        AgentId,
        AttemptId,
        BatchId,
        Cursor,
        DelegationId,
        DeploymentId,
        Digest,
        IdempotencyKey,
        Offset,
        OwnershipToken,
        Principal,
        ProducerId,
        ReceiptId,
        RecordId,
        RunId,
        SettlementId,
        SubmissionId,
        ThreadId,
        ToolCallId,
        TurnId,
    )
    from yielded_core.storage import Storage, open_storage

__all__ = [
    "Admission",
    "Admitted",
    "AgentId",
    "Appended",
    "AttemptId",
    "Batch",
    "BatchId",
    "Cursor",
    "DelegationId",
    "DeploymentId",
    "Digest",
    "EncodedRecord",
    "Grant",
    "IdempotencyKey",
    "Offset",
    "OwnershipToken",
    "PreparedBatch",
    "Principal",
    "ProducerId",
    "ReceiptId",
    "Record",
    "RecordId",
    "RunId",
    "SettlementId",
    "Storage",
    "StoredRecord",
    "Submission",
    "SubmissionId",
    "Suspension",
    "Tail",
    "ThreadId",
    "ThreadTail",
    "ToolCallId",
    "TurnId",
    "instant_now",
    "open_storage",
    "prepare_batch",
]

_HOMES: Final = {
    "log.prepared": ("prepare_batch",),
    "ports.values": ("Appended", "Batch", "PreparedBatch", "Tail", "ThreadTail"),
    "ports.work": ("Admission", "Admitted", "Grant", "Submission", "Suspension"),
    "records.envelope": ("EncodedRecord", "Record", "StoredRecord"),
    "records.fields": ("instant_now",),
    "storage": ("Storage", "open_storage"),
}
"""Modules of the names above; those that are not listed are identifiers."""


def _imported(name: str) -> object:
    """Import a public name from where it lives."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    homes = (module for module, names in _HOMES.items() if name in names)
    module = import_module(f"{__name__}.{next(homes, 'records.identifiers')}")
    value: object = getattr(module, name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a type checker would take it to mean that every name is there
    __getattr__ = _imported


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted(__all__)
