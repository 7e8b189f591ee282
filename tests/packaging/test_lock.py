"""The lock: it is current, and every dependency has one version for the whole workspace."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
UV: Final = os.environ.get("UV", "uv")
"""`uv run` names itself here, so that it need not be on the path."""


def test_lock_is_current() -> None:
    answer = subprocess.run(
        [UV, "lock", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr


def test_one_version_of_each_dependency() -> None:
    lock: dict[str, Any] = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    versions = Counter(package["name"] for package in lock["package"])
    assert versions["pydantic"] == 1, "the lock was not read"
    assert [name for name, count in versions.items() if count > 1] == []
