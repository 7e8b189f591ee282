"""Cases of publishing a settlement by the owner's right, and of finalizing it (LED-8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    AppendConflict,
    EvidenceFault,
    OwnershipLost,
    SettlementConflict,
    SubmissionNotFound,
)
from yielded_core.ports.work import Published, Settled
from yielded_core.records.identifiers import ProducerId, SettlementId, ThreadId
from yielded_testing.suites.builders import OTHER, PRODUCER, THREAD, note, record_bytes
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import LEASE, RESULTS, settlement_of, token, work
from yielded_testing.suites.support import observing, whole_log

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

OUTCOMES: Final = tuple(RESULTS)


async def owned(storage: Storage) -> LaneScript:
    """Return a lane whose owned submission is `key-1`."""
    lane = await LaneScript.begin(storage)
    await lane.run("key-1")
    return lane


class OwnedCases:
    """LED-8: the owner appends the one settlement record, and the authority is checked there."""

    @pytest.mark.rule("LED-8", "REC-2")
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_the_owner_publishes_its_settlement(
        self, storage: Storage, outcome: Outcome
    ) -> None:
        """One record under its derived names, at the tail, in the owner's epoch."""
        lane = await owned(storage)
        await lane.append(note("one"))
        version = await lane.version()
        published = await lane.publish("key-1", outcome)
        given = settlement_of(lane.receipts["key-1"], outcome)
        tail = (await storage.threads.tail(THREAD)).tail
        stored = await storage.threads.get_record(THREAD, given.record_id)
        assert published == Published(stored, tail, replayed=False)
        assert (stored.record, stored.wire) == (given, record_bytes(given))
        assert (stored.sequence, tail.sequence) == (2, 2)
        last = (await whole_log(storage))[-1]
        assert last.batch_id == f"submission-settlement:{lane.id('key-1')}"
        assert (last.producer_id, last.epoch) == (PRODUCER, lane.grant.epoch)
        assert await lane.version() > version

    @pytest.mark.rule("LED-8")
    async def test_published_is_not_settled(self, storage: Storage) -> None:
        """The state, the owner, the lane and the queue stay until it is finalized."""
        lane = await owned(storage)
        before = await lane.see("key-1")
        await lane.ready("key-2")
        await lane.publish("key-1")
        assert await lane.see("key-1") == before
        snapshot = await lane.snapshot("key-1")
        assert snapshot.settlement_published
        assert snapshot.lane.owner is not None
        assert await lane.unmoved(lane.another("2").try_claim()) is None
        await lane.release()
        assert (await lane.claim()).submission.submission_id == lane.id("key-1")

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_publishing_and_finalizing_are_one_transaction(
        self, storage: Storage, clock: VirtualClock, outcome: Outcome
    ) -> None:
        """Settled with its instant, the lane free for what is next."""
        lane = await owned(storage)
        await lane.ready("key-2")
        clock.advance(456)
        published = await lane.publish("key-1", outcome, finalize=True)
        assert not published.replayed
        after = await lane.see("key-1")
        name = SettlementId(f"settlement:{lane.id('key-1')}")
        assert (after.state, after.settled) == ("settled", Settled(name, outcome, clock.now))
        seen = await storage.ledger.lane(THREAD)
        assert seen is not None
        assert (seen.owner, seen.epoch) == (None, 2)
        assert (await lane.claim()).submission.submission_id == lane.id("key-2")

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("finalized", [False, True])
    @pytest.mark.parametrize("content", ["same", "outcome", "result", "aborted", "producer"])
    async def test_the_first_record_wins(
        self, storage: Storage, content: str, *, finalized: bool
    ) -> None:
        """The same token gets it back with the current tail, whatever the repeat carries."""
        lane = await owned(storage)
        first = await lane.publish("key-1", "completed", finalize=finalized)
        if not finalized:
            await lane.append(note("later"))
        tail = (await storage.threads.tail(THREAD)).tail
        given = {
            "outcome": settlement_of(lane.receipts["key-1"], "failed"),
            "result": settlement_of(lane.receipts["key-1"], "completed", result="other"),
            "aborted": settlement_of(lane.receipts["key-1"], "aborted"),
        }.get(content, settlement_of(lane.receipts["key-1"]))
        again = storage.settlements.publish(
            THREAD,
            given,
            producer=ProducerId("producer-2") if content == "producer" else PRODUCER,
            token=lane.token,
            authority="owned",
        )
        assert await lane.unmoved(again) == Published(first.record, tail, replayed=True)

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("finalized", [False, True])
    async def test_a_repeat_needs_no_ownership_any_more(
        self, storage: Storage, clock: VirtualClock, *, finalized: bool
    ) -> None:
        """Who published it gets it back after a takeover too, by any authority."""
        lane = await owned(storage)
        await lane.ready("key-2")
        first, held = await lane.publish("key-1", finalize=finalized), lane.token
        clock.advance(LEASE)
        await lane.another("2").claim()
        for authority in ("owned", "joined", "queued-abort"):
            again = await lane.unmoved(lane.publish("key-1", by=held, authority=authority))
            assert (again.record, again.replayed) == (first.record, True)

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("finalized", [False, True])
    async def test_any_other_token_is_refused_after_the_first_record(
        self, storage: Storage, clock: VirtualClock, *, finalized: bool
    ) -> None:
        """OwnershipLost and no record, even for the current owner, by any authority."""
        lane = await owned(storage)
        await lane.ready("key-2")
        await lane.publish("key-1", finalize=finalized)
        clock.advance(LEASE)
        other = lane.another("2")
        await other.claim()
        for by in (other.token, token("foreign")):
            for authority in ("owned", "joined", "queued-abort"):
                refusal = lane.publish("key-1", by=by, authority=authority, finalize=True)
                error = await lane.refuses(OwnershipLost, refusal)
                assert error.actual == other.grant.epoch
        assert len(await whole_log(storage)) == 1

    @pytest.mark.rule("LED-8")
    async def test_a_repeat_may_finalize(self, storage: Storage, clock: VirtualClock) -> None:
        """What was only published is settled by a repeat that asks for it; the instant is kept."""
        lane = await owned(storage)
        await lane.publish("key-1")
        clock.advance(10)
        assert (await lane.publish("key-1", finalize=True)).replayed
        settled = (await lane.see("key-1")).settled
        assert settled is not None
        assert settled.settled_at == clock.now
        clock.advance(10)
        again = await lane.unmoved(lane.publish("key-1", "failed", finalize=True))
        assert again.replayed

    @pytest.mark.rule("LED-8")
    async def test_a_settlement_needs_its_submission(self, storage: Storage) -> None:
        """It is of the thread that it is published to, and of work that was admitted there."""
        lane = await owned(storage)
        await storage.threads.materialize(OTHER, epoch=1)
        publish = storage.settlements.publish
        mine = settlement_of(lane.receipts["key-1"])
        elsewhere = await storage.ledger.admit(work("key-9", thread=OTHER))
        for thread, given in ((OTHER, mine), (THREAD, settlement_of(elsewhere))):
            refusal = publish(thread, given, producer=PRODUCER, token=lane.token, authority="owned")
            assert (await lane.refuses(SubmissionNotFound, refusal)).thread == thread
        assert (await storage.threads.tail(OTHER)).sequence == 0

    @pytest.mark.rule("LED-8", "LOG-9")
    async def test_observers_hear_of_a_settlement(self, storage: Storage) -> None:
        """It is an append as any other to those who follow the thread."""
        lane = await owned(storage)
        async with observing(storage) as seen:
            await lane.append(note("one"))
            await seen.until(1)
            await lane.publish("key-1", finalize=True)
            delivered = await seen.until(2)
        assert delivered[1].record == settlement_of(lane.receipts["key-1"])

    @pytest.mark.rule("LED-8", "LOG-5")
    async def test_a_settlement_takes_the_tail_as_it_is(self, storage: Storage) -> None:
        """The publisher names no expected tail: it appends after whatever was appended."""
        lane = await owned(storage)
        for number in range(3):
            await lane.append(note(f"note-{number}"))
        assert (await lane.publish("key-1")).tail.sequence == 4
        await lane.append(note("after"))
        assert (await storage.threads.tail(THREAD)).sequence == 5


