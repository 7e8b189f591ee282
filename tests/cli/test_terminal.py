"""On a terminal: questions are asked, lines fit, and progress is shown beside them."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Final

import pytest
from owed_work import LaneOf, Owed
from rich.cells import cell_len

from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND: Final = [sys.executable, "-c", "from yielded_core.cli import main; main()"]
ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLUMNS: Final = 60


class Terminal:
    """A terminal, of 60 columns unless made wider, in which a command is called."""

    def __init__(self) -> None:
        self._ours, self._theirs = pty.openpty()
        self.widen(COLUMNS)

    def widen(self, columns: int) -> None:
        """Set the number of columns, before the call."""
        termios.tcsetwinsize(self._theirs, (24, columns))

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


def lines_of(shown: str) -> list[str]:
    """Return the lines of an answer, without colours."""
    return ESCAPE.sub("", shown).splitlines()


WIDTHS: Final = pytest.mark.parametrize("columns", [60, 80, 140])


@WIDTHS
def test_a_queue_fits(terminal: Terminal, owed: Owed, columns: int) -> None:
    terminal.widen(columns)
    code, shown = terminal.call("queue", "--store", owed.url)
    assert code == 0
    lines = lines_of(shown)
    assert len(lines) == 1 + 5 + 8 + 1
    assert max(map(len, lines)) <= columns
    if columns >= 80:
        assert all(any(each in line for line in lines) for each in _unsettled(owed))
        assert any(line.endswith("for 2 approvals") for line in lines)


def _unsettled(owed: Owed) -> list[str]:
    return [submission for name, submission in owed.work.items() if name != "settled"]


@WIDTHS
def test_long_names_and_many_lanes_fit(terminal: Terminal, tmp_path: Path, columns: int) -> None:
    """Also names whose characters are two columns wide."""
    url = f"sqlite:///{tmp_path}/long.db"

    async def fill() -> None:
        async with open_storage(url) as storage:
            lanes = [LaneOf(storage, f"lane-{number:03}") for number in range(300)]
            await asyncio.gather(*(lane.admit("work") for lane in lanes))
            for name in ("x" * 4_096, "\u4f1a\u8a71" * 200):
                lane = LaneOf(storage, name, name[:256])
                await lane.ready(name[:256])
                await lane.claim(name)

    asyncio.run(fill())
    terminal.widen(columns)
    code, shown = terminal.call("queue", "--store", url)
    assert code == 0
    lines = lines_of(shown)
    assert len(lines) == 1 + 2 * 302 + 1
    assert max(map(cell_len, lines)) <= columns
    assert sum(", 29s left" in line or ", 23h 59m left" in line for line in lines) == 2


@WIDTHS
def test_what_is_shown_of_a_submission_fits(terminal: Terminal, owed: Owed, columns: int) -> None:
    terminal.widen(columns)
    code, shown = terminal.call("show", owed.work["parent"], "--store", owed.url)
    assert code == 0
    lines = lines_of(shown)
    assert max(map(len, lines)) <= columns
    assert lines[0] == f"submission  {owed.work['parent']}"
    assert lines[-3:] == ["  {", '    "say": "parent"', "  }"]


def test_an_empty_queue_is_told(terminal: Terminal, store: str) -> None:
    code, shown = terminal.call("queue", "--store", store)
    assert (code, lines_of(shown)) == (0, ["The store holds no unsettled work."])
