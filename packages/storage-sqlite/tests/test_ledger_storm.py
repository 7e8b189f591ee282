"""Processes that race for lanes and are killed lose no work, settle none twice, keep every fence.

The processes say what they begin, what they are granted and what they are refused; what they said
is compared with the file afterwards by a checker that shares no rule with the adapter.
"""

from __future__ import annotations

import random
import select
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
from ledger_checker import check_ledger
from ledger_story import Life
from processes import PATIENCE

from yielded_storage_sqlite.clock import since_boot

if TYPE_CHECKING:
    from pathlib import Path

    from ledger_checker import Counts
    from processes import Worker, Workers

PROCESSES: Final = 8
TASKS: Final = 4

# --- the storm -----------------------------------------------------------------------------------


@dataclass
class Storm:
    """Processes over one file, and what became of them."""

    workers: Workers
    path: Path
    lanes: int
    chance: random.Random
    running: dict[Worker, Life] = field(default_factory=dict["Worker", Life])
    ended: list[Life] = field(default_factory=list[Life])

    def begin(self) -> None:
        """Make the lanes and start the processes."""
        founder = self.workers.start("ledger_founder", url=self._url, lanes=self.lanes)
        self.ended.append(Life("founder", founder.rest()))
        for number in range(PROCESSES):
            self._start(f"worker-{number}.1")

    def kill_one(self, lines: tuple[int, int]) -> None:
        """Let some lines come, then kill a process that is at work, and start its successor."""
        left = self.chance.randint(*lines)
        while left > 0 or not self._at_work():
            left -= self._listen()
        victim = self.chance.choice(self._at_work())
        life = self.running.pop(victim)
        life.said += victim.kill()
        life.killed_at = since_boot()
        self.ended.append(life)
        name, _, number = life.name.partition(".")
        self._start(f"{name}.{int(number) + 1}")

    def end(self) -> None:
        """Let the processes do all that is owed, and end in order."""
        for worker in self.running:
            worker.hang_up()
        while self.running:
            self._listen()
            for worker, life in tuple(self.running.items()):
                if life.said and life.said[-1] == {"ended": True}:
                    life.said.pop()
                    assert worker.rest() == []
                    self.ended.append(self.running.pop(worker))

    def judge(self) -> Counts:
        """Compare what was said with the file; return how often what happened."""
        complaints, counts = check_ledger(self.path, self.ended)
        print(counts)  # noqa: T201 - a measurement, shown when the test fails or with -s
        assert complaints == []
        return counts

    @property
    def _url(self) -> str:
        return f"sqlite:///{self.path}"

    def _listen(self) -> int:
        """Take note of what is said; return how many lines."""
        ready, _, _ = select.select(list(self.running), [], [], PATIENCE)
        assert ready, "the processes are stuck"
        lines = 0
        for worker in ready:
            said = worker.received()
            self.running[worker].said += said
            lines += len(said)
        return lines

    def _at_work(self) -> list[Worker]:
        """Return the processes whose tasks have all begun, so that killing one hits owners."""
        return [worker for worker, life in self.running.items() if len(life.said) > 4 * TASKS]

    def _start(self, name: str) -> None:
        worker = self.workers.start(
            "ledger_worker", url=self._url, name=name, lanes=self.lanes, tasks=TASKS
        )
        self.running[worker] = Life(name)


@pytest.mark.rule(
    "LED-1", "LED-3", "LED-4", "LED-6", "LED-7", "LED-8", "LED-9", "LED-16", "LED-17", "LOG-2"
)
def test_killed_owners_lose_and_double_nothing(workers: Workers, path: Path) -> None:
    storm = Storm(workers, path, 40, random.Random(40))
    storm.begin()
    for _ in range(12):
        storm.kill_one((70, 200))
    storm.end()
    counts = storm.judge()
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
    storm = Storm(workers, path, 100, random.Random(100))
    storm.begin()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        storm.kill_one((100, 400))
    storm.end()
    counts = storm.judge()
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
