"""Numbers that no thread ever had are refused or answered; nothing untyped comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from yielded_core.errors import YieldedError
from yielded_core.ports.values import Checkpoint, Tail, ThreadTail
from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import (
    EMPTY_DIGEST,
    INSTANT_TEXT,
    THREAD,
    Writer,
    batch,
    note,
)
from yielded_testing.suites.support import CALL, RUN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from yielded_storage_sqlite import SqliteStorage

NUMBERS: Final[list[Any]] = [
    2**53 + 1,
    2**63,
    2**70,
    -1,
    -(2**70),
    True,
    1.0,
    float("nan"),
]
OTHER: Final = ThreadId("imported")


@pytest.fixture
async def storage(path: Path) -> AsyncIterator[SqliteStorage]:
    async with open_storage(f"sqlite:///{path}") as opened:
        await (await Writer.begin(opened)).fill(3)
        yield opened


def operations(storage: SqliteStorage, number: Any) -> list[Callable[[], Awaitable[object]]]:  # noqa: ANN401
    """Return every operation with a number in each place where one is taken."""
    threads, archives, checkpoints = storage.threads, storage.archives, storage.checkpoints
    return [
        lambda: threads.materialize(THREAD, epoch=number),
        lambda: threads.append(
            THREAD, batch("x", note("x")), expected=Tail(number, EMPTY_DIGEST), epoch=1
        ),
        lambda: threads.append(
            THREAD, batch("x", note("x")), expected=Tail(0, EMPTY_DIGEST), epoch=number
        ),
        lambda: threads.read(THREAD, after=number),
        lambda: threads.read(THREAD, limit=number),
        lambda: threads.read_prompt(THREAD, after=number, through=1, limit=1),
        lambda: threads.read_prompt(THREAD, after=0, through=number, limit=1),
        lambda: threads.read_prompt(THREAD, after=0, through=1, limit=number),
        lambda: threads.read_continuation(THREAD, RUN, through=number),
        lambda: threads.read_run_evidence(THREAD, RUN, after=number, through=1),
        lambda: threads.read_run_evidence(THREAD, RUN, after=0, through=number),
        lambda: threads.read_operation_evidence(THREAD, RUN, CALL, through=number),
        lambda: threads.work_handoffs(THREAD, after=number),
        lambda: threads.read_batches(THREAD, after=number, through=1, byte_limit=1),
        lambda: threads.read_batches(THREAD, after=0, through=number, byte_limit=1),
        lambda: threads.read_batches(THREAD, after=0, through=1, byte_limit=number),
        lambda: threads.threads(limit=number),
        lambda: threads.rebuild_indexes(THREAD, limit=number),
        lambda: archives.seal_range(THREAD, through=number),
        lambda: archives.archive_range(THREAD, first=number),
        lambda: archives.begin_import(ThreadTail(OTHER, number, EMPTY_DIGEST, 1)),
        lambda: archives.begin_import(ThreadTail(OTHER, 1, number, 1)),
        lambda: archives.begin_import(ThreadTail(OTHER, 1, EMPTY_DIGEST, number)),
        lambda: checkpoints.save(Checkpoint(THREAD, number, EMPTY_DIGEST, None, INSTANT_TEXT)),
        lambda: checkpoints.load(THREAD, at_or_before=number),
    ]


@pytest.mark.rule("LOG-8", "LOG-12", "LOG-13", "ARC-4", "ARC-6")
@pytest.mark.parametrize("number", NUMBERS, ids=str)
async def test_nothing_untyped_comes_out(storage: SqliteStorage, number: object) -> None:
    codes: list[str] = []
    for operation in operations(storage, number):
        try:
            await operation()
        except YieldedError as error:
            codes.append(error.code)
        await storage.archives.discard_import(OTHER)
    assert len(codes) >= 10
    assert not [code for code in codes if code.startswith("storage")]
    assert len(await storage.threads.read(THREAD)) == 3
