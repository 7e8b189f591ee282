"""What a log holds never reaches the terminal as a command to it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

import pytest

from yielded_core.ports.values import Batch
from yielded_core.records.envelope import Record
from yielded_core.records.identifiers import (
    BatchId,
    DeploymentId,
    ProducerId,
    RecordId,
    ThreadId,
)
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.storage import open_storage

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
    printed = answer.stdout + answer.stderr
    assert printed
    odd = {
        character
        for character in printed
        if character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}
    }
    assert odd == set()
    assert "Traceback" not in printed
    if form:
        assert printed.isascii()


def test_the_timeline_shows_what_is_there(cli: Cli, hostile_store: str) -> None:
    shown = cli("log", THREAD, "--store", hostile_store).stdout
    assert (
        r"user: \x1b[2J\x1b]0;owned\x07\x9b31m \x7f\u202eevil\u2066\u200f[red]{0} %s\x00" in shown
    )
    assert len(shown.splitlines()) == 2
    (line,) = cli("log", THREAD, "--store", hostile_store, "--json").stdout.splitlines()
    assert json.loads(line)["record"]["payload"]["input"]["content"] == HOSTILE
