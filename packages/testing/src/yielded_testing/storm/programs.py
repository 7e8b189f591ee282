"""What the tests of the ledger do in processes of their own: found lanes, work on them, race.

A URL finds its adapter by itself, so that these serve every adapter whose stores processes share.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from yielded_core.errors import StorageUnavailable
from yielded_core.ports.work import Admission
from yielded_core.records.identifiers import IdempotencyKey, ThreadId
from yielded_core.storage import open_storage
from yielded_testing.storm.hand import Hand
from yielded_testing.storm.operations import CLIENT, receipt_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_testing.storm.channel import Channel, Program


async def ledger_founder(channel: Channel, url: str, lanes: int) -> None:
    """Make the lanes, each with one submission."""
    async with open_storage(url) as storage:
        hand = Hand(channel.say, storage, "founder", random.Random(0))

        async def found(lane: ThreadId) -> None:
            await storage.threads.materialize(lane, epoch=1)
            await hand.offer(lane, 1)

        await asyncio.gather(*(found(lane) for lane in _lanes(lanes)))


async def ledger_worker(
    channel: Channel,
    url: str,
    name: str,
    lanes: int,
    tasks: int,
    lease: Sequence[int],
    *,
    outlasts: bool,
) -> None:
    """Work on whatever lanes can be claimed, until told to end or killed.

    `lease` is what a lease has at least and at most, in milliseconds. With `outlasts`, whatever the
    end of the server cuts off is asked again until it is back.
    """
    shortest, longest = lease
    ending = asyncio.Event()
    outlasted = (StorageUnavailable,) if outlasts else ()
    async with open_storage(url) as storage, asyncio.TaskGroup() as group:
        for task in range(tasks):
            own = f"{name}-{task}"
            hand = Hand(channel.say, storage, own, random.Random(own), outlasted)
            hand.lease, hand.ending, hand.lanes = (shortest, longest), ending, _lanes(lanes)
            group.create_task(hand.run())
        while await channel.hear() is not None:
            pass
        ending.set()
    channel.say(ended=True)


def _lanes(count: int) -> list[ThreadId]:
    return [ThreadId(f"lane-{number:03d}") for number in range(count)]


async def ledger_client(channel: Channel, url: str, lane: str, keys: int) -> None:
    """Open a store and admit many keys at once at the test's word; say what each became."""
    channel.say(ready=True)
    await channel.hear()
    async with open_storage(url) as storage:
        offers = [
            storage.ledger.admit(
                Admission(ThreadId(lane), CLIENT, IdempotencyKey(f"key-{number}"), number)
            )
            for number in range(keys)
        ]
        for number, done in enumerate(await asyncio.gather(*offers)):
            channel.say(key=f"key-{number}", **receipt_of(done))


async def ledger_racer(channel: Channel, url: str, lane: str, name: str, until: int) -> None:
    """Claim one lane again and again from the test's word on, releasing it at once."""
    async with open_storage(url) as storage:
        channel.say(ready=True)
        await channel.hear()
        hand = Hand(channel.say, storage, name, random.Random(name))
        epoch = 0
        while epoch < until:
            held = await hand.claim(ThreadId(lane))
            if held is not None:
                await hand.release(held)
            found = await storage.ledger.lane(ThreadId(lane))
            epoch = 0 if found is None else found.epoch


PROGRAMS: Final[dict[str, Program]] = {
    "ledger_client": ledger_client,
    "ledger_founder": ledger_founder,
    "ledger_racer": ledger_racer,
    "ledger_worker": ledger_worker,
}
