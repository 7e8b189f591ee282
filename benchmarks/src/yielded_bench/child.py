"""What is measured in a process of its own; each command prints its figures as one line of JSON.

Usage: python -m yielded_bench.child COMMAND ARGUMENT…
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import orjson

Figures: TypeAlias = "dict[str, float | int | list[float] | list[int]]"
Command: TypeAlias = Callable[..., Awaitable[Figures]]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ports.values import ThreadTail
    from yielded_core.storage import Storage

_WARM_UP_THREAD: Final = "warm-up"


async def importing() -> Figures:
    """Import what an append needs, where pydantic is loaded already."""
    from pydantic import BaseModel

    class First(BaseModel):  # defining a model loads most of pydantic
        field: int

    First(field=1)
    start = time.process_time()
    from yielded_core.log.prepared import prepare_batch
    from yielded_core.records.envelope import Record
    from yielded_core.storage import open_storage

    loaded = (prepare_batch, Record, open_storage)
    return {"seconds": time.process_time() - start, "names": len(loaded)}


async def opening(url: str, other: str) -> Figures:
    """Open a store where everything is imported: another store was opened before."""
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import open_storage

    async with open_storage(other) as storage:
        await storage.threads.materialize(ThreadId(_WARM_UP_THREAD), epoch=1)
        await storage.threads.tail(ThreadId(_WARM_UP_THREAD))
    processor, start = time.process_time(), time.perf_counter()
    async with open_storage(url):
        elapsed = time.perf_counter() - start
        return {"seconds": elapsed, "processor": time.process_time() - processor}


async def appending(url: str, prefix: str, tasks: str, seconds: str) -> Figures:
    """Append with several tasks for a while, from the moment that a line comes in."""
    from yielded_bench.records import batches, tool_result
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import open_storage

    async def work(storage: Storage, begun: ThreadTail, until: float) -> list[float]:
        tail, taken, number = begun.tail, list[float](), 0
        while time.perf_counter() < until:
            (batch,) = batches(tool_result, number, 1)
            start = time.perf_counter()
            done = await storage.threads.append(
                begun.thread_id, batch, expected=tail, epoch=begun.epoch
            )
            taken.append(time.perf_counter() - start)
            tail, number = done.tail, number + 1
        return taken

    names = [ThreadId(f"{prefix}-{task}") for task in range(int(tasks))]
    async with open_storage(url) as storage:
        begun = [storage.threads.materialize(name, epoch=1) for name in names]
        threads = await asyncio.gather(*begun)
        batches(tool_result, 0, 1)
        _say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        start = time.perf_counter()
        until = start + float(seconds)
        parts = await asyncio.gather(*(work(storage, thread, until) for thread in threads))
        elapsed = time.perf_counter() - start
    return {"elapsed": elapsed, "latencies": [each for part in parts for each in part]}


async def committing(url: str, threads: str, commits: str, pause: str) -> Figures:
    """Commit to threads in turn, with a pause before each; say when each was acknowledged."""
    from yielded_bench.records import batches, tool_result
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import open_storage

    acknowledged: list[int] = []
    async with open_storage(url) as storage:
        names = [ThreadId(name) for name in threads.split(",")]
        tails = {name: (await storage.threads.materialize(name, epoch=1)).tail for name in names}
        _say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        for number, batch in enumerate(batches(tool_result, 0, int(commits))):
            # Uneven pauses, so that commits fall on every moment between two looks.
            await asyncio.sleep(float(pause) * (0.5 + number * 0.618 % 1))
            thread = names[number % len(names)]
            done = await storage.threads.append(thread, batch, expected=tails[thread], epoch=1)
            acknowledged.append(time.monotonic_ns())
            tails[thread] = done.tail
    return {"acknowledged": acknowledged}


async def verifying(url: str, thread: str) -> Figures:
    """Verify a thread."""
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import open_storage
    from yielded_core.transfer.verify import verify_thread

    async with open_storage(url) as storage:
        await storage.threads.tail(ThreadId(thread))
        before = peak_memory()
        processor, start = time.process_time(), time.perf_counter()
        found = await verify_thread(storage, ThreadId(thread))
        assert found.ok, "the thread does not verify"
        return {**_cost(processor, start, before), "wire": found.wire_bytes}


async def exporting(url: str, thread: str) -> Figures:
    """Export a thread, page by page."""
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import open_storage
    from yielded_core.transfer.export import export_pages

    async with open_storage(url) as storage:
        await storage.threads.tail(ThreadId(thread))
        before = peak_memory()
        processor, start = time.process_time(), time.perf_counter()
        written = pages = 0
        async for page in export_pages(storage, ThreadId(thread)):
            written += len(page.text)
            pages += 1
        return {**_cost(processor, start, before), "text": written, "pages": pages}


def peak_memory() -> int:
    """Return the most bytes of memory that this process has held at once.

    Where /proc tells, it is the figure of this program alone: the other one starts with that of
    the process that launched it.
    """
    with contextlib.suppress(OSError), Path("/proc/self/status").open(encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1_024
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _cost(processor: float, start: float, before: int) -> Figures:
    return {
        "processor": time.process_time() - processor,
        "elapsed": time.perf_counter() - start,
        "peak": peak_memory(),
        "before": before,
    }


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


COMMANDS: Final[dict[str, Command]] = {
    "append": cast("Command", appending),
    "commit": cast("Command", committing),
    "export": cast("Command", exporting),
    "import": cast("Command", importing),
    "open": cast("Command", opening),
    "verify": cast("Command", verifying),
}


def main(arguments: Sequence[str]) -> None:
    """Run one command."""
    name, *rest = arguments
    _say(orjson.dumps(asyncio.run(_run(COMMANDS[name], rest))).decode())


async def _run(command: Command, arguments: Sequence[str]) -> Figures:
    return await command(*arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
