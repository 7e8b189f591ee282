"""The thread log of durable agents: what a client of any adapter needs, in one import.

Payload families are in `yielded_core.records.payloads`, errors in `yielded_core.errors`, ports in
`yielded_core.ports`.
"""

from __future__ import annotations

from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Appended, Batch, PreparedBatch, Tail, ThreadTail
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
    "SubmissionId",
    "Tail",
    "ThreadId",
    "ThreadTail",
    "ToolCallId",
    "TurnId",
    "instant_now",
    "open_storage",
    "prepare_batch",
]
