"""The pytest plugin: the `rule` marker, the report of rules, and no skips where rules are proved.

And the fixture `clock`, on which the cases of accepted work run. It costs nothing beyond that and
two markers while its options are not used.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

from yielded_testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

pytest.register_assert_rewrite("yielded_testing.storm", "yielded_testing.suites")

_RULE_ID: Final = re.compile(r"[A-Z]{3}-\d+")
_COLLECTED: Final = "yielded_rules"
"""Under which name a worker of pytest-xdist tells its controller which tests prove which rule."""
_MARKERS: Final = (
    "rule(*ids): the rules of the contract that the test proves, such as LOG-4",
    "slow_case: a conformance case that takes about a tenth of a second or more",
)


@pytest.fixture
def clock() -> VirtualClock:
    """The frozen clock of a case; the fixture `storage` opens its storage with `clock=clock`."""
    return VirtualClock()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("yielded", "rules of the contract")
    group.addoption(
        "--rules-report",
        metavar="FILE",
        type=Path,
        help="write which tests prove which rule, with their outcomes, as JSON",
    )
    group.addoption(
        "--no-skips",
        action="store_true",
        help="fail a skipped test that proves a rule; so it is where CI=true",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and what the options ask for."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    report = cast("Path | None", config.getoption("--rules-report"))
    if report is not None:
        config.pluginmanager.register(RulesReport(report))
    if config.getoption("--no-skips") or os.environ.get("CI") == "true":
        config.pluginmanager.register(SkipsFail())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse a rule id that is not spelled as one, as tests that cannot be collected."""
    report = yield
    items = [one for one in report.result or () if isinstance(one, pytest.Item)]
    wrong = "\n".join(fault for item in items for fault in _misspelled(item))
    if wrong:
        report.outcome, report.longrepr, report.result = "failed", wrong, []
    return report


def _misspelled(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("rule"):
        for rule in marker.args or ("(none)",):
            if not isinstance(rule, str) or not _RULE_ID.fullmatch(rule):
                yield f"{item.nodeid}: {rule!r} is no rule id such as LOG-4"


def rules_of(item: pytest.Item) -> list[str]:
    """Return the rules that a test proves, each once, in the order of its markers."""
    given = (str(rule) for marker in item.iter_markers("rule") for rule in marker.args)
    return list(dict.fromkeys(given))


class RulesReport:
    """Collects rule -> test -> outcome, and writes it as JSON at the end of the session.

    Outcomes are `passed`, `failed`, `skipped`, or `collected` for a test that was not run. With
    pytest-xdist the workers know the rules, and their controller the outcomes of all of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rules: dict[str, list[str]] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the tests that are left after deselection."""
        for item in session.items:
            for rule in rules_of(item):
                self._rules.setdefault(rule, []).append(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note an outcome: that of the call, unless set-up or tear-down did not pass."""
        tells = report.when == "call" or report.outcome != "passed"
        if tells and self._outcomes.get(report.nodeid) != "failed":
            self._outcomes[report.nodeid] = report.outcome

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take what a worker collected; each collects all of it."""
        self._rules.update(getattr(node, "workeroutput", {}).get(_COLLECTED, {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report, or leave that to the controller."""
        for_controller = getattr(session.config, "workeroutput", None)
        if for_controller is not None:
            for_controller[_COLLECTED] = self._rules
            return
        rules = {
            rule: {test: self._outcomes.get(test, "collected") for test in tests}
            for rule, tests in sorted(self._rules.items())
        }
        self._path.write_text(json.dumps({"rules": rules}, indent=1) + "\n", encoding="utf-8")


class SkipsFail:
    """Turns the skip of a test that proves a rule into a failure: skipped, it proves nothing."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Look at each report once it is made."""
        report = yield
        rules = rules_of(item)
        if report.skipped and rules:
            report.outcome = "failed"
            report.longrepr = f"skipped, so it does not prove {', '.join(rules)}"
        return report
