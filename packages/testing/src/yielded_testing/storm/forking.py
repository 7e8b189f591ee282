"""The process that forks the workers of a test.

An adapter's tests have a script of a few lines, which imports the adapter, so that no worker has
to, and calls `serve` with its programs. `Processes` runs it with the number of a socket.
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

from yielded_testing.storm.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yielded_testing.storm.channel import Program

_DIE_WITH_PARENT: Final = 1


def serve(programs: Mapping[str, Program]) -> None:
    """Fork a worker for each request, which names one of the programs, until the test run ends."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers are not waited for
    while True:
        text, files, *_ = socket.recv_fds(requests, 65_536, 2)
        if not text:
            return
        worker = os.fork()
        if not worker:
            requests.close()
            _work(programs, json.loads(text), files)
        for file in files:
            os.close(file)
        requests.sendall(str(worker).encode())


def _work(
    programs: Mapping[str, Program], request: dict[str, Any], files: Sequence[int]
) -> NoReturn:
    """Run a program over the given pipes, and leave without what the parent would do at exit."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # nothing outlives the test run
        channel = Channel(*files)
        try:
            asyncio.run(programs[request["program"]](channel, **request["arguments"]))
            status = 0
        except BaseException:  # noqa: BLE001 - the test must hear of it, whatever it is
            channel.say(traceback=traceback.format_exc())
    finally:
        os._exit(status)
