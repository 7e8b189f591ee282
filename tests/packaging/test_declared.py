"""What the distributions declare: ranges with a lowest version, one Python range, one version."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PROJECTS: Final[dict[str, dict[str, Any]]] = {
    path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}


def requirements(project: dict[str, Any]) -> Iterator[Requirement]:
    """Yield the requirements of a distribution and of its extras."""
    for text in project["dependencies"]:
        yield Requirement(text)
    for extra in project.get("optional-dependencies", {}).values():
        for text in extra:
            yield Requirement(text)


def test_there_are_five_distributions() -> None:
    assert sorted(project["name"] for project in PROJECTS.values()) == [
        "yielded-core",
        "yielded-storage-memory",
        "yielded-storage-postgres",
        "yielded-storage-sqlite",
        "yielded-testing",
    ]


@pytest.mark.parametrize("folder", PROJECTS)
def test_every_requirement_has_a_lowest_version(folder: str) -> None:
    without = [
        str(requirement)
        for requirement in requirements(PROJECTS[folder])
        if not any(specifier.operator in {">=", "~="} for specifier in requirement.specifier)
    ]
    assert without == []


@pytest.mark.parametrize("folder", PROJECTS)
def test_our_distributions_require_one_another_in_this_version(folder: str) -> None:
    project = PROJECTS[folder]
    ours = [needed for needed in requirements(project) if needed.name.startswith("yielded-")]
    assert bool(ours) == (folder != "core")
    for needed in ours:
        assert needed.specifier.contains(project["version"])
        assert not needed.specifier.contains("1!0")


def test_versions_and_python_ranges_agree() -> None:
    assert len({project["version"] for project in PROJECTS.values()}) == 1
    assert {project["requires-python"] for project in PROJECTS.values()} == {">=3.11"}
