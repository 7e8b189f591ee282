"""A program of a test: holds a server as the tests do, until it is killed."""

from __future__ import annotations

import os
import sys

from server_choice import chosen, running

if __name__ == "__main__":
    with running(chosen(os.environ)) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
