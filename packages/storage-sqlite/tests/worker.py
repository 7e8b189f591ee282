"""The programs that run in processes of their own, and the process that forks for them.

Run by `processes.py` with the number of a socket. Each request names a program below.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from worker_programs import PROGRAMS, Channel

if TYPE_CHECKING:
    from collections.abc import Sequence


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
