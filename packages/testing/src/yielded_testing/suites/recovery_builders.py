"""Situations that recovery has to decide about, brought about in a store through its ports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from yielded_core.ledger.recovery_decisions import FinalizeFromHistory, NothingToDo, SettleAborted
from yielded_core.ports.work import AwaitedChild, Reservation
from yielded_core.records.identifiers import RunId, SettlementId, ThreadId, ToolCallId
from yielded_core.recovering import assess
from yielded_testing.sample_parts import Subject, sample_operation
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import record
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_operations import DIGEST
from yielded_testing.suites.ledger_values import CALL, USER, work

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_core.ledger.recovery_decisions import RecoveryDecision
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record
    from yielded_core.records.payloads import Payload
    from yielded_core.storage import Storage

How: TypeAlias = tuple[str, str]
"""Execution class and execution kind of a declared call."""

IN_DOUBT: Final[How] = ("uncertain", "ordinary")
"""A call that may have happened once it is declared."""
REPEATABLE: Final[How] = ("idempotent", "ordinary")
DELEGATING: Final[How] = ("uncertain", "delegation")
SECOND: Final = ToolCallId("call-2")
CHILD_THREAD: Final = ThreadId("thread-of-the-child")
RESERVED: Final = Reservation(CALL, "reservation-1", DIGEST)
SPENT: Final[JsonValue] = {"toolCalls": 1}


def declaration(subject: Subject, calls: Iterable[tuple[ToolCallId, How]]) -> Payload:
    """Return the response of a subject's turn that declares calls."""
    declared = [(replace(subject, call=call), how) for call, how in calls]
    parts: list[JsonValue] = [
        {
            "type": "tool-call",
            "id": one.call,
            "name": "look-up",
            "params": {},
            "providerExecuted": False,
        }
        for one, _ in declared
    ]
    operations = tuple(
        sample_operation(one).model_copy(
            update={"execution_class": how[0], "execution_kind": how[1]}
        )
        for one, how in declared
    )
    changes: dict[str, object] = {
        "messages": {"content": [{"role": "assistant", "content": parts}]},
        "tool_operations": operations,
        "run_scoped_prefix_length": None,
    }
    return sample_payload("ModelResponseRecorded", subject).model_copy(update=changes)


async def decided(lane: LaneScript, key: str, storage: Storage | None = None) -> RecoveryDecision:
    """Return what recovery decides about a submission, perhaps as another storage shows it."""
    return await assess(storage or lane.storage, lane.thread, lane.id(key))


def replacing(
    storage: Storage,
    *,
    threads: dict[str, object] | None = None,
    ledger: dict[str, object] | None = None,
) -> Storage:
    """Return a storage of which some reads are others."""
    ports = SimpleNamespace(
        threads=_Replaced(storage.threads, threads or {}),
        ledger=_Replaced(storage.ledger, ledger or {}),
    )
    return cast("Storage", cast("object", ports))


class _Replaced:
    """A port that passes everything on but some operations."""

    def __init__(self, inner: object, operations: dict[str, object]) -> None:
        self._inner = inner
        self._operations = operations

    def __getattr__(self, name: str) -> object:
        return self._operations.get(name) or getattr(self._inner, name)


@dataclass
class RunLog:
    """Writes records of the run of one submission into the log of its lane."""

    lane: LaneScript
    key: str
    written: int = 0

    @staticmethod
    async def begin(lane: LaneScript, key: str) -> RunLog:
        """Admit and claim work whose input stands in the log and is marked."""
        await lane.run(key)
        await lane.apply_input(key)
        return RunLog(lane, key)

    def named(self, payload: Payload) -> Record:
        """Return a payload as the next record of the run."""
        self.written += 1
        return record(f"{self.key}/{self.written}", payload)

    def subject(self, call: str = CALL, turn: int = 1) -> Subject:
        """Return the submission, its run, and a call of a turn."""
        submission = self.lane.id(self.key)
        return Subject(submission, RunId(f"run:{submission}"), turn, ToolCallId(call), "done")

    def fact(self, tag: str, call: str = CALL, *, turn: int = 1, **changes: object) -> Record:
        """Return a record of a family; `changes` are of its payload."""
        payload = sample_payload(tag, self.subject(call, turn))
        return self.named(payload.model_copy(update=changes))

    async def tell(self, tag: str, call: str = CALL, **changes: object) -> int:
        """Append a record of a family about the first turn and return its sequence."""
        return (await self.lane.append(self.fact(tag, call, turn=1, **changes))).sequence

    async def declare(self, *hows: How, turn: int = 1, first: int = 1) -> None:
        """Append a response that declares calls, `call-1` and so on unless others come first."""
        numbers = range(first, first + len(hows))
        calls = [
            (self.subject(f"call-{number}", turn).call, how)
            for number, how in zip(numbers, hows, strict=True)
        ]
        response = self.named(declaration(self.subject(turn=turn), calls))
        await self.lane.append(response)


