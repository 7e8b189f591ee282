"""What a log holds never reaches the terminal as a command to it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest
from owed_work import LaneOf

from yielded_core.ports.values import Batch
from yielded_core.records.envelope import Record
from yielded_core.records.identifiers import (
    BatchId,
    DeploymentId,
    ProducerId,
    RecordId,
    SubmissionId,
    ThreadId,
    ToolCallId,
)
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue

Cli: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

HOSTILE: Final = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\n\x7f\u202eevil\u2066\u200f[red]{0} %s\x00 end"
THREAD: Final = ThreadId("\x1b[31m\u202ethread[/]\n")


@pytest.fixture
def hostile_store(store: str) -> str:
    """Add a thread in which every text is hostile."""

    async def write() -> None:
        name = HOSTILE.replace("\x00", "")
        record = Record(
            record_id=RecordId(name),
            created_at=datetime(2030, 1, 2, tzinfo=UTC),
            deployment_id=DeploymentId(name),
            payload=UserInputRecorded(kind="user", input={"content": HOSTILE, HOSTILE: HOSTILE}),
        )
        batch = Batch(BatchId(name), ProducerId(name), (record,))
        async with open_storage(store) as storage:
            tail = (await storage.threads.materialize(THREAD, epoch=1)).tail
            await storage.threads.append(THREAD, batch, expected=tail, epoch=1)

    asyncio.run(write())
    return store


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("log", THREAD),
        ("log", THREAD, "--full"),
        ("threads",),
        ("tail", THREAD),
        ("verify", THREAD),
        ("rebuild", THREAD),
        ("archive", THREAD, "--keep=0"),
        ("delete", THREAD, "--yes"),
        ("tail", THREAD + "x"),
        ("export", THREAD, "/dev/null/\x1b[31mfile"),
        ("\x1b[31m",),
        ("log", THREAD, "--limit", "\x1b[31m"),
        ("verify", "--file", "\x1b[31m"),
        ("info", "--store", "\x1b[31m://"),
        ("info", "--store", "sqlite:///\udcff.db"),
        ("verify", "--file", "\udcff.jsonl"),
        ("tail", "\udcff"),
    ],
    ids=repr,
)
def test_nothing_is_printed_that_a_terminal_obeys(
    cli: Cli, hostile_store: str, arguments: tuple[str, ...], form: tuple[str, ...]
) -> None:
    answer = cli("--store", hostile_store, *form, *arguments)
    assert odd_characters(answer) == set()
    if form:
        assert (answer.stdout + answer.stderr).isascii()


def odd_characters(answer: subprocess.CompletedProcess[str]) -> set[str]:
    """Return what a terminal would obey in an answer, which holds something, and no traceback."""
    printed = answer.stdout + answer.stderr
    assert printed
    assert "Traceback" not in printed
    return {
        character
        for character in printed
        if character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}
    }


@pytest.fixture
def hostile_work(store: str) -> dict[str, SubmissionId]:
    """Add work in which every text is hostile, in the states that show most."""
    name = HOSTILE.replace("\x00", "")

    async def write() -> dict[str, SubmissionId]:
        async with open_storage(store) as storage:
            asking, lost, ready = (LaneOf(storage, f"{name}{n}", name) for n in range(3))
            found = {"asking": await _hostile(asking, name), "lost": await _hostile(lost, name)}
            await asking.claim(name)
            await asking.suspend(found["asking"], name, "call")
            await storage.ledger.record_approval_decision(
                asking.thread,
                found["asking"],
                ToolCallId(name),
                decision="approved",
                resolver=name,
                reason=name,
            )
            await lost.claim(name)
            await lost.park(found["lost"], name, "call", reason=name)
            await storage.ledger.record_unknown_resolution(
                lost.thread,
                found["lost"],
                ToolCallId(name),
                resolution="completed-with-result",
                author=name,
                reason=name,
                result={HOSTILE: HOSTILE},
            )
            found["owned"] = await _hostile(ready, name)
            await ready.claim(name)
            await storage.ledger.request_abort(
                ready.thread, found["owned"], author=name, reason=name
            )
            return found

    return asyncio.run(write())


async def _hostile(lane: LaneOf, name: str) -> SubmissionId:
    given: JsonValue = {HOSTILE: [HOSTILE]}
    return await lane.ready(name, group=name, given=given)


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("queue",),
        ("queue", "--thread", f"{HOSTILE}0"),
        ("queue", "--thread", HOSTILE.replace("\x00", "") + "0"),
        ("queue", "--thread", "\x1b[31m"),
        ("show", "asking"),
        ("show", "lost"),
        ("show", "owned"),
        ("show", "\x1b[31m"),
        ("abort", "owned"),
        ("abort", "asking", "--author", "\x1b[31m", "--reason", HOSTILE.replace("\x00", "")),
        ("abort", "\x1b[31m", "--author", HOSTILE),
        ("approve", "asking", HOSTILE.replace("\x00", "")),
        ("deny", "asking", HOSTILE.replace("\x00", "")),
        ("deny", "asking", "\x1b[31m", "--resolver", "\x1b[31m", "--reason", "\x9b"),
        ("resolve", "lost", HOSTILE.replace("\x00", ""), "never-happened"),
        ("resolve", "lost", "\x1b[31m", "never-happened"),
        ("resolve", "lost", "call", "\x1b[31m"),
        ("resolve", "lost", "call", "completed-with-result", "--result", "\x1b[31m"),
        ("resolve", "lost", "call", "safe-to-retry", "--author", "\x1b[31m\u202e"),
        ("info",),
    ],
    ids=repr,
)
def test_nothing_of_accepted_work_is_printed_that_a_terminal_obeys(
    cli: Cli,
    store: str,
    hostile_work: dict[str, SubmissionId],
    arguments: tuple[str, ...],
    form: tuple[str, ...],
) -> None:
    named = [str(hostile_work.get(argument, argument)) for argument in arguments]
    answer = cli("--store", store, *form, *named)
    assert odd_characters(answer) == set()
    if form:
        assert (answer.stdout + answer.stderr).isascii()


def test_the_queue_keeps_its_lines(
    cli: Cli, store: str, hostile_work: dict[str, SubmissionId]
) -> None:
    lines = cli("queue", "--store", store).stdout.splitlines()
    assert len(lines) == 1 + 3 + len(hostile_work) + 1
    lanes = [
        line for line in lines if line.startswith(r"\x1b[2J\x1b]0;owned\x07\x9b31m \x7f\u202e")
    ]
    assert len(lanes) == 3


def test_the_timeline_shows_what_is_there(cli: Cli, hostile_store: str) -> None:
    shown = cli("log", THREAD, "--store", hostile_store).stdout
    assert (
        r"user: \x1b[2J\x1b]0;owned\x07\x9b31m \x7f\u202eevil\u2066\u200f[red]{0} %s\x00" in shown
    )
    assert len(shown.splitlines()) == 2
    (line,) = cli("log", THREAD, "--store", hostile_store, "--json").stdout.splitlines()
    assert json.loads(line)["record"]["payload"]["input"]["content"] == HOSTILE
