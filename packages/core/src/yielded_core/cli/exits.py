"""Exit codes: what the `yielded` command says to the shell, and which error says what."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.errors import YieldedError


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    UNAVAILABLE = 5
    STORE_REFUSED = 6
    DEFECT = 70
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


MEANINGS: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.OK: "done",
        ExitCode.CHECK_FAILED: "the check failed: verify found damage, or a step of demo failed",
        ExitCode.USAGE: "the command line is wrong",
        ExitCode.REFUSED: "refused: the input, or the operation at this time",
        ExitCode.NOT_FOUND: "there is no such store, thread, record, submission, call or file",
        ExitCode.UNAVAILABLE: "the store does not answer, is busy or full: try again later",
        ExitCode.STORE_REFUSED: "the store is refused as it is, or damaged",
        ExitCode.DEFECT: "a defect of the program",
        ExitCode.INTERRUPTED: "interrupted",
        ExitCode.OUTPUT_CLOSED: "whoever read the output went away",
    }
)

_BY_CODE: Final[Mapping[str, ExitCode]] = MappingProxyType(
    {
        "adapter-missing": ExitCode.USAGE,
        "invalid-store-url": ExitCode.USAGE,
        "no-such-submission": ExitCode.NOT_FOUND,
        "record-not-found": ExitCode.NOT_FOUND,
        "store-missing": ExitCode.NOT_FOUND,
        "submission-not-found": ExitCode.NOT_FOUND,
        "thread-deleted": ExitCode.NOT_FOUND,
        "thread-not-materialized": ExitCode.NOT_FOUND,
        "unknown-call-not-found": ExitCode.NOT_FOUND,
        "storage": ExitCode.UNAVAILABLE,
        "storage-busy": ExitCode.UNAVAILABLE,
        "storage-closed": ExitCode.UNAVAILABLE,
        "storage-full": ExitCode.UNAVAILABLE,
        "storage-read-only": ExitCode.UNAVAILABLE,
        "storage-unavailable": ExitCode.UNAVAILABLE,
        "evidence-fault": ExitCode.STORE_REFUSED,
        "record-undecodable": ExitCode.STORE_REFUSED,
        "storage-corrupt": ExitCode.STORE_REFUSED,
        "store-refused": ExitCode.STORE_REFUSED,
    }
)


def exit_code(error: YieldedError) -> ExitCode:
    """Return the exit code of an error; one that has no place of its own is a refusal."""
    return _BY_CODE.get(error.code, ExitCode.REFUSED)
