"""Cases of asking for an abort: the first intent counts, and reading it grants nothing (LED-9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    JoinedToHost,
    SettlementConflict,
    SubmissionNotFound,
    TransitionRefused,
)
from yielded_core.ports.work import AbortAccepted, AbortIntent, AbortState
from yielded_core.records.identifiers import SubmissionId
from yielded_core.records.payloads import AbortRequested
from yielded_testing.suites.builders import OTHER, THREAD, record
from yielded_testing.suites.ledger_builders import LaneScript, child_lane
from yielded_testing.suites.ledger_values import RESULTS, UNSETTLED

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome, State
    from yielded_core.records.envelope import Record
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

ABORTABLE: Final = tuple(state for state in UNSETTLED if state != "joined")
OUTCOMES: Final = tuple(RESULTS)


def abort_record(submission: SubmissionId, name: str | None = None) -> Record:
    """Return the record that makes an abort command canonical."""
    return record(
        name or f"abort:{submission}",
        AbortRequested(submission_id=submission, author="author-1", reason="enough"),
    )


class AbortCases:
    """LED-9: who asked first, and why, is kept."""

    @pytest.mark.rule("LED-9")
    @pytest.mark.parametrize("state", ABORTABLE)
    async def test_an_abort_can_be_asked_for_until_settlement(
        self, storage: Storage, clock: VirtualClock, state: State
    ) -> None:
        """The intent is kept with its instant; only suspended work changes its state by it."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        version = await lane.version()
        clock.advance(123)
        accepted = await storage.ledger.request_abort(
            THREAD, submission, author="me", reason="too late"
        )
        intent = AbortIntent("me", "too late", clock.now)
        assert accepted == AbortAccepted(intent, replayed=False)
        after = await lane.see("key-1")
        assert after.abort == intent
        assert after.state == ("running" if state == "suspended" else state)
        assert after.suspension is None
        assert await lane.version() > version

    @pytest.mark.rule("LED-9")
    @pytest.mark.parametrize("state", ABORTABLE)
    async def test_the_first_intent_is_kept(
        self, storage: Storage, clock: VirtualClock, state: State
    ) -> None:
        """A repeat by anybody at any time is answered with it, and changes nothing."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        first = AbortIntent("author-1", "enough", clock.now)
        await lane.abort("key-1")
        for author, reason in (("author-1", "enough"), ("author-2", "really"), ("author-1", "")):
            clock.advance(1_000)
            again = storage.ledger.request_abort(THREAD, submission, author=author, reason=reason)
            assert await lane.unmoved(again) == AbortAccepted(first, replayed=True)

    @pytest.mark.rule("LED-9")
    async def test_one_of_many_authors_is_the_first(self, storage: Storage) -> None:
        """16 at once are all told of the same intent, and one of them made it."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        answers = await asyncio.gather(
            *(
                storage.ledger.request_abort(
                    THREAD, submission, author=f"author-{number}", reason=f"reason-{number}"
                )
                for number in range(16)
            )
        )
        assert sorted(each.replayed for each in answers) == [False, *[True] * 15]
        (first,) = {each.intent for each in answers}
        assert (await lane.see("key-1")).abort == first
        assert first.author.removeprefix("author-") == first.reason.removeprefix("reason-")

    @pytest.mark.rule("LED-9")
    @pytest.mark.parametrize("asked", [False, True])
    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_settled_work_is_not_aborted(
        self, storage: Storage, outcome: Outcome, *, asked: bool
    ) -> None:
        """SettlementConflict with the outcome, whether or not an intent was there before."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        if asked:
            await lane.abort("key-1")
        await lane.settle("key-1", outcome)
        late = storage.ledger.request_abort(THREAD, submission, author="me", reason="late")
        conflict = await lane.refuses(SettlementConflict, late)
        assert (conflict.submission, conflict.outcome) == (submission, outcome)

    @pytest.mark.rule("LED-9", "LED-10")
    async def test_joined_work_is_aborted_with_its_host(self, storage: Storage) -> None:
        """JoinedToHost names the host; before it joined, the same request is accepted."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", "joined")
        late = storage.ledger.request_abort(THREAD, submission, author="me", reason="late")
        refusal = await lane.refuses(JoinedToHost, late)
        assert (refusal.submission, refusal.host) == (submission, lane.id("host"))

    @pytest.mark.rule("LED-9", "LED-11")
    async def test_suspended_work_is_woken_by_an_abort(self, storage: Storage) -> None:
        """It can be claimed at once, in the state that its marker says, and waits no more."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        await lane.apply_input("key-1")
        await lane.suspend("key-1")
        assert await lane.try_claim() is None
        await lane.abort("key-1")
        grant = await lane.claim()
        assert (grant.submission.state, grant.submission.suspension) == ("input-applied", None)
        assert await lane.unmoved(lane.suspend("key-1")) == "resume-immediately"

    @pytest.mark.rule("LED-9", "LED-4", "LED-11", "LED-14", "RCV-4")
    @pytest.mark.parametrize("state", ["running", "input-applied", "unknown"])
    async def test_an_aborted_parent_waits_for_its_children(
        self, storage: Storage, state: State
    ) -> None:
        """Once it passed the abort on: suspended, a repeat of the abort wakes it no more."""
        lane = await LaneScript.begin(storage)
        await lane.bring("parent", state)
        other, child = await child_lane(storage, "child")
        await lane.abort("parent")
        if state == "unknown":
            await lane.claim()
        assert await lane.unmoved(lane.await_children("parent", child)) == "resume-immediately"
        assert await lane.await_children("parent", child, despite_abort=True) == "suspended"
        await lane.unmoved(lane.abort("parent"))
        assert await lane.unmoved(lane.try_claim()) is None
        await other.publish("child", "aborted")
        told = storage.ledger.record_child_settled(THREAD, lane.id("parent"), child=child)
        assert await told == "woken"
        again = await lane.claim()
        resumed = "running" if again.submission.input_sequence is None else "input-applied"
        assert again.submission.state == resumed
        settled = lane.await_children("parent", child, despite_abort=True)
        assert await lane.unmoved(settled) == "resume-immediately"
        await lane.settle("parent", "aborted")

    @pytest.mark.rule("LED-11", "LED-13")
    async def test_parked_work_is_suspended_for_an_abort_alone(self, storage: Storage) -> None:
        """Without one its calls have to be resolved first, whatever the caller says."""
        lane = await LaneScript.begin(storage)
        await lane.run("parent")
        await lane.mark_unknown("parent")
        _, child = await child_lane(storage, "child")
        for despite in (False, True):
            waiting = lane.await_children("parent", child, despite_abort=despite)
            assert (await lane.refuses(TransitionRefused, waiting)).state == "unknown"

    @pytest.mark.rule("LED-9")
    async def test_abort_and_settlement_race(self, storage: Storage) -> None:
        """Either the intent came first and is kept, or it is refused; never half of each."""
        lane = await LaneScript.begin(storage)
        for number in range(12):
            key = f"key-{number}"
            submission = await lane.run(key)
            await lane.publish(key)
            pair = [
                storage.ledger.request_abort(THREAD, submission, author="me", reason="now"),
                lane.finalize(key),
            ]
            order = pair if number % 2 else pair[::-1]
            outcomes = await asyncio.gather(*order, return_exceptions=True)
            (answer,) = [
                each for each in outcomes if isinstance(each, (AbortAccepted, SettlementConflict))
            ]
            after = await lane.see(key)
            assert after.state == "settled"
            assert (after.abort is not None) == isinstance(answer, AbortAccepted)


class ReadIntentCases:
    """LED-9: the intent as everybody may read it, with what the log says."""

    @pytest.mark.rule("LED-9")
    @pytest.mark.parametrize("state", UNSETTLED)
    async def test_reading_an_intent_grants_nothing(self, storage: Storage, state: State) -> None:
        """Nothing before anybody asked, the intent at once afterwards; the reads change nothing."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        read = storage.ledger.read_abort_intent
        assert await lane.unmoved(read(THREAD, submission)) == AbortState(None, None)
        if state == "joined":
            return
        await lane.abort("key-1")
        found = await lane.unmoved(read(THREAD, submission))
        assert found == AbortState((await lane.see("key-1")).abort, None)
        assert found.intent is not None

    @pytest.mark.rule("LED-9", "REC-2")
    async def test_the_canonical_record_comes_from_the_log(self, storage: Storage) -> None:
        """Its id is there once the log has the record, with or without an intent."""
        lane = await LaneScript.begin(storage)
        one, two = await lane.ready("key-1"), await lane.ready("key-2")
        await lane.claim()
        await lane.abort("key-1")
        read = storage.ledger.read_abort_intent
        await lane.append(abort_record(two), abort_record(one, "abort of key-1"))
        assert (await read(THREAD, one)).record_id is None
        assert await read(THREAD, two) == AbortState(None, abort_record(two).record_id)
        await lane.append(abort_record(one))
        found = await read(THREAD, one)
        assert found.record_id == f"abort:{one}"
        assert found.intent is not None

    @pytest.mark.rule("LED-9")
    async def test_an_intent_outlives_the_settlement(self, storage: Storage) -> None:
        """Who asked for it is still told afterwards."""
        lane = await LaneScript.begin(storage)
        submission = await lane.run("key-1")
        await lane.abort("key-1")
        before = await storage.ledger.read_abort_intent(THREAD, submission)
        await lane.settle("key-1", "aborted")
        assert await storage.ledger.read_abort_intent(THREAD, submission) == before

    @pytest.mark.rule("LED-9")
    async def test_the_intent_of_unknown_work_is_an_error(self, storage: Storage) -> None:
        """A submission that is not there, or is in another thread, is no unasked abort."""
        lane = await LaneScript.begin(storage)
        submission = await lane.ready("key-1")
        await storage.threads.materialize(OTHER, epoch=1)
        for thread, name in ((THREAD, SubmissionId("nobody")), (OTHER, submission)):
            missing = storage.ledger.read_abort_intent(thread, name)
            error = await lane.refuses(SubmissionNotFound, missing)
            assert (error.thread, error.submission) == (thread, name)
