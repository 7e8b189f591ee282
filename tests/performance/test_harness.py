"""The benchmark works from end to end; what it measures in so short a time means nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from yielded_bench.peers import PACKAGES, missing
from yielded_bench.report import RESULTS, ROUND_TRIPS, STATEMENTS, section_of

PROGRAM: Final = Path(sys.executable).parent / "yielded-bench"
EMPTY: Final = "".join(
    f"<!-- yielded-bench: {name} -->\n<!-- end of {name} -->\n"
    for name in (RESULTS, STATEMENTS, ROUND_TRIPS)
)
WORKS: Final = (
    "SQLite append, 1 task",
    "SQLite append, 16 tasks",
    "SQLite append, 64 tasks",
    "SQLite batches of 100",
    "memory append",
    "processes x",
    "page of 1,024",
    "bytes on disk",
    "verify, record wire",
    "verify, peak memory",
    "export, record wire",
    "export, peak memory",
    "idle observers",
    "until observed",
    "import of yielded_core",
    "open of an existing SQLite store",
    "PostgreSQL append, 1 task",
    "PostgreSQL append, 16 tasks, to raw",
    "PostgreSQL batches of 100",
    "claim and settle, PostgreSQL, 1 worker",
    "claimed twice",
    "observed, PostgreSQL, median",
    "open of an existing PostgreSQL store",
    "raw PostgreSQL | fsync = on",
)


def test_a_smoke_run_fills_a_document(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(EMPTY, encoding="utf-8")
    command = [PROGRAM, "--smoke", "--folder", tmp_path, "--write", document]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    results = "\n".join(section_of(document.read_text(encoding="utf-8"), RESULTS))
    installed = [f"| {peer}, PostgreSQL, 16 tasks |" for peer in PACKAGES if peer not in missing()]
    absent = [f"{peer} is not installed" for peer in missing()]
    assert [work for work in (*WORKS, *installed, *absent) if work not in results] == []
    assert "<svg" in (tmp_path / "performance.svg").read_text(encoding="utf-8")
    for section in (STATEMENTS, ROUND_TRIPS):
        assert section_of(document.read_text(encoding="utf-8"), section)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["performance.md", "performance.svg"]


def test_a_document_is_not_written_with_a_part_of_the_results(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(EMPTY, encoding="utf-8")
    command = [PROGRAM, "--smoke", "--only", "opening", "--write", document]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "leave out --only" in answer.stderr
    assert document.read_text(encoding="utf-8") == EMPTY
