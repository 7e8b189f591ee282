"""Writers that are killed in mid-append lose nothing that was acknowledged, and leave no half.

The writers say over a pipe when they begin an append and when it is acknowledged; what they said
is compared with the file afterwards by a checker that shares no rule with the adapter. A killed
process keeps its page cache: that an answer also survives a power cut is shown in
`test_durability.py`.
"""

from __future__ import annotations

import random
import select
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
from log_checker import check_store
from worker_programs import SHARED, storm_batch

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_testing.storm import StoredBatch, Worker, Workers
    from yielded_testing.storm.channel import Message

WRITERS: Final = 4
TASKS: Final = 4


@dataclass
class Life:
    """What one writer, in all its processes, said so far."""

    name: str
    process: Worker
    epoch: int = 1
    begun: dict[int, int] = field(default_factory=dict[int, int])
    """For each task, the batch that was begun last."""
    done: dict[tuple[int, int], Message] = field(default_factory=dict[tuple[int, int], "Message"])
    """The acknowledgement of each batch, by task and number."""

    def take(self, messages: list[Message]) -> int:
        """Take note of what the writer said; return how many lines."""
        for message in messages:
            if "begin" in message:
                self.begun[message["task"]] = message["begin"]
            elif "done" in message:
                key = (message["task"], message["done"])
                assert key not in self.done, "a batch was acknowledged twice"
                self.done[key] = message
        return len(messages)

    def in_flight(self) -> list[tuple[int, int]]:
        """Return the appends that were begun and not acknowledged."""
        return [(task, at) for task, at in self.begun.items() if (task, at) not in self.done]

    def next_numbers(self) -> list[int]:
        """Return, for each task, the first batch that was not acknowledged."""
        counts = [sum(1 for task, _ in self.done if task == each) for each in range(TASKS)]
        return [count + 1 for count in counts]


@dataclass
class Storm:
    """Writers over one file, and what became of them."""

    workers: Workers
    url: str
    chance: random.Random
    lives: list[Life] = field(default_factory=list[Life])
    killed_in_flight: int = 0

    def begin(self) -> None:
        """Start the writers."""
        for number in range(WRITERS):
            name = f"writer-{number}"
            self.lives.append(Life(name, self._start(name, 1, [1] * TASKS)))

    def kill_one(self) -> None:
        """Let some lines come, then kill any writer and start its successor."""
        left = self.chance.randint(1, 60)
        while left > 0:
            ready, _, _ = select.select([life.process for life in self.lives], [], [], 60)
            assert ready, "the writers are stuck"
            left -= sum(
                life.take(life.process.received()) for life in self.lives if life.process in ready
            )
        victim = self.chance.choice(self.lives)
        victim.take(victim.process.kill())
        self.killed_in_flight += bool(victim.in_flight())
        victim.epoch += 1
        victim.process = self._start(victim.name, victim.epoch, victim.next_numbers())

    def end(self) -> None:
        """Let the writers finish what they began, and end in order."""
        for life in self.lives:
            life.process.hang_up()
        for life in self.lives:
            messages = life.process.rest()
            assert messages[-1] == {"ended": True}
            life.take(messages[:-1])
            assert not life.in_flight()

    def _start(self, name: str, epoch: int, numbers: list[int]) -> Worker:
        return self.workers.start(
            "storm_writer", url=self.url, worker=name, epoch=epoch, numbers=numbers
        )


def run_storm(workers: Workers, path: Path, kills: int) -> Storm:
    """Kill writers so many times, then compare what they said with what the file holds."""
    storm = Storm(workers, f"sqlite:///{path}", random.Random(kills))
    storm.begin()
    for _ in range(kills):
        storm.kill_one()
    storm.end()
    check_against_file(storm, check_store(path))
    return storm


def check_against_file(storm: Storm, stored: dict[str, dict[str, StoredBatch]]) -> None:
    """Compare acknowledgements with the file: each is there once, whole, where it was said."""
    expected = 0
    for life in storm.lives:
        for (task, number), said in life.done.items():
            name = f"{life.name}-{task}"
            held = stored[SHARED if task == 0 else name][f"{name}/{number}"]
            assert (held.first, held.last) == (said["first"], said["last"])
            assert held.digest == said["digest"]
            given = storm_batch(name, number)
            assert held.record_ids == tuple(each.record_id for each in given.records)
            expected += 1
    assert expected == sum(len(batches) for batches in stored.values())


@pytest.mark.rule("LOG-2", "LOG-7", "STO-3", "REC-7")
def test_killed_writers_lose_and_double_nothing(workers: Workers, path: Path) -> None:
    storm = run_storm(workers, path, 25)
    assert storm.killed_in_flight >= 13


@pytest.mark.long
@pytest.mark.rule("LOG-2", "LOG-7", "STO-3", "REC-7")
def test_two_hundred_killed_writers_lose_and_double_nothing(workers: Workers, path: Path) -> None:
    storm = run_storm(workers, path, 200)
    replayed = [said for life in storm.lives for said in life.done.values() if said["replayed"]]
    appends = sum(len(life.done) for life in storm.lives)
    print(  # noqa: T201 - a measurement, shown with -s
        f"{storm.killed_in_flight} of 200 kills in flight, {appends} acknowledged appends, "
        f"{len(replayed)} found committed when they were repeated"
    )
    assert storm.killed_in_flight >= 100
    assert replayed, "no kill fell between a commit and its acknowledgement"
