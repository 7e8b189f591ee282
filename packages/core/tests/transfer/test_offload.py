"""Work in a thread: its result, its error, and what a cancellation waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from yielded_core.transfer.offload import off_loop


async def test_the_result_and_the_error_come_back() -> None:
    here = threading.get_ident()
    assert await off_loop(threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        await off_loop(lambda: 1 // 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancellation_waits_for_the_work_however_often_it_comes(*, fails: bool) -> None:
    begun, go_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        go_on.wait()
        ended.append(True)
        if fails:
            raise ZeroDivisionError

    task = asyncio.create_task(off_loop(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
