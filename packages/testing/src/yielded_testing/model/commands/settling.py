"""The commands about children's reservations and about settlement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yielded_core.ports.work import AwaitedChild, Reservation
from yielded_core.records.identifiers import (
    Digest,
    OwnershipToken,
    ProducerId,
    ReceiptId,
    SettlementId,
    ToolCallId,
)
from yielded_testing.model.commands.base import Command
from yielded_testing.model.commands.records import settlement_record
from yielded_testing.model.reference import settling
from yielded_testing.model.reference.settling import PublishedView
from yielded_testing.model.reference.world import NOBODY

if TYPE_CHECKING:
    from yielded_core.ports.work import Authority, Outcome
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import ThreadId
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.store import Store

PRODUCER = ProducerId("settler")


@dataclass(frozen=True, repr=False)
class ReserveChild(Command):
    """Reserve for the one child of a call; what is reserved is told apart by one digit."""

    work: str
    token: str
    call: str
    content: str

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        wanted = self._wanted()
        return await store.storage.ledger.reserve_child(
            *world.named(self.work),
            token=OwnershipToken(self.token),
            call=wanted.tool_call_id,
            reservation_id=wanted.reservation_id,
            digest=wanted.digest,
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        token = OwnershipToken(self.token)
        return settling.reserve(world, *world.named(self.work), token, self._wanted())

    def _wanted(self) -> Reservation:
        return Reservation(
            ToolCallId(self.call), f"reservation {self.call}", Digest(self.content * 64)
        )


@dataclass(frozen=True, repr=False)
class AttachChild(Command):
    """Name the child of a reservation."""

    work: str
    token: str
    call: str
    child: str

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.attach_child(
            *world.named(self.work),
            token=OwnershipToken(self.token),
            call=ToolCallId(self.call),
            child=AwaitedChild(*world.named(self.child)),
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        token, call = OwnershipToken(self.token), ToolCallId(self.call)
        child = AwaitedChild(*world.named(self.child))
        return settling.attach(world, *world.named(self.work), token, call, child)


@dataclass(frozen=True, repr=False)
class BeginRelease(Command):
    """Freeze the accounting of a reservation."""

    work: str
    token: str
    call: str
    spent: int

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.begin_release(
            *world.named(self.work),
            token=OwnershipToken(self.token),
            call=ToolCallId(self.call),
            accounting={"spent": self.spent},
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        token, call = OwnershipToken(self.token), ToolCallId(self.call)
        place = world.named(self.work)
        return settling.begin_release(world, *place, token, call, {"spent": self.spent})


@dataclass(frozen=True, repr=False)
class ReleaseChild(Command):
    """Free a reservation."""

    work: str
    token: str
    call: str

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.release_child(
            *world.named(self.work), token=OwnershipToken(self.token), call=ToolCallId(self.call)
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        token, call = OwnershipToken(self.token), ToolCallId(self.call)
        return settling.release_child(world, *world.named(self.work), token, call)


@dataclass(frozen=True, repr=False)
class Publish(Command):
    """Append the settlement record of work."""

    work: str
    token: str
    authority: Authority
    outcome: Outcome
    value: int = 0
    finalize: bool = False
    wrong_receipt: bool = False

    @property
    def title(self) -> str:
        """What it is counted as: each authority by itself."""
        return f"Publish {self.authority}"

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        thread, record = self._record(world)
        done = await store.storage.settlements.publish(
            thread,
            record,
            producer=PRODUCER,
            token=OwnershipToken(self.token),
            authority=self.authority,
            finalize=self.finalize,
        )
        return PublishedView(done.record.sequence, done.record.wire, done.tail, done.replayed)

    def predict(self, world: World) -> object:
        """Predict the answer."""
        thread, record = self._record(world)
        return settling.publish(
            world,
            thread,
            record,
            PRODUCER,
            OwnershipToken(self.token),
            self.authority,
            finalize=self.finalize,
        )

    def _record(self, world: World) -> tuple[ThreadId, Record]:
        thread, submission = world.named(self.work)
        receipt = ReceiptId("another receipt")
        if not self.wrong_receipt and submission != NOBODY:
            receipt = world.find(thread, submission)[1].receipt
        return thread, settlement_record(submission, receipt, self.outcome, self.value)


@dataclass(frozen=True, repr=False)
class Finalize(Command):
    """Project the canonical settlement record."""

    work: str
    another: bool = False
    """Whether it names another settlement id."""

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.finalize_settlement(
            *world.named(self.work), settlement=self._settlement(world)
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        place = world.named(self.work)
        return settling.finalize_settlement(world, *place, self._settlement(world))

    def _settlement(self, world: World) -> SettlementId:
        _, submission = world.named(self.work)
        return SettlementId("settlement:another" if self.another else f"settlement:{submission}")
