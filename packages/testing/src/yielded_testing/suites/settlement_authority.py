"""Cases of settling without owning: joined work, and queued work that was aborted (LED-8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    AppendConflict,
    AuthorityRefused,
    InvalidRecord,
    OwnershipLost,
    ThreadNotMaterialized,
)
from yielded_core.ports.work import Published
from yielded_core.records.identifiers import ReceiptId, SettlementId
from yielded_testing.suites.builders import PRODUCER, THREAD, batch, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_joining import hosting, take
from yielded_testing.suites.ledger_values import LEASE, RESULTS, STATES, settlement_of, token
from yielded_testing.suites.support import whole_log

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome, State
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

OUTCOMES: Final = tuple(RESULTS)
UNLIKE: Final[dict[str, tuple[Outcome, JsonValue]]] = {
    "another message": ("failed", {"errorTag": "ToolError", "message": "it broke!"}),
    "another tag": ("failed", {"errorTag": "Other", "message": "it broke"}),
    "more of it": ("failed", {"errorTag": "ToolError", "message": "it broke", "at": 1}),
}
"""Failures that do not equal that of a host that failed."""
NOT_QUEUED: Final = tuple(state for state in STATES if state not in {"admitted", "ready"})


async def joined(storage: Storage, *guests: str) -> LaneScript:
    """Return a lane whose owned host `host` has guests that joined it."""
    lane = await hosting(storage, *guests)
    await take(lane)
    for guest in guests:
        await lane.join(guest, "host")
    return lane


class JoinedSettlementCases:
    """LED-8: joined work settles as its host did, once that is published."""

    @pytest.mark.rule("LED-8", "LED-10", "LED-15", "REC-2")
    @pytest.mark.parametrize("finalized", [False, True])
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_joined_work_settles_with_its_host(
        self, storage: Storage, outcome: Outcome, *, finalized: bool
    ) -> None:
        """After its host's record, finalized or not, with the same outcome, without a token."""
        lane = await joined(storage, "a", "b")
        await lane.publish("host", outcome, finalize=finalized)
        for key in ("a", "b"):
            published = await lane.publish(
                key, outcome, authority="joined", by=token(f"for {key}"), finalize=True
            )
            assert not published.replayed
            settled = (await lane.see(key)).settled
            assert settled is not None
            assert settled.outcome == outcome
        if not finalized:
            await lane.finalize("host")
        order = [each.batch_id for each in await whole_log(storage)][-3:]
        names = [lane.id(key) for key in ("host", "a", "b")]
        assert order == [f"submission-settlement:{name}" for name in names]
        assert await storage.ledger.scan_nonterminal() == ()

    @pytest.mark.rule("LED-8", "LED-10")
    async def test_joined_work_waits_for_its_host(self, storage: Storage) -> None:
        """Before the host's record there is no authority, not even with the host's token."""
        lane = await joined(storage, "a")
        for by in (lane.token, token("foreign")):
            refusal = lane.publish("a", authority="joined", by=by)
            error = await lane.refuses(AuthorityRefused, refusal)
            assert (error.submission, error.authority) == (lane.id("a"), "joined")
        await lane.refuses(OwnershipLost, lane.publish("a"))

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_joined_work_has_the_outcome_of_its_host(
        self, storage: Storage, outcome: Outcome
    ) -> None:
        """Every other outcome is refused; the result of a completed guest is its own."""
        lane = await joined(storage, "a")
        await lane.publish("host", outcome, finalize=True)
        for other in OUTCOMES:
            if other != outcome:
                refusal = lane.publish("a", other, authority="joined")
                await lane.refuses(AuthorityRefused, refusal)
        own: JsonValue = "its own" if outcome == "completed" else RESULTS[outcome]
        published = await lane.publish("a", outcome, authority="joined", result=own)
        assert not published.replayed

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("kind", list(UNLIKE))
    async def test_joined_work_fails_only_as_its_host(self, storage: Storage, kind: str) -> None:
        """Another diagnostic of the failure is refused."""
        lane = await joined(storage, "a")
        await lane.publish("host", "failed", finalize=True)
        outcome, result = UNLIKE[kind]
        refusal = lane.publish("a", outcome, authority="joined", result=result)
        assert (await lane.refuses(AuthorityRefused, refusal)).authority == "joined"
        same: JsonValue = {"message": "it broke", "errorTag": "ToolError"}
        assert not (await lane.publish("a", "failed", authority="joined", result=same)).replayed

    @pytest.mark.rule("LED-8", "LED-10")
    @pytest.mark.parametrize("state", [state for state in STATES if state != "joined"])
    async def test_only_joined_work_settles_as_joined(self, storage: Storage, state: State) -> None:
        """Joining is not enough; work in any other state has no host to settle with."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        if state == "joining":
            await lane.settle("host")
        by = token("foreign")
        refusal = lane.publish("key-1", authority="joined", by=by)
        if state == "settled":
            await lane.refuses(OwnershipLost, refusal)
        else:
            assert (await lane.refuses(AuthorityRefused, refusal)).submission == lane.id("key-1")

    @pytest.mark.rule("LED-8")
    async def test_a_joined_settlement_is_repeated_by_its_token(self, storage: Storage) -> None:
        """As any other: the same token gets the record, another one is refused."""
        lane = await joined(storage, "a")
        await lane.publish("host", finalize=True)
        first = await lane.publish("a", authority="joined", by=token("one"), finalize=True)
        again = await lane.unmoved(lane.publish("a", "failed", authority="joined", by=token("one")))
        assert (again.record, again.replayed) == (first.record, True)
        other = lane.publish("a", authority="joined", by=token("two"))
        await lane.refuses(OwnershipLost, other)


class QueuedAbortCases:
    """LED-8: work that never ran is settled as aborted wherever it stands."""

    @pytest.mark.rule("LED-8", "LED-9")
    @pytest.mark.parametrize("state", ["admitted", "ready"])
    async def test_queued_work_is_settled_as_aborted(self, storage: Storage, state: State) -> None:
        """Behind running work that is owned by somebody, whose lease and epoch stay."""
        lane = await LaneScript.begin(storage)
        await lane.run("head")
        await (lane.admit("doomed") if state == "admitted" else lane.ready("doomed"))
        await lane.ready("last")
        await lane.abort("doomed")
        published = await lane.publish(
            "doomed", "aborted", authority="queued-abort", by=token("x"), finalize=True
        )
        assert not published.replayed
        settled = (await lane.see("doomed")).settled
        assert settled is not None
        assert settled.outcome == "aborted"
        assert (await whole_log(storage))[-1].epoch == lane.grant.epoch
        assert await storage.ledger.renew(THREAD, token=lane.token) == lane.grant.expires_at
        await lane.settle("head")
        assert (await lane.claim()).submission.submission_id == lane.id("last")

    @pytest.mark.rule("LED-8", "LED-9")
    async def test_a_queued_abort_needs_intent_and_outcome(self, storage: Storage) -> None:
        """Nobody asked, or the record says something else: no authority."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        unasked = lane.publish("key-1", "aborted", authority="queued-abort")
        error = await lane.refuses(AuthorityRefused, unasked)
        assert error.authority == "queued-abort"
        await lane.abort("key-1")
        for outcome in ("completed", "failed"):
            other = lane.publish("key-1", outcome, authority="queued-abort")
            await lane.refuses(AuthorityRefused, other)

    @pytest.mark.rule("LED-8")
    @pytest.mark.parametrize("state", NOT_QUEUED)
    async def test_work_that_ran_is_not_a_queued_abort(
        self, storage: Storage, state: State
    ) -> None:
        """Nor is what is joining or joined; an intent changes nothing about that."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        if state not in {"joined", "settled"}:
            await lane.abort("key-1")
        refusal = lane.publish("key-1", "aborted", authority="queued-abort", by=token("x"))
        if state == "settled":
            await lane.refuses(OwnershipLost, refusal)
        else:
            assert (await lane.refuses(AuthorityRefused, refusal)).submission == lane.id("key-1")

    @pytest.mark.rule("LED-8", "LED-6")
    async def test_released_work_ran(self, storage: Storage, clock: VirtualClock) -> None:
        """A release or a lapsed lease does not put it back among what never ran."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.abort("key-1")
        clock.advance(LEASE)
        refusal = lane.publish("key-1", "aborted", authority="queued-abort", by=token("x"))
        await lane.refuses(AuthorityRefused, refusal)
        await lane.release()
        refusal = lane.publish("key-1", "aborted", authority="queued-abort", by=token("x"))
        await lane.refuses(AuthorityRefused, refusal)

    @pytest.mark.rule("LED-8", "LED-10")
    async def test_reverted_work_never_ran(self, storage: Storage) -> None:
        """What was joining and was given back is queued again."""
        lane = await hosting(storage, "a")
        await take(lane)
        await lane.abort("a")
        await lane.revert("a")
        published = await lane.publish("a", "aborted", authority="queued-abort", by=token("x"))
        assert not published.replayed

    @pytest.mark.rule("LED-8", "LED-3")
    async def test_a_settlement_needs_a_materialized_thread(self, storage: Storage) -> None:
        """Work that was admitted before its thread is there can be aborted, then settled there."""
        lane = LaneScript(storage)
        await lane.admit("key-1")
        await lane.abort("key-1")
        early = lane.publish("key-1", "aborted", authority="queued-abort")
        await lane.refuses(ThreadNotMaterialized, early)
        await storage.threads.materialize(THREAD, epoch=1)
        await lane.publish("key-1", "aborted", authority="queued-abort", finalize=True)
        assert (await lane.see("key-1")).state == "settled"

    @pytest.mark.rule("LED-8", "LOG-5")
    async def test_an_owner_goes_on_behind_a_queued_abort(self, storage: Storage) -> None:
        """Its next append is told the new tail, and succeeds there under the same epoch."""
        lane = await LaneScript.begin(storage)
        await lane.run("head")
        before = lane.grant.tail
        await lane.ready("doomed")
        await lane.abort_queued("doomed")
        given, epoch = batch("mine", note("one")), lane.grant.epoch
        stale = storage.threads.append(THREAD, given, expected=before, epoch=epoch)
        conflict = await lane.refuses(AppendConflict, stale)
        assert (conflict.reason, conflict.sequence) == ("tail", 1)
        await lane.append(note("one"))

    @pytest.mark.rule("LED-8", "LED-4", "LED-16")
    async def test_queued_abort_and_claim_race(self, storage: Storage) -> None:
        """Settled and never granted, or granted and not settled by that right."""
        lane = await LaneScript.begin(storage)
        for number in range(12):
            key = f"key-{number}"
            await lane.ready(key)
            await lane.abort(key)
            abort = lane.publish(
                key, "aborted", authority="queued-abort", by=token(key), finalize=True
            )
            pair = [abort, lane.try_claim()]
            grants = len(lane.grants)
            answers = await asyncio.gather(
                *(pair if number % 2 else pair[::-1]), return_exceptions=True
            )
            granted = len(lane.grants) > grants
            assert granted == any(isinstance(each, AuthorityRefused) for each in answers)
            assert granted != any(isinstance(each, Published) for each in answers)
            if granted:
                await lane.settle(key, "aborted")


