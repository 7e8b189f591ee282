"""Leases follow a clock that nobody can set: not back, not ahead, and not by a boot."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from ledger_work import LANE, TOKEN, admit

from yielded_core.records.identifiers import AttemptId, OwnershipToken, ThreadId
from yielded_storage_sqlite import clock, open_storage

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_core.ports.work import Grant
    from yielded_storage_sqlite import SqliteStorage

LEASE: Final = 30_000
YEAR: Final = 365 * 24 * 3_600_000
BEGIN: Final = 1_900_000_000_000
OTHER: Final = OwnershipToken("another token")


@dataclass
class Machine:
    """The clocks of a machine, in milliseconds."""

    wall: int = BEGIN
    running: int = 1_000
    boot: str = "first boot"

    def passes(self, milliseconds: int) -> None:
        """Let time pass."""
        self.wall += milliseconds
        self.running += milliseconds

    def boots(self, *, named: bool) -> None:
        """Boot: the clock since the boot begins again, and the boot has another name if any."""
        self.boot += " again" if named else ""
        self.running = 5


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Put a machine's clocks in place of the real ones."""
    clocks = Machine()
    monkeypatch.setattr(time, "time_ns", lambda: clocks.wall * 1_000_000)
    monkeypatch.setattr(clock, "since_boot", lambda: clocks.running)
    monkeypatch.setattr(clock, "boot_identity", lambda: clocks.boot)
    return clocks


async def owned(storage: SqliteStorage) -> Grant:
    """Make a lane with one submission, and own it."""
    work = await admit(storage, "key")
    await storage.threads.materialize(LANE, epoch=1)
    await storage.ledger.mark_ready(LANE, work.submission_id)
    grant = await storage.ledger.claim(LANE, attempt=AttemptId("first"), token=TOKEN, lease=LEASE)
    assert grant is not None
    return grant


async def takes_over(storage: SqliteStorage) -> bool:
    """Whether somebody else can claim the lane now."""
    grant = await storage.ledger.claim(LANE, attempt=AttemptId("other"), token=OTHER, lease=LEASE)
    return grant is not None


@pytest.mark.rule("LED-4", "LED-6")
async def test_a_lease_ends_at_its_millisecond(path: Path, machine: Machine) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        grant = await owned(storage)
        assert grant.expires_at == BEGIN + LEASE
        machine.passes(LEASE - 1)
        assert not await takes_over(storage)
        assert await storage.ledger.runnable() == ()
        machine.passes(1)
        assert [lane.thread_id for lane in await storage.ledger.runnable()] == [LANE]
        assert await takes_over(storage)


@pytest.mark.rule("LED-6")
@pytest.mark.parametrize("jump", [-YEAR, YEAR])
async def test_setting_the_wall_clock_changes_no_lease(
    path: Path, machine: Machine, jump: int
) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        await owned(storage)
        machine.wall += jump
        assert not await takes_over(storage)
        machine.passes(LEASE)
        assert await takes_over(storage)


@pytest.mark.rule("LED-6")
async def test_a_clock_set_a_year_ahead_and_back_again_stops_no_time(
    path: Path, machine: Machine
) -> None:
    machine.wall += YEAR
    async with open_storage(f"sqlite:///{path}") as storage:
        await owned(storage)
    machine.wall -= YEAR
    machine.passes(LEASE)
    async with open_storage(f"sqlite:///{path}") as storage:
        assert await takes_over(storage)
        machine.passes(LEASE)
        assert [lane.thread_id for lane in await storage.ledger.runnable()] == [LANE]


@pytest.mark.rule("LED-6")
@pytest.mark.parametrize("jump", [-YEAR, 0, YEAR])
@pytest.mark.parametrize("named", [True, False])
async def test_no_lease_survives_a_boot(
    path: Path, machine: Machine, jump: int, *, named: bool
) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        await owned(storage)
        machine.passes(10 * 24 * 3_600_000)  # far from the anchor
        assert await takes_over(storage)
    machine.boots(named=named)
    machine.wall += jump
    async with open_storage(f"sqlite:///{path}") as storage:
        lane = await storage.ledger.lane(LANE)
        assert lane is not None
        assert lane.owner is not None
        assert not lane.owner.live
        grant = await storage.ledger.claim(LANE, attempt=AttemptId("third"), token=TOKEN)
        assert grant is not None
        assert grant.epoch == 4
        machine.passes(1)
        assert not await takes_over(storage)


@pytest.mark.rule("LED-6")
async def test_processes_that_opened_before_and_after_the_anchor_agree(
    path: Path, machine: Machine
) -> None:
    url = f"sqlite:///{path}"
    async with open_storage(url) as early, open_storage(url) as late:
        await owned(early)
        machine.wall -= YEAR
        machine.passes(LEASE - 1)
        assert not await takes_over(late)
        machine.passes(1)
        assert await takes_over(late)


@pytest.mark.rule("LED-1")
async def test_instants_that_people_read_are_those_of_the_wall_clock(
    path: Path, machine: Machine
) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        await owned(storage)
        machine.wall -= YEAR
        asked = await storage.ledger.request_abort(
            LANE, (await admit(storage, "other")).submission_id, author="somebody", reason=""
        )
        assert asked.intent.requested_at == BEGIN - YEAR


def test_the_real_clock_ticks_and_names_its_boot() -> None:
    first = clock.since_boot()
    assert clock.boot_identity() == clock.boot_identity() != ""
    while clock.since_boot() == first:
        pass
    assert clock.since_boot() > first


async def test_a_thread_without_a_lane_has_no_owner(path: Path) -> None:
    async with open_storage(f"sqlite:///{path}") as storage:
        assert await storage.ledger.lane(ThreadId("nowhere")) is None
