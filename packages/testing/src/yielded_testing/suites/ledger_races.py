"""Cases of claims that race with everything else: one owner, one epoch, one order (LED-16)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import AppendConflict, FenceRejected, MarkerConflict, OwnershipLost
from yielded_core.ports.values import Batch, Tail
from yielded_core.ports.work import Grant
from yielded_core.records.identifiers import AttemptId, BatchId, ThreadId
from yielded_core.transfer.verify import verify_thread
from yielded_testing.suites.builders import PRODUCER, THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import LEASE, input_record, settlement_of, token
from yielded_testing.suites.support import stored_names, turns, whole_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.ports.work import Admitted
    from yielded_core.records.envelope import Record
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock


class ClaimRaces:
    """LED-16: one submission is owned by at most one live attempt."""

    @pytest.mark.rule("LED-16", "LED-4")
    async def test_one_of_many_claims_is_granted(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Of 24 at once exactly one, time after time; the epoch rises by one each time."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        for number in range(4):
            workers = [lane.another(f"{number}-{at}") for at in range(24)]
            grants = await asyncio.gather(*(worker.try_claim() for worker in workers))
            (grant,) = [each for each in grants if each is not None]
            assert (grant.epoch, grant.replayed) == (2 + number, False)
            clock.advance(LEASE)

    @pytest.mark.rule("LED-16", "LED-4")
    async def test_one_claim_from_many_tasks_is_one(self, storage: Storage) -> None:
        """24 copies of a claim get one grant: one of them first, the others as replays."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        grants = await asyncio.gather(
            *(
                storage.ledger.claim(THREAD, attempt=AttemptId("attempt"), token=token("one"))
                for _ in range(24)
            )
        )
        found = [each for each in grants if each is not None]
        assert len(found) == 24
        assert {(each.epoch, each.expires_at) for each in found} == {(2, found[0].expires_at)}
        assert sorted(each.replayed for each in found) == [False, *[True] * 23]

    @pytest.mark.rule("LED-16", "LED-4")
    async def test_each_of_many_lanes_has_one_owner(self, storage: Storage) -> None:
        """Of 6 claims on each of 8 lanes one is granted on each."""
        lanes = [await LaneScript.begin(storage, ThreadId(f"lane-{at}")) for at in range(8)]
        for lane in lanes:
            await lane.ready("key-1")
        workers = [lane.another(f"w{at}") for at in range(6) for lane in lanes]
        grants = await asyncio.gather(*(worker.try_claim() for worker in workers))
        owned = [each.submission.thread_id for each in grants if each is not None]
        assert sorted(owned) == [lane.thread for lane in lanes]

    @pytest.mark.rule("LED-16", "LED-4", "LOG-2")
    async def test_claim_and_append_race(self, storage: Storage, clock: VirtualClock) -> None:
        """The append is in the tail that the grant shows, or it is fenced."""
        owner = await LaneScript.begin(storage)
        await owner.run("key-1")
        expected: list[str] = []
        for number in range(16):
            clock.advance(LEASE)
            other = owner.another(f"w{number}")
            pair = [owner.append(note(f"note-{number}")), other.try_claim()]
            answers = await asyncio.gather(
                *(pair if number % 2 else pair[::-1]), return_exceptions=True
            )
            appended = any(isinstance(each, Tail) for each in answers)
            assert appended != any(isinstance(each, FenceRejected) for each in answers)
            expected += [f"note-{number}"] * appended
            assert other.grant.tail == (await storage.threads.tail(THREAD)).tail
            assert other.grant.epoch == owner.grant.epoch + 1
            owner = other
        assert await stored_names(storage) == expected

    @pytest.mark.rule("LED-16", "LED-6")
    async def test_claim_and_renewal_race(self, storage: Storage, clock: VirtualClock) -> None:
        """At the end of a lease it is renewed and nobody else's, or lost to another."""
        owner = await LaneScript.begin(storage)
        await owner.run("key-1")
        for number in range(12):
            clock.advance(LEASE)
            other = owner.another(f"w{number}")
            pair = [storage.ledger.renew(THREAD, token=owner.token), other.try_claim()]
            answers = await asyncio.gather(
                *(pair if number % 2 else pair[::-1]), return_exceptions=True
            )
            lost = any(isinstance(each, OwnershipLost) for each in answers)
            assert lost == bool(other.grants)
            if lost:
                owner = other

    @pytest.mark.rule("LED-16", "LED-6")
    async def test_claim_and_release_race(self, storage: Storage) -> None:
        """The release always succeeds; a claim before it gets nothing, one after it the lane."""
        owner = await LaneScript.begin(storage)
        await owner.run("key-1")
        for number in range(12):
            other = owner.another(f"w{number}")
            pair = [owner.release(), other.try_claim()]
            await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            if not other.grants:
                await other.claim()
            owner = other
        assert owner.grant.epoch == 14

    @pytest.mark.rule("LED-16", "LED-4")
    async def test_settlement_and_claim_race(self, storage: Storage) -> None:
        """No settled submission is granted: the claim gets nothing, or the next one."""
        lane = await LaneScript.begin(storage)
        await lane.ready(*(f"key-{number}" for number in range(13)))
        await lane.claim()
        for number in range(12):
            pair = [lane.settle(f"key-{number}"), lane.another(f"w{number}").try_claim()]
            answers = await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            for grant in answers:
                if isinstance(grant, Grant):
                    assert grant.submission.submission_id == lane.id(f"key-{number + 1}")
                    await storage.ledger.release(THREAD, token=token(f"w{number}-1"))
            assert (await lane.claim()).submission.submission_id == lane.id(f"key-{number + 1}")


