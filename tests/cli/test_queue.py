"""`yielded queue` and the counts of `yielded info`: what is owed, lane by lane."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from owed_work import LaneOf, Owed

from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage
from yielded_storage_sqlite import open_storage as open_sqlite

if TYPE_CHECKING:
    from pathlib import Path

Cli: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

TWO_HOURS = 7_530_000
"""2 h 5 min 30 s in milliseconds."""


def documents(answer: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the JSON Lines of an answer that succeeded."""
    assert (answer.returncode, answer.stderr) == (0, "")
    return [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.mark.rule("LED-15")
def test_every_unsettled_submission_is_listed_in_its_lane(cli: Cli, owed: Owed) -> None:
    found = documents(cli("queue", "--json", "--store", owed.url))
    names = {submission: name for name, submission in owed.work.items()}
    assert [(one["thread"], one["place"], names[one["submission"]]) for one in found] == [
        ("asking", 1, "asking"),
        ("busy", 1, "host"),
        ("busy", 2, "guest"),
        ("busy", 3, "behind"),
        ("early", 1, "early"),
        ("lost", 1, "lost"),
        ("lost", 2, "next"),
        ("parent", 1, "parent"),
    ]
    by_name = {names[one["submission"]]: one for one in found}
    assert {name: one["state"] for name, one in by_name.items()} == {
        "asking": "suspended",
        "host": "input-applied",
        "guest": "joining",
        "behind": "admitted",
        "early": "admitted",
        "lost": "unknown",
        "next": "ready",
        "parent": "suspended",
    }
    assert [name for name, one in by_name.items() if one["claimable"]] == ["next"]
    assert by_name["asking"]["waitsFor"] == {"approvals": ["call-1", "call-2"], "children": []}
    awaited = [{"thread": "busy", "submission": owed.work["host"]}]
    assert by_name["parent"]["waitsFor"] == {"approvals": [], "children": awaited}
    assert by_name["guest"]["host"] == owed.work["host"]
    assert by_name["guest"]["group"] == "group"


@pytest.mark.rule("LED-4", "LED-15")
def test_a_lane_tells_who_owns_it(cli: Cli, owed: Owed) -> None:
    found = documents(cli("queue", "--thread", "busy", "--json", "--store", owed.url))
    assert {one["thread"] for one in found} == {"busy"}
    for one in found:
        owner = one["lane"]["owner"]
        assert (owner["submission"], owner["attempt"]) == (owed.work["host"], "busy-attempt")
        assert owner["live"]
        assert one["lane"]["epoch"] == 2
        assert 0 < one["leaseMillis"] <= 86_400_000
        assert 0 <= one["ageMillis"] < 60_000
    text = cli("queue", "--json", "--store", owed.url).stdout
    assert "a token that nobody may see" not in text


@pytest.mark.rule("LED-15")
def test_people_see_lanes_with_what_is_in_them(cli: Cli, owed: Owed) -> None:
    titles, *lines = cli("queue", "--store", owed.url).stdout.splitlines()
    assert titles.split() == ["PLACE", "STATE", "AGE", "SUBMISSION", "PRINCIPAL"]
    assert [" ".join(line.split()) for line in lines if not line.startswith("    ")] == [
        "asking epoch 2, nobody owns it",
        "busy epoch 2, owned by busy-attempt, 23h 59m left",
        "early not materialized",
        "lost epoch 2, nobody owns it",
        "parent epoch 2, nobody owns it",
        "8 unsettled submissions in 5 lanes, 1 claimable now.",
    ]
    rows = {part[3]: part for part in map(str.split, lines) if part[0].isdecimal()}
    notes = {name: " ".join(rows[owed.work[name]][5:]) for name in owed.work if name != "settled"}
    assert notes == {
        "asking": "for 2 approvals",
        "host": "owned",
        "guest": f"with {owed.work['host']}",
        "behind": "",
        "early": "",
        "lost": "",
        "next": "claimable",
        "parent": "for 1 child",
    }
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.rule("LED-4", "LED-9")
def test_what_a_claim_would_get_is_told(cli: Cli, owed: Owed) -> None:
    """Not the parked call before it, until somebody wants that one aborted."""
    cli("abort", owed.work["lost"], "--store", owed.url)
    lost, following = documents(cli("queue", "--thread=lost", "--json", "--store", owed.url))
    assert (lost["claimable"], following["claimable"]) == (True, False)
    shown = cli("queue", "--thread=lost", "--store", owed.url).stdout
    assert "claimable, abort" in shown
    assert shown.endswith("2 unsettled submissions in 1 lane, 1 claimable now.\n")


@pytest.mark.rule("LED-6")
def test_ages_and_leases_are_told_by_the_clocks_of_the_store(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    then = time.time_ns() // 1_000_000 - TWO_HOURS

    async def fill() -> None:
        async with open_sqlite(url, clock=lambda: then) as storage:
            lane = LaneOf(storage, "old")
            await lane.ready("old")
            await lane.claim("forgotten", lease=1)

    asyncio.run(fill())
    header, line, _ = cli("queue", "--store", url).stdout.splitlines()[1:]
    assert header == "old  epoch 2, owned by forgotten, lapsed 2h 05m ago"
    assert line.split()[:4] == ["1", "running", "2h", "05m"]
    assert line.endswith("  claimable")
    (found,) = documents(cli("queue", "--json", "--store", url))
    assert (found["claimable"], found["leaseMillis"]) == (True, 0)
    assert not found["lane"]["owner"]["live"]
    assert TWO_HOURS <= found["ageMillis"] < TWO_HOURS + 30_000


@pytest.mark.rule("LED-15")
def test_many_lanes_and_a_long_one_come_page_by_page(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/many.db"

    async def fill() -> None:
        async with open_storage(url) as storage:
            long = LaneOf(storage, "lane-long")
            await asyncio.gather(
                *(LaneOf(storage, f"lane-{number:03}").admit("work") for number in range(300)),
                *(long.admit(f"work-{number}") for number in range(600)),
                LaneOf(storage, "z").admit("work"),
            )

    asyncio.run(fill())
    found = documents(cli("queue", "--json", "--store", url))
    assert Counter(one["thread"] for one in found) == {
        **{f"lane-{number:03}": 1 for number in range(300)},
        "lane-long": 600,
        "z": 1,
    }
    assert [one["place"] for one in found if one["thread"] == "lane-long"] == [*range(1, 601)]
    lines = cli("queue", "--store", url).stdout.splitlines()
    assert len(lines) == 1 + 302 + 901 + 1
    assert len([line for line in lines if line.startswith("lane-long ")]) == 1
    assert lines[-1] == "901 unsettled submissions in 302 lanes, 0 claimable now."
    alone = cli("queue", "--thread", "lane-long", "--store", url).stdout.splitlines()
    assert alone[-1] == "600 unsettled submissions in 1 lane, 0 claimable now."
    (info,) = documents(cli("info", "--json", "--store", url))
    assert info["unsettled"]["admitted"] == 901


def test_where_nothing_is_owed_it_is_said(cli: Cli, owed: Owed, store: str) -> None:
    assert cli("queue", "--store", store).stdout == "The store holds no unsettled work.\n"
    assert documents(cli("queue", "--json", "--store", store)) == []
    for url, thread in ((owed.url, "over"), (store, "chat")):
        alone = cli("queue", "--thread", thread, "--store", url)
        assert alone.stdout == f"The lane of {thread} holds no unsettled work.\n"


def test_a_lane_that_is_not_there_is_named(cli: Cli, store: str) -> None:
    async def delete() -> None:
        async with open_storage(store) as storage:
            await storage.threads.delete_thread(ThreadId("chat"))

    answer = cli("queue", "--thread", "nobody", "--store", store)
    assert (answer.returncode, answer.stdout) == (4, "")
    assert answer.stderr.startswith("yielded: The thread nobody was never materialized")
    asyncio.run(delete())
    answer = cli("queue", "--thread", "chat", "--json", "--store", store)
    assert answer.returncode == 4
    assert json.loads(answer.stderr)["error"]["code"] == "thread-deleted"


def test_info_counts_what_is_not_settled(cli: Cli, owed: Owed, store: str) -> None:
    (info,) = documents(cli("info", "--json", "--store", owed.url))
    assert info["unsettled"] == {
        "admitted": 2,
        "ready": 1,
        "joining": 1,
        "joined": 0,
        "running": 0,
        "input-applied": 1,
        "suspended": 2,
        "unknown": 1,
    }
    shown = cli("info", "--store", owed.url).stdout
    assert "2 admitted, 1 ready, 1 joining, 1 input-applied, 2 suspended, 1 unknown" in shown
    assert "no submission" in cli("info", "--store", store).stdout
