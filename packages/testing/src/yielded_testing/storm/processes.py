"""Real processes for the tests, forked within milliseconds from one that has loaded everything.

The process of a test has threads and must not fork. So a child process imports the adapter once and
forks a worker for every request (`forking.py`). Test and worker talk in lines of JSON over two
pipes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from yielded_testing.storm.channel import Message

PATIENCE: Final = 60.0
"""Seconds that a test waits for a line; never part of what a passing test takes."""


class Worker:
    """A process that runs one of the programs that were given to `forking.serve`."""

    def __init__(self, pid: int, reading: int, writing: int) -> None:
        self.pid = pid
        self._reading = reading
        self._writing: int | None = writing
        self._text = b""
        self._ended = False
        self._released = False

    def fileno(self) -> int:
        """Return what to wait on for the next line."""
        return self._reading

    def send(self, **message: object) -> None:
        """Say something to the worker."""
        assert self._writing is not None
        os.write(self._writing, json.dumps(message).encode() + b"\n")

    def receive(self, patience: float = PATIENCE) -> Message:
        """Return the next thing that the worker says; an error of its program is raised here."""
        until = time.monotonic() + patience
        while b"\n" not in self._text:
            ready, _, _ = select.select([self], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"worker {self.pid} said nothing for {patience} seconds"
            assert self._fill(), f"worker {self.pid} ended"
        return next(self._lines())

    def received(self) -> list[Message]:
        """Return what the worker said up to now, after `select` found something."""
        self._fill()
        return list(self._lines())

    def rest(self, patience: float = PATIENCE) -> list[Message]:
        """Wait until the worker has ended, and return what it said until then."""
        until = time.monotonic() + patience
        while not self._ended:
            ready, _, _ = select.select([self], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"worker {self.pid} did not end within {patience} seconds"
            self._fill()
        return list(self._lines())

    def kill(self) -> list[Message]:
        """End the worker by SIGKILL; return what it had said and nobody had read."""
        if not self._ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.rest()

    def finish(self) -> list[Message]:
        """Ask the worker to end in order, by closing its input, and wait for it."""
        self.hang_up()
        return self.rest()

    def hang_up(self) -> None:
        """Close the worker's input."""
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def release(self) -> None:
        """Kill the worker if it lives, and close the pipes; only the first time does anything."""
        if self._released:
            return
        self._released = True
        self.hang_up()
        if not self._ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)
                os.kill(self.pid, signal.SIGKILL)
            while not self._ended:
                self._fill()
        os.close(self._reading)

    def _fill(self) -> bool:
        piece = os.read(self._reading, 65_536)
        self._text += piece
        self._ended = self._ended or not piece
        return bool(piece)

    def _lines(self) -> Iterator[Message]:
        while b"\n" in self._text:
            line, _, self._text = self._text.partition(b"\n")
            message: Message = json.loads(line)
            assert "traceback" not in message, message["traceback"]
            yield message


class Processes:
    """The process that forks the workers; a context manager."""

    def __init__(self, script: Path) -> None:
        """Run a script that calls `forking.serve`."""
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server = subprocess.Popen(
            [sys.executable, script, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._server.wait()

    def start(self, program: str, **arguments: object) -> Worker:
        """Fork a worker."""
        its_input, writing = os.pipe()
        reading, its_output = os.pipe()
        request = json.dumps({"program": program, "arguments": arguments}).encode()
        socket.send_fds(self._requests, [request], [its_input, its_output])
        os.close(its_input)
        os.close(its_output)
        answer = self._requests.recv(64)
        assert answer, "the process that forks the workers has ended"
        return Worker(int(answer), reading, writing)


class Workers:
    """The workers of one test, which end with it."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._started: list[Worker] = []

    def start(self, program: str, **arguments: object) -> Worker:
        """Fork a worker that is killed at the end of the test, if it lives until then."""
        worker = self._processes.start(program, **arguments)
        self._started.append(worker)
        return worker

    def release(self) -> None:
        """End them all."""
        for worker in self._started:
            worker.release()