@dataclass
class Storm:
    """Workers that claim, append, settle, die and are superseded, on several lanes at once."""

    clock: VirtualClock
    receipts: dict[ThreadId, list[Admitted]]
    grants: list[Grant] = field(default_factory=list[Grant])
    acknowledged: list[tuple[ThreadId, str, int]] = field(
        default_factory=list["tuple[ThreadId, str, int]"]
    )
    stale: int = 0
    """Operations that were refused because somebody else owns the lane."""

    @staticmethod
    async def begin(storage: Storage, clock: VirtualClock, lanes: int, each: int) -> Storm:
        """Make lanes with ready work."""
        receipts: dict[ThreadId, list[Admitted]] = {}
        for number in range(lanes):
            lane = await LaneScript.begin(storage, ThreadId(f"lane-{number}"))
            await lane.ready(*(f"key-{at}" for at in range(each)))
            receipts[lane.thread] = list(lane.receipts.values())
        return Storm(clock, receipts)

    async def work(self, storage: Storage, name: str) -> None:
        """Work until nothing is left to be done anywhere."""
        random, attempt = Random(name), 0
        while await storage.ledger.scan_nonterminal(limit=1):
            attempt += 1
            thread = random.choice(list(self.receipts))
            if random.random() < 0.3:
                self.clock.advance(random.choice((1, LEASE // 2, LEASE)))
            owner = token(f"{name}/{attempt}")
            grant = await storage.ledger.claim(
                thread, attempt=AttemptId(f"{name}/{attempt}"), token=owner
            )
            if grant is None:
                await turns(1)
                continue
            self.grants.append(grant)
            try:
                await self._attempt(storage, grant, owner, random)
            except (OwnershipLost, FenceRejected, AppendConflict, MarkerConflict):
                self.stale += 1

    async def _attempt(self, storage: Storage, grant: Grant, owner: str, random: Random) -> None:
        thread, submission = grant.submission.thread_id, grant.submission.submission_id
        tail = grant.tail
        by = token(owner.removeprefix("token-"))
        if grant.submission.input_sequence is None:
            snapshot = await storage.ledger.load_recovery_snapshot(thread, submission)
            sequence = snapshot.input_sequence
            if sequence is None:
                tail = await self._append(storage, grant, tail, input_record(submission))
                sequence = tail.sequence
            await turns(random.randrange(3))
            await storage.ledger.mark_input_applied(thread, submission, token=by, sequence=sequence)
        for number in range(random.randrange(3)):
            await turns(random.randrange(3))
            given = note(f"{submission}/{grant.epoch}/{number}")
            tail = await self._append(storage, grant, tail, given)
        fate = random.random()
        if fate < 0.3:
            return  # it died, its lease runs out
        if fate < 0.4:
            await storage.ledger.release(thread, token=by)
            return
        if fate < 0.5:
            await storage.ledger.renew(thread, token=by)
        (receipt,) = [each for each in self.receipts[thread] if each.submission_id == submission]
        await storage.settlements.publish(
            thread,
            settlement_of(receipt, result=grant.epoch),
            producer=PRODUCER,
            token=by,
            authority="owned",
            finalize=random.random() < 0.5,
        )
        await turns(random.randrange(3))
        name = settlement_of(receipt).payload
        assert name.tag == "SubmissionSettled"
        await storage.ledger.finalize_settlement(thread, submission, settlement=name.settlement_id)

    async def _append(self, storage: Storage, grant: Grant, tail: Tail, given: Record) -> Tail:
        thread = grant.submission.thread_id
        batch = Batch(BatchId(f"batch:{given.record_id}"), PRODUCER, (given,))
        done = await storage.threads.append(thread, batch, expected=tail, epoch=grant.epoch)
        self.acknowledged.append((thread, given.record_id, grant.epoch))
        return done.tail

    async def check(self, storage: Storage) -> None:
        """Compare what the workers were told with what the store holds."""
        for thread, receipts in self.receipts.items():
            batches = await whole_log(storage, thread)
            records = [
                (record_id, each.epoch, each.last_sequence)
                for each in batches
                for record_id, _ in each.records
            ]
            epochs = [epoch for _, epoch, _ in records]
            assert epochs == sorted(epochs)
            settled = [name for name, _, _ in records if name.startswith("settlement:")]
            assert settled == [f"settlement:{each.submission_id}" for each in receipts]
            told = {(name, epoch) for at, name, epoch in self.acknowledged if at == thread}
            assert told <= {(name, epoch) for name, epoch, _ in records}
            mine = [each for each in self.grants if each.submission.thread_id == thread]
            assert len({each.epoch for each in mine}) == len(mine)
            for grant in mine:
                _check_grant(grant, records)
            assert (await verify_thread(storage, thread)).ok


def _check_grant(grant: Grant, records: Sequence[tuple[str, int, int]]) -> None:
    """Nothing of an older epoch follows the tail of a grant, nothing of its own precedes it."""
    for _, epoch, sequence in records:
        assert (sequence > grant.tail.sequence) == (epoch >= grant.epoch)


class StormCases:
    """LED-16: many workers, every operation, lapsed leases, and the log that is left."""

    @pytest.mark.slow_case
    @pytest.mark.rule("LED-16", "LED-4", "LED-6", "LED-7", "LED-8")
    @pytest.mark.parametrize("seed", range(4))
    async def test_a_storm_settles_everything_once(
        self, storage: Storage, clock: VirtualClock, seed: int
    ) -> None:
        """In the order of each lane, under epochs that were current, nothing acknowledged lost."""
        storm = await Storm.begin(storage, clock, 3, 8)
        await asyncio.gather(*(storm.work(storage, f"{seed}.{at}") for at in range(8)))
        await storm.check(storage)
        assert len(storm.grants) > 24
        assert storm.stale > 0
