"""Cases of a store that is restored from a backup and declared restored (STO-4)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from yielded_core.errors import (
    FenceRejected,
    OffsetRefused,
    OwnershipLost,
    SubmissionNotFound,
    ThreadDeleted,
)
from yielded_core.ledger.recovery_decisions import MarkCallsUnknown
from yielded_core.ports.work import NotAdmitted
from yielded_core.records.identifiers import SettlementId, ThreadId
from yielded_core.transfer.verify import verify_thread
from yielded_testing.suites.archive_lanes import resolve
from yielded_testing.suites.builders import OTHER, PRODUCER, THREAD, Writer, batch, note
from yielded_testing.suites.checkpoints import checkpoint
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import CALL, USER, settlement_of, work
from yielded_testing.suites.recovery_builders import IN_DOUBT, RunLog, decided
from yielded_testing.suites.support import PATIENCE, observing, refused, sequences, whole_log
from yielded_testing.suites.transfer import pages_of

if TYPE_CHECKING:
    from yielded_core.ports.values import StoredBatch
    from yielded_core.ports.work import Admitted, SubmissionFacts
    from yielded_core.records.identifiers import Cursor, Offset, OwnershipToken
    from yielded_core.storage import Storage
    from yielded_testing.clock import OpenStorage, VirtualClock

LOST_CLAIMS: Final = 5
"""How often the lost timeline takes a lane over; the timeline after it does so more often."""
UNKNOWN_THREAD: Final = ThreadId("after the backup")


class Backups(Protocol):
    """How an operator backs a store up and restores it, by the means of the database."""

    async def take(self) -> None:
        """Back up the store that `open_again` opens, while it is open."""
        ...

    async def restore(self) -> OpenStorage:
        """Restore the backup to a place of its own and declare it restored, as `yielded restored`.

        Each call restores it once more, to another place.
        """
        ...


@dataclass
class Granted:
    """What one timeline gave out about a thread, and what another one has to refuse."""

    thread: ThreadId
    epochs: list[int] = field(default_factory=list[int])
    tokens: list[OwnershipToken] = field(default_factory=list["OwnershipToken"])
    offsets: list[Offset] = field(default_factory=list["Offset"])
    cursors: list[Cursor] = field(default_factory=list["Cursor"])

    async def positions(self, storage: Storage) -> None:
        """Take every offset and every cursor that the store gives out now."""
        self.offsets += [each.offset for each in await storage.threads.read(self.thread)]
        pages = await pages_of(storage, self.thread)
        self.cursors += [page.cursor for page in pages if page.cursor is not None]

    async def claims(self, lane: LaneScript, count: int) -> None:
        """Own the lane a number of times, each time writing and letting it go."""
        for _ in range(count):
            grant = await lane.claim()
            self.epochs.append(grant.epoch)
            self.tokens.append(lane.token)
            await lane.append(note(f"{lane.name}-{grant.epoch}"))
            await lane.release()

    async def take_over(self, storage: Storage) -> None:
        """Take the thread over in the log, as a writer without a ledger does, and write."""
        at = await storage.threads.tail(self.thread)
        writer = await Writer.begin(storage, self.thread, at.epoch + 1)
        self.epochs.append(writer.epoch)
        await writer.append(note(f"taken-over-{writer.epoch}"))

    async def refused_by(self, storage: Storage, known: Admitted) -> None:
        """Use all of it, and be refused everywhere; `known` is work that the store holds."""
        before = await storage.threads.capture(self.thread)
        assert self.epochs
        for epoch in self.epochs:
            late = batch(f"late-{epoch}", note(f"late-{epoch}"))
            expected = before.tail.tail
            append = storage.threads.append(self.thread, late, expected=expected, epoch=epoch)
            assert (await refused(FenceRejected, append)).attempted == epoch
            await refused(FenceRejected, storage.threads.materialize(self.thread, epoch=epoch))
        for token in self.tokens:
            await self._refuses_token(storage, token, known)
        for offset in self.offsets:
            observer = storage.threads.observe(self.thread, after=offset)
            async with asyncio.timeout(PATIENCE.get()):  # taken as good, the last one waits
                await refused(OffsetRefused, anext(observer))
        for cursor in self.cursors:
            await refused(OffsetRefused, pages_of(storage, self.thread, cursor=cursor))
        assert await storage.threads.capture(self.thread) == before

    async def _refuses_token(
        self, storage: Storage, token: OwnershipToken, known: Admitted
    ) -> None:
        ledger, thread, submission = storage.ledger, self.thread, known.submission_id
        settlement = storage.settlements.publish(
            thread, settlement_of(known), producer=PRODUCER, token=token, authority="owned"
        )
        for late in (
            ledger.renew(thread, token=token),
            ledger.release(thread, token=token),
            ledger.mark_input_applied(thread, submission, token=token, sequence=1),
            settlement,
        ):
            await refused(OwnershipLost, late)


class BackupSuite:
    """The four rules of a restored backup; for adapters of durable stores.

    `backups` takes a backup of the store that `open_again` opens, and restores it.
    """

    @pytest.mark.rule("STO-4", "ARC-3")
    async def test_history_before_the_backup_verifies(
        self, open_again: OpenStorage, backups: Backups, clock: VirtualClock
    ) -> None:
        """Byte for byte, archived ranges, settled work, checkpoints and tombstones included."""
        async with open_again(clock=clock) as storage:
            writer = await indexed_thread(storage)
            await storage.archives.seal_range(THREAD, through=10)
            await storage.archives.archive_range(THREAD, first=1)
            lane = await LaneScript.begin(storage, OTHER)
            await lane.run("settled")
            await lane.settle("settled")
            saved = checkpoint(writer.tail, {"kept": True})
            if storage.checkpoints is not None:
                await storage.checkpoints.save(saved)
            gone = ThreadId("gone")
            await (await Writer.begin(storage, gone)).fill(1)
            await storage.threads.delete_thread(gone)
            kept = {thread: await _kept(storage, thread) for thread in (THREAD, OTHER)}
            await backups.take()
            await writer.fill(3)
            await storage.archives.seal_range(THREAD, through=10**6)
            await storage.threads.delete_thread(OTHER)
        restored = await backups.restore()
        async with restored(clock=clock) as storage:
            for thread, what in kept.items():
                assert await _kept(storage, thread) == what
                assert (await verify_thread(storage, thread)).ok
            if storage.checkpoints is not None:
                assert await storage.checkpoints.load(THREAD) == saved
            assert (await storage.threads.index_state(THREAD)).complete
            await refused(ThreadDeleted, storage.threads.tail(gone))

    @pytest.mark.rule("STO-4", "LOG-2", "LOG-9", "LED-6", "ARC-2")
    async def test_the_lost_timeline_is_fenced(
        self, open_again: OpenStorage, backups: Backups, clock: VirtualClock
    ) -> None:
        """Its epochs, tokens, offsets and cursors, however much is claimed after it."""
        lost = Granted(THREAD)
        async with open_again(clock=clock) as storage:
            lane = await LaneScript.begin(storage)
            await (await Writer.begin(storage)).fill(2, 1)
            owed = await lane.run("owed")
            known = lane.receipts["owed"]
            lost.epochs += [1, lane.grant.epoch]
            lost.tokens.append(lane.token)
            await lost.positions(storage)
            await backups.take()
            await lane.append(note("after the backup"))
            await lane.release()
            await lost.claims(lane, LOST_CLAIMS)
            await lost.take_over(storage)
            await lost.positions(storage)
        restored = await backups.restore()
        async with restored(clock=clock) as storage:
            assert len(await storage.threads.read(THREAD)) == 3
            await lost.refused_by(storage, known)
            after, given = LaneScript(storage, THREAD, "new", {"owed": known}), Granted(THREAD)
            for _ in range(LOST_CLAIMS + 2):
                await given.claims(after, 1)
                assert after.grant.submission.submission_id == owed
                await given.take_over(storage)
                await lost.refused_by(storage, known)
            assert not {*given.epochs} & {*lost.epochs}
            await after.claim()
            await lost.refused_by(storage, known)
            await after.settle("owed")
            await lost.refused_by(storage, known)
            async with observing(storage) as seen:
                count = 3 + len(given.epochs) + 1  # each owner and writer wrote once
                assert sequences(await seen.until(count)) == [*range(1, count + 1)]
            assert (await verify_thread(storage, THREAD)).ok

    @pytest.mark.rule("STO-4", "LOG-1", "LED-4")
    @pytest.mark.parametrize("known_before", [False, True], ids=["unknown", "admitted"])
    async def test_a_thread_that_began_after_the_backup_is_fenced(
        self, open_again: OpenStorage, backups: Backups, clock: VirtualClock, *, known_before: bool
    ) -> None:
        """It begins again above all its lost epochs, whether or not its work was admitted."""
        lost = Granted(UNKNOWN_THREAD)
        async with open_again(clock=clock) as storage:
            lane = LaneScript(storage, UNKNOWN_THREAD)
            if known_before:
                await lane.admit("key")
            await backups.take()
            begun = await storage.threads.materialize(UNKNOWN_THREAD, epoch=1)
            await lane.ready("key")
            lost.epochs.append(begun.epoch)
            await lost.claims(lane, LOST_CLAIMS)
            await lost.positions(storage)
        restored = await backups.restore()
        async with restored(clock=clock) as storage:
            after = LaneScript(storage, UNKNOWN_THREAD, "new")
            begun = await storage.threads.materialize(UNKNOWN_THREAD, epoch=1)
            assert begun.sequence == 0
            await after.ready("key")
            known = after.receipts["key"]
            assert known.replayed == known_before
            await lost.refused_by(storage, known)
            given = Granted(UNKNOWN_THREAD)
            for _ in range(LOST_CLAIMS + 2):
                await given.claims(after, 1)
                await lost.refused_by(storage, known)
            await after.claim()
            await after.settle("key")
            assert (await verify_thread(storage, UNKNOWN_THREAD)).ok

    @pytest.mark.rule("STO-4", "RCV-5", "LED-3")
    async def test_effects_after_the_backup_are_unknown(
        self, open_again: OpenStorage, backups: Backups, clock: VirtualClock
    ) -> None:
        """Work that was settled is owed again, its call in doubt; later receipts are gone."""
        async with open_again(clock=clock) as storage:
            log = await RunLog.begin(await LaneScript.begin(storage), "owed")
            await log.declare(IN_DOUBT)
            await backups.take()
            lane = log.lane
            await log.tell("ToolCallSettled")
            await lane.settle("owed")
            await lane.run("later")
            await lane.settle("later")
            lost, later = lane.token, lane.receipts.pop("later")
        restored = await backups.restore()
        async with restored(clock=clock) as storage:
            after = LaneScript(storage, THREAD, "new", lane.receipts)
            assert (await after.see("owed")).state == "input-applied"
            assert await decided(after, "owed") == MarkCallsUnknown((CALL,))
            await _receipt_is_gone(storage, later, lost)
            await after.mark_unknown("owed")
            await resolve(after, "owed", CALL)
            owned = await after.claim()
            assert owned.submission.submission_id == after.id("owed")
            await after.settle("owed", "failed")
            settled = (await after.see("owed")).settled
            assert settled is not None
            assert settled.outcome == "failed"
            assert (await after.admit("later")).submission_id != later.submission_id
            assert (await verify_thread(storage, THREAD)).ok

    @pytest.mark.rule("STO-4")
    async def test_a_backup_that_is_restored_again_is_declared_once_more(
        self, open_again: OpenStorage, backups: Backups, clock: VirtualClock
    ) -> None:
        """Then it refuses what the first restored store gave out as well."""
        lost, second = Granted(THREAD), Granted(THREAD)
        async with open_again(clock=clock) as storage:
            lane = await LaneScript.begin(storage)
            await lane.run("owed")
            known = lane.receipts["owed"]
            await backups.take()
            await lane.release()
            await lost.claims(lane, 2)
            await lost.positions(storage)
        first, again = await backups.restore(), await backups.restore()
        async with first(clock=clock) as storage:
            await second.claims(LaneScript(storage, THREAD, "second", {"owed": known}), 2)
            await second.positions(storage)
        async with again(clock=clock) as storage:
            await storage.new_incarnation()
            third = LaneScript(storage, THREAD, "third", {"owed": known})
            for _ in range(4):
                for timeline in (lost, second):
                    await timeline.refused_by(storage, known)
                await Granted(THREAD).claims(third, 1)
            assert (await verify_thread(storage, THREAD)).ok


async def _kept(
    storage: Storage, thread: ThreadId
) -> tuple[list[StoredBatch], tuple[SubmissionFacts, ...], tuple[object, ...]]:
    """Return everything stored of a thread that no timeline may change."""
    facts = await storage.ledger.facts(thread)
    return await whole_log(storage, thread), facts.facts, await storage.archives.ranges(thread)


async def _receipt_is_gone(storage: Storage, later: Admitted, token: OwnershipToken) -> None:
    """Nothing of work that was admitted after the backup is there, nor can it be settled."""
    ledger, submission = storage.ledger, later.submission_id
    key = work("later").idempotency_key
    assert await ledger.lookup(submission) is None
    assert await ledger.lookup_key(THREAD, USER, key) is None
    assert await ledger.resolve_admission(THREAD, USER, key) == NotAdmitted()
    await refused(SubmissionNotFound, ledger.mark_ready(THREAD, submission))
    settlement = SettlementId(f"settlement:{submission}")
    finalize = ledger.finalize_settlement(THREAD, submission, settlement=settlement)
    await refused(SubmissionNotFound, finalize)
    publish = storage.settlements.publish(
        THREAD, settlement_of(later), producer=PRODUCER, token=token, authority="owned"
    )
    await refused(SubmissionNotFound, publish)
