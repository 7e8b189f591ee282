"""A page of what is owed: the lanes, what a claim would get, and the store's instants (LED-15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core import AttemptId, IdempotencyKey, OwnershipToken, Principal, ThreadId
from yielded_core.errors import InvalidArgument, InvalidIdentifier
from yielded_core.ports.work import Admission
from yielded_storage_memory import open_storage as open_memory
from yielded_storage_sqlite import open_storage as open_sqlite

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from yielded_core import Storage, SubmissionId
    from yielded_core.ports.ledger import SubmissionLedger

A, B, C = (ThreadId(name) for name in "abc")
TOKEN: Final = OwnershipToken("token")


@dataclass
class Frozen:
    """An instant that a test moves."""

    now: int = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Frozen:
    return Frozen()


@pytest.fixture(params=["memory", "sqlite"])
async def ledger(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Frozen
) -> AsyncGenerator[SubmissionLedger]:
    storage: Storage = (
        open_memory(clock=clock)
        if request.param == "memory"
        else open_sqlite(f"sqlite:///{tmp_path}/store.db", clock=clock)
    )
    async with storage:
        for thread in (A, B):
            await storage.threads.materialize(thread, epoch=4)
        yield storage.ledger


async def _admit(ledger: SubmissionLedger, thread: ThreadId, key: str) -> SubmissionId:
    work = Admission(thread, Principal("somebody"), IdempotencyKey(key), {})
    return (await ledger.admit(work)).submission_id


async def _ready(ledger: SubmissionLedger, thread: ThreadId, key: str) -> SubmissionId:
    submission = await _admit(ledger, thread, key)
    await ledger.mark_ready(thread, submission)
    return submission


@pytest.mark.rule("LED-15")
async def test_pages_hold_what_a_scan_gives_and_its_lanes(ledger: SubmissionLedger) -> None:
    for thread in (B, A, C, A, B):
        await _admit(ledger, thread, f"{len(await ledger.scan_nonterminal())}")
    scanned = await ledger.scan_nonterminal()
    whole = await ledger.queue()
    assert whole.submissions == scanned
    assert [queued.lane for queued in whole.lanes] == [
        await ledger.lane(name) for name in (A, B, C)
    ]
    first = await ledger.queue(limit=3)
    assert first.submissions == scanned[:3]
    assert [queued.lane.thread_id for queued in first.lanes] == [A, B]
    last = first.submissions[-1]
    second = await ledger.queue(after=(last.thread_id, last.queue_sequence), limit=3)
    assert second.submissions == scanned[3:]
    assert [queued.lane.thread_id for queued in second.lanes] == [B, C]
    nothing = await ledger.queue(after=(C, 1))
    assert (nothing.submissions, nothing.lanes) == ((), ())


@pytest.mark.rule("LED-4", "LED-15")
async def test_what_is_claimable_is_what_a_claim_gets(
    ledger: SubmissionLedger, clock: Frozen
) -> None:
    async def claimable() -> list[SubmissionId | None]:
        return [queued.claimable for queued in (await ledger.queue()).lanes]

    head = await _admit(ledger, A, "head")
    await _ready(ledger, A, "behind")
    other = await _ready(ledger, B, "other")
    assert await claimable() == [None, other]  # an admitted head is a barrier
    await ledger.mark_ready(A, head)
    assert await claimable() == [head, other]
    grant = await ledger.claim(A, attempt=AttemptId("attempt"), token=TOKEN, lease=100)
    assert grant is not None
    assert grant.submission.submission_id == head
    assert await claimable() == [None, other]
    clock.now += 99
    page = await ledger.queue()
    owner = page.lanes[0].lane.owner
    assert owner is not None
    assert (owner.submission_id, owner.expires_at - page.store_clock, owner.live) == (head, 1, True)
    clock.now += 1
    assert await claimable() == [head, other]  # equal time is expired
    await ledger.release(A, token=TOKEN)
    assert (await ledger.queue()).lanes[0].lane.owner is None


@pytest.mark.rule("LED-6", "LED-15")
async def test_a_page_carries_the_instants_of_the_store(
    ledger: SubmissionLedger, clock: Frozen
) -> None:
    await _admit(ledger, A, "work")
    clock.now += 5_000
    page = await ledger.queue()
    assert (page.store_clock, page.wall_clock) == (clock.now, clock.now)
    assert page.wall_clock - page.submissions[0].admitted_at == 5_000


@pytest.mark.rule("LED-15")
async def test_a_page_has_its_bounds(ledger: SubmissionLedger) -> None:
    for limit in (0, 1_025):
        with pytest.raises(InvalidArgument):
            await ledger.queue(limit=limit)
    with pytest.raises(InvalidIdentifier):
        await ledger.queue(after=(ThreadId(""), 0))
    with pytest.raises(InvalidArgument):
        await ledger.queue(after=(A, -1))
