"""Cases of work that becomes claimable, and of asking what was admitted (LED-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import SubmissionNotFound, ThreadNotMaterialized
from yielded_core.ports.work import AdmittedWork, Indeterminate, NotAdmitted
from yielded_core.records.identifiers import (
    IdempotencyKey,
    Principal,
    SubmissionId,
    ThreadId,
)
from yielded_testing.suites.builders import OTHER, THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import STATES, USER, work

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ports.work import State
    from yielded_core.storage import Storage


class ReadinessCases:
    """LED-3: work is made claimable, looked up, and asked for after a lost answer."""

    @pytest.mark.rule("LED-3")
    async def test_admitted_work_becomes_ready(self, storage: Storage) -> None:
        """It can be claimed from then on, and not before."""
        lane = await LaneScript.begin(storage)
        submission = (await lane.admit("key-1")).submission_id
        assert await lane.unmoved(lane.try_claim()) is None
        version = await lane.version()
        ready = await storage.ledger.mark_ready(THREAD, submission)
        assert (ready.submission_id, ready.state) == (submission, "ready")
        assert await lane.version() > version
        assert await lane.see("key-1") == ready
        assert (await lane.claim()).submission.submission_id == submission

    @pytest.mark.rule("LED-3")
    @pytest.mark.parametrize("state", [state for state in STATES if state != "admitted"])
    async def test_readiness_is_idempotent(self, storage: Storage, state: State) -> None:
        """In every later state it answers with the submission as it is, and changes nothing."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        answer = await lane.unmoved(storage.ledger.mark_ready(THREAD, submission))
        assert answer == await lane.see("key-1")
        assert answer.state == state

    @pytest.mark.rule("LED-3")
    async def test_only_work_of_a_materialized_thread_becomes_ready(self, storage: Storage) -> None:
        """Before that it is ThreadNotMaterialized, and nothing changes."""
        lane = LaneScript(storage)
        submission = (await lane.admit("key-1")).submission_id
        await lane.refuses(ThreadNotMaterialized, storage.ledger.mark_ready(THREAD, submission))
        await storage.threads.materialize(THREAD, epoch=1)
        assert (await storage.ledger.mark_ready(THREAD, submission)).state == "ready"

    @pytest.mark.rule("LED-3")
    async def test_work_is_found_by_its_id_and_by_its_exact_key(self, storage: Storage) -> None:
        """In every state, as it is at that moment; what does not exist is None."""
        lane = await LaneScript.begin(storage)
        for number, state in enumerate(STATES):
            key = f"key-{number}"
            here = await LaneScript.begin(storage, ThreadId(f"lane-{state}"))
            submission = await here.bring(key, state)
            found = await storage.ledger.lookup(submission)
            assert found is not None
            assert (found.submission.state, found.submission.thread_id) == (state, here.thread)
            again = await storage.ledger.lookup_key(here.thread, USER, IdempotencyKey(key))
            assert found == again
        await lane.admit("key-1")
        missing = [(OTHER, USER, "key-1"), (THREAD, Principal("user-2"), "key-1")]
        missing += [(THREAD, USER, "key-2"), (THREAD, USER, "kEY-1"), (THREAD, USER, "key-1 ")]
        for thread, principal, key in missing:
            name = IdempotencyKey(key)
            assert await storage.ledger.lookup_key(thread, principal, name) is None
        for name in ("nobody", lane.receipts["key-1"].receipt_id, lane.id("key-1").upper()):
            assert await storage.ledger.lookup(SubmissionId(name)) is None

    @pytest.mark.rule("LED-3")
    async def test_work_of_another_thread_is_not_found(self, storage: Storage) -> None:
        """Every operation names thread and submission; one that do not belong is refused."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        await storage.threads.materialize(OTHER, epoch=1)
        for thread in (OTHER, ThreadId("nowhere")):
            missing = storage.ledger.mark_ready(thread, lane.id("key-1"))
            error = await lane.refuses(SubmissionNotFound, missing)
            assert (error.thread, error.submission) == (thread, lane.id("key-1"))

    @pytest.mark.rule("LED-3")
    async def test_a_lost_answer_is_asked_for(self, storage: Storage) -> None:
        """Not admitted, or admitted with everything known of it; asking changes nothing."""
        lane = await LaneScript.begin(storage)
        key = IdempotencyKey("key-1")
        ask = storage.ledger.resolve_admission
        assert await ask(THREAD, USER, key) == NotAdmitted()
        assert await ask(ThreadId("nowhere"), USER, key) == NotAdmitted()
        await lane.ready("key-1")
        await lane.append(note("one"))
        answer = await lane.unmoved(ask(THREAD, USER, key))
        assert isinstance(answer, AdmittedWork)
        assert answer == await storage.ledger.lookup(lane.id("key-1"))
        assert await ask(THREAD, Principal("user-2"), key) == NotAdmitted()
        await lane.claim()
        await lane.settle("key-1")
        settled = await ask(THREAD, USER, key)
        assert isinstance(settled, AdmittedWork)
        assert settled.submission.state == "settled"

    @pytest.mark.rule("LED-3", "STO-3")
    async def test_a_store_that_cannot_answer_is_indeterminate(
        self, open_again: Callable[[], Storage]
    ) -> None:
        """A storage that is closed, or not open yet, does not say that nothing was admitted."""
        key = IdempotencyKey("key-1")
        async with open_again() as ended:
            await ended.ledger.admit(work("key-1"))
        for storage in (ended, open_again()):
            answer = await storage.ledger.resolve_admission(THREAD, USER, key)
            assert answer == Indeterminate("storage-closed")
