"""Every statement finds its rows by an index, at a cost that does not grow with the thread.

The statements are caught while real operations run. Their plans are read, each index must be used
by one of them, and the steps of SQLite's machine are counted over a short and a long thread: a plan
may name an index and still walk to the end of the thread.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from ledger_work import every_operation
from statement_tracer import Tracer, snapshot, steps

from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Checkpoint, ThreadTail
from yielded_core.records.identifiers import RecordId, ThreadId, ToolCallId
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.verify import verify_thread
from yielded_storage_sqlite import open_storage
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import INSTANT_TEXT, Writer, batch, note, record
from yielded_testing.suites.runs import RunScript

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from yielded_storage_sqlite import SqliteStorage

SMALL: Final = ThreadId("small")
LARGE: Final = ThreadId("large")
FILLERS: Final = {SMALL: 20, LARGE: 600}
"""Batches of two notes that lie between a thread's beginning and its end, by thread."""

NO_TABLE = {"CONSTANT", "json_each"}
"""What a plan scans that is no table: the values of the statement itself."""

WHOLE_TABLE: Final = {
    "WHERE yielded_threads.epoch > 0 ORDER BY": "a listing is in the order of keys",
    "SELECT thread_id, generation FROM yielded_garbage LIMIT 1": "any one row",
    "SELECT coalesce(max(epoch), 0) FROM yielded_threads": "once, after a restore",
    "UPDATE yielded_threads SET epoch = epoch + ": "once, after a restore",
    "UPDATE yielded_runnable SET since = min(": "once, after a restore",
}
"""Statements that may read a table from its beginning, by a part of their text."""


@pytest.fixture
def tracer() -> Tracer:
    return Tracer()


@pytest.fixture
async def storage(path: Path, tracer: Tracer) -> AsyncIterator[SqliteStorage]:
    """Two threads with the same beginning and end, one of them long."""
    async with open_storage(f"sqlite:///{path}") as opened:
        for thread, fillers in FILLERS.items():
            await fill(opened, thread, fillers)
        await tracer.follow(opened)
        yield opened


async def fill(storage: SqliteStorage, thread: ThreadId, fillers: int) -> None:
    writer = await Writer.begin(storage, thread)
    first, last = RunScript("first"), RunScript("last")
    await writer.append(*first.begin(), first.continuation())
    await writer.append(note("archived-1"), note("archived-2"))
    await storage.archives.seal_range(thread, through=5)
    await storage.archives.archive_range(thread, first=1)
    await writer.append(first.response(1), first.usage(), first.continuation())
    for number in range(fillers):
        await writer.append(note(f"a-{number}"), note(f"b-{number}"), batch_id=f"filler-{number}")
        if number % 20 == 10:
            await storage.archives.seal_range(thread, through=writer.tail.sequence)
    handoff = record("handoff", sample_payload("PeerMessagePrepared"))
    await writer.append(*last.begin(), last.continuation(), handoff, batch_id="near the end")
    await writer.append(note("end"), batch_id="end")
    assert storage.checkpoints is not None
    tail = writer.tail
    checkpoint = Checkpoint(thread, tail.sequence, tail.digest, None, INSTANT_TEXT)
    await storage.checkpoints.save(checkpoint)


def reads(storage: SqliteStorage, thread: ThreadId) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return reads that find as much in a short thread as in a long one."""
    threads, run, call = storage.threads, RunScript("first").run, ToolCallId("call-1")
    last = RunScript("last").run
    assert storage.checkpoints is not None
    checkpoints = storage.checkpoints
    return {
        "tail": lambda: threads.tail(thread),
        "identity": lambda: threads.identity(thread),
        "read the first": lambda: threads.read(thread, after=0, limit=4),
        "read amid": lambda: threads.read(thread, after=10, limit=4),
        "get_record": lambda: threads.get_record(thread, RecordId("a-3")),
        "get_record of an archive": lambda: threads.get_record(thread, RecordId("archived-2")),
        "get_run_input": lambda: threads.get_run_input(thread, run),
        "read_prompt": lambda: threads.read_prompt(thread, after=0, through=10, limit=4),
        "read_continuation": lambda: threads.read_continuation(thread, run, through=30),
        "read_continuation of the last": lambda: threads.read_continuation(thread, last, through=8),
        "read_run_evidence": lambda: threads.read_run_evidence(thread, run, after=0, through=8),
        "read_operation_evidence": lambda: threads.read_operation_evidence(
            thread, run, call, through=8
        ),
        "work_handoffs": lambda: threads.work_handoffs(thread),
        "read_batches": lambda: threads.read_batches(thread, after=5, through=12, byte_limit=1),
        "read_batches of an archive": lambda: threads.read_batches(
            thread, after=0, through=5, byte_limit=1
        ),
        "capture": lambda: threads.capture(thread),
        "run_progress": lambda: threads.run_progress(thread, run),
        "index_state": lambda: threads.index_state(thread),
        "load": lambda: checkpoints.load(thread),
        "threads": lambda: threads.threads(limit=1),
    }


def writes(storage: SqliteStorage, thread: ThreadId) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return mutations of a thread that write as much in a short one as in a long one."""
    threads = storage.threads
    run = RunScript("new")

    async def append() -> None:
        tail = await threads.tail(thread)
        given = batch("new", *run.begin(), run.continuation(), note("new"))
        await threads.append(thread, given, expected=tail.tail, epoch=tail.epoch)

    async def replay() -> None:
        tail = await threads.tail(thread)
        given = batch("filler-3", note("a-3"), note("b-3"))
        done = await threads.append(thread, given, expected=tail.tail, epoch=tail.epoch)
        assert done.replayed

    async def save() -> None:
        assert storage.checkpoints is not None
        tail = await threads.tail(thread)
        checkpoint = Checkpoint(thread, tail.sequence, tail.digest, None, INSTANT_TEXT)
        await storage.checkpoints.save(checkpoint)

    return {
        "append": append,
        "replay": replay,
        "save": save,
        "materialize": lambda: threads.materialize(thread, epoch=2),
        "archive_range": lambda: storage.archives.archive_range(thread, first=6),
    }


