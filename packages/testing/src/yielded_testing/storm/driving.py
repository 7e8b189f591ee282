"""Drives a storm: processes that race for lanes, and whoever kills them or their server."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yielded_testing.storm.operations import LEASE
from yielded_testing.storm.processes import PATIENCE
from yielded_testing.storm.story import Life

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from yielded_testing.storm.processes import Worker, Workers


@dataclass
class Storm:
    """Processes over one store, and what became of them."""

    workers: Workers
    url: str
    now: Callable[[], int]
    """Reads the store's clock, in milliseconds, by other means than the adapter."""
    chance: random.Random
    lanes: int
    processes: int
    tasks: int = 4
    """Of each process."""
    lease: tuple[int, int] = LEASE
    """Milliseconds that a lease has at least and at most."""
    outlasts: bool = False
    """Whether the server is killed, so that the processes ask again what it does not answer."""
    running: dict[Worker, Life] = field(default_factory=dict["Worker", Life])
    ended: list[Life] = field(default_factory=list[Life])
    published: int = 0
    """Acknowledged settlements that were heard of."""
    stale: int = 0
    """Refused appends under lost rights that were heard of."""

    def begin(self) -> None:
        """Make the lanes and start the processes."""
        founder = self.workers.start("ledger_founder", url=self.url, lanes=self.lanes)
        self.ended.append(Life("founder", founder.rest()))
        for number in range(self.processes):
            self._start(f"worker-{number}.1")

    def go_on(self, seconds: float) -> None:
        """Let the processes work so long from when all of them are at work."""
        while len(self._at_work()) < len(self.running):
            self._listen()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._listen(left)

    def kill_one(self, lines: tuple[int, int]) -> None:
        """Let some lines come, then kill a process that is at work, and start its successor."""
        left = self.chance.randint(*lines)
        while left > 0 or not self._at_work():
            left -= self._listen()
        victim = self.chance.choice(self._at_work())
        life = self.running.pop(victim)
        life.said += victim.kill()
        life.killed_at = self.now()
        self.ended.append(life)
        name, _, number = life.name.partition(".")
        self._start(f"{name}.{int(number) + 1}")

    def kill_server(self, kill: Callable[[], None], start: Callable[[], None]) -> float:
        """Kill the server and start it again; return after how many seconds all were at work.

        The processes are left alone: each must have done more than its tasks can have been answered
        by the server that was killed.
        """
        kill()
        while self._listen(0):
            pass
        heard = {worker: len(life.said) for worker, life in self.running.items()}
        start()
        began = time.monotonic()
        while any(
            sum("done" in said for said in life.said[heard[worker] :]) <= self.tasks
            for worker, life in self.running.items()
        ):
            self._listen()
        return time.monotonic() - began

    def end(self) -> list[Life]:
        """Let the processes do all that is owed, and end in order; return what all of them said."""
        for worker in self.running:
            worker.hang_up()
        while self.running:
            self._listen()
            for worker, life in tuple(self.running.items()):
                if life.said and life.said[-1] == {"ended": True}:
                    life.said.pop()
                    assert worker.rest() == []
                    self.ended.append(self.running.pop(worker))
        return self.ended

    def _listen(self, patience: float | None = None) -> int:
        """Take note of what is said; return how many lines."""
        ready, _, _ = select.select(
            list(self.running), [], [], PATIENCE if patience is None else patience
        )
        assert ready or patience is not None, "the processes are stuck"
        lines = 0
        for worker in ready:
            said = worker.received()
            self.running[worker].said += said
            self.published += sum(each.get("done") == "publish" for each in said)
            self.stale += sum(each.get("refused") == "append" and each["stale"] for each in said)
            lines += len(said)
        return lines

    def _at_work(self) -> list[Worker]:
        """Return the processes whose tasks have all begun, so that killing one hits owners."""
        return [worker for worker, life in self.running.items() if len(life.said) > 4 * self.tasks]

    def _start(self, name: str) -> None:
        worker = self.workers.start(
            "ledger_worker",
            url=self.url,
            name=name,
            lanes=self.lanes,
            tasks=self.tasks,
            lease=self.lease,
            outlasts=self.outlasts,
        )
        self.running[worker] = Life(name)
