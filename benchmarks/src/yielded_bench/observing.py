"""Observers: what a hundred idle ones of a SQLite file cost, and how soon observers hear."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from yielded_bench.children import child
from yielded_bench.figures import Figure, Results, at_most, median, quantile
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from yielded_bench.effort import Effort
    from yielded_core.storage import Storage

OBSERVERS: Final = 100
_SETTLING: Final = 1.5
_PAUSE: Final = 0.02
"""Seconds between two commits, on average a little more than between two looks."""


async def measure(effort: Effort, folder: Path) -> Results:
    """Observe a hundred threads, first in silence, then while another process commits."""
    url = f"sqlite:///{folder / 'observed.db'}"
    names = [ThreadId(f"observed-{number:03d}") for number in range(OBSERVERS)]
    async with open_storage(url) as storage, observed(storage, names) as heard:
        idle = await _idle(effort.idle_seconds)
        found = await delays(url, names, effort.commits, heard)
    rows = (
        at_most(f"{OBSERVERS} idle observers, processor", idle * 100, 1, "% of a core"),
        at_most("commit of another process until observed, median", median(found), 30, "ms"),
    )
    late = Figure(
        "commit of another process until observed, 99th percentile",
        f"{quantile(found, 0.99):,.0f} ms",
    )
    return Results(rows, (late,))


@asynccontextmanager
async def observed(
    storage: Storage, names: Sequence[ThreadId]
) -> AsyncGenerator[asyncio.Queue[int]]:
    """Observe threads, and give the instant of each delivery once everything has settled."""
    for name in names:
        await storage.threads.materialize(name, epoch=1)
    heard: asyncio.Queue[int] = asyncio.Queue()
    tasks = [asyncio.create_task(_observe(storage, name, heard)) for name in names]
    try:
        await asyncio.sleep(_SETTLING)  # what begins now is not idleness
        yield heard
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _observe(storage: Storage, thread: ThreadId, heard: asyncio.Queue[int]) -> None:
    async for _ in storage.threads.observe(thread):
        heard.put_nowait(time.monotonic_ns())


async def _idle(seconds: float) -> float:
    """Return the share of a core that this process takes while nothing happens."""
    processor, start = time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    return (time.process_time() - processor) / (time.perf_counter() - start)


async def delays(
    url: str, names: Sequence[ThreadId], commits: int, heard: asyncio.Queue[int]
) -> list[float]:
    """Return the milliseconds from each acknowledgement to its delivery, in order of commit.

    Deliveries come in the order of commits, which are to different threads: the n-th is the n-th.
    """
    async with child("commit", url, ",".join(names), str(commits), str(_PAUSE)) as other:
        await other.ready()
        await other.go()
        answer = await other.figures()
    received = [await heard.get() for _ in range(commits)]
    pairs = zip(received, answer["acknowledged"], strict=True)
    return [(seen - acknowledged) / 1e6 for seen, acknowledged in pairs]