async def everything(storage: SqliteStorage) -> None:
    """Run every operation once."""
    threads, archives = storage.threads, storage.archives
    for operation in (reads(storage, LARGE) | writes(storage, LARGE)).values():
        await operation()
    await threads.threads(after=LARGE, limit=2)
    await storage.info()
    async for _ in export_pages(storage, SMALL):
        pass
    await verify_thread(storage, SMALL)
    await anext(threads.observe(SMALL))
    await archives.ranges(SMALL)
    await archives.seal_range(SMALL, through=1_000)
    copy = ThreadTail(ThreadId("copy"), 1, (await threads.tail(SMALL)).digest, 1)
    await archives.begin_import(copy)
    await archives.stage_batches(copy.thread_id, [(prepare_batch(batch("x", note("x"))), 1)])
    assert len(await archives.import_reader(copy.thread_id).read(copy.thread_id)) == 1
    await archives.discard_import(copy.thread_id)
    await threads.rebuild_indexes(SMALL, restart=True)
    while not (await threads.rebuild_indexes(SMALL)).complete:
        pass
    gone = await Writer.begin(storage, ThreadId("gone"))
    await gone.fill(2)
    await threads.delete_thread(gone.thread)
    await threads.delete_thread(gone.thread)
    await every_operation(storage)
    await storage.new_incarnation()


def plans(path: Path, texts: list[str]) -> list[tuple[str, list[str]]]:
    """Return how SQLite would find the rows of each statement, each on one line."""
    lines = dict.fromkeys(" ".join(text.split()) for text in texts)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [
            (line, [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {line}")])
            for line in lines
        ]


@pytest.mark.rule("LAY-1", "LOG-18", "LOG-19", "LOG-17")
async def test_no_statement_reads_a_table_through(
    storage: SqliteStorage, tracer: Tracer, path: Path
) -> None:
    await everything(storage)
    found = plans(path, tracer.texts)
    assert len(found) >= 60
    for line, details in found:
        for detail in details:
            assert "TEMP B-TREE" not in detail, (line, details)
            if detail.startswith("SCAN") and not NO_TABLE.intersection(detail.split()):
                assert any(part in line for part in WHOLE_TABLE), (line, details)


@pytest.mark.rule("LAY-1")
async def test_every_index_serves_a_statement(
    storage: SqliteStorage, tracer: Tracer, path: Path
) -> None:
    await everything(storage)
    used: set[str] = set()
    for _, details in plans(path, tracer.texts):
        for detail in details:
            found = re.search(r"(?:SEARCH|SCAN) (\w+).* (?:INDEX (\w+)|(PRIMARY KEY))", detail)
            if found is not None:
                table, index, primary = found.groups()
                used.add(f"{table} {primary}" if primary else index)
    with closing(sqlite3.connect(path)) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        declared = {
            f"{table} PRIMARY KEY" if origin == "pk" and is_compact(connection, table) else name
            for table in tables
            for _, name, _, origin, _ in connection.execute(f"PRAGMA index_list({table})")
        }
    assert declared - used == set()


def is_compact(connection: sqlite3.Connection, table: str) -> bool:
    """Whether a table is the tree of its own key."""
    ((without_rowid,),) = connection.execute(
        "SELECT wr FROM pragma_table_list WHERE name = ?", (table,)
    )
    return bool(without_rowid)


@pytest.mark.rule("LOG-18", "LOG-14")
@pytest.mark.parametrize("kind", ["reads", "writes"])
async def test_the_steps_of_an_operation_do_not_grow_with_the_thread(
    storage: SqliteStorage, tracer: Tracer, path: Path, kind: str
) -> None:
    """Counted over 50 and over 1,200 records, each statement run again on the same data."""
    of = {"reads": reads, "writes": writes}[kind]
    grown: dict[str, tuple[int, int]] = {}
    for name in of(storage, SMALL):
        counts: list[int] = []
        for thread in (SMALL, LARGE):
            before = path.with_name("before.db")
            snapshot(path, before)
            with tracer.catching() as caught:
                await of(storage, thread)[name]()
            counts.append(steps(before, caught))
        if counts[1] > 1.3 * counts[0] + 20:
            grown[name] = (counts[0], counts[1])
    assert grown == {}
