"""Several processes on one file: fair, quick, each committing what waits as one group.

The figures are ratios inside one run. The short form only asserts what a busy machine cannot blur;
the long form holds the targets.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from checks import idle
from log_checker import check_store
from saboteurs import applied

from yielded_core.records.identifiers import ThreadId
from yielded_storage_sqlite import open_storage
from yielded_testing.suites.builders import EMPTY, batch, note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from yielded_testing.storm import Workers

PROCESSES: Final = 4
TASKS: Final = 16
FRAME_HEADER: Final = 24
LOG_HEADER: Final = 32


@dataclass(frozen=True)
class Outcome:
    """How a storm of appends went."""

    counts: tuple[int, ...]
    """Appends of each process."""
    latencies: tuple[float, ...]
    """Seconds of every append, ascending."""
    seconds: float

    @property
    def fairness(self) -> float:
        """The slowest process as a share of the fastest."""
        return min(self.counts) / max(self.counts)

    @property
    def rate(self) -> float:
        """Appends a second, of all processes."""
        return sum(self.counts) / self.seconds

    def percentile(self, share: float) -> float:
        """The latency that this share of the appends did not exceed."""
        return self.latencies[int(share * (len(self.latencies) - 1))]

    def __str__(self) -> str:
        shares = {name: self.percentile(name) * 1_000 for name in (0.5, 0.99, 1.0)}
        return (
            f"{self.counts} appends, slowest to fastest {self.fairness:.2f}, {self.rate:.0f}/s, "
            f"median {shares[0.5]:.1f} ms, p99 {shares[0.99]:.1f} ms, longest {shares[1.0]:.0f} ms"
        )


def storm(
    workers: Workers,
    path: Path,
    seconds: float,
    shape: tuple[int, int] = (PROCESSES, TASKS),
    saboteur: str | None = None,
) -> Outcome:
    """Let processes with so many tasks each append for some seconds."""
    processes, tasks = shape
    started = [
        workers.start(
            "busy_writer",
            url=f"sqlite:///{path}",
            worker=f"worker-{number}",
            tasks=tasks,
            saboteur=saboteur,
        )
        for number in range(processes)
    ]
    for each in started:
        assert each.receive() == {"ready": True}
    for each in started:
        each.send()
    threading.Event().wait(seconds)  # the storm itself
    for each in started:
        each.send()
    said = [each.receive() for each in started]
    for each in started:
        assert each.rest() == []
    return Outcome(
        tuple(len(each["latencies"]) for each in said),
        tuple(sorted(second for each in said for second in each["latencies"])),
        max(each["took"] for each in said),
    )


def is_fair(outcome: Outcome) -> bool:
    """Whether no process starved, and no append waited many times as long as most did."""
    print(outcome)  # noqa: T201 - a measurement, shown when the test fails or with -s
    return outcome.fairness > 0.4 and outcome.percentile(0.99) < 10 * outcome.percentile(0.5)


def rounds(workers: Workers, path: Path, saboteur: str | None = None) -> Iterator[bool]:
    """Say of up to three storms whether they were fair: others use the machine as well."""
    for number in range(3):
        store = path.with_name(f"round-{number}.db")
        outcome = storm(workers, store, 2, saboteur=saboteur)
        stored = check_store(store)
        assert sum(len(batches) for batches in stored.values()) == sum(outcome.counts)
        yield is_fair(outcome)


@pytest.mark.rule("STO-3", "LOG-2")
def test_processes_share_a_file_fairly(workers: Workers, path: Path) -> None:
    assert any(rounds(workers, path))


def test_waiting_in_sqlite_is_caught(workers: Workers, path: Path) -> None:
    assert not all(rounds(workers, path, "waits-in-sqlite"))


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.rule("STO-3", "LOG-2")
def test_processes_reach_the_targets(workers: Workers, path: Path) -> None:
    """Against one process with as many tasks; one good round, as others use the machine."""
    for number in range(4):
        alone = storm(workers, path.with_name(f"alone-{number}.db"), 8, (1, PROCESSES * TASKS))
        together = storm(workers, path.with_name(f"together-{number}.db"), 8)
        print(f"alone: {alone}\ntogether: {together}")  # noqa: T201 - the measurement
        if (
            together.fairness >= 0.8
            and together.rate >= 0.8 * alone.rate
            and together.percentile(0.99) <= 3 * alone.percentile(0.99)
        ):
            return
    pytest.fail("no round reached the targets")


def commits_in(log: Path, page_bytes: int) -> int:
    """Count the commits in a write-ahead log: frames that name the size of the database."""
    data = log.read_bytes()[LOG_HEADER:]
    frames = range(0, len(data), FRAME_HEADER + page_bytes)
    return sum(1 for at in frames if any(data[at + 4 : at + 8]))


async def check_one_commit(path: Path, workers: Workers) -> None:
    """What comes while another process holds the lock is committed at once when it lets go."""
    async with open_storage(f"sqlite:///{path}") as storage:
        threads = [ThreadId(f"thread-{number}") for number in range(50)]
        for thread in threads:
            await storage.threads.materialize(thread, epoch=1)
        await idle(storage)
        locker = workers.start("locker", path=str(path), hold="lock file")
        locker.send()
        assert await asyncio.to_thread(locker.receive) == {"held": True}
        log = path.with_name(f"{path.name}-wal")
        before = commits_in(path.with_name(copied(log)), 8_192)

        async def append(thread: ThreadId) -> None:
            given = batch("one", note("one"))
            await storage.threads.append(thread, given, expected=EMPTY, epoch=1)

        appends = [asyncio.create_task(append(threads[0]))]
        await asyncio.wait(appends, timeout=0.2)
        appends += [asyncio.create_task(append(thread)) for thread in threads[1:]]
        done, _ = await asyncio.wait(appends, timeout=0.2)
        assert not done
        locker.send()
        await asyncio.gather(*appends)
        assert commits_in(path.with_name(copied(log)), 8_192) == before + 1


def copied(log: Path) -> str:
    """Copy a log, in this process: nobody holds a lock on the log itself."""
    copy = log.with_name("log-copy")
    copy.write_bytes(log.read_bytes())
    return copy.name


@pytest.mark.rule("LOG-2")
async def test_what_waits_for_the_lock_is_one_commit(path: Path, workers: Workers) -> None:
    await check_one_commit(path, workers)


async def test_draining_before_locking_is_caught(path: Path, workers: Workers) -> None:
    with applied("drains-before-locking"), pytest.raises(AssertionError, match="assert"):
        await check_one_commit(path, workers)


def boot(workers: Workers, path: Path, count: int) -> None:
    """Let so many processes open a store that is not there, and write to it, all at once."""
    started = [
        workers.start("opener", url=f"sqlite:///{path}", worker=f"worker-{number}")
        for number in range(count)
    ]
    for each in started:
        assert each.receive() == {"ready": True}
    for each in started:
        each.send()
    incarnations = {each.receive()["incarnation"] for each in started}
    assert len(incarnations) == 1
    for each in started:
        assert each.finish() == []
        each.release()
    assert len(check_store(path)) == count


@pytest.mark.rule("LAY-4")
def test_sixteen_processes_boot_at_once(workers: Workers, tmp_path: Path) -> None:
    for number in range(2):
        boot(workers, tmp_path / f"round-{number}.db", 16)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.rule("LAY-4")
def test_sixteen_processes_boot_at_once_fifty_times(workers: Workers, tmp_path: Path) -> None:
    for number in range(50):
        boot(workers, tmp_path / f"round-{number}.db", 16)


async def check_locks_survive_an_opening(path: Path, workers: Workers) -> None:
    """A second storage of this process leaves the first one's locks alone.

    Without them, the last connection of another process would take the log for its own and remove
    it while the first storage writes to it.
    """
    url = f"sqlite:///{path}"
    log = path.with_name(f"{path.name}-wal")
    async with open_storage(url) as first:
        await first.threads.materialize(ThreadId("thread"), epoch=1)
        kept = log.stat().st_ino
        async with open_storage(url):
            scribe = workers.start("scribe", url=url, thread="other")
            scribe.receive()
            await asyncio.to_thread(scribe.finish)
            assert log.exists(), "another process removed the log"
            assert log.stat().st_ino == kept, "another process removed the log"
        given = batch("one", note("one"))
        await first.threads.append(ThreadId("thread"), given, expected=EMPTY, epoch=1)
    assert len(check_store(path)["thread"]) == 1


@pytest.mark.rule("STO-3", "LOG-2")
async def test_an_opening_takes_no_lock_from_this_process(path: Path, workers: Workers) -> None:
    await check_locks_survive_an_opening(path, workers)


async def test_reading_the_file_itself_is_caught(path: Path, workers: Workers) -> None:
    with (
        applied("reads-the-file-itself"),
        pytest.raises(AssertionError, match="removed the log"),
    ):
        await check_locks_survive_an_opening(path, workers)
