"""Running conformance cases without pytest, each over a storage of its own."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pytest

from yielded_core.errors import YieldedError
from yielded_testing.clock import VirtualClock
from yielded_testing.suites.support import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yielded_testing.cases import Case
    from yielded_testing.clock import OpenStorage

_DETAIL_CHARACTERS: Final = 200
_EXPECTED: Final = (AssertionError, pytest.fail.Exception, YieldedError, TimeoutError)
"""How a case fails for what it looks at; anything else is a crash, which shows nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case."""

    case: Case
    result: Literal["passed", "failed", "crashed"]
    detail: str
    """The error in at most 200 characters; empty for a passed case."""


def run_cases(
    cases: Iterable[Case], open_storage: OpenStorage, *, patience: float = 30.0
) -> list[Outcome]:
    """Run cases one after the other; a failing case stops nothing.

    `open_storage` returns a storage, not yet opened, of a fresh store each time it is called. The
    storage of a case is opened on a frozen clock, which the case may move.
    `patience` is how many seconds a case waits for what must come. Blocks, and must not be called
    while an event loop runs in the same thread.
    """
    if not __debug__:
        message = "the cases are assertions: do not run Python with -O"
        raise RuntimeError(message)
    with asyncio.Runner() as runner:
        return [runner.run(_run(case, open_storage, patience)) for case in cases]


async def _run(case: Case, open_storage: OpenStorage, patience: float) -> Outcome:
    PATIENCE.set(patience)
    try:
        async with AsyncExitStack() as resources:
            arguments = dict(case.arguments)
            clock = VirtualClock()
            if "clock" in case.fixtures:
                arguments["clock"] = clock
            if "storage" in case.fixtures:
                opened = open_storage(clock=clock)
                arguments["storage"] = await resources.enter_async_context(opened)
            if "open_again" in case.fixtures:
                arguments["open_again"] = open_storage
            if "tmp_path" in case.fixtures:
                folder = resources.enter_context(tempfile.TemporaryDirectory())
                arguments["tmp_path"] = Path(folder)
            await case.call(**arguments)
    except _EXPECTED as error:
        return Outcome(case, "failed", _detail(error))
    except Exception as error:  # noqa: BLE001 - a crash is an outcome, and the sweep goes on
        return Outcome(case, "crashed", _detail(error))
    return Outcome(case, "passed", "")


def _detail(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_DETAIL_CHARACTERS]
