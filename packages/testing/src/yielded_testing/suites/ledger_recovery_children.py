"""Cases of recovery: delegations, and work that is to be aborted (RCV-4, RCV-8)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from yielded_core.ledger import recovery_decisions as decisions
from yielded_core.ports.work import Indeterminate
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import CALL
from yielded_testing.suites.recovery_builders import (
    CHILD_THREAD,
    IN_DOUBT,
    RESERVED,
    SPENT,
    Delegated,
    RunLog,
    decided,
    replacing,
    settle_as_decided,
)

if TYPE_CHECKING:
    from yielded_core.storage import Storage


async def unanswered(*_key: object) -> Indeterminate:
    """Answer that the store cannot say whether work was admitted."""
    return Indeterminate("the store does not say")


def missing_link(family: Delegated, *, record: bool, attachment: bool) -> decisions.RepairStartLink:
    """Return the decision to make what the parent lacks about its child."""
    link = decisions.MissingLink(CALL, family.named, record, attachment)
    return decisions.RepairStartLink((link,))


async def linked(storage: Storage, *, aborted: bool = False) -> Delegated:
    """Return a parent that names its child, perhaps one that is to be aborted."""
    family = await Delegated.begin(storage)
    await family.link()
    if aborted:
        await family.parent.abort("parent")
    return family


class DelegationRecoveryCases:
    """RCV-8: every step from the declaration of a delegation to its accounting."""

    @pytest.mark.rule("RCV-8", "LED-14", "LED-3")
    async def test_a_declared_child_comes_to_be_linked(self, storage: Storage) -> None:
        """Requested, admitted, recorded and attached; each step decides the next one."""
        family = await Delegated.begin(storage)
        assert await family.decided() == decisions.ResumeBatch(1)
        await family.reserve()
        assert await family.decided() == decisions.ResumeBatch(1)
        await family.request()
        assert await family.decided() == decisions.CompleteChildAdmission((CALL,))
        await family.admit()
        both = missing_link(family, record=True, attachment=True)
        assert await family.decided() == both
        await family.start()
        assert await family.decided() == missing_link(family, record=False, attachment=True)
        await family.attach()
        assert await family.decided() == decisions.EnsureSuspension((family.named,))

    @pytest.mark.rule("RCV-8", "LED-14")
    async def test_a_child_may_be_attached_before_it_is_recorded(self, storage: Storage) -> None:
        """The reservation names it, so nobody has to be asked whether it exists."""
        family = await Delegated.begin(storage)
        await family.reserve()
        await family.request()
        await family.admit()
        await family.attach()
        silent = replacing(storage, ledger={"resolve_admission": unanswered})
        expected = missing_link(family, record=True, attachment=False)
        assert await family.decided(silent) == expected
        await family.start()
        assert await family.decided() == decisions.EnsureSuspension((family.named,))

    @pytest.mark.rule("RCV-8", "RCV-7", "LED-14", "LED-11")
    async def test_a_linked_child_comes_to_be_accounted_for(self, storage: Storage) -> None:
        """Waited for, joined, and its reservation given back in two steps."""
        family = await linked(storage)
        child = family.named
        await family.run_child()
        assert await family.parent.await_children("parent", child) == "suspended"
        assert await family.decided() == decisions.AwaitChildren((child,))
        await family.child.settle("child")
        assert await family.decided() == decisions.ResumeToJoinChildren((child,))
        assert await family.told() == "woken"
        assert await family.decided() == decisions.ResumeToJoinChildren((child,))
        await family.parent.claim()
        await family.join()
        held = replace(RESERVED, status="attached", child=child)
        assert await family.decided() == decisions.ApplyJoinAccounting((held,))
        held = await family.begin_release()
        assert (held.status, held.accounting) == ("releasing", SPENT)
        assert await family.decided() == decisions.ApplyJoinAccounting((held,))
        await family.release()
        assert await family.decided() == decisions.ResumeFromBoundary()

    @pytest.mark.rule("RCV-8", "LED-14")
    async def test_a_reservation_that_no_child_will_use_is_released(self, storage: Storage) -> None:
        """Its call was answered without a child."""
        family = await Delegated.begin(storage)
        await family.reserve()
        await family.log.tell("ToolCallSettled")
        assert await family.decided() == decisions.ReleaseOrphanReservation((RESERVED,))
        held = await family.begin_release(None)
        assert await family.decided() == decisions.ReleaseOrphanReservation((held,))
        await family.release()
        assert await family.decided() == decisions.ResumeFromBoundary()

    @pytest.mark.rule("RCV-8", "RCV-4", "LED-3")
    @pytest.mark.parametrize("aborted", [False, True])
    @pytest.mark.parametrize("admitted", [False, True])
    async def test_no_answer_is_no_absence(
        self, storage: Storage, *, admitted: bool, aborted: bool
    ) -> None:
        """Where the store cannot say whether there is a child, it is asked again."""
        family = await Delegated.begin(storage)
        await family.reserve()
        await family.request()
        if admitted:
            await family.admit()
        if aborted:
            await family.parent.abort("parent")
        silent = replacing(storage, ledger={"resolve_admission": unanswered})
        assert await family.decided(silent) == decisions.AwaitChildAdmission((CALL,))

    @pytest.mark.rule("RCV-8", "LED-14", "ARC-7")
    @pytest.mark.parametrize("attached", [False, True])
    async def test_a_child_whose_thread_is_gone_is_not_admitted_again(
        self, storage: Storage, *, attached: bool
    ) -> None:
        """It is joined where the reservation names it; else nobody can say, and it is awaited."""
        family = await Delegated.begin(storage)
        await family.reserve()
        await family.request()
        await family.admit()
        if attached:
            await family.attach()
        await family.run_child()
        await family.child.settle("child")
        await storage.threads.delete_thread(CHILD_THREAD)
        if not attached:
            assert await family.decided() == decisions.AwaitChildAdmission((CALL,))
            return
        assert await family.decided() == missing_link(family, record=True, attachment=False)
        await family.start()
        assert await family.decided() == decisions.ResumeToJoinChildren((family.named,))

    @pytest.mark.rule("RCV-8", "RCV-4", "LED-11", "LED-14", "ARC-7")
    @pytest.mark.parametrize("aborted", [False, True])
    @pytest.mark.parametrize("deleted", [False, True])
    async def test_a_child_that_only_the_log_names_is_joined(
        self, storage: Storage, *, deleted: bool, aborted: bool
    ) -> None:
        """Nothing is reserved for it, as after an import; awaited or not, it is found published."""
        family = await Delegated.begin(storage)
        await family.request()
        await family.admit()
        await family.start()
        child = family.named
        if aborted:
            await family.parent.abort("parent")
        waits = decisions.PropagateAbort if aborted else decisions.EnsureSuspension
        assert await family.decided() == waits((child,))
        await family.run_child()
        assert await family.decided() == waits((child,))
        await family.child.settle("child")
        if deleted:
            await storage.threads.delete_thread(CHILD_THREAD)
        assert await family.decided() == decisions.ResumeToJoinChildren((child,))
        await family.join()
        after = decisions.SettleAborted("owned") if aborted else decisions.ResumeFromBoundary()
        assert await family.decided() == after


class AbortRecoveryCases:
    """RCV-4: what is owed to children comes first, then the work is settled as aborted."""

    @pytest.mark.rule("RCV-4", "RCV-1", "RCV-2", "LED-8", "LED-9", "LED-11", "LED-14")
    async def test_an_abort_is_passed_on_and_waited_for(self, storage: Storage) -> None:
        """The open child is aborted and joined, its reservation freed, then the parent settled."""
        family = await linked(storage, aborted=True)
        parent, child = family.parent, family.named
        assert await family.decided() == decisions.PropagateAbort((child,))
        await family.child.abort("child")
        waits = await parent.await_children("parent", child, despite_abort=True)
        assert waits == "suspended"
        assert await family.decided() == decisions.PropagateAbort((child,))
        await storage.threads.materialize(CHILD_THREAD, epoch=1)
        await settle_as_decided(family.child, "child")
        assert await family.decided() == decisions.ResumeToJoinChildren((child,))
        assert await family.told() == "woken"
        assert await family.decided() == decisions.ResumeToJoinChildren((child,))
        await parent.claim()
        await family.join()
        held = replace(RESERVED, status="attached", child=child)
        assert await family.decided() == decisions.ApplyJoinAccounting((held,))
        await family.begin_release()
        await family.release()
        await settle_as_decided(parent, "parent")

    @pytest.mark.rule("RCV-4", "LED-14")
    async def test_an_abort_links_a_child_before_it_is_passed_on(self, storage: Storage) -> None:
        """A child that exists is aborted too, whoever was to name it."""
        family = await Delegated.begin(storage)
        await family.reserve()
        await family.request()
        await family.admit()
        await family.parent.abort("parent")
        assert await family.decided() == missing_link(family, record=True, attachment=True)
        await family.start()
        await family.attach()
        assert await family.decided() == decisions.PropagateAbort((family.named,))

    @pytest.mark.rule("RCV-4", "RCV-1", "RCV-2", "LED-8", "LED-14")
    @pytest.mark.parametrize("requested", [False, True])
    async def test_an_abort_admits_no_child(self, storage: Storage, *, requested: bool) -> None:
        """What was reserved for one that does not exist is released."""
        family = await Delegated.begin(storage)
        await family.reserve()
        if requested:
            await family.request()
        await family.parent.abort("parent")
        assert await family.decided() == decisions.ReleaseOrphanReservation((RESERVED,))
        await family.begin_release(None)
        await family.release()
        assert await family.decided() == decisions.SettleAborted("owned")
        await settle_as_decided(family.parent, "parent")

    @pytest.mark.rule("RCV-4", "RCV-1", "RCV-2", "LED-8")
    async def test_queued_work_is_aborted_wherever_it_stands(self, storage: Storage) -> None:
        """Behind work that runs, and without anybody's token; what ran is left to its owner."""
        lane = await LaneScript.begin(storage)
        await RunLog.begin(lane, "key-1")
        await lane.ready("behind")
        for key in ("key-1", "behind"):
            await lane.abort(key)
        assert await decided(lane, "key-1") == decisions.SettleAborted("owned")
        assert await decided(lane, "behind") == decisions.SettleAborted("queued-abort")
        await settle_as_decided(lane.another("2"), "behind")
        assert await decided(lane, "key-1") == decisions.SettleAborted("owned")

    @pytest.mark.rule("RCV-4", "RCV-1", "RCV-2", "LED-8", "LED-3")
    async def test_aborted_work_without_a_thread_is_settled_in_one(self, storage: Storage) -> None:
        """The settlement is a record, so its thread is materialized first."""
        lane = LaneScript(storage)
        await lane.admit("key-1")
        await lane.abort("key-1")
        assert await decided(lane, "key-1") == decisions.CompleteMaterialization()
        await storage.threads.materialize(THREAD, epoch=1)
        assert await decided(lane, "key-1") == decisions.SettleAborted("queued-abort")
        await settle_as_decided(lane, "key-1")

    @pytest.mark.rule("RCV-4", "RCV-1", "RCV-2", "LED-4", "LED-8")
    async def test_unknown_work_is_aborted_unresolved(self, storage: Storage) -> None:
        """Nobody has to say what became of its calls; an attempt claims it to settle it."""
        log = await RunLog.begin(await LaneScript.begin(storage), "key-1")
        await log.declare(IN_DOUBT)
        await log.lane.mark_unknown("key-1", CALL)
        await log.lane.release()
        await log.lane.abort("key-1")
        assert await decided(log.lane, "key-1") == decisions.SettleAborted("owned")
        await log.lane.claim()
        await settle_as_decided(log.lane, "key-1")
