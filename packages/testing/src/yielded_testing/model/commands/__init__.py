"""Every command, by its name in a printed program."""

from __future__ import annotations

from yielded_testing.model.commands.lanes import (
    Admit,
    Claim,
    ClaimJoining,
    ClaimPast,
    MarkInputApplied,
    MarkJoined,
    MarkReady,
    Release,
    Renew,
    RequestAbort,
    RevertJoining,
)
from yielded_testing.model.commands.settling import (
    AttachChild,
    BeginRelease,
    Finalize,
    Publish,
    ReleaseChild,
    ReserveChild,
)
from yielded_testing.model.commands.store import (
    Advance,
    Append,
    AppendFact,
    Materialize,
    NewIncarnation,
    Reopen,
)
from yielded_testing.model.commands.waiting import (
    Decide,
    MarkUnknown,
    RecordChildSettled,
    Resolve,
    Suspend,
)

__all__ = [
    "Admit",
    "Advance",
    "Append",
    "AppendFact",
    "AttachChild",
    "BeginRelease",
    "Claim",
    "ClaimJoining",
    "ClaimPast",
    "Decide",
    "Finalize",
    "MarkInputApplied",
    "MarkJoined",
    "MarkReady",
    "MarkUnknown",
    "Materialize",
    "NewIncarnation",
    "Publish",
    "RecordChildSettled",
    "Release",
    "ReleaseChild",
    "Renew",
    "Reopen",
    "RequestAbort",
    "ReserveChild",
    "Resolve",
    "RevertJoining",
    "Suspend",
]
