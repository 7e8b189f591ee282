"""The built distributions: what is in them, and that they work outside the workspace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import pytest

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(600)]

ROOT: Final = Path(__file__).parents[2]
OUTSIDE: Final = Path(__file__).parent / "outside"
"""Test modules of a user who has only the wheels; each runs where nothing else is installed."""
LIMIT_SECONDS: Final = 480
UV: Final = os.environ.get("UV", "uv")
FOLDERS: Final = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
EXTRAS: Final = {"core": "[cli,sql,tracing]"}
WORKSPACE_ONLY: Final = {"PYTHONPATH", "UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV"}
IMPORT_ALL: Final = """
import importlib, pkgutil, sys
top = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(top.__path__, top.__name__ + "."):
    if not found.name.endswith(".__main__"):
        importlib.import_module(found.name)
print(top.__file__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that sees nothing of the workspace's environment; return what it printed."""
    hidden = {name: value for name, value in os.environ.items() if name not in WORKSPACE_ONLY}
    try:
        answer = subprocess.run(
            command,
            cwd=cwd,
            env={**hidden, "CI": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        printed, outcome = late.stdout or b"", f"was not done in {LIMIT_SECONDS} s"
    else:
        printed, outcome = answer.stdout, f"ended with {answer.returncode}"
    text = printed.decode(errors="replace")
    assert outcome == "ended with 0", f"{command} {outcome}:\n{text}"
    return text


def module_of(folder: str) -> str:
    """Return the import name of the distribution in a folder."""
    return f"yielded_{folder.replace('-', '_')}"


def wheel_of(dist: Path, folder: str) -> Path:
    """Return the one wheel of a distribution."""
    (wheel,) = dist.glob(f"{module_of(folder)}-*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class Environment(NamedTuple):
    """A virtual environment in a folder outside the workspace."""

    folder: Path

    def program(self, name: str) -> Path:
        """Return the path of an installed program."""
        return self.folder / "venv" / "bin" / name

    def uv_pip(self, verb: str, *arguments: str | Path) -> str:
        """Run `uv pip` on the environment and return what it printed."""
        python = self.program("python")
        return run(UV, "pip", verb, "--python", python, *arguments, cwd=self.folder)


class Installer(NamedTuple):
    """Makes environments from the built wheels and the locked versions of everything else."""

    dist: Path
    constraints: Path

    def install(self, folder: Path, *packages: str, extras: bool = True) -> Environment:
        """Make an empty environment and install the wheels of some packages in it."""
        environment = Environment(folder)
        wheels = [
            f"{wheel_of(self.dist, package)}{EXTRAS.get(package, '') if extras else ''}"
            for package in packages
        ]
        run(UV, "venv", "--quiet", "--python", sys.executable, folder / "venv", cwd=folder)
        environment.uv_pip("install", "-c", self.constraints, "-f", self.dist, *wheels)
        return environment


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build all distributions with uv, and return the folder that they are in."""
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--all-packages", "--out-dir", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def installer(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Installer:
    """Write the locked versions down, so that the environments hold what the workspace holds."""
    constraints = tmp_path_factory.mktemp("lock") / "constraints.txt"
    options = ("--locked", "--no-emit-workspace", "--no-hashes", "--quiet")
    run(UV, "export", *options, "--output-file", constraints, cwd=ROOT)
    return Installer(dist, constraints)


@pytest.fixture(scope="module")
def everything(installer: Installer, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install all five wheels in one environment."""
    return installer.install(tmp_path_factory.mktemp("everything"), *FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_wheel_holds_the_whole_package_and_nothing_else(dist: Path, folder: str) -> None:
    wheel = contents(wheel_of(dist, folder))
    source = ROOT / "packages" / folder / "src"
    written = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in source.glob("**/*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    metadata = {name for name in wheel if name.split("/")[0].endswith(".dist-info")}
    assert {name: wheel[name] for name in wheel if name not in metadata} == written
    assert sum(name.endswith("/licenses/LICENSE") for name in metadata) == 1
    assert f"{module_of(folder)}/py.typed" in written


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_standard_builder_makes_the_same_wheel(dist: Path, folder: str, tmp_path: Path) -> None:
    # It makes the wheel from its own sdist, so this shows that the sdist is complete as well.
    build = (sys.executable, "-m", "build", "--installer", "uv", "--outdir", tmp_path)
    run(*build, ROOT / "packages" / folder, cwd=tmp_path)
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1
    assert contents(wheel_of(tmp_path, folder)) == contents(wheel_of(dist, folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_imports_with_what_its_wheel_declares(
    installer: Installer, folder: str, tmp_path: Path
) -> None:
    python = installer.install(tmp_path, folder).program("python")
    printed = run(python, "-I", "-W", "error", "-c", IMPORT_ALL, module_of(folder), cwd=tmp_path)
    assert Path(printed.strip()).is_relative_to(tmp_path / "venv")


def test_memory_needs_no_extra_of_core(installer: Installer, tmp_path: Path) -> None:
    environment = installer.install(tmp_path, "core", "storage-memory", extras=False)
    assert not {"rich", "sqlalchemy", "sqlglot", "typer"} & set(environment.uv_pip("list").split())
    module = module_of("storage-memory")
    run(environment.program("python"), "-I", "-c", IMPORT_ALL, module, cwd=tmp_path)


def test_the_installed_distributions_agree(everything: Environment) -> None:
    everything.uv_pip("check")


@pytest.mark.parametrize("module", sorted(path.name for path in OUTSIDE.glob("*.py")))
def test_a_module_of_an_outsider_passes(
    everything: Environment, module: str, tmp_path: Path
) -> None:
    # No test at all is a failure by pytest's exit code, a skipped one by the project's conftest.
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(OUTSIDE / module, tmp_path / f"test_{module}")
    options = ("--strict-markers", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=60")
    run(everything.program("python"), "-m", "pytest", *options, cwd=tmp_path)


def test_the_demo_of_the_installed_command_runs(everything: Environment, tmp_path: Path) -> None:
    assert run(everything.program("yielded"), "demo", cwd=tmp_path).strip()


def test_without_its_extra_the_command_names_it(installer: Installer, tmp_path: Path) -> None:
    command = installer.install(tmp_path, "core", extras=False).program("yielded")
    answer = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    assert answer.returncode != 0
    assert "yielded-core[cli]" in answer.stderr
    assert "Traceback" not in answer.stderr
