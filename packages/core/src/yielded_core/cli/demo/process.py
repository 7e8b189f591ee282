"""A writer as a child process: its order goes in, what it does comes out, and it can be killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self, cast

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from yielded_core.cli.demo.plan import Order


class Killed(NamedTuple):
    """How a writer ended that was to be killed in mid-append."""

    pid: int
    acknowledged: int
    """The appends that it was told were committed."""
    inside: int | None
    """The append that was begun and not acknowledged; None if it was killed anywhere else."""


class Finished(NamedTuple):
    """What a writer did that was left alone."""

    pid: int
    found: int
    """The appends that it found in the log."""
    replayed: int
    """The appends that it sent and that were there already."""
    appended: int


class WriterFailed(Exception):
    """A writer ended with an error; the text says which."""


class WriterProcess:
    """A child process that appends; a context manager, at whose end it is gone.

    It gets ready while the parent does other things, and begins when it is given its order.
    """

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "yielded_core.cli.demo.writer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which ends this process
        )
        self._give(orjson.dumps(url) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def kill_inside(self, append: int, order: Order, messages: bytes) -> Killed:
        """Kill it as soon as it says that it begins an append; where it was by then is returned.

        Between what it said and the kill it goes on, so that may have been in a later append, or
        between two. Raises WriterFailed.
        """
        acknowledged, begun = 0, 0
        for event in self._events(order, messages):
            if event["event"] == "begin":
                begun = cast("int", event["append"])
                if begun == append:
                    self._process.kill()
            elif event["event"] == "done":
                acknowledged = cast("int", event["append"])
        killed = self._ended() < 0
        inside = begun if killed and begun > acknowledged else None
        return Killed(self._process.pid, acknowledged, inside)

    def finish(self, order: Order, messages: bytes) -> Finished:
        """Let it append everything. Raises WriterFailed."""
        found, replayed, appended = 0, 0, 0
        for event in self._events(order, messages):
            if event["event"] == "found":
                found = cast("int", event["committed"])
            elif event["event"] == "done":
                replayed += event["replayed"] is True
                appended += event["replayed"] is False
        self._ended()
        return Finished(self._process.pid, found, replayed, appended)

    def _events(self, order: Order, messages: bytes) -> Iterator[dict[str, object]]:
        """Hand over the order, then yield what the process says until it ends."""
        self._give(order.encode() + b"\n" + messages)
        if self._process.stdin is None or self._process.stdout is None:
            raise WriterFailed("the process has no pipes")
        self._process.stdin.close()
        for line in self._process.stdout:
            event = cast("dict[str, object]", orjson.loads(line))
            if event["event"] == "failed":
                raise WriterFailed(f"process {self._process.pid}: {event['message']}")
            yield event

    def _ended(self) -> int:
        """Return 0, or the negative number of the signal that ended it. Raises WriterFailed."""
        code = self._process.wait()
        if code > 0:
            raise WriterFailed(f"process {self._process.pid} ended with exit code {code}")
        return code

    def _give(self, text: bytes) -> None:
        """Write to the process; one that has ended says itself why."""
        left = memoryview(text)
        with suppress(BrokenPipeError):
            while left and self._process.stdin is not None:
                left = left[self._process.stdin.write(left) :]