class SettlementRecordCases:
    """LED-8 and REC-2: the record is named after its submission, and carries its receipt."""

    @pytest.mark.rule("LED-8")
    async def test_the_receipt_is_the_submission_s(self, storage: Storage) -> None:
        """A settlement with another receipt is refused by every authority."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.ready("key-2")
        await lane.abort("key-2")
        wrong = ReceiptId("receipt-of-nobody")
        for work in (
            lambda: lane.publish("key-1", receipt_id=wrong),
            lambda: lane.publish("key-1", receipt_id=lane.receipts["key-2"].receipt_id),
            lambda: lane.publish("key-2", "aborted", authority="queued-abort", receipt_id=wrong),
        ):
            assert (await lane.refuses(InvalidRecord, work())).field == "receiptId"

    @pytest.mark.rule("LED-8", "REC-2")
    async def test_a_settlement_has_its_derived_names(self, storage: Storage) -> None:
        """Another record id, another settlement id, another family: InvalidRecord."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        right = settlement_of(lane.receipts["key-1"])
        wrong = [
            right.model_copy(update={"record_id": "settlement"}),
            right.model_copy(update={"record_id": f"{right.record_id} "}),
            settlement_of(lane.receipts["key-1"], settlement_id=SettlementId("settlement:x")),
            note(right.record_id),
        ]
        for given in wrong:
            refusal = storage.settlements.publish(
                THREAD, given, producer=PRODUCER, token=lane.token, authority="owned"
            )
            assert (await lane.refuses(InvalidRecord, refusal)).record_id == given.record_id
