"""Starting the processes in which `child` measures, and reading what they print."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@dataclass
class Child:
    """One process."""

    process: asyncio.subprocess.Process

    async def ready(self) -> None:
        """Wait until it says that it is ready."""
        line = await self._line()
        assert line == "ready\n", "the child said something else"

    async def go(self) -> None:
        """Tell it to begin."""
        assert self.process.stdin is not None, "it has an input"
        self.process.stdin.write(b"go\n")
        await self.process.stdin.drain()

    async def figures(self) -> dict[str, Any]:
        """Return what it measured, once it has ended."""
        line = await self._line()
        assert await self.process.wait() == 0, "the child failed"
        return orjson.loads(line)

    async def _line(self) -> str:
        assert self.process.stdout is not None, "it has an output"
        return (await self.process.stdout.readline()).decode()


@asynccontextmanager
async def child(command: str, *arguments: str) -> AsyncGenerator[Child]:
    """Start a process, and end it at the end, whatever it does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "yielded_bench.child",
        command,
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=64 * 1_048_576,
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def measured_by(command: str, *arguments: str) -> dict[str, Any]:
    """Run a command to its end and return its figures."""
    async with child(command, *arguments) as started:
        return await started.figures()
