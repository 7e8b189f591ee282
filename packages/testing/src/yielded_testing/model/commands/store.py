"""The commands about the thread log, time, and the store itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from yielded_core.ports.values import Batch, Tail
from yielded_core.records.identifiers import BatchId, ProducerId, ReceiptId, ThreadId
from yielded_testing.model.commands.base import Command
from yielded_testing.model.commands.facts import child_named, fact_records
from yielded_testing.model.commands.records import (
    abort_record,
    input_record,
    result_record,
    settlement_record,
    thread_record,
)
from yielded_testing.model.reference import journal, queueing
from yielded_testing.model.reference.world import NOBODY
from yielded_testing.suites.builders import EMPTY, NOWHERE, note

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record
    from yielded_testing.model.commands.facts import Fact
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.store import Store

Content: TypeAlias = Literal["note", "created", "lineage", "input", "abort", "result", "settlement"]
"""What an append holds: a note of no run, what the thread is, or a record of some submission."""

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
class Appending(Command):
    """Append a batch to a log."""

    ledger: ClassVar[bool] = False
    lane: str
    epoch: int
    after: int
    """Sequence of the tail that is expected."""

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        thread = ThreadId(self.lane)
        return await store.storage.threads.append(
            thread, self.batch_in(world), expected=self._expected(world), epoch=self.epoch
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        thread = ThreadId(self.lane)
        return journal.append(
            world, thread, self.batch_in(world), self._expected(world), self.epoch
        )

    def batch_in(self, world: World) -> Batch:
        """Return the batch, named for the last of its records."""
        records = self.records_in(world)
        return Batch(BatchId(f"batch of {records[-1].record_id}"), _PRODUCER, records)

    @abstractmethod
    def records_in(self, world: World) -> tuple[Record, ...]:
        """Return the records."""

    def _expected(self, world: World) -> Tail:
        for written in world.queue(ThreadId(self.lane)).log:
            if written.tail.sequence == self.after:
                return written.tail
        return Tail(self.after, NOWHERE) if self.after else EMPTY


@dataclass(frozen=True, repr=False)
class Append(Appending):
    """Append one record to a log."""

    content: Content
    about: int = 0
    """The place of the submission, or the number of the note."""
    call: str = "c1"
    value: int = 0
    """Tells records apart that have one id."""
    batch: str | None = None
    """A batch id in the place of the one that such a record has."""

    def batch_in(self, world: World) -> Batch:
        """Return the batch."""
        made = super().batch_in(world)
        return made if self.batch is None else replace(made, batch_id=BatchId(self.batch))

    def records_in(self, world: World) -> tuple[Record, ...]:
        """Return the one record."""
        return (self._record(world),)

    def _record(self, world: World) -> Record:
        if self.content == "note":
            return note(f"note-{self.about}", self.value)
        if self.content in {"created", "lineage"}:
            return thread_record(self.content)
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
class AppendFact(Appending):
    """Append what a call of some work's run came to."""

    about: int
    """The place of the submission."""
    fact: Fact
    call: str
    child: str | None = None
    """The child that the call is said to have."""

    def records_in(self, world: World) -> tuple[Record, ...]:
        """Return the records: two where the family asks for company."""
        _, submission = world.named(f"{self.lane}{self.about}")
        child = None if self.child is None else child_named(world, self.child)
        return fact_records(submission, self.fact, self.call, child)


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
