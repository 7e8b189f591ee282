"""Every error has an exit code that somebody chose, and every exit code has a meaning."""

from __future__ import annotations

import pytest

from yielded_core import errors
from yielded_core.cli.exits import MEANINGS, ExitCode, exit_code


def tree(base: type[errors.YieldedError]) -> list[type[errors.YieldedError]]:
    """Return the concrete errors of the library below a class."""
    found = [base] if base.__module__ == errors.__name__ else []
    for each in base.__subclasses__():
        found += tree(each)
    return found


def example(kind: type[errors.YieldedError]) -> errors.YieldedError:
    """Build an error without its fields, which have no say in this."""
    return kind.__new__(kind)


EXPECTED = {
    "yielded": ExitCode.REFUSED,
    "invalid-input": ExitCode.REFUSED,
    "invalid-identifier": ExitCode.REFUSED,
    "invalid-argument": ExitCode.REFUSED,
    "invalid-json": ExitCode.REFUSED,
    "invalid-record": ExitCode.REFUSED,
    "non-canonical": ExitCode.REFUSED,
    "unsupported-record": ExitCode.REFUSED,
    "invalid-batch": ExitCode.REFUSED,
    "thread": ExitCode.REFUSED,
    "thread-not-materialized": ExitCode.NOT_FOUND,
    "thread-deleted": ExitCode.NOT_FOUND,
    "record-not-found": ExitCode.NOT_FOUND,
    "no-such-submission": ExitCode.NOT_FOUND,
    "submission-not-found": ExitCode.NOT_FOUND,
    "unknown-call-not-found": ExitCode.NOT_FOUND,
    "store-missing": ExitCode.NOT_FOUND,
    "fence-rejected": ExitCode.REFUSED,
    "append-conflict": ExitCode.REFUSED,
    "settlement-conflict": ExitCode.REFUSED,
    "joined-to-host": ExitCode.REFUSED,
    "approval-conflict": ExitCode.REFUSED,
    "unknown-resolution-conflict": ExitCode.REFUSED,
    "import-refused": ExitCode.REFUSED,
    "archive-refused": ExitCode.REFUSED,
    "evidence-fault": ExitCode.STORE_REFUSED,
    "record-undecodable": ExitCode.STORE_REFUSED,
    "storage-corrupt": ExitCode.STORE_REFUSED,
    "store-refused": ExitCode.STORE_REFUSED,
    "storage-busy": ExitCode.UNAVAILABLE,
    "storage-full": ExitCode.UNAVAILABLE,
    "storage-unavailable": ExitCode.UNAVAILABLE,
    "invalid-store-url": ExitCode.USAGE,
    "adapter-missing": ExitCode.USAGE,
}


@pytest.mark.parametrize("kind", tree(errors.YieldedError), ids=lambda kind: kind.code)
def test_an_error_has_its_exit_code(kind: type[errors.YieldedError]) -> None:
    code = exit_code(example(kind))
    assert code == EXPECTED.get(kind.code, code)
    assert code in {
        ExitCode.USAGE,
        ExitCode.REFUSED,
        ExitCode.NOT_FOUND,
        ExitCode.UNAVAILABLE,
        ExitCode.STORE_REFUSED,
    }


def test_what_may_succeed_later_is_told_apart_by_its_exit_code() -> None:
    retryable = [kind for kind in tree(errors.YieldedError) if kind.retryable]
    assert retryable
    assert {exit_code(example(kind)) for kind in retryable} == {ExitCode.UNAVAILABLE}


def test_the_codes_that_are_expected_exist() -> None:
    assert EXPECTED.keys() <= {kind.code for kind in tree(errors.YieldedError)}


def test_every_exit_code_has_a_meaning() -> None:
    assert list(MEANINGS) == list(ExitCode)
