"""A run with a skipped or expectedly failing test fails in CI, and only there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

CONFTEST: Final = Path(__file__).parents[2] / "conftest.py"
PASSES: Final = "def test_one() -> None: ...\n"
SKIPS: Final = {
    "marker": "import pytest\n@pytest.mark.skip\ndef test_two() -> None: ...\n",
    "call": "import pytest\ndef test_two() -> None: pytest.skip('no disk')\n",
    "module": "import pytest\npytest.importorskip('no_such_module')\n",
    "fixture": (
        "import pytest\n@pytest.fixture\ndef disk() -> None: pytest.skip('no disk')\n"
        "def test_two(disk: None) -> None: ...\n"
    ),
    "expected": "import pytest\n@pytest.mark.xfail\ndef test_two() -> None: raise OSError\n",
    "unexpected": "import pytest\n@pytest.mark.xfail\ndef test_two() -> None: ...\n",
}


WORKERS: Final = ("-p", "xdist", "-n1")
"""Options that let another process run the tests."""


def run_pytest(
    folder: Path, source: str, *options: str, ci: str
) -> subprocess.CompletedProcess[str]:
    """Run a passing test and the given module under the project's own conftest."""
    shutil.copy(CONFTEST, folder)
    (folder / "test_passes.py").write_text(PASSES)
    (folder / "test_other.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", [(), WORKERS])
@pytest.mark.parametrize("kind", SKIPS)
def test_a_skip_fails_the_run_in_ci(tmp_path: Path, kind: str, workers: tuple[str, ...]) -> None:
    answer = run_pytest(tmp_path, SKIPS[kind], *workers, ci="true")
    assert answer.returncode == pytest.ExitCode.TESTS_FAILED
    assert "skipped tests fail this run" in answer.stdout
    assert "test_other.py" in answer.stdout.partition("skipped tests fail this run")[2]


@pytest.mark.parametrize("workers", [(), WORKERS])
def test_a_skip_passes_elsewhere(tmp_path: Path, workers: tuple[str, ...]) -> None:
    answer = run_pytest(tmp_path, SKIPS["marker"], *workers, ci="")
    assert answer.returncode == pytest.ExitCode.OK


@pytest.mark.parametrize("workers", [(), WORKERS])
def test_a_run_without_skips_passes_in_ci(tmp_path: Path, workers: tuple[str, ...]) -> None:
    answer = run_pytest(tmp_path, PASSES, *workers, ci="true")
    assert answer.returncode == pytest.ExitCode.OK
