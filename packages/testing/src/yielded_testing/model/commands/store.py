"""The commands about the thread log, time, and the store itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from yielded_core.ports.values import Batch, Tail
from yielded_core.records.identifiers import BatchId, ProducerId, ReceiptId, ThreadId
from yielded_testing.model.commands.base import Command
from yielded_testing.model.commands.records import (
    abort_record,
    input_record,
    result_record,
    settlement_record,
)
from yielded_testing.model.reference import journal, queueing
from yielded_testing.model.reference.world import NOBODY
from yielded_testing.suites.builders import EMPTY, NOWHERE, note

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.store import Store

Content: TypeAlias = Literal["note", "input", "abort", "result", "settlement"]
"""What an append holds: a note of no run, or a record of some submission."""

_PRODUCER = ProducerId("writer")


@dataclass(frozen=True, repr=False)
class Materialize(Command):
    """Register a thread, or take it over."""

    ledger: ClassVar[bool] = False
    lane: str
    epoch: int

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        del world
        return await store.storage.threads.materialize(ThreadId(self.lane), epoch=self.epoch)

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.materialize(world, ThreadId(self.lane), self.epoch)


@dataclass(frozen=True, repr=False)
class Append(Command):
    """Append one record to a log."""

    ledger: ClassVar[bool] = False
    lane: str
    content: Content
    epoch: int
    after: int
    """Sequence of the tail that is expected."""
    about: int = 0
    """The place of the submission, or the number of the note."""
    call: str = "c1"
    value: int = 0
    """Tells records apart that have one id."""
    batch: str | None = None
    """A batch id in the place of the one that such a record has."""

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        thread = ThreadId(self.lane)
        return await store.storage.threads.append(
            thread, self._batch(world), expected=self._expected(world), epoch=self.epoch
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        thread = ThreadId(self.lane)
        return journal.append(world, thread, self._batch(world), self._expected(world), self.epoch)

    def _expected(self, world: World) -> Tail:
        for written in world.queue(ThreadId(self.lane)).log:
            if written.tail.sequence == self.after:
                return written.tail
        return Tail(self.after, NOWHERE) if self.after else EMPTY

    def _batch(self, world: World) -> Batch:
        record = self._record(world)
        return Batch(BatchId(self.batch or f"batch of {record.record_id}"), _PRODUCER, (record,))

    def _record(self, world: World) -> Record:
        if self.content == "note":
            return note(f"note-{self.about}", self.value)
        thread, submission = world.named(f"{self.lane}{self.about}")
        if self.content == "input":
            return input_record(submission, self.value)
        if self.content == "abort":
            return abort_record(submission)
        if self.content == "result":
            return result_record(submission, self.call, self.value)
        receipt = ReceiptId("nobody's")
        if submission != NOBODY:
            receipt = world.find(thread, submission)[1].receipt
        return settlement_record(submission, receipt, "completed", self.value)


@dataclass(frozen=True, repr=False)
class Advance(Command):
    """Let time pass."""

    ledger: ClassVar[bool] = False
    milliseconds: int

    async def ask(self, store: Store, world: World) -> object:
        """Move the clock of the store."""
        del world
        store.clock.advance(self.milliseconds)

    def predict(self, world: World) -> object:
        """Move the clock of the model."""
        world.now += self.milliseconds


@dataclass(frozen=True, repr=False)
class NewIncarnation(Command):
    """Begin a new timeline."""

    ledger: ClassVar[bool] = False

    async def ask(self, store: Store, world: World) -> object:
        """Call the storage; the name of the timeline is its own affair."""
        del world
        await store.storage.new_incarnation()

    def predict(self, world: World) -> object:
        """Raise the epochs."""
        queueing.new_incarnation(world)


@dataclass(frozen=True, repr=False)
class Reopen(Command):
    """Lose the storage and open its store again."""

    ledger: ClassVar[bool] = False

    async def ask(self, store: Store, world: World) -> object:
        """Open the store again."""
        del world
        await store.reopen()

    def predict(self, world: World) -> object:
        """Predict that nothing changed: what was acknowledged stays, ownership included."""
