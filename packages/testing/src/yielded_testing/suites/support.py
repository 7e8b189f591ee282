"""What the cases share beyond records: refusals, observers, cancellation, and all operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import pytest

from yielded_core.errors import YieldedError
from yielded_core.ports.values import Checkpoint, ThreadTail
from yielded_core.records.identifiers import BatchId, RecordId, RunId, ToolCallId
from yielded_testing.suites.builders import EMPTY, EMPTY_DIGEST, INSTANT_TEXT, THREAD, batch, note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence

    from yielded_core.ports.threads import ThreadReader
    from yielded_core.ports.values import StoredBatch
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import Offset, ThreadId
    from yielded_core.storage import Storage

Refusal = TypeVar("Refusal", bound=YieldedError)
Answer = TypeVar("Answer")

PATIENCE: ContextVar[float] = ContextVar("PATIENCE", default=30.0)
"""Seconds that a case waits for what must come; never part of what a passing case takes."""

RUN: Final = RunId("run:submission-1")
CALL: Final = ToolCallId("call-1")


async def refused(kind: type[Refusal], work: Awaitable[object]) -> Refusal:
    """Return the error that an operation must raise."""
    with pytest.raises(kind) as caught:
        await work
    return caught.value


def sequences(records: Sequence[StoredRecord]) -> list[int]:
    """Return the sequences of records."""
    return [each.sequence for each in records]


def names(records: Sequence[StoredRecord]) -> list[str]:
    """Return the ids of records."""
    return [str(each.record.record_id) for each in records]


async def stored_names(storage: Storage, thread: ThreadId = THREAD) -> list[str]:
    """Return the ids of the first 1,024 records of a thread."""
    return names(await storage.threads.read(thread))


async def whole_log(storage: Storage, thread: ThreadId = THREAD) -> list[StoredBatch]:
    """Return every batch of a thread, undecoded."""
    tail = await storage.threads.tail(thread)
    found: list[StoredBatch] = []
    while (found[-1].last_sequence if found else 0) < tail.sequence:
        after = found[-1].last_sequence if found else 0
        page = await storage.threads.read_batches(
            thread, after=after, through=tail.sequence, byte_limit=1_048_576
        )
        assert page
        found.extend(page)
    return found


class Observation:
    """What one observer was given so far."""

    def __init__(self) -> None:
        self.records: list[StoredRecord] = []
        self.task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def add(self, delivered: StoredRecord) -> None:
        """Take a record that was delivered."""
        self.records.append(delivered)
        self._news.set()

    def ended(self, _task: asyncio.Task[None]) -> None:
        """Take note that the observer ended."""
        self._news.set()

    async def until(self, count: int) -> list[StoredRecord]:
        """Wait for a number of records; an error that ended the observer is raised here."""
        task = self.task
        assert task is not None
        async with asyncio.timeout(PATIENCE.get()):
            while len(self.records) < count and not task.done():
                self._news.clear()
                await self._news.wait()
        if task.done():
            task.result()
        return self.records

    async def until_sequence(self, last: int) -> list[StoredRecord]:
        """Wait for the record at a sequence, or for one beyond it."""
        while not self.records or self.records[-1].sequence < last:
            await self.until(len(self.records) + 1)
        return self.records

    async def failure(self, kind: type[Refusal]) -> Refusal:
        """Wait for the error that must end the observer."""
        task = self.task
        assert task is not None
        await asyncio.wait({task}, timeout=PATIENCE.get())
        assert task.done()
        return await refused(kind, task)


@asynccontextmanager
async def observing(
    storage: Storage, thread: ThreadId = THREAD, *, after: Offset | None = None
) -> AsyncGenerator[Observation]:
    """Observe a thread in a task of its own, which is cancelled at the end."""
    seen = Observation()

    async def follow() -> None:
        async for delivered in storage.threads.observe(thread, after=after):
            seen.add(delivered)

    seen.task = asyncio.create_task(follow())
    seen.task.add_done_callback(seen.ended)
    try:
        yield seen
    finally:
        seen.task.cancel()
        with suppress(asyncio.CancelledError, YieldedError):
            await seen.task


async def close(observer: AsyncIterator[StoredRecord]) -> None:
    """End an observer that was iterated by hand, where it can be ended at once."""
    if isinstance(observer, AsyncGenerator):
        await observer.aclose()


async def turns(count: int = 1) -> None:
    """Let everything else that is ready run, a number of times."""
    for _ in range(count):
        await asyncio.sleep(0)


class _CancelAt:
    """Awaits work and cancels the current task while the work waits for the `point`-th time."""

    def __init__(self, work: Awaitable[object], point: int, delay: int) -> None:
        self._work = work
        self._point = point
        self._delay = delay
        self.reached = False

    def __await__(self) -> Generator[object, None, None]:
        waiting = self._work.__await__()
        go_on: Callable[[], object] = partial(next, waiting)
        count = 0
        while True:
            try:
                future = go_on()
            except StopIteration:
                return
            count += 1
            if count == self._point:
                self.reached = True
                self._cancel_later()
            try:
                yield future
            except BaseException as error:  # noqa: BLE001 - whatever it is goes on into the work
                go_on = partial(waiting.throw, error)
            else:
                go_on = partial(next, waiting)

    def _cancel_later(self) -> None:
        task = asyncio.current_task()
        assert task is not None

        def later(left: int) -> None:
            if left:
                asyncio.get_running_loop().call_soon(later, left - 1)
            else:
                task.cancel()

        later(self._delay)


async def cancelled_at(
    work: Awaitable[object], point: int, *, delay: int = 0
) -> Literal["finished", "cancelled", "shorter"]:
    """Run work and cancel it where it waits for the `point`-th time, some loop turns into the wait.

    Returns `shorter` when the work never waits so often, so that a sweep over all points ends.
    """
    driver = _CancelAt(work, point, delay)

    async def drive() -> None:
        await driver

    task = asyncio.create_task(drive())
    await asyncio.wait({task})
    if task.cancelled():
        return "cancelled"
    task.result()
    return "finished" if driver.reached else "shorter"


def every_operation(
    storage: Storage, thread: ThreadId
) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return a call of every operation that names a thread, except `materialize` and imports."""
    threads, archives, checkpoints = storage.threads, storage.archives, storage.checkpoints
    operations: dict[str, Callable[[], Awaitable[object]]] = {
        "append": lambda: threads.append(
            thread, batch("refused", note("refused")), expected=EMPTY, epoch=1
        ),
        "tail": lambda: threads.tail(thread),
        "identity": lambda: threads.identity(thread),
        "read": lambda: threads.read(thread),
        "get_record": lambda: threads.get_record(thread, RecordId("note-1")),
        "get_run_input": lambda: threads.get_run_input(thread, RUN),
        "read_prompt": lambda: threads.read_prompt(thread, after=0, through=0, limit=1),
        "read_continuation": lambda: threads.read_continuation(thread, RUN, through=0),
        "read_run_evidence": lambda: threads.read_run_evidence(thread, RUN, after=0, through=0),
        "read_operation_evidence": lambda: threads.read_operation_evidence(
            thread, RUN, CALL, through=0
        ),
        "work_handoffs": lambda: threads.work_handoffs(thread),
        "read_batches": lambda: threads.read_batches(thread, after=0, through=0, byte_limit=1),
        "observe": lambda: anext(threads.observe(thread)),
        "capture": lambda: threads.capture(thread),
        "run_progress": lambda: threads.run_progress(thread, RUN),
        "index_state": lambda: threads.index_state(thread),
        "rebuild_indexes": lambda: threads.rebuild_indexes(thread),
        "delete_thread": lambda: threads.delete_thread(thread),
        "seal_range": lambda: archives.seal_range(thread, through=1),
        "archive_range": lambda: archives.archive_range(thread, first=1),
        "ranges": lambda: archives.ranges(thread),
    }
    if checkpoints is not None:
        checkpoint = Checkpoint(thread, 1, EMPTY_DIGEST, None, INSTANT_TEXT)
        operations["save"] = lambda: checkpoints.save(checkpoint)
        operations["load"] = lambda: checkpoints.load(thread)
    return operations


