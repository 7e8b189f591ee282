"""`yielded log --follow`: records of another process arrive, and Ctrl-C ends it cleanly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.cli.demo.plan import make_plan
from yielded_core.cli.demo.transcript import Message
from yielded_core.ports.values import Batch
from yielded_core.records.envelope import Record
from yielded_core.records.identifiers import (
    BatchId,
    DeploymentId,
    ProducerId,
    RecordId,
    ThreadId,
)
from yielded_core.records.payloads import RepairAnnotated
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND: Final = [sys.executable, "-c", "from yielded_core.cli import main; main()"]
CHAT: Final = ThreadId("chat")


@pytest.fixture
def follower(store: str) -> Iterator[subprocess.Popen[str]]:
    """Follow the thread from its 19th record on, as JSON."""
    arguments = ["log", "chat", "--follow", "--after=18", "--json", "--store", store]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        yield process
        process.kill()


async def append_one(store: str) -> None:
    """Append a 22nd record."""
    record = Record(
        record_id=RecordId("repair"),
        created_at=datetime(2030, 1, 2, tzinfo=UTC),
        deployment_id=DeploymentId("test"),
        payload=RepairAnnotated(reason="seen by a follower", details=None),
    )
    async with open_storage(store) as storage:
        tail = await storage.threads.tail(CHAT)
        batch = Batch(BatchId("repair"), ProducerId("test"), (record,))
        await storage.threads.append(CHAT, batch, expected=tail.tail, epoch=tail.epoch)


@pytest.mark.rule("LOG-9")
def test_new_records_arrive_until_it_is_interrupted(
    follower: subprocess.Popen[str], store: str
) -> None:
    assert follower.stdout is not None
    stored = [json.loads(follower.stdout.readline()) for _ in range(3)]
    assert [each["sequence"] for each in stored] == [19, 20, 21]
    asyncio.run(append_one(store))
    new = json.loads(follower.stdout.readline())
    assert (new["sequence"], new["record"]["payload"]["reason"]) == (22, "seen by a follower")
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate()
    assert (follower.returncode, out, err.strip()) == (130, "", "")


@pytest.mark.rule("LOG-9")
def test_a_limit_ends_it(store: str) -> None:
    arguments = ["log", "chat", "--follow", "--limit=21", "--store", store]
    answer = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.count("\n") == 22  # a day and 21 records


def test_nothing_can_be_followed_from_beyond_the_tail(store: str) -> None:
    arguments = ["log", "chat", "--follow", "--after=22", "--store", store]
    answer = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (3, "")
    assert "The sequence 22 is beyond the tail of thread chat, which is 21." in answer.stderr


def test_a_reader_that_goes_away_ends_a_command_quietly(store: str, tmp_path: Path) -> None:
    """As `yielded log THREAD | head -1` does, with more than a pipe holds."""
    long = Message("user", {"role": "user", "content": "x" * 100_000})

    async def write() -> None:
        plan = make_plan([long] * 4, datetime(2030, 1, 2, tzinfo=UTC))
        async with open_storage(store) as storage:
            tail = (await storage.threads.materialize(ThreadId("long"), epoch=1)).tail
            for batch in plan.appends:
                appended = await storage.threads.append(
                    ThreadId("long"), batch, expected=tail, epoch=1
                )
                tail = appended.tail

    asyncio.run(write())
    with (
        (tmp_path / "err").open("wb") as errors,
        subprocess.Popen(
            [*COMMAND, "log", "long", "--json", "--store", store],
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 1) == b"{"
        process.stdout.close()
        assert process.wait() == 141
    assert (tmp_path / "err").read_bytes() == b""
