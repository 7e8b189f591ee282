"""The pytest plugin: the `rule` marker names the rules of the contract that a test proves."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("yielded_testing.suites")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that `--strict-markers` accepts them."""
    config.addinivalue_line("markers", "rule(*ids): the rules of the contract that the test proves")
    config.addinivalue_line("markers", "slow_case: a conformance case of a second or more")