def import_operations(
    storage: Storage, thread: ThreadId
) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return a call of every operation of an import that names a thread."""
    archives = storage.archives

    async def staged_tail() -> ThreadTail:
        return await archives.import_reader(thread).tail(thread)

    return {
        "import_state": lambda: archives.import_state(thread),
        "begin_import": lambda: archives.begin_import(ThreadTail(thread, 1, EMPTY_DIGEST, 1)),
        "stage_batches": lambda: archives.stage_batches(thread, ()),
        "import_reader": staged_tail,
        "publish_import": lambda: archives.publish_import(thread),
        "discard_import": lambda: archives.discard_import(thread),
    }


def indexed_reads(reader: ThreadReader, through: int) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return every read that an index answers."""
    return {
        "read_prompt": lambda: reader.read_prompt(THREAD, after=0, through=through, limit=50),
        "read_continuation": lambda: reader.read_continuation(THREAD, RUN, through=through),
        "read_run_evidence": lambda: reader.read_run_evidence(
            THREAD, RUN, after=0, through=through
        ),
        "read_operation_evidence": lambda: reader.read_operation_evidence(
            THREAD, RUN, CALL, through=through
        ),
        "get_run_input": lambda: reader.get_run_input(THREAD, RUN),
        "work_handoffs": lambda: reader.work_handoffs(THREAD),
    }


async def answers(reader: ThreadReader, through: int) -> dict[str, Any]:
    """Return what every read that an index answers gives."""
    return {name: await call() for name, call in indexed_reads(reader, through).items()}


def batch_ids(found: Sequence[StoredBatch]) -> list[BatchId]:
    """Return the ids of batches."""
    return [each.batch_id for each in found]
