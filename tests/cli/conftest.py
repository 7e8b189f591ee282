"""The command line, called in this process, and SQLite stores with a thread or work in them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests

from owed_work import Owed, work_in_every_state

from yielded_core.cli.app import run
from yielded_core.cli.demo.plan import make_plan
from yielded_core.cli.demo.transcript import Message
from yielded_core.digest import EMPTY_TAIL_DIGEST
from yielded_core.ports.values import Tail
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES: Final = tuple(
    Message(role, {"role": role, "content": f"{role} says {number}"})
    for number in range(10)
    for role in ("user", "assistant")
)


@pytest.fixture(autouse=True)
def _no_store_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YIELDED_STORE", raising=False)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command line and returns what a process would."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        code = run(arguments)
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, err)

    return call


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return the URL of a store whose thread `chat` holds 21 records in 10 batches."""
    url = f"sqlite:///{tmp_path}/store.db"
    asyncio.run(_write(url, ThreadId("chat")))
    return url


@pytest.fixture
def owed(tmp_path: Path) -> Owed:
    """Return a store with lanes in which work is in every state."""
    url = f"sqlite:///{tmp_path}/owed.db"

    async def fill() -> Owed:
        async with open_storage(url) as storage:
            return Owed(url, await work_in_every_state(storage))

    return asyncio.run(fill())


async def _write(url: str, thread: ThreadId) -> None:
    plan = make_plan(MESSAGES, datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    async with open_storage(url) as storage:
        await storage.threads.materialize(thread, epoch=1)
        expected = Tail(0, EMPTY_TAIL_DIGEST)
        for batch in plan.appends:
            appended = await storage.threads.append(thread, batch, expected=expected, epoch=1)
            expected = appended.tail
