"""`yielded show`: everything that a store tells about one submission."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest
from owed_work import LaneOf, Owed

from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from yielded_core.records.identifiers import SubmissionId

Cli: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
Show: TypeAlias = Callable[[str], dict[str, Any]]

INSTANT: Final = "2030-01-02T03:04:05.678Z"


@pytest.fixture
def show(cli: Cli, owed: Owed) -> Show:
    """Return a function that shows a submission by the name that the tests give it."""

    def call(name: str) -> dict[str, Any]:
        answer = cli("show", owed.work[name], "--json", "--store", owed.url)
        assert (answer.returncode, answer.stderr) == (0, "")
        found: dict[str, Any] = json.loads(answer.stdout)
        return found

    return call


def shown(cli: Cli, owed: Owed, name: str) -> list[str]:
    """Return the lines that people see, their white space drawn together."""
    answer = cli("show", owed.work[name], "--store", owed.url)
    assert (answer.returncode, answer.stderr) == (0, "")
    return [" ".join(line.split()) for line in answer.stdout.splitlines()]


@pytest.mark.rule("LED-3", "LED-15")
def test_a_submission_is_found_by_its_id_alone(cli: Cli, owed: Owed, show: Show) -> None:
    found = show("early")
    assert (found["submission"], found["thread"]) == (owed.work["early"], "early")
    assert (found["state"], found["place"]) == ("admitted", 1)
    assert (found["principal"], found["idempotencyKey"]) == ("somebody", "early")
    assert found["input"] == {"say": "early"}
    for nothing in ("group", "host", "waitsFor", "abort", "settlement", "linkage", "message"):
        assert found[nothing] is None
    assert len(found["receipt"]) == 32
    assert len(found["admittedAt"]) == len(INSTANT)
    lines = shown(cli, owed, "early")
    assert f"receipt {found['receipt']}" in lines
    assert f"digest {found['inputDigest']}" in lines
    assert f"admitted {found['admittedAt']}" in lines
    assert "input not in the log" in lines
    assert "lane its thread is not materialized" in lines
    assert lines[-4:] == ["input", "{", '"say": "early"', "}"]


@pytest.mark.rule("LED-7", "LED-15")
def test_the_marker_and_the_owner_are_shown(cli: Cli, owed: Owed, show: Show) -> None:
    found = show("host")
    assert (found["inputSequence"], found["recordedInput"]) == (1, 1)
    assert found["tail"]["sequence"] == 1
    owner = found["lane"]["owner"]
    assert (owner["attempt"], owner["submission"]) == ("busy-attempt", owed.work["host"])
    lines = shown(cli, owed, "host")
    assert "input at sequence 1" in lines
    (lane,) = [line for line in lines if line.startswith("lane ")]
    owned = f"lane epoch 2, owned by attempt busy-attempt for {owed.work['host']}, until "
    assert lane == owned + owner["expiresAt"]


@pytest.mark.rule("LED-10", "LED-15")
def test_a_guest_names_its_group_and_its_host(cli: Cli, owed: Owed, show: Show) -> None:
    found = show("guest")
    assert (found["group"], found["host"]) == ("group", owed.work["host"])
    assert not found["hostPublished"]
    lines = shown(cli, owed, "guest")
    assert "group group" in lines
    assert f"host {owed.work['host']}" in lines


@pytest.mark.rule("LED-11", "LED-12", "LED-15")
def test_what_it_waits_for_is_shown_with_the_decisions(cli: Cli, owed: Owed, show: Show) -> None:
    decided = ("call-1", "--resolver=jo", "--reason=fine")
    cli("approve", owed.work["asking"], *decided, "--store", owed.url)
    found = show("asking")
    assert found["waitsFor"] == {"approvals": ["call-1", "call-2"], "children": []}
    (made,) = found["approvals"]
    when = made.pop("decidedAt")
    assert made == {
        "call": "call-1",
        "decision": "approved",
        "resolver": "jo",
        "reason": "fine",
    }
    lines = shown(cli, owed, "asking")
    at = lines.index("waits for")
    assert lines[at + 1 : at + 5] == [
        "approved call call-1",
        "undecided call call-2",
        "approvals",
        f"approved call-1, by jo at {when}: fine",
    ]


@pytest.mark.rule("LED-14", "LED-15")
def test_children_are_shown_with_their_reservations(cli: Cli, owed: Owed, show: Show) -> None:
    child = {"thread": "busy", "submission": owed.work["host"]}
    found = show("parent")
    assert found["waitsFor"] == {"approvals": [], "children": [child]}
    assert found["reservations"] == [
        {
            "call": "call-3",
            "reservation": "reserved",
            "digest": "0" * 64,
            "status": "attached",
            "child": child,
            "accounting": None,
        }
    ]
    assert found["publishedChildren"] == []
    named = f"submission {owed.work['host']} of thread busy"
    assert f"open {named}" in shown(cli, owed, "parent")
    reserved = f"attached call call-3, reservation reserved of {'0' * 64}, {named}"
    assert reserved in shown(cli, owed, "parent")
    settle(owed, "busy", "host")
    assert show("parent")["publishedChildren"] == [child]
    assert f"published {named}" in shown(cli, owed, "parent")
    assert f"{reserved} (published)" in shown(cli, owed, "parent")
    assert show("guest")["hostPublished"]
    host = f"host {owed.work['host']}, whose settlement is published"
    assert host in shown(cli, owed, "guest")


def settle(owed: Owed, thread: str, name: str) -> None:
    """Settle what is owned with the token of the tests."""

    async def publish() -> None:
        async with open_storage(owed.url) as storage:
            await LaneOf(storage, thread).settle(owed.work[name])

    asyncio.run(publish())


@pytest.mark.rule("LED-13", "LED-15")
def test_unknown_calls_are_shown_with_their_resolutions(cli: Cli, owed: Owed, show: Show) -> None:
    place = (owed.work["lost"], "call-4")
    to = ("--author=jo", "--store", owed.url)
    assert cli("resolve", *place, "safe-to-retry", *to).returncode == 0
    found = show("lost")
    assert [(one["call"], one["run"], one["reason"]) for one in found["unknownCalls"]] == [
        ("call-4", "run", "lost"),
        ("call-5", "run", "lost"),
    ]
    (resolution,) = found["resolutions"]
    assert (resolution["resolution"], resolution["author"]) == ("safe-to-retry", "jo")
    marked = [one["markedAt"] for one in found["unknownCalls"]]
    lines = shown(cli, owed, "lost")
    at = lines.index("calls of unknown outcome")
    assert lines[at + 1 : at + 4] == [
        f"resolved call call-4 of run run, {marked[0]}: lost",
        f"safe-to-retry, by jo at {resolution['resolvedAt']}",
        f"open call call-5 of run run, {marked[1]}: lost",
    ]


@pytest.mark.rule("LED-8", "LED-15")
def test_a_settlement_is_shown(cli: Cli, owed: Owed, show: Show) -> None:
    found = show("settled")
    settlement = found["settlement"]
    assert (found["state"], settlement["outcome"]) == ("settled", "completed")
    assert settlement["settlement"] == f"settlement:{owed.work['settled']}"
    assert found["settlementPublished"]
    lines = shown(cli, owed, "settled")
    assert f"outcome completed at {settlement['settledAt']}" in lines
    assert f"settlement settlement:{owed.work['settled']}" in lines
    assert "lane epoch 2, nobody owns it" in lines


@pytest.mark.rule("LED-9", "LED-15")
def test_an_abort_intent_is_shown(cli: Cli, owed: Owed, show: Show) -> None:
    cli("abort", owed.work["next"], "--author=jo", "--reason=not needed", "--store", owed.url)
    intent = show("next")["abort"]
    assert (intent["author"], intent["reason"]) == ("jo", "not needed")
    told = f"abort by jo at {intent['requestedAt']}: not needed"
    assert told in shown(cli, owed, "next")
    assert show("next")["abortRecord"] is None


@pytest.mark.rule("REC-4", "LED-3")
def test_the_input_is_shown_exactly(cli: Cli, owed: Owed) -> None:
    """Numbers as they were canonical, and nothing rounded on the way."""
    given = '{"a":9007199254740991,"b":1e+300,"c":[1.5,1e-7,{"d":null}],"e":"é\\u001b\U0001f600"}'

    async def admit() -> SubmissionId:
        async with open_storage(owed.url) as storage:
            return await LaneOf(storage, "exact").admit("exact", given=json.loads(given))

    submission = asyncio.run(admit())
    answer = cli("show", submission, "--json", "--store", owed.url)
    assert answer.stdout.isascii()
    assert '"a":9007199254740991,"b":1e+300,"c":[1.5,1e-7,' in answer.stdout
    assert json.loads(answer.stdout)["input"] == json.loads(given)
    assert '"c": [' in cli("show", submission, "--store", owed.url).stdout


def test_a_submission_that_is_not_there_is_named(cli: Cli, owed: Owed) -> None:
    answer = cli("show", "nobody", "--store", owed.url)
    assert (answer.returncode, answer.stdout) == (4, "")
    assert answer.stderr == "yielded: The store holds no submission nobody.\n"
    answer = cli("show", "nobody", "--json", "--store", owed.url)
    error = json.loads(answer.stderr)["error"]
    assert (error["code"], error["submission"]) == ("no-such-submission", "nobody")
