"""The public names of `yielded_core` are imported when they are used, and all of them are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import yielded_core


@pytest.mark.parametrize("name", yielded_core.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(yielded_core, name).__name__ == name


def test_they_are_listed() -> None:
    assert dir(yielded_core) == sorted(yielded_core.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        str(yielded_core.nothing)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


def test_importing_the_package_imports_no_schema() -> None:
    program = "import sys, yielded_core; print('pydantic' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.strip() == b"False"
