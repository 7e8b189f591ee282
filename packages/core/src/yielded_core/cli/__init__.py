"""The `yielded` command (extra `cli`): shows stores, checks them, moves their threads."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line of this process, and end the process with its exit code."""
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.stderr.write('yielded: it needs more packages: pip install "yielded-core[cli]"\n')
        raise SystemExit(2)
    from yielded_core.cli.app import run  # noqa: PLC0415 - typer is there only from here on

    raise SystemExit(run(sys.argv[1:]))
