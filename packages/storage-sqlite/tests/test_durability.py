"""Nobody is answered before the disk has what he is told: seen from outside, under strace.

A killed process keeps its page cache, so that a crash shows nothing about a power cut. What does is
the order of system calls: after the last write of a commit to the write-ahead log comes a flush of
it, and only then the answer.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

PROGRAM: Final = Path(__file__).with_name("durable_program.py")
CALLS: Final = "write,pwrite64,pwritev,fsync,fdatasync"
CALL: Final = re.compile(r"^(\d+) +(\w+)\((?:(\d+)<([^>]*)>)?(.*)$")
RESUMED: Final = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>.*= (-?\d+)")
MUTATIONS: Final = 28

pytestmark = pytest.mark.traced


class Event(NamedTuple):
    """One thing that a trace shows: `write` or `flush` of a file, or `answer`."""

    kind: str
    subject: str


def trace(tmp_path: Path, path: Path, options: str = "", *saboteur: str) -> list[Event]:
    """Run the program under strace and return what it did to the files of a store."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("this test needs strace: apt-get install strace")
    log = tmp_path / "trace"
    url = f"sqlite:///{path}{options}"
    arguments = ["-f", "--seccomp-bpf", "-y", "-qq", "-s", "64", "-e", f"trace={CALLS}", "-o", log]
    done = subprocess.run(
        [strace, *arguments, sys.executable, PROGRAM, url, *saboteur],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return events(log.read_text(errors="replace"), path)


def events(text: str, path: Path) -> list[Event]:
    """Read a trace; a call that another thread interrupts counts where it begins and ends."""
    found: list[Event] = []
    flushing: dict[str, str] = {}
    files = {str(path), f"{path}-wal", str(path.parent)}
    for line in text.splitlines():
        if resumed := RESUMED.match(line):
            process, _, result = resumed.groups()
            if process in flushing and result == "0":
                found.append(Event("flush", flushing.pop(process)))
            continue
        call = CALL.match(line)
        if call is None:
            continue
        process, name, _, file, rest = call.groups()
        if name == "write" and rest.startswith(', "answered '):
            found.append(Event("answer", rest.split('"')[1].removesuffix("\\n")))
        elif file in files and name in {"write", "pwrite64", "pwritev"}:
            found.append(Event("write", file))
        elif file in files and name in {"fsync", "fdatasync"}:
            if "<unfinished ...>" in rest:
                flushing[process] = file
            elif rest.endswith("= 0"):
                found.append(Event("flush", file))
    return found


def check_order(found: list[Event], path: Path) -> None:
    """Every answer comes after writes to the log, and after a flush that follows the last one."""
    log = f"{path}-wal"
    written, dirty, named = False, False, False
    answers = 0
    for event in found:
        if event == Event("flush", str(path.parent)):
            named = True
        elif event == Event("write", log):
            written = dirty = True
        elif event == Event("flush", log):
            dirty = False
        elif event.kind == "answer":
            assert written, f"{event.subject}: answered before anything was written"
            assert not dirty, f"{event.subject}: answered before the log was flushed"
            assert named, f"{event.subject}: answered before the log's name was flushed"
            written = False
            answers += 1
    assert answers == MUTATIONS


@pytest.mark.rule("LOG-2", "STO-1")
def test_every_answer_follows_a_flush_of_its_commit(tmp_path: Path, path: Path) -> None:
    check_order(trace(tmp_path, path), path)


@pytest.mark.rule("STO-1")
def test_without_full_flushes_the_check_fails(tmp_path: Path, path: Path) -> None:
    found = trace(tmp_path, path, "?synchronous=normal")
    with pytest.raises(AssertionError, match="before the log was flushed"):
        check_order(found, path)


@pytest.mark.parametrize("saboteur", ["answers-before-commit", "declares-full"])
def test_saboteurs_are_caught(tmp_path: Path, path: Path, saboteur: str) -> None:
    found = trace(tmp_path, path, "", saboteur)
    with pytest.raises(AssertionError, match="answered before"):
        check_order(found, path)
