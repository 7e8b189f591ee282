"""The commands about waiting, and about what nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yielded_core.ports.work import AwaitedChild, Suspension
from yielded_core.records.identifiers import OwnershipToken, ToolCallId
from yielded_testing.model.commands.base import Command
from yielded_testing.model.commands.records import run_of
from yielded_testing.model.reference import waiting

if TYPE_CHECKING:
    from yielded_core.ports.work import Decision, Resolution
    from yielded_core.records.bounded_json import JsonValue
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.store import Store


@dataclass(frozen=True, repr=False)
class Suspend(Command):
    """Wait for the approval of calls, or for children on other lanes."""

    work: str
    token: str
    approvals: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    despite_abort: bool = False

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.suspend(
            *world.named(self.work),
            token=OwnershipToken(self.token),
            waiting_for=self._waits(world),
            despite_abort=self.despite_abort,
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        token = OwnershipToken(self.token)
        return waiting.suspend(
            world,
            *world.named(self.work),
            token,
            self._waits(world),
            despite_abort=self.despite_abort,
        )

    def _waits(self, world: World) -> Suspension:
        return Suspension(
            tuple(ToolCallId(call) for call in self.approvals),
            tuple(AwaitedChild(*world.named(child)) for child in self.children),
        )


@dataclass(frozen=True, repr=False)
class Decide(Command):
    """Approve or deny a call."""

    work: str
    call: str
    decision: Decision
    resolver: str = "ann"

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.record_approval_decision(
            *world.named(self.work),
            ToolCallId(self.call),
            decision=self.decision,
            resolver=self.resolver,
            reason="",
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        call = ToolCallId(self.call)
        return waiting.decide(
            world, *world.named(self.work), call, self.decision, self.resolver, ""
        )


@dataclass(frozen=True, repr=False)
class RecordChildSettled(Command):
    """Tell a parent that a child's settlement is published."""

    work: str
    child: str

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        child = AwaitedChild(*world.named(self.child))
        return await store.storage.ledger.record_child_settled(*world.named(self.work), child=child)

    def predict(self, world: World) -> object:
        """Predict the answer."""
        child = AwaitedChild(*world.named(self.child))
        return waiting.record_child_settled(world, *world.named(self.work), child)


@dataclass(frozen=True, repr=False)
class MarkUnknown(Command):
    """Park work whose calls have unknown outcomes."""

    work: str
    calls: tuple[str, ...]
    reason: str = ""

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        thread, submission = world.named(self.work)
        return await store.storage.ledger.mark_unknown(
            thread, submission, run=run_of(submission), calls=self._calls()
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        thread, submission = world.named(self.work)
        return waiting.mark_unknown(world, thread, submission, run_of(submission), self._calls())

    def _calls(self) -> list[tuple[ToolCallId, str]]:
        return [(ToolCallId(call), self.reason) for call in self.calls]


@dataclass(frozen=True, repr=False)
class Resolve(Command):
    """Say what happened to a call of unknown outcome, or what to do."""

    work: str
    call: str
    resolution: Resolution
    result: int | None = None
    author: str = "ann"

    @property
    def title(self) -> str:
        """What it is counted as: each resolution by itself."""
        return f"Resolve {self.resolution}"

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.record_unknown_resolution(
            *world.named(self.work),
            ToolCallId(self.call),
            resolution=self.resolution,
            author=self.author,
            reason="",
            result=self._result(),
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        place = world.named(self.work)
        call = ToolCallId(self.call)
        said = (self.author, "")
        return waiting.resolve(world, *place, call, self.resolution, said, self._result())

    def _result(self) -> JsonValue:
        return None if self.result is None else {"value": self.result}
