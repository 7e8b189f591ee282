"""`yielded demo`, as a process of its own: every step holds, and wrong input is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

COMMAND: Final = [sys.executable, "-c", "from yielded_core.cli import main; main()"]
STEPS: Final = [
    "read",
    "kill",
    "reopen",
    "take-over",
    "fence",
    "verify",
    "move",
    "verify-copy",
    "end",
]


def demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it and return what it printed."""
    return subprocess.run(
        [*COMMAND, "demo", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def steps(*arguments: str) -> dict[str, dict[str, Any]]:
    """Run it with `--json` and return the steps by name."""
    answer = demo("--json", *arguments)
    assert (answer.returncode, answer.stderr) == (0, "")
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [step["step"] for step in found] == STEPS
    assert all(step["ok"] for step in found)
    return {step["step"]: step for step in found}


@pytest.mark.rule("LOG-1", "LOG-2", "LOG-4", "LOG-7", "ARC-4", "ARC-5")
def test_a_person_sees_one_line_a_step(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    elsewhere = tmp_path / "elsewhere.db"  # is for other commands; a demonstration keeps away
    answer = demo("--keep", str(folder), COLUMNS="80", YIELDED_STORE=f"sqlite:///{elsewhere}")
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    expected = [
        r"Read 49 messages, to be written in 24 appends",
        r"Process \d+ appended \d+ of 24, and was killed \(SIGKILL\) inside append \d+",
        r"Opened the store again: append \d+ (is there whole|left no trace), the log ends at .+",
        r"Process \d+ took over \(epoch 2\): \d+ found, \d+ appended, no gap, no repeat",
        r"A late append \d+ from the killed writer \(epoch 1\) was fenced: FenceRejected",
        r"Verified the chain: 50 records, tail [0-9a-f]{12}",
        r"Exported \d+ pages \([\d,]+ bytes\), and imported them into a new store",
        r"Verified the copy: 50 records, tail [0-9a-f]{12}, the same",
    ]
    for line, pattern in zip(lines, expected, strict=False):
        assert re.fullmatch(f"✓ {pattern}", line), line
    assert re.fullmatch(r"Every step held, in \d+\.\d s\.", lines[len(expected)])
    assert f"  export YIELDED_STORE=sqlite:///{folder}/demo.db" in lines
    assert {"demo.db", "copy.db", "demo.jsonl.zst"} <= {path.name for path in folder.iterdir()}
    assert not elsewhere.exists()
    again = demo("--keep", str(folder))
    assert (again.returncode, again.stdout) == (3, "")


@pytest.mark.rule("LOG-2", "LOG-4", "LOG-7")
def test_the_numbers_agree_in_a_store_of_ones_own(store: str, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    found = steps("--store", store)
    kill, reopen, taken = found["kill"], found["reopen"], found["take-over"]
    assert kill["acknowledged"] == kill["inside"] - 1
    assert reopen["append"] == kill["inside"]
    assert taken["found"] == kill["acknowledged"] + reopen["committed"]
    assert taken["replayed"] == (taken["found"] > 0)
    assert taken["found"] + taken["appended"] == found["read"]["appends"]
    assert (found["fence"]["attempted"], found["fence"]["actual"]) == (1, 2)
    assert found["verify"]["records"] == found["read"]["messages"] + 1
    assert found["verify"]["tailDigest"] == found["verify-copy"]["tailDigest"]
    assert found["end"]["store"] == store
    assert re.fullmatch(r"demo-[0-9a-f]{8}(-\d+)?", found["end"]["thread"])
    assert set(tmp_path.iterdir()) == before


@pytest.mark.rule("REC-3")
def test_a_transcript_of_ones_own(tmp_path: Path) -> None:
    hostile = "\u0000\x1b[2J\u202e😀\ufdd0 " * 1_000
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "I begin."},
        {"role": "system", "content": ""},
        {"role": "user", "content": hostile, "timestamp": 1e16, "meta": {"\ue000": -0.0, "😀": 1}},
        {"role": "user", "content": [{"type": "text", "text": hostile}]},
        {"role": "user", "content": "x" * 1_000_000},
        *({"role": "user", "content": "y" * 1_000_000} for _ in range(8)),
        *({"role": "assistant", "content": str(number)} for number in range(20)),
    ]
    file = tmp_path / "chat.jsonl"
    file.write_text("\n".join(json.dumps(message) for message in messages) + "\n\n")
    found = steps("--input", str(file))
    assert found["read"]["messages"] == len(messages)
    assert found["verify"]["records"] == len(messages) + 1


def test_a_transcript_of_one_message_and_a_terminal_of_few_characters(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role":"user","content":"Hello?"}')
    answer = demo("--input", str(file), PYTHONIOENCODING="ascii")
    assert answer.returncode == 0
    lines = answer.stdout.splitlines()
    assert lines[0] == "ok Read 1 message, to be written in 1 append"
    assert lines[1].endswith("appended 0 of 1, and was killed (SIGKILL) inside append 1")


def test_a_transcript_that_is_refused_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role":"user","content":"Hello"}\n{"role":"\\u001b[31m"}\n')
    answer = demo("--json", "--input", str(file), "--keep", str(tmp_path / "kept"))
    assert (answer.returncode, answer.stdout) == (3, "")
    error = json.loads(answer.stderr)["error"]
    assert (error["code"], error["name"]) == ("invalid-argument", "--input")
    assert error["reason"] == "line 2: its role is none of system, user, assistant"
    assert not (tmp_path / "kept").exists()


def test_a_store_that_two_processes_cannot_share_is_refused() -> None:
    answer = demo("--store", "memory://")
    assert (answer.returncode, answer.stdout) == (3, "")
    assert "two processes must be able to open it" in answer.stderr


def test_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("✓ Read")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err.strip() == ""
    assert list(tmp_path.iterdir()) == []
