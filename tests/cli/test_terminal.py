"""On a terminal: questions are asked, lines fit, and progress is shown beside them."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND: Final = [sys.executable, "-c", "from yielded_core.cli import main; main()"]
ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLUMNS: Final = 60


class Terminal:
    """A terminal of 60 columns, in which a command is called."""

    def __init__(self) -> None:
        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (24, COLUMNS))

    def call(self, *arguments: str, answer: str = "") -> tuple[int, str]:
        """Call a command, answer what it asks, and return its exit code and all it showed."""
        environment = {**os.environ, "TERM": "xterm"}
        environment.pop("COLUMNS", None)
        os.write(self._ours, answer.encode())
        with subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=environment,
            start_new_session=True,
        ) as process:
            os.close(self._theirs)
            shown = b""
            while part := self._part():
                shown += part
        return process.returncode, shown.decode().replace("\r\n", "\n")

    def _part(self) -> bytes:
        try:
            return os.read(self._ours, 65_536)
        except OSError:  # the last process that had the terminal open is gone
            return b""

    def close(self) -> None:
        """Give the terminal back."""
        os.close(self._ours)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Open a terminal for one command."""
    opened = Terminal()
    yield opened
    opened.close()


def test_a_no_changes_nothing(terminal: Terminal, store: str) -> None:
    code, shown = terminal.call("delete", "chat", "--store", store, answer="n\n")
    assert code == 3
    assert "Delete the thread chat with 21 records for good? [y/N]:" in shown
    assert "Nothing was changed." in shown


@pytest.mark.rule("ARC-7")
def test_a_yes_deletes(terminal: Terminal, store: str) -> None:
    code, shown = terminal.call("delete", "chat", "--store", store, answer="y\n")
    assert code == 0
    assert "Deleted chat. Its tombstone:" in shown


def test_the_timeline_fits(terminal: Terminal, store: str) -> None:
    code, shown = terminal.call("log", "chat", "--limit=5", "--store", store)
    assert code == 0
    lines = ESCAPE.sub("", shown).splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) <= COLUMNS
    assert lines[1].endswith("thread: created for ag…")


def test_progress_is_shown(terminal: Terminal, store: str) -> None:
    code, shown = terminal.call("verify", "chat", "--store", store)
    assert code == 0
    assert "verify chat" in shown
    lines = ESCAPE.sub("", shown.split("chat: ")[-1]).splitlines()
    assert max(map(len, lines)) <= COLUMNS


def test_a_list_of_threads_fits(terminal: Terminal, store: str) -> None:
    code, shown = terminal.call("threads", "--store", store)
    assert code == 0
    lines = ESCAPE.sub("", shown).splitlines()
    assert [len(line) <= COLUMNS for line in lines] == [True, True]