@dataclass
class Delegated:
    """A parent whose run declared one delegation, and the lane of the child that it asks for."""

    parent: LaneScript
    log: RunLog
    child: LaneScript

    @staticmethod
    async def begin(storage: Storage) -> Delegated:
        """Let a parent declare a delegation, and do nothing about it yet."""
        parent = await LaneScript.begin(storage)
        log = await RunLog.begin(parent, "parent")
        await log.declare(DELEGATING)
        return Delegated(parent, log, LaneScript(storage, CHILD_THREAD))

    @property
    def named(self) -> AwaitedChild:
        """The child as a parent names it."""
        return AwaitedChild(CHILD_THREAD, self.child.id("child"))

    async def decided(self, storage: Storage | None = None) -> RecoveryDecision:
        """Return what recovery decides about the parent."""
        return await decided(self.parent, "parent", storage)

    async def reserve(self) -> None:
        """Reserve for the child."""
        given = await self.parent.ledger.reserve_child(
            self.parent.thread,
            self.parent.id("parent"),
            token=self.parent.token,
            call=CALL,
            reservation_id=RESERVED.reservation_id,
            digest=DIGEST,
        )
        assert given == RESERVED

    async def request(self) -> None:
        """Record that the child is asked for."""
        await self.log.tell(
            "SubagentRequested",
            child_thread_id=CHILD_THREAD,
            child_principal=USER,
            child_idempotency_key="child",
        )

    async def admit(self) -> None:
        """Admit the child, as linked to its parent."""
        given = work("child", thread=CHILD_THREAD, linkage={"parent": "thread-1"})
        self.child.receipts["child"] = await self.child.ledger.admit(given)

    async def start(self) -> None:
        """Record that the child exists."""
        await self.log.tell(
            "SubagentStarted",
            child_thread_id=CHILD_THREAD,
            child_submission_id=self.child.id("child"),
            child_receipt_id=self.child.receipts["child"].receipt_id,
        )

    async def attach(self) -> None:
        """Name the child in its reservation."""
        await self.parent.ledger.attach_child(
            self.parent.thread,
            self.parent.id("parent"),
            token=self.parent.token,
            call=CALL,
            child=self.named,
        )

    async def link(self) -> None:
        """Take every step up to a child that its parent names."""
        await self.reserve()
        await self.request()
        await self.admit()
        await self.start()
        await self.attach()

    async def run_child(self) -> None:
        """Let the child be claimed and claim it."""
        await self.child.storage.threads.materialize(CHILD_THREAD, epoch=1)
        await self.child.ledger.mark_ready(CHILD_THREAD, self.child.id("child"))
        await self.child.claim()

    async def told(self) -> str:
        """Tell the parent that the child is published."""
        return await self.parent.ledger.record_child_settled(
            self.parent.thread, self.parent.id("parent"), child=self.named
        )

    async def join(self) -> None:
        """Record the join with the result of the call."""
        child = self.child.id("child")
        joined = self.log.fact(
            "SubagentJoined",
            child_submission_id=child,
            child_settlement_id=SettlementId(f"settlement:{child}"),
        )
        await self.parent.append(self.log.fact("ToolCallSettled"), joined)

    async def begin_release(self, accounting: JsonValue = SPENT) -> Reservation:
        """Freeze the accounting of the reservation."""
        return await self.parent.ledger.begin_release(
            self.parent.thread,
            self.parent.id("parent"),
            token=self.parent.token,
            call=CALL,
            accounting=accounting,
        )

    async def release(self) -> None:
        """Free the reservation."""
        await self.parent.ledger.release_child(
            self.parent.thread, self.parent.id("parent"), token=self.parent.token, call=CALL
        )


async def settle_as_decided(lane: LaneScript, key: str) -> None:
    """Settle work as aborted by the authority that recovery decides on, until nothing is owed."""
    decision = await decided(lane, key)
    assert isinstance(decision, SettleAborted)
    await lane.publish(key, "aborted", authority=decision.authority)
    assert await decided(lane, key) == FinalizeFromHistory()
    await lane.finalize(key)
    assert await decided(lane, key) == NothingToDo()
