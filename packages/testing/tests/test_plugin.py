"""The pytest plugin in a session of its own: markers, the report, and skips that fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TESTS: Final = """
import pytest

@pytest.mark.rule("LOG-4", "LOG-5")
def test_one() -> None: ...

@pytest.mark.rule("LOG-4")
@pytest.mark.parametrize("number", [1, 2])
def test_two(number: int) -> None:
    assert number == 1

@pytest.mark.rule("STO-3")
def test_three() -> None:
    pytest.skip("no disk")

@pytest.mark.slow_case
def test_four() -> None:
    pytest.skip("proves no rule")
"""
WORKERS: Final = ("-p", "xdist", "-n2")
"""Options that let two processes share the tests."""


def run_pytest(
    folder: Path, source: str, *options: str, ci: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a module of tests with this plugin alone."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    plugins = ["-p", "yielded_testing.plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(folder)],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def report_of(folder: Path, *options: str, ci: str = "") -> dict[str, Any]:
    """Return the report of rules of a session."""
    run_pytest(folder, TESTS, "--rules-report", "report.json", *options, ci=ci)
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


@pytest.mark.parametrize("options", [(), WORKERS])
def test_the_report_gives_rules_with_tests_and_outcomes(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    assert report_of(tmp_path, *options) == {
        "rules": {
            "LOG-4": {
                "test_it.py::test_one": "passed",
                "test_it.py::test_two[1]": "passed",
                "test_it.py::test_two[2]": "failed",
            },
            "LOG-5": {"test_it.py::test_one": "passed"},
            "STO-3": {"test_it.py::test_three": "skipped"},
        }
    }


def test_the_report_of_a_collection_runs_nothing(tmp_path: Path) -> None:
    found = report_of(tmp_path, "--collect-only")
    assert found["rules"]["STO-3"] == {"test_it.py::test_three": "collected"}


def test_the_report_of_workers_names_what_was_not_run(tmp_path: Path) -> None:
    found = report_of(tmp_path, *WORKERS, "--maxfail=1")
    assert list(found["rules"]) == ["LOG-4", "LOG-5", "STO-3"]
    assert found["rules"]["LOG-4"]["test_it.py::test_two[2]"] == "failed"


def test_deselected_tests_are_not_reported(tmp_path: Path) -> None:
    assert list(report_of(tmp_path, "-k", "test_one")["rules"]) == ["LOG-4", "LOG-5"]


@pytest.mark.parametrize("workers", [(), WORKERS])
@pytest.mark.parametrize(("option", "ci"), [("--no-skips", ""), ("-rs", "true")])
def test_a_skipped_proof_fails(
    tmp_path: Path, option: str, ci: str, workers: tuple[str, ...]
) -> None:
    answer = run_pytest(tmp_path, TESTS, option, *workers, "-k", "three or four", ci=ci)
    assert answer.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 skipped" in answer.stdout
    assert "does not prove STO-3" in answer.stdout


def test_a_skip_is_a_skip_otherwise(tmp_path: Path) -> None:
    answer = run_pytest(tmp_path, TESTS, "-k", "three or four")
    assert answer.returncode == pytest.ExitCode.OK
    assert "2 skipped" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "workers"),
    [
        ('"LOG4"', ()),
        ('"LOG4"', WORKERS),
        ('"log-4"', ()),
        ('"LOG-4, LOG-5"', ()),
        ("4", ()),
        ("", ()),
    ],
)
def test_what_is_no_rule_id_stops_the_session(
    tmp_path: Path, arguments: str, workers: tuple[str, ...]
) -> None:
    source = f"import pytest\n@pytest.mark.rule({arguments})\ndef test() -> None: ...\n"
    answer = run_pytest(tmp_path, source, *workers)
    assert answer.returncode in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED}
    assert "is no rule id such as LOG-4" in answer.stdout
    assert "passed" not in answer.stdout
