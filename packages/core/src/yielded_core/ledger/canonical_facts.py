"""What the log says about the run of one submission, read from its records (RCV-4 to RCV-10).

A call that was declared may have happened unless the log proves that it did not: a declaration is
committed before any handler starts, and nothing is committed when one does (CRD-3, CRD-5).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from yielded_core.errors import EvidenceFault
from yielded_core.ledger.recovery_evidence import (
    CanonicalFacts,
    ChildKey,
    DeclaredBatch,
    Delegation,
)
from yielded_core.ports.work import ApprovalDecision, AwaitedChild
from yielded_core.records.identifiers import run_id
from yielded_core.records.payloads import (
    ModelResponseRecorded,
    RunCompleted,
    RunFailed,
    SubagentJoined,
    SubagentLineageRecorded,
    SubagentRequested,
    SubagentStarted,
    ToolApprovalDecided,
    ToolApprovalRequested,
    ToolCallResolved,
    ToolCallSettled,
    ToolCallUnknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yielded_core.ports.work import Submission
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import ThreadId, ToolCallId
    from yielded_core.records.payloads import Operation

_APPROVALS: Final = (ToolApprovalRequested, ToolApprovalDecided)
_OUTCOMES: Final = (ToolCallSettled, ToolCallUnknown, ToolCallResolved)
_CHILDREN: Final = (SubagentRequested, SubagentStarted, SubagentJoined)
_ENDS: Final = (RunCompleted, RunFailed)
_FAMILIES: Final = (ModelResponseRecorded, *_APPROVALS, *_OUTCOMES, *_CHILDREN, *_ENDS)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def canonical_facts(
    submission: Submission, records: Iterable[StoredRecord], *, child: bool = False
) -> CanonicalFacts:
    """Read the facts from the evidence of the submission's run, ascending, up to the snapshot.

    Records of other runs are passed over. `child` says that the submission was admitted for a
    parent; `records` then begin with the second one of its thread, which may be the lineage. Raises
    EvidenceFault (`evidence-missing`) where a child is told of that nobody requested.
    """
    run = run_id(submission.submission_id)
    replay = _Replay(submission.thread_id)
    lineage = False
    for stored in records:
        payload = stored.record.payload
        if isinstance(payload, SubagentLineageRecorded):
            lineage = True
        elif isinstance(payload, _FAMILIES) and payload.run_id == run:
            replay.apply(stored)
    return replay.facts(awaits_lineage=child and not lineage)


@dataclass(slots=True)
class _Call:
    """What the records so far say about one tool call."""

    name: ToolCallId
    turn: int = 0
    operation: Operation | None = None
    settled: bool = False
    unknown: bool = False
    """Its outcome was found to be unknown, and nobody resolved it since."""
    resolution: str | None = None
    """How it was resolved, unless its outcome was found to be unknown again since."""
    requested: bool = False
    blocks_turn: bool = False
    """The request came before any call of its turn could be dispatched."""
    decision: ApprovalDecision | None = None
    child: ChildKey | None = None
    started: AwaitedChild | None = None
    joined: bool = False

    @property
    def delegates(self) -> bool:
        """Say whether it was declared to delegate."""
        return self.operation is not None and self.operation.execution_kind == "delegation"

    def may_have_happened(self, blocked: set[int]) -> bool:
        """Say whether it was left in doubt: neither repeatable, nor proven not to have begun."""
        declared = self.operation
        if declared is None or declared.execution_kind != "ordinary":
            return False
        if declared.execution_class != "uncertain" or self.turn in blocked:
            return False
        return not self.requested or (
            self.decision is not None and self.decision.decision == "approved"
        )


class _Replay:
    """The calls of one run, after the records applied so far."""

    def __init__(self, thread: ThreadId) -> None:
        self._thread = thread
        self._calls: dict[ToolCallId, _Call] = {}
        self._batches: list[tuple[int, tuple[_Call, ...]]] = []
        self._ended = False

    def apply(self, stored: StoredRecord) -> None:
        """Apply the next record of the run."""
        payload = stored.record.payload
        if isinstance(payload, ModelResponseRecorded):
            self._declare(payload)
        elif isinstance(payload, _APPROVALS):
            self._apply_approval(payload, stored.record.created_at)
        elif isinstance(payload, _OUTCOMES):
            self._apply_outcome(payload)
        elif isinstance(payload, _CHILDREN):
            self._apply_child(payload)
        elif isinstance(payload, _ENDS):
            self._ended = True

    def facts(self, *, awaits_lineage: bool) -> CanonicalFacts:
        """Return what they say."""
        batch = None if self._ended else self._unfinished()
        turn, calls = (0, ()) if batch is None else batch
        return CanonicalFacts(
            open_calls=tuple(self._open_calls()),
            closed_calls=frozenset(
                call.name
                for call in self._calls.values()
                if call.settled or call.resolution is not None or self._ended
            ),
            retriable_calls=frozenset(
                call.name
                for call in self._calls.values()
                if call.resolution == "safe-retry" and not call.settled and not self._ended
            ),
            approvals=tuple(call.name for call in calls if call.requested),
            decisions=tuple(call.decision for call in calls if call.decision is not None),
            delegations=tuple(self._delegations()),
            batch=None
            if batch is None
            else DeclaredBatch(turn, tuple(call.name for call in calls if not call.settled)),
            awaits_lineage=awaits_lineage,
        )

    def _call(self, name: ToolCallId, turn: int = 0) -> _Call:
        call = self._calls.setdefault(name, _Call(name))
        call.turn = call.turn or turn
        return call

    def _declare(self, payload: ModelResponseRecorded) -> None:
        declared = tuple(
            _Call(operation.tool_call_id, payload.turn, operation)
            for operation in payload.tool_operations
        )
        self._batches.append((payload.turn, declared))
        self._calls.update((call.name, call) for call in declared)

    def _apply_approval(
        self, payload: ToolApprovalRequested | ToolApprovalDecided, created_at: datetime
    ) -> None:
        call = self._call(payload.tool_call_id, payload.turn)
        if isinstance(payload, ToolApprovalRequested):
            call.requested = True
            call.blocks_turn = payload.blocks_initial_dispatch
            return
        instant = (created_at - _EPOCH) // _MILLISECOND
        call.decision = ApprovalDecision(
            call.name, payload.decision, payload.resolver, payload.reason, instant
        )

    def _apply_outcome(self, payload: ToolCallSettled | ToolCallUnknown | ToolCallResolved) -> None:
        call = self._call(payload.tool_call_id)
        if isinstance(payload, ToolCallSettled):
            call.settled = True
        elif isinstance(payload, ToolCallUnknown):
            call.unknown, call.resolution = True, None
        else:
            call.unknown, call.resolution = False, payload.resolution

    def _apply_child(self, payload: SubagentRequested | SubagentStarted | SubagentJoined) -> None:
        if isinstance(payload, SubagentRequested):
            self._call(payload.tool_call_id, payload.turn).child = ChildKey(
                payload.child_thread_id, payload.child_principal, payload.child_idempotency_key
            )
            return
        call = self._call(payload.tool_call_id)
        if call.child is None:
            detail = f"{payload.tag} of {call.name} has no SubagentRequested"
            raise EvidenceFault(self._thread, "evidence-missing", detail)
        if isinstance(payload, SubagentStarted):
            call.started = AwaitedChild(payload.child_thread_id, payload.child_submission_id)
        else:
            call.joined = True

    def _unfinished(self) -> tuple[int, tuple[_Call, ...]] | None:
        """Return the oldest declared batch of which a call has no result."""
        return next(
            (batch for batch in self._batches if not all(call.settled for call in batch[1])), None
        )

    def _open_calls(self) -> Iterator[ToolCallId]:
        if self._ended:
            return
        blocked = {
            call.turn
            for call in self._calls.values()
            if call.blocks_turn and call.decision is None and not call.settled
        }
        for call in self._calls.values():
            if call.settled or call.delegates:
                continue
            if call.unknown or (call.resolution is None and call.may_have_happened(blocked)):
                yield call.name

    def _delegations(self) -> Iterator[Delegation]:
        for call in self._calls.values():
            if call.delegates or call.child is not None:
                yield Delegation(
                    call.name,
                    call.turn,
                    open=not call.settled
                    and not self._ended
                    and (call.operation is None or call.delegates),
                    request=call.child,
                    started=call.started,
                    joined=call.joined,
                )
