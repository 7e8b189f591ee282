"""`yielded abort`, `approve`, `deny` and `resolve`: what people decide, and what is refused."""

from __future__ import annotations

import asyncio
import getpass
import io
import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from owed_work import LaneOf, Owed

from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from pathlib import Path

Cli: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


def done(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the document of an answer that succeeded."""
    assert (answer.returncode, answer.stderr) == (0, "")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def refused(answer: subprocess.CompletedProcess[str], exit_code: int) -> dict[str, Any]:
    """Return the error of an answer that failed; nothing else was printed."""
    assert (answer.returncode, answer.stdout) == (exit_code, "")
    (line,) = answer.stderr.splitlines()
    found: dict[str, Any] = json.loads(line)["error"]
    assert not found["retryable"]
    return found


def without_instant(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a document without the instant in it, which has the form of one."""
    assert document[name].endswith("Z")
    return {key: value for key, value in document.items() if key != name}


# --- abort ---


@pytest.mark.rule("LED-9")
def test_the_first_abort_is_kept(cli: Cli, owed: Owed) -> None:
    to = (owed.work["asking"], "--store", owed.url)
    first = done(cli("abort", *to, "--author=jo", "--reason=too late", "--json"))
    assert without_instant(first, "requestedAt") == {
        "submission": owed.work["asking"],
        "thread": "asking",
        "author": "jo",
        "reason": "too late",
        "replayed": False,
    }
    again = done(cli("abort", *to, "--author=another", "--json"))
    assert again == {**first, "replayed": True}
    shown = cli("abort", *to, "--author=another").stdout
    assert shown == f"The abort was asked for before, by jo at {first['requestedAt']}: too late\n"
    (line,) = cli("queue", "--thread=asking", "--json", "--store", owed.url).stdout.splitlines()
    assert json.loads(line)["state"] == "running"  # it waits for nothing any more


@pytest.mark.rule("LED-9")
def test_an_abort_is_told(cli: Cli, owed: Owed) -> None:
    answer = cli("abort", owed.work["early"], "--author=jo", "--store", owed.url)
    assert answer.stdout == f"Asked for the abort of {owed.work['early']}, as jo.\n"


@pytest.mark.rule("LED-9")
def test_an_abort_is_refused_where_it_cannot_be(cli: Cli, owed: Owed) -> None:
    answer = cli("abort", owed.work["settled"], "--json", "--store", owed.url)
    error = refused(answer, 3)
    assert (error["code"], error["outcome"]) == ("settlement-conflict", "completed")

    async def join() -> None:
        async with open_storage(owed.url) as storage:
            lane = LaneOf(storage, "busy")
            sequence = await lane.append_input(owed.work["guest"], epoch=2)
            await storage.ledger.mark_joined(lane.thread, owed.work["guest"], sequence=sequence)

    asyncio.run(join())
    error = refused(cli("abort", owed.work["guest"], "--json", "--store", owed.url), 3)
    assert (error["code"], error["host"]) == ("joined-to-host", owed.work["host"])
    told = cli("abort", owed.work["guest"], "--store", owed.url).stderr
    assert told.endswith(f"has joined {owed.work['host']}: abort the host instead.\n")


# --- approve and deny ---


@pytest.mark.rule("LED-12")
def test_the_last_approval_wakes(cli: Cli, owed: Owed) -> None:
    to = ("--resolver=jo", "--reason=fine", "--store", owed.url)
    asking = owed.work["asking"]
    first = done(cli("approve", asking, "call-1", *to, "--json"))
    assert without_instant(first, "decidedAt") == {
        "submission": asking,
        "thread": "asking",
        "call": "call-1",
        "decision": "approved",
        "resolver": "jo",
        "reason": "fine",
        "woken": False,
        "replayed": False,
        "state": "suspended",
        "undecided": ["call-2"],
    }
    second = done(cli("approve", asking, "call-2", *to, "--json"))
    assert (second["woken"], second["state"], second["undecided"]) == (True, "running", [])
    again = done(cli("approve", asking, "call-1", "--resolver=another", *to[2:], "--json"))
    assert (again["replayed"], again["resolver"]) == (True, "jo")
    shown = cli("approve", asking, "call-1", "--resolver=another", "--store", owed.url).stdout
    assert shown == f"The call call-1 was approved before, by jo at {first['decidedAt']}: fine\n"


@pytest.mark.rule("LED-12")
def test_people_are_told_what_a_decision_does(cli: Cli, owed: Owed) -> None:
    asking, store = owed.work["asking"], ("--store", owed.url)
    said = f" of {asking} is "
    later = cli("approve", asking, "call-9", *store).stdout
    assert later == f"The call call-9{said}approved; it waits for 2 more decisions.\n"
    one = cli("approve", asking, "call-1", *store).stdout
    assert one == f"The call call-1{said}approved; it waits for 1 more decision.\n"
    last = cli("deny", asking, "call-2", *store).stdout
    assert last == f"The call call-2{said}denied; it goes on.\n"
    early = cli("deny", owed.work["next"], "call-1", *store).stdout
    assert early.endswith(" is denied; it does not wait for this call at present.\n")


@pytest.mark.rule("LED-11", "LED-12")
def test_one_denial_wakes(cli: Cli, owed: Owed) -> None:
    denied = done(cli("deny", owed.work["asking"], "call-2", "--json", "--store", owed.url))
    assert (denied["decision"], denied["woken"]) == ("denied", True)
    assert denied["resolver"] == getpass.getuser()


@pytest.mark.rule("LED-12")
def test_the_opposite_decision_is_refused(cli: Cli, owed: Owed) -> None:
    for made, opposite, existing in (
        ("approve", "deny", "approved"),
        ("deny", "approve", "denied"),
    ):
        place = (owed.work["asking"], f"call-{existing}", "--store", owed.url)
        assert cli(made, *place).returncode == 0
        error = refused(cli(opposite, *place, "--json"), 3)
        assert (error["code"], error["decision"]) == ("approval-conflict", existing)


@pytest.mark.rule("LED-12")
@pytest.mark.parametrize("command", ["approve", "deny"])
def test_nothing_is_decided_after_settlement(cli: Cli, owed: Owed, command: str) -> None:
    answer = cli(command, owed.work["settled"], "call-1", "--json", "--store", owed.url)
    assert refused(answer, 3)["code"] == "settlement-conflict"


# --- resolve ---


@pytest.mark.rule("LED-13")
def test_the_last_resolution_wakes(cli: Cli, owed: Owed) -> None:
    lost, to = owed.work["lost"], ("--author=jo", "--reason=seen", "--store", owed.url)
    first = done(cli("resolve", lost, "call-4", "never-happened", *to, "--json"))
    assert without_instant(first, "resolvedAt") == {
        "submission": lost,
        "thread": "lost",
        "call": "call-4",
        "resolution": "never-happened",
        "author": "jo",
        "reason": "seen",
        "result": None,
        "woken": False,
        "replayed": False,
        "state": "unknown",
        "open": ["call-5"],
    }
    again = cli("resolve", lost, "call-4", "never-happened", "--store", owed.url).stdout
    when = first["resolvedAt"]
    assert again == f"The call call-4 was never-happened before, by jo at {when}: seen\n"
    last = done(cli("resolve", lost, "call-5", "abort-submission", *to, "--json"))
    assert (last["woken"], last["state"], last["open"]) == (True, "running", [])


@pytest.mark.rule("LED-13")
def test_people_are_told_what_a_resolution_does(cli: Cli, owed: Owed) -> None:
    lost, store = owed.work["lost"], ("--store", owed.url)
    said = f" of {lost} is resolved: "
    one = cli("resolve", lost, "call-4", "safe-to-retry", *store).stdout
    assert one == f"The call call-4{said}safe-to-retry; 1 call of it still to be resolved.\n"
    last = cli("resolve", lost, "call-5", "safe-to-retry", *store).stdout
    assert last == f"The call call-5{said}safe-to-retry; it goes on.\n"
    after = cli("resolve", lost, "call-5", "never-happened", *store).stdout
    assert after == f"The call call-5{said}never-happened.\n"


RESULT = '{ "big": 9007199254740991, "huge": 1e300, "text": "é\\u001b" }\n'


@pytest.mark.rule("LED-13", "REC-3")
@pytest.mark.parametrize("source", ["file", "standard input"])
def test_a_result_is_read_exactly(
    cli: Cli, owed: Owed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    file = tmp_path / "result.json"
    file.write_text(RESULT, encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RESULT.encode())))
    name = str(file) if source == "file" else "-"
    place = (owed.work["lost"], "call-4", "completed-with-result", "--store", owed.url)
    made = done(cli("resolve", *place, "--result", name, "--json"))
    assert made["result"] == json.loads(RESULT)
    shown = cli("show", owed.work["lost"], "--json", "--store", owed.url)
    (resolution,) = json.loads(shown.stdout)["resolutions"]
    assert resolution["result"] == json.loads(RESULT)
    file.write_text('{"big": 9007199254740990}')
    other = refused(cli("resolve", *place, "--result", str(file), "--json"), 3)
    assert (other["code"], other["existing"]) == (
        "unknown-resolution-conflict",
        "completed-with-result",
    )
    assert '"big": 9007199254740991' in cli("show", owed.work["lost"], "--store", owed.url).stdout


