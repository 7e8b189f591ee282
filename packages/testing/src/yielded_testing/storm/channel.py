"""How a worker talks with its test: lines of JSON over two pipes."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Message: TypeAlias = dict[str, Any]
Program: TypeAlias = "Callable[..., Coroutine[Any, Any, None]]"
"""What a worker runs: it takes its channel and the arguments that the test gave."""


class Channel:
    """The worker's end of the two pipes to its test."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._text = b""

    def say(self, **message: object) -> None:
        """Say something; a line at a time, so that a kill never leaves half of one."""
        os.write(self._writing, json.dumps(message).encode() + b"\n")

    async def hear(self) -> Message | None:
        """Wait for the next thing that the test says; None once it has hung up."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._text:
            ready = asyncio.Event()
            loop.add_reader(self._reading, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._reading)
            piece = os.read(self._reading, 65_536)
            if not piece:
                return None
            self._text += piece
        line, _, self._text = self._text.partition(b"\n")
        message: Message = json.loads(line)
        return message
