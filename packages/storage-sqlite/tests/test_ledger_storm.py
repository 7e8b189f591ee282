"""Processes that race for lanes and are killed lose no work, settle none twice, keep every fence.

The processes say what they begin, what they are granted and what they are refused; what they said
is compared with the file afterwards by a checker that shares no rule with the adapter.
"""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from log_checker import reading

from yielded_storage_sqlite.clock import since_boot
from yielded_testing.storm import Storm, check_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_testing.storm import Counts, Workers

PROCESSES: Final = 8

# --- the storm -----------------------------------------------------------------------------------


def storm_over(path: Path, workers: Workers, lanes: int) -> Storm:
    """Return a storm that has begun."""

    def now() -> int:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            boot, instant = store.execute(
                "SELECT boot_clock, instant FROM yielded_clock"
            ).fetchone()
        return int(instant) + since_boot() - int(boot)

    storm = Storm(workers, f"sqlite:///{path}", now, random.Random(lanes), lanes, PROCESSES)
    storm.begin()
    return storm


def judged(path: Path, storm: Storm) -> Counts:
    """End a storm and compare what was said with the file; return how often what happened."""
    lives = storm.end()
    with reading(path) as query:
        complaints, counts = check_ledger(query, lives)
    print(counts)  # noqa: T201 - a measurement, shown when the test fails or with -s
    assert complaints == []
    return counts


@pytest.mark.rule(
    "LED-1", "LED-3", "LED-4", "LED-6", "LED-7", "LED-8", "LED-9", "LED-16", "LED-17", "LOG-2"
)
def test_killed_owners_lose_and_double_nothing(workers: Workers, path: Path) -> None:
    storm = storm_over(path, workers, 40)
    for _ in range(12):
        storm.kill_one((70, 200))
    counts = judged(path, storm)
    assert counts.settlements >= 100
    assert counts.takeovers >= 10
    assert counts.stale_appends >= 3
    assert counts.stale_publications >= 3


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.rule(
    "LED-1", "LED-3", "LED-4", "LED-6", "LED-7", "LED-8", "LED-9", "LED-16", "LED-17", "LOG-2"
)
def test_a_minute_of_killed_owners_loses_and_doubles_nothing(workers: Workers, path: Path) -> None:
    storm = storm_over(path, workers, 100)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        storm.kill_one((100, 400))
    counts = judged(path, storm)
    assert counts.settlements >= 1_000
    assert counts.takeovers >= 100
    assert counts.stale_appends >= 50
    assert counts.stale_publications >= 50
    assert counts.queued_aborts >= 20
    assert counts.repeated_admissions >= 500


# --- races ---------------------------------------------------------------------------------------


@pytest.mark.rule("LED-1")
def test_processes_that_admit_the_same_keys_at_once_share_the_work(
    workers: Workers, path: Path
) -> None:
    started = [
        workers.start("ledger_client", url=f"sqlite:///{path}", lane="lane", keys=50)
        for _ in range(10)
    ]
    for each in started:
        assert each.receive() == {"ready": True}
    for each in started:
        each.send()
    answers = [answer for each in started for answer in each.rest()]
    assert len(answers) == 500
    assert sum(not answer.pop("replayed") for answer in answers) == 50
    distinct = {answer["key"]: answer for answer in answers}
    assert all(answer == distinct[answer["key"]] for answer in answers)
    with closing(sqlite3.connect(path)) as store:
        rows = store.execute(
            "SELECT idempotency_key, submission_id, receipt_id, queue_sequence"
            " FROM yielded_submissions ORDER BY queue_sequence"
        ).fetchall()
    assert [row[3] for row in rows] == list(range(1, 51))
    assert {row[0]: row for row in rows} == {
        key: (key, answer["submission"], answer["receipt"], answer["place"])
        for key, answer in distinct.items()
    }


@pytest.mark.rule("LED-4", "LED-16")
def test_each_epoch_is_granted_to_one_of_sixteen_processes(workers: Workers, path: Path) -> None:
    url = f"sqlite:///{path}"
    workers.start("ledger_founder", url=url, lanes=1).rest()
    started = [
        workers.start("ledger_racer", url=url, lane="lane-000", name=f"racer-{number}", until=60)
        for number in range(16)
    ]
    for each in started:
        assert each.receive() == {"ready": True}
    for each in started:
        each.send()
    said = [message for each in started for message in each.rest()]
    epochs = [each["epoch"] for each in said if each.get("done") == "claim" and "epoch" in each]
    granted = sorted(
        each["epoch"]
        for each in said
        if each.get("done") == "claim" and each.get("replayed") is False
    )
    with closing(sqlite3.connect(path)) as store:
        (epoch,) = store.execute("SELECT epoch FROM yielded_threads").fetchone()
    assert epoch >= 60
    assert granted == list(range(2, epoch + 1))
    assert set(epochs) == set(granted)