class FinalizeCases:
    """LED-8: the record is projected onto the ledger, once, by anybody."""

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_anybody_finalizes_a_published_settlement(
        self, storage: Storage, clock: VirtualClock, outcome: Outcome
    ) -> None:
        """Its outcome comes from the record; the lane and its owner are free of it."""
        lane = await owned(storage)
        await lane.ready("key-2")
        await lane.publish("key-1", outcome)
        clock.advance(99)
        version = await lane.version()
        final = await lane.finalize("key-1")
        name = SettlementId(f"settlement:{lane.id('key-1')}")
        assert (final.state, final.settled) == ("settled", Settled(name, outcome, clock.now))
        assert await lane.see("key-1") == final
        assert await lane.version() > version
        renewal = storage.ledger.renew(THREAD, token=lane.token)
        await lane.refuses(OwnershipLost, renewal)
        assert (await lane.claim()).submission.submission_id == lane.id("key-2")

    @pytest.mark.rule("LED-8")
    async def test_the_first_instant_is_kept(self, storage: Storage, clock: VirtualClock) -> None:
        """Finalizing again changes nothing, and answers with the settled submission."""
        lane = await owned(storage)
        await lane.publish("key-1")
        final = await lane.finalize("key-1")
        for _ in range(2):
            clock.advance(1_000)
            assert await lane.unmoved(lane.finalize("key-1")) == final

    @pytest.mark.rule("LED-8")
    async def test_without_a_record_nothing_is_finalized(self, storage: Storage) -> None:
        """EvidenceFault, whatever the state and whatever the name of the settlement."""
        lane = await owned(storage)
        await lane.ready("key-2")
        for key in ("key-1", "key-2"):
            for name in (f"settlement:{lane.id(key)}", "settlement:other"):
                refusal = storage.ledger.finalize_settlement(
                    THREAD, lane.id(key), settlement=SettlementId(name)
                )
                fault = await lane.refuses(EvidenceFault, refusal)
                assert (fault.thread, fault.reason) == (THREAD, "evidence-missing")
        outside = LaneScript(storage, OTHER)
        await outside.admit("key-3")
        await outside.refuses(EvidenceFault, outside.finalize("key-3"))

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("finalized", [False, True])
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_another_settlement_id_is_a_conflict(
        self, storage: Storage, outcome: Outcome, *, finalized: bool
    ) -> None:
        """It tells the outcome that stands, before finalization as after it."""
        lane = await owned(storage)
        await lane.publish("key-1", outcome, finalize=finalized)
        for name in ("settlement:other", lane.id("key-1"), f"settlement:{lane.id('key-1')} "):
            refusal = storage.ledger.finalize_settlement(
                THREAD, lane.id("key-1"), settlement=SettlementId(name)
            )
            conflict = await lane.refuses(SettlementConflict, refusal)
            assert (conflict.submission, conflict.outcome) == (lane.id("key-1"), outcome)

    @pytest.mark.rule("LED-8")
    async def test_a_record_of_history_is_finalized(self, storage: Storage) -> None:
        """Whoever appended it: the log wins, and what it says becomes the state."""
        lane = await owned(storage)
        await lane.append(settlement_of(lane.receipts["key-1"], "failed"))
        assert (await lane.snapshot("key-1")).settlement_published
        final = await lane.finalize("key-1")
        assert final.settled is not None
        assert final.settled.outcome == "failed"

    @pytest.mark.rule("LED-8")
    async def test_one_settlement_leaves_another_owner_alone(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Finalizing earlier work ends no ownership but its own."""
        lane = await owned(storage)
        await lane.mark_unknown("key-1")
        await lane.publish("key-1", "failed")
        await lane.release()
        await lane.run("key-2")
        clock.advance(5)
        await lane.finalize("key-1")
        assert await storage.ledger.renew(THREAD, token=lane.token) == clock.now + LEASE
        await lane.settle("key-2")

    @pytest.mark.rule("LED-8", "LED-11")
    async def test_a_settled_submission_waits_for_nothing(self, storage: Storage) -> None:
        """Published before it was suspended, it leaves the lane without a suspension."""
        lane = await owned(storage)
        await lane.publish("key-1")
        await lane.suspend("key-1")
        await lane.ready("key-2")
        final = await lane.finalize("key-1")
        assert (final.state, final.suspension) == ("settled", None)
        assert (await lane.claim()).submission.submission_id == lane.id("key-2")

    @pytest.mark.rule("LED-8", "LED-16")
    async def test_many_finalize_at_once(self, storage: Storage) -> None:
        """All get the one settled submission."""
        lane = await owned(storage)
        await lane.publish("key-1")
        answers = await asyncio.gather(*(lane.finalize("key-1") for _ in range(16)))
        assert {each.settled for each in answers} == {(await lane.see("key-1")).settled}


class PublishingRaces:
    """LED-8 and LED-16: one record, under an epoch that was current."""

    @pytest.mark.rule("LED-8", "LED-16")
    async def test_one_of_many_records_is_published(self, storage: Storage) -> None:
        """16 with one token and different contents: one is stored, and all get it."""
        lane = await owned(storage)
        answers = await asyncio.gather(
            *(
                lane.publish("key-1", result=number, finalize=number % 2 == 1)
                for number in range(16)
            )
        )
        assert sorted(each.replayed for each in answers) == [False, *[True] * 15]
        assert len({each.record.wire for each in answers}) == 1
        assert (await storage.threads.tail(THREAD)).sequence == 1
        assert (await lane.see("key-1")).state == "settled"

    @pytest.mark.rule("LED-8", "LED-4", "LED-16")
    async def test_publication_and_takeover_race(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Published before the claim, whose tail shows it; or refused, and not there at all."""
        for number in range(12):
            lane = await LaneScript.begin(storage, ThreadId(f"thread-{number}"))
            await lane.run("key-1")
            clock.advance(LEASE)
            other = lane.another("2")
            pair = [lane.publish("key-1"), other.try_claim()]
            answers = await asyncio.gather(
                *(pair if number % 2 else pair[::-1]), return_exceptions=True
            )
            assert other.grant.epoch == 3
            tail = await storage.threads.tail(lane.thread)
            published = any(isinstance(each, Published) for each in answers)
            assert published != any(isinstance(each, OwnershipLost) for each in answers)
            assert (tail.sequence, other.grant.tail) == (int(published), tail.tail)
            assert [each.epoch for each in await whole_log(storage, lane.thread)] == [2] * published

    @pytest.mark.rule("LED-8", "LOG-2")
    async def test_publication_and_appends_race(self, storage: Storage) -> None:
        """The owner's appends and its settlement follow each other without gap."""
        lane = await owned(storage)

        async def append(number: int) -> bool:
            try:
                await lane.append(note(f"note-{number}"), batch_id=f"batch {number}")
            except AppendConflict:
                return False
            return True

        done = await asyncio.gather(
            *(append(number) for number in range(6)), lane.publish("key-1"), append(6)
        )
        stored = await storage.threads.read(THREAD)
        appended = sum(each is True for each in done)
        assert [each.sequence for each in stored] == list(range(1, appended + 2))
        assert (await lane.snapshot("key-1")).settlement_published
