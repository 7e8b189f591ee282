"""What holds for every run: whether workers share the tests, what a report ends with, no skips.

A skipped test fails the run in CI: what was not run shows nothing about durability.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.terminal import TerminalReporter

_OPERATIONS: Final = Path(__file__).parent / "docs" / "operations.md"


@pytest.fixture(scope="session")
def documented() -> Callable[[str, str], str]:
    """Return a function that reads a code block of `docs/operations.md`.

    It takes the language and a line of the block, by which the block is found; there must be one.
    """
    tokens = MarkdownIt().parse(_OPERATIONS.read_text(encoding="utf-8"))
    blocks = [(token.info, token.content) for token in tokens if token.type == "fence"]

    def block(language: str, line: str) -> str:
        (found,) = [text for info, text in blocks if info == language and line in text.splitlines()]
        return found

    return block


def pytest_configure(config: pytest.Config) -> None:
    """Name the servers of a run; where `CI` is `true`, watch for skips and expected failures."""
    config.pluginmanager.register(_Servers())
    if os.environ.get("CI") == "true":
        config.pluginmanager.register(_SkipWatch())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run in one process what prints, what was named test by test, and what `-m` asks for.

    Tests behind `-m` measure times, or build what all of them use. None leaves it to the cores.
    """
    prints = config.option.capture == "no"
    named = all("::" in argument for argument in config.args)
    asked_for = f"-m={config.option.markexpr}" not in config.getini("addopts")
    return 0 if prints or named or asked_for else None


class _Servers:
    """Says at the end which database servers the tests ran on, as their reports tell."""

    def __init__(self) -> None:
        self._names: dict[object, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._names.update(
            (value, None) for key, value in report.user_properties if key == "server"
        )

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        for name in self._names:
            terminalreporter.line(f"tests ran on {name}")


class _SkipWatch:
    """Collects the ids of what was skipped or failed as expected, and fails the session."""

    def __init__(self) -> None:
        self._skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped or hasattr(report, "wasxfail"):
            self._skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skipped.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        passed = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
        if self._skipped and passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._skipped:
            terminalreporter.section("skipped tests fail this run", red=True)
            for nodeid in self._skipped:
                terminalreporter.line(nodeid)
