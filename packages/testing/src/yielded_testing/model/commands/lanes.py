"""The commands that accept work, own lanes and join runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yielded_core.ports.work import Admission, Admitted, ClaimHandoff, JoiningGuard
from yielded_core.records.identifiers import (
    AttemptId,
    IdempotencyKey,
    OwnershipToken,
    Principal,
    ThreadId,
)
from yielded_testing.model.commands.base import Command
from yielded_testing.model.reference import joining, queueing

if TYPE_CHECKING:
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.store import Store


@dataclass(frozen=True, repr=False)
class Admit(Command):
    """Offer work to a lane."""

    lane: str
    key: str
    principal: str = "p"
    group: str | None = None
    input: int = 0
    linkage: str | None = None
    message: str | None = None

    @property
    def admission(self) -> Admission:
        """What is offered."""
        return Admission(
            ThreadId(self.lane),
            Principal(self.principal),
            IdempotencyKey(self.key),
            {"input": self.input},
            self.group,
            self.linkage,
            self.message,
        )

    async def ask(self, store: Store, world: World) -> Admitted:
        """Call the port."""
        del world
        return await store.storage.ledger.admit(self.admission)

    def learn(self, world: World, answer: object) -> None:
        """Learn the ids, which are new where the work is."""
        if isinstance(answer, Admitted):
            world.minted = (answer.submission_id, answer.receipt_id)

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.admit(world, self.admission)


@dataclass(frozen=True, repr=False)
class MarkReady(Command):
    """Let admitted work be claimed."""

    work: str

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.mark_ready(*world.named(self.work))

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.mark_ready(world, *world.named(self.work))


@dataclass(frozen=True, repr=False)
class Claim(Command):
    """Own a lane and its head."""

    lane: str
    token: str
    attempt: str
    lease: int

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.claim(
            ThreadId(self.lane),
            attempt=AttemptId(self.attempt),
            token=OwnershipToken(self.token),
            lease=self.lease,
            handoff=self.handoff_in(world),
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.claim(
            world,
            ThreadId(self.lane),
            AttemptId(self.attempt),
            OwnershipToken(self.token),
            self.lease,
            self.handoff_in(world),
        )

    def is_refusal(self, answer: object) -> bool:
        """Say whether nothing was granted."""
        return answer is None or super().is_refusal(answer)

    def handoff_in(self, world: World) -> ClaimHandoff | None:
        """Return what the claim passes over; nothing for a plain one."""
        del world
        return None


@dataclass(frozen=True, repr=False)
class ClaimPast(Claim):
    """Own a lane past deferred heads."""

    epoch: int
    deferred: tuple[str, ...]
    target: str

    def handoff_in(self, world: World) -> ClaimHandoff:
        """Return what the claim passes over."""
        deferred = tuple(world.named(each)[1] for each in self.deferred)
        return ClaimHandoff(self.epoch, deferred, world.named(self.target)[1])


@dataclass(frozen=True, repr=False)
class Renew(Command):
    """Extend an ownership."""

    lane: str
    token: str
    lease: int

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        del world
        token = OwnershipToken(self.token)
        return await store.storage.ledger.renew(ThreadId(self.lane), token=token, lease=self.lease)

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.renew(world, ThreadId(self.lane), OwnershipToken(self.token), self.lease)


@dataclass(frozen=True, repr=False)
class Release(Command):
    """End an ownership."""

    lane: str
    token: str

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        del world
        return await store.storage.ledger.release(
            ThreadId(self.lane), token=OwnershipToken(self.token)
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.release(world, ThreadId(self.lane), OwnershipToken(self.token))


@dataclass(frozen=True, repr=False)
class MarkInputApplied(Command):
    """Record where the input of owned work stands."""

    work: str
    token: str
    sequence: int

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.mark_input_applied(
            *world.named(self.work), token=OwnershipToken(self.token), sequence=self.sequence
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.mark_input_applied(
            world, *world.named(self.work), OwnershipToken(self.token), self.sequence
        )


@dataclass(frozen=True, repr=False)
class RequestAbort(Command):
    """Ask that work be aborted."""

    work: str
    author: str = "ann"
    reason: str = ""

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.request_abort(
            *world.named(self.work), author=self.author, reason=self.reason
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return queueing.request_abort(world, *world.named(self.work), self.author, self.reason)


@dataclass(frozen=True, repr=False)
class ClaimJoining(Command):
    """Take the ready work behind a host."""

    host: str
    token: str
    limit: int = 16

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.claim_joining(
            *world.named(self.host), token=OwnershipToken(self.token), limit=self.limit
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        token = OwnershipToken(self.token)
        return joining.claim_joining(world, *world.named(self.host), token, self.limit)


@dataclass(frozen=True, repr=False)
class MarkJoined(Command):
    """Record where the input of joining work stands."""

    work: str
    sequence: int

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.mark_joined(
            *world.named(self.work), sequence=self.sequence
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return joining.mark_joined(world, *world.named(self.work), self.sequence)


@dataclass(frozen=True, repr=False)
class RevertJoining(Command):
    """Give joining work back to the lane, guarded where a host is named."""

    work: str
    host: str | None = None
    token: str | None = None

    async def ask(self, store: Store, world: World) -> object:
        """Call the port."""
        return await store.storage.ledger.revert_joining(
            *world.named(self.work), guard=self._guard(world)
        )

    def predict(self, world: World) -> object:
        """Predict the answer."""
        return joining.revert_joining(world, *world.named(self.work), self._guard(world))

    def _guard(self, world: World) -> JoiningGuard | None:
        if self.host is None:
            return None
        return JoiningGuard(world.named(self.host)[1], _token(self.token))


def _token(token: str | None) -> OwnershipToken | None:
    return None if token is None else OwnershipToken(token)
