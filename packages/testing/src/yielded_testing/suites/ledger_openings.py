"""Ways in which the head of a lane becomes claimable, for the cases of `runnable` (LED-17).

Each brings a lane to the last moment before, yields, and then makes its head claimable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_testing.suites.ledger_builders import LaneScript, child_lane
from yielded_testing.suites.ledger_joining import take
from yielded_testing.suites.ledger_values import CALL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


async def _ready(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.admit("key-1")
    yield
    await lane.ready("key-1")


async def _released(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.run("key-1")
    yield
    await lane.release()


async def _settled_before(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.run("key-1")
    await lane.ready("key-2")
    yield
    await lane.settle("key-1")


async def _aborted_before(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.admit("key-1")
    await lane.ready("key-2")
    await lane.abort("key-1")
    yield
    await lane.abort_queued("key-1")


async def _parked_before(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.run("key-1")
    await lane.suspend("key-1")
    await lane.ready("key-2")
    yield
    await lane.mark_unknown("key-1")


async def _decided(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.bring("key-1", "suspended")
    yield
    await lane.decide("key-1")


async def _child_published(lane: LaneScript) -> AsyncGenerator[None]:
    other, child = await child_lane(lane.storage, "child")
    await lane.run("key-1")
    await lane.await_children("key-1", child)
    await other.publish("child")
    yield
    await lane.ledger.record_child_settled(lane.thread, lane.id("key-1"), child=child)


async def _suspended_aborted(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.bring("key-1", "suspended")
    yield
    await lane.abort("key-1")


async def _unknown_aborted(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.bring("key-1", "unknown")
    yield
    await lane.abort("key-1")


async def _resolved(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.bring("key-1", "unknown")
    yield
    await lane.ledger.record_unknown_resolution(
        lane.thread, lane.id("key-1"), CALL, resolution="safe-to-retry", author="me", reason=""
    )


async def _reverted(lane: LaneScript) -> AsyncGenerator[None]:
    await lane.run("host")
    await lane.ready("key-1")
    await take(lane)
    await lane.settle("host")
    yield
    await lane.ledger.revert_joining(lane.thread, lane.id("key-1"))


OPENINGS: Final[dict[str, Callable[[LaneScript], AsyncGenerator[None]]]] = {
    "ready": _ready,
    "released": _released,
    "settled before": _settled_before,
    "aborted before": _aborted_before,
    "parked before": _parked_before,
    "decided": _decided,
    "child published": _child_published,
    "abort of suspended": _suspended_aborted,
    "abort of unknown": _unknown_aborted,
    "resolved": _resolved,
    "reverted": _reverted,
}
