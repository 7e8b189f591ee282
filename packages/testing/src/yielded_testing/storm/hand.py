"""A worker of lanes, as the tests of the ledger need one: it works, goes stale, and says it all."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from yielded_core.errors import FenceRejected, OwnershipLost
from yielded_testing.storm.operations import BACK_OFF_SECONDS, Held, Operations, Work, number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from yielded_core.records.identifiers import ThreadId

LAST_LEASE: Final = (5_000, 10_000)
"""Milliseconds of a lease at the end, when every task is after the same few lanes: whoever gets one
must be able to settle its work, however slow that makes the store."""
KEPT: Final = 2
"""Grants that a task keeps at most until somebody else has claimed their lanes."""


@dataclass
class Hand(Operations):
    """One task that does what a worker of lanes does, and says it."""

    ending: asyncio.Event = field(default_factory=asyncio.Event)
    lanes: Sequence[ThreadId] = ()
    kept: list[Held] = field(default_factory=list[Held])

    async def run(self) -> None:
        """Work until the end is asked for and nothing is owed any more."""
        while await self._work_once() or not self.ending.is_set() or await self._is_owed():
            if self.ending.is_set():
                self.lease = LAST_LEASE
        await self._return_to_kept()
        assert not self.kept, "nobody claimed a lane whose owner went stale"

    async def _is_owed(self) -> bool:
        """Say whether work is left; what a killed process admitted is made ready."""
        ledger = self.storage.ledger
        owed = await self.ask(lambda: ledger.scan_nonterminal(limit=1_024))
        for each in owed:
            if each.state == "admitted":
                await self.ask(partial(ledger.mark_ready, each.thread_id, each.submission_id))
        return bool(owed)

    async def _work_once(self) -> bool:
        """Work on a lane, if one can be claimed; say whether there was any."""
        hints = await self.ask(self.storage.ledger.runnable)
        if hints:
            lane = self.chance.choice(hints).thread_id
            held = await self.claim(lane)
            if held is not None:
                with suppress(FenceRejected, OwnershipLost):  # too slow: said already
                    await self._carry_on(held)
        else:
            await asyncio.sleep(BACK_OFF_SECONDS)
        if not self.ending.is_set() and self.chance.random() < 0.03:
            await self._abort_an_owner()
        await self._return_to_kept()
        return bool(hints)

    async def _carry_on(self, held: Held) -> None:
        """Do what is left of a submission, or a part of it and keep the grant."""
        load = self.storage.ledger.load_recovery_snapshot
        found = await self.ask(lambda: load(held.work.lane, held.work.submission))
        if found.settlement_published:
            await self.finalize(held)
            return
        held.input_at = found.input_sequence
        steps: tuple[Callable[[Held], Coroutine[Any, Any, None]], ...]
        steps = (self._offer_more, self.apply_input, self._write_notes, self._settle)
        goes_stale = len(self.kept) < KEPT and self.chance.random() < 0.3
        left = self.chance.randrange(len(steps)) if goes_stale and not self.ending.is_set() else 4
        if left < len(steps):
            self.kept.append(held)
        for step in steps[:left]:
            await step(held)
        if left == 1 and self.chance.random() < 0.3:
            self.kept.remove(held)
            await self.release(held)

    async def _return_to_kept(self) -> None:
        """Act on each kept grant whose lane somebody else has claimed."""
        for held in tuple(self.kept):
            lane = await self.ask(partial(self.storage.ledger.lane, held.work.lane))
            if lane is not None and lane.epoch > held.epoch:
                self.kept.remove(held)
                await self.act_stale(held)

    async def act_stale(self, held: Held) -> None:
        """Append and publish under a lost right, where nothing but the right is wrong."""
        held.tail = (await self.ask(lambda: self.storage.threads.tail(held.work.lane))).tail
        with suppress(FenceRejected):
            await self.write_note(held, f"{held.attempt}/stale", stale=True)
        with suppress(OwnershipLost):
            await self.publish(held, "completed", stale=True)
        with suppress(OwnershipLost):
            await self.renew(held, stale=True)

    async def _offer_more(self, held: Held) -> None:
        """Admit what comes next in the lane; whoever works on its neighbours does so as well."""
        if self.ending.is_set():
            return
        number = held.work.number
        offers = [self.offer(held.work.lane, number + more) for more in (1, 2)]
        for work in await asyncio.gather(*offers):
            if work.number % 2 == 0 and self.chance.random() < 0.2:
                await self.abort(work, settle=self.chance.random() < 0.7)

    async def _write_notes(self, held: Held) -> None:
        for number in range(self.chance.randrange(3)):
            await self.write_note(held, f"{held.attempt}/{number}")
            if self.chance.random() < 0.4:
                await self.renew(held)

    async def _settle(self, held: Held) -> None:
        read = self.storage.ledger.read_abort_intent
        asked = await self.ask(lambda: read(held.work.lane, held.work.submission))
        outcome = "completed" if asked.intent is None else "aborted"
        await self.settle(held, outcome, together=self.chance.random() < 0.5)

    async def _abort_an_owner(self) -> None:
        ledger = self.storage.ledger
        lane = self.chance.choice(self.lanes)
        found = await self.ask(lambda: ledger.lane(lane))
        owner = None if found is None else found.owner
        if owner is not None:
            known = await self.ask(lambda: ledger.lookup(owner.submission_id))
            assert known is not None
            one = known.submission
            work = Work(lane, one.submission_id, one.receipt_id, number_of(one.idempotency_key))
            await self.abort(work, settle=False)
