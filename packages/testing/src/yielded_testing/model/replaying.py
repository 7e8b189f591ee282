"""Gives a written sequence of commands to fresh stores, to see it fail again, and to shorten it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from yielded_testing.model.comparing import Comparison

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.store import Adapter


async def replay(adapter: Adapter, commands: Iterable[Command]) -> None:
    """Give commands to a fresh store and to the model. Raises Disagreement."""
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(adapter, Path(folder))
        await comparison.store.open()
        try:
            for command in commands:
                await comparison.run(command)
        finally:
            await comparison.store.close()


def failure_of(adapter: Adapter, commands: Iterable[Command]) -> Exception | None:
    """Return what a sequence fails with, None where it does not."""
    try:
        asyncio.run(replay(adapter, commands))
    except Exception as error:  # noqa: BLE001 - whatever an adapter fails with is a finding
        return error
    return None


def shortened(adapter: Adapter, commands: Sequence[Command]) -> list[Command]:
    """Return commands of a failing sequence none of which can be left out.

    A sequence that does not fail again is returned as it is.
    """
    left = list(commands)
    failure = failure_of(adapter, left)
    kind = type(failure)
    size = 0 if failure is None else len(left)
    while size:
        start = 0
        while start < len(left):
            fewer = [*left[:start], *left[start + size :]]
            if type(failure_of(adapter, fewer)) is kind:
                left = fewer
            else:
                start += size
        size = size // 2
    return left


def program(commands: Iterable[Command]) -> str:
    """Write down a sequence as it is given to `replay`, with the names of `model.commands`."""
    lines = "".join(f"    {command!r},\n" for command in commands)
    return f"await replay(adapter, [\n{lines}])"
