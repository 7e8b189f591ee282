"""The payload families of the record format `effect-agent/thread@3` (REC-6), by their `_tag`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from yielded_core.records.payloads.delegation import (
    SubagentJoined,
    SubagentLineageRecorded,
    SubagentRequested,
    SubagentStarted,
)
from yielded_core.records.payloads.handoffs import (
    PeerMessagePrepared,
    RepairAnnotated,
    WorkHandoffCompleted,
)
from yielded_core.records.payloads.models import (
    ModelCallAborted,
    ModelCompleted,
    ModelResponseInterrupted,
    ModelResponseRecorded,
)
from yielded_core.records.payloads.parts import (
    Accounting,
    Definitions,
    Diagnostic,
    EvidenceReference,
    ModelUsage,
    Operation,
    ParentLink,
    ReplayDefinitions,
    RetainedRecord,
)
from yielded_core.records.payloads.runs import (
    CompactionCreated,
    RunCompleted,
    RunContextRecorded,
    RunContinuation,
    RunDurationExhausted,
    RunFailed,
    RunPolicyUsageReserved,
    RunStarted,
    ThreadCreated,
    UserInputRecorded,
)
from yielded_core.records.payloads.submissions import AbortRequested, SubmissionSettled
from yielded_core.records.payloads.tools import (
    ToolApprovalDecided,
    ToolApprovalRequested,
    ToolCallResolved,
    ToolCallSettled,
    ToolCallUnknown,
    ToolStepSettled,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.records.model import WireModel

Payload: TypeAlias = (
    ThreadCreated
    | UserInputRecorded
    | RunStarted
    | RunContextRecorded
    | ModelResponseRecorded
    | ModelCompleted
    | ModelResponseInterrupted
    | ModelCallAborted
    | ToolCallSettled
    | ToolCallUnknown
    | ToolCallResolved
    | ToolStepSettled
    | ToolApprovalRequested
    | ToolApprovalDecided
    | RunPolicyUsageReserved
    | RunDurationExhausted
    | CompactionCreated
    | RunContinuation
    | RunCompleted
    | RunFailed
    | AbortRequested
    | SubmissionSettled
    | SubagentRequested
    | SubagentStarted
    | SubagentJoined
    | SubagentLineageRecorded
    | PeerMessagePrepared
    | WorkHandoffCompleted
    | RepairAnnotated
)
"""Every family; a record's payload is one of them, told apart by `tag` (`_tag` on the wire)."""

PAYLOADS: Final[Mapping[str, type[WireModel]]] = MappingProxyType(
    {family.__name__: family for family in get_args(Payload)}
)
"""The families by their tag."""

__all__ = [
    "PAYLOADS",
    "AbortRequested",
    "Accounting",
    "CompactionCreated",
    "Definitions",
    "Diagnostic",
    "EvidenceReference",
    "ModelCallAborted",
    "ModelCompleted",
    "ModelResponseInterrupted",
    "ModelResponseRecorded",
    "ModelUsage",
    "Operation",
    "ParentLink",
    "Payload",
    "PeerMessagePrepared",
    "RepairAnnotated",
    "ReplayDefinitions",
    "RetainedRecord",
    "RunCompleted",
    "RunContextRecorded",
    "RunContinuation",
    "RunDurationExhausted",
    "RunFailed",
    "RunPolicyUsageReserved",
    "RunStarted",
    "SubagentJoined",
    "SubagentLineageRecorded",
    "SubagentRequested",
    "SubagentStarted",
    "SubmissionSettled",
    "ThreadCreated",
    "ToolApprovalDecided",
    "ToolApprovalRequested",
    "ToolCallResolved",
    "ToolCallSettled",
    "ToolCallUnknown",
    "ToolStepSettled",
    "UserInputRecorded",
    "WorkHandoffCompleted",
]
