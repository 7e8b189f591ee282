"""A process that appends a transcript to a thread and says what it does, until it is killed.

Standard input, as JSON Lines: the URL of the store, the order, the messages. Standard output: one
JSON object a line, among them `begin` before each append and `done` after it was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

import orjson

from yielded_core.cli.demo.plan import Order, make_plan
from yielded_core.cli.demo.transcript import Message
from yielded_core.errors import YieldedError
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_core.cli.demo.plan import Plan
    from yielded_core.storage import Storage

_STANDARD_OUTPUT: Final = 1


def main() -> int:
    """Carry out the order on standard input and return the exit code of the process."""
    source = sys.stdin.buffer
    try:
        storage = open_storage(orjson.loads(source.readline()))  # which loads the adapter
        first = source.readline()
        if not first:
            return 0  # the parent went away without an order
        order, plan = _read(first, source)
        return asyncio.run(_write(storage, order, plan))
    except YieldedError as error:
        _tell(event="failed", code=error.code, message=str(error))
        return 1


def _read(first: bytes, others: Iterable[bytes]) -> tuple[Order, Plan]:
    order = Order.decode(first)
    messages = [Message(value["role"], value) for value in map(orjson.loads, others)]
    return order, make_plan(messages, order.started)


async def _write(storage: Storage, order: Order, plan: Plan) -> int:
    """Take the thread over, find out from the log what it holds, and append the rest."""
    async with storage:
        found = await storage.threads.materialize(order.thread, epoch=order.epoch)
        committed = plan.committed(found.sequence)
        if committed is None:
            _tell(event="failed", code="partial", message=f"the log ends at {found.sequence}")
            return 1
        _tell(event="found", committed=committed)
        expected = found.tail
        # Whether the newest append was ever acknowledged is unknown, so it is sent again.
        for number in range(max(committed, 1), len(plan.appends) + 1):
            _tell(event="begin", append=number)
            appended = await storage.threads.append(
                order.thread, plan.appends[number - 1], expected=expected, epoch=found.epoch
            )
            _tell(event="done", append=number, replayed=appended.replayed)
            expected = appended.tail
    return 0


def _tell(**event: object) -> None:
    """Write a line at once: what was told is never taken back by a kill."""
    os.write(_STANDARD_OUTPUT, orjson.dumps(event) + b"\n")


if __name__ == "__main__":
    raise SystemExit(main())