@pytest.mark.rule("REC-3")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON text"),
        ("{", "it is not JSON text"),
        ('{"a": 1, "a": 2}', "an object has a key twice"),
        ("9007199254740993", "an integer does not read back as the same number"),
        ("0.10000000000000000001", "a number does not read back as written"),
        (f'"{"x" * 1_048_576}"', "its canonical text is longer than 1048576 bytes"),
        (" " * 16_777_217, "it is longer than 16777216 bytes"),
    ],
    ids=["empty", "cut", "twice", "integer", "fraction", "long", "blank"],
)
def test_a_result_that_is_not_exact_is_refused(
    cli: Cli, owed: Owed, tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    place = (owed.work["lost"], "call-4", "completed-with-result", "--store", owed.url)
    error = refused(cli("resolve", *place, "--result", str(file), "--json"), 3)
    assert (error["code"], error["name"]) == ("invalid-argument", "--result")
    assert error["reason"] == reason
    shown = json.loads(cli("show", owed.work["lost"], "--json", "--store", owed.url).stdout)
    assert shown["resolutions"] == []


def test_a_result_may_be_null(cli: Cli, owed: Owed, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("null")
    place = (owed.work["lost"], "call-4", "completed-with-result", "--store", owed.url)
    assert done(cli("resolve", *place, "--result", str(file), "--json"))["result"] is None
    lines = cli("show", owed.work["lost"], "--store", owed.url).stdout.splitlines()
    assert "null" in [line.strip() for line in lines]


@pytest.mark.rule("LED-13")
def test_a_resolution_is_refused_where_it_cannot_be(cli: Cli, owed: Owed, tmp_path: Path) -> None:
    lost, to = owed.work["lost"], ("--json", "--store", owed.url)
    error = refused(cli("resolve", lost, "call-9", "safe-to-retry", *to), 4)
    assert (error["code"], error["call"]) == ("unknown-call-not-found", "call-9")
    assert cli("resolve", lost, "call-4", "safe-to-retry", *to).returncode == 0
    error = refused(cli("resolve", lost, "call-4", "abort-submission", *to), 3)
    assert (error["code"], error["reason"]) == ("unknown-resolution-conflict", "other-resolution")
    assert error["existing"] == "safe-to-retry"
    assert cli("resolve", lost, "call-5", "never-happened", *to).returncode == 0
    error = refused(cli("resolve", lost, "call-5", "safe-to-retry", *to), 3)
    assert error["reason"] == "factual-first"
    error = refused(cli("resolve", owed.work["settled"], "call-1", "safe-to-retry", *to), 3)
    assert error["code"] == "settlement-conflict"
    missing = ("--result", str(tmp_path / "none.json"))
    error = refused(cli("resolve", lost, "call-4", "completed-with-result", *missing, *to), 4)
    assert error["code"] == "file"


def test_the_command_line_of_resolve_is_checked(cli: Cli, owed: Owed) -> None:
    place = (owed.work["lost"], "call-4")
    for wrong in (
        ("perhaps",),
        ("completed-with-result",),
        ("never-happened", "--result", "-"),
        ("safe-to-retry", "--result", "-"),
    ):
        answer = cli("resolve", *place, *wrong, "--json", "--store", owed.url)
        assert refused(answer, 2)["code"] == "usage"


# --- who acts, and on what ---

ACTIONS = [
    ("abort",),
    ("approve", "call-1"),
    ("deny", "call-1"),
    ("resolve", "call-4", "safe-to-retry"),
]


@pytest.mark.parametrize("action", ACTIONS, ids=" ".join)
def test_a_submission_that_is_not_there_is_named(
    cli: Cli, owed: Owed, action: tuple[str, ...]
) -> None:
    command, *more = action
    error = refused(cli(command, "nobody", *more, "--json", "--store", owed.url), 4)
    assert (error["code"], error["submission"]) == ("no-such-submission", "nobody")


@pytest.mark.parametrize("action", ACTIONS, ids=" ".join)
def test_whoever_runs_the_command_is_named_unless_told(
    cli: Cli, owed: Owed, monkeypatch: pytest.MonkeyPatch, action: tuple[str, ...]
) -> None:
    command, *more = action
    submission = owed.work["lost" if command == "resolve" else "asking"]
    monkeypatch.setattr(getpass, "getuser", lambda: "user of the system")
    made = done(cli(command, submission, *more, "--json", "--store", owed.url))
    assert "user of the system" in (made.get("author"), made.get("resolver"))


@pytest.mark.parametrize("action", ACTIONS, ids=" ".join)
def test_where_nobody_is_known_a_name_is_needed(
    cli: Cli, owed: Owed, monkeypatch: pytest.MonkeyPatch, action: tuple[str, ...]
) -> None:
    def unknown() -> str:
        raise KeyError

    command, *more = action
    monkeypatch.setattr(getpass, "getuser", unknown)
    error = refused(cli(command, "any", *more, "--json", "--store", owed.url), 3)
    assert error["code"] == "invalid-argument"
    assert error["name"] in {"--author", "--resolver"}


@pytest.mark.parametrize("action", ACTIONS, ids=" ".join)
@pytest.mark.parametrize("name", ["", "x" * 257, "a\udcffb"], ids=["empty", "long", "surrogate"])
def test_a_name_has_its_bounds(cli: Cli, owed: Owed, action: tuple[str, ...], name: str) -> None:
    command, *more = action
    option = "--resolver" if command in {"approve", "deny"} else "--author"
    answer = cli(command, owed.work["asking"], *more, option, name, "--json", "--store", owed.url)
    error = refused(answer, 3)
    assert (error["code"], error["name"]) == ("invalid-argument", option.removeprefix("--"))
