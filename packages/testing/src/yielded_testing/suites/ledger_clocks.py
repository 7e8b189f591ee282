"""Cases on the clocks of the machine: instants are real, and leases run out by themselves."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import PATIENCE, turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.storage import Storage


def now() -> int:
    """Return the wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


class RealClockCases:
    """LED-1, LED-4 and LED-6 on a storage that was opened without a clock."""

    @pytest.mark.rule("LED-1", "LED-8", "LED-9")
    async def test_instants_are_of_the_wall_clock(self, open_again: Callable[[], Storage]) -> None:
        """Admission, abort and settlement are kept with the instant at which they were."""
        async with open_again() as storage:
            lane = await LaneScript.begin(storage)
            before = now()
            await lane.run("key-1")
            await lane.abort("key-1")
            await lane.settle("key-1", "aborted")
            after = now()
            seen = await lane.see("key-1")
            assert seen.abort is not None
            assert seen.settled is not None
            instants = [seen.admitted_at, seen.abort.requested_at, seen.settled.settled_at]
            assert instants == sorted(instants)
            assert before <= instants[0]
            assert instants[2] <= after

    @pytest.mark.rule("LED-4", "LED-6")
    async def test_a_lease_runs_out_by_itself(self, open_again: Callable[[], Storage]) -> None:
        """A long one is live; one of a millisecond can be claimed by another soon."""
        async with open_again() as storage:
            lane = await LaneScript.begin(storage)
            await lane.ready("key-1")
            first = await lane.claim(lease=86_400_000)
            assert await lane.another("2").try_claim() is None
            await lane.release()
            short = await lane.claim(lease=1)
            assert short.expires_at < first.expires_at
            other = lane.another("3")
            async with asyncio.timeout(PATIENCE.get()):
                while await other.try_claim() is None:
                    await turns(1)
            assert other.grant.epoch == short.epoch + 1
            assert other.grant.expires_at > short.expires_at

    @pytest.mark.rule("LED-6")
    async def test_renewals_follow_the_clock(self, open_again: Callable[[], Storage]) -> None:
        """Each ends no earlier than the one before, and in time later."""
        async with open_again() as storage:
            lane = await LaneScript.begin(storage)
            await lane.run("key-1")
            ends = [lane.grant.expires_at]
            async with asyncio.timeout(PATIENCE.get()):
                while ends[-1] == ends[0]:
                    ends.append(await storage.ledger.renew(THREAD, token=lane.token))
                    await turns(1)
            assert ends == sorted(ends)
