"""The process that forks the workers of the tests.

Run by `processes.py` with the number of a socket. Each request names a program of
`worker_programs.py`, `fault_programs.py` or `ledger_programs.py`.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final, NoReturn

import fault_programs
import ledger_programs
import worker_programs
from worker_programs import Channel

if TYPE_CHECKING:
    from collections.abc import Sequence


PROGRAMS: Final = worker_programs.PROGRAMS | fault_programs.PROGRAMS | ledger_programs.PROGRAMS
_DIE_WITH_PARENT: Final = 1


def serve(requests: socket.socket) -> None:
    """Fork a worker for each request until the test run ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers are not waited for
    while True:
        text, files, *_ = socket.recv_fds(requests, 65_536, 2)
        if not text:
            return
        worker = os.fork()
        if not worker:
            requests.close()
            work(json.loads(text), files)
        for file in files:
            os.close(file)
        requests.sendall(str(worker).encode())


def work(request: dict[str, Any], files: Sequence[int]) -> NoReturn:
    """Run a program over the given pipes, and leave without what the parent would do at exit."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # nothing outlives the test run
        channel = Channel(*files)
        try:
            asyncio.run(PROGRAMS[request["program"]](channel, **request["arguments"]))
            status = 0
        except BaseException:  # noqa: BLE001 - the test must hear of it, whatever it is
            channel.say(traceback=traceback.format_exc())
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
