"""Saboteurs of recovery: evidence that is read wrongly, or not at all (RCV-1 to RCV-12)."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core import recovering
from yielded_core.errors import YieldedError
from yielded_core.ledger import recovery
from yielded_core.ledger.recovery_decisions import Blocked, FinalizeFromHistory
from yielded_core.ports.work import Indeterminate, NotAdmitted
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Ledger

if TYPE_CHECKING:
    from yielded_core.ports.work import RecoverySnapshot
    from yielded_core.records.identifiers import SubmissionId, ThreadId
    from yielded_testing.saboteurs.ledger_units import Rule


class _Snapshots(Ledger):
    """A ledger whose snapshots are changed."""

    async def load_recovery_snapshot(
        self, thread: ThreadId, submission: SubmissionId
    ) -> RecoverySnapshot:
        return self.changed(await self.inner.load_recovery_snapshot(thread, submission))

    def changed(self, found: RecoverySnapshot) -> RecoverySnapshot:
        return found


class PublishedOnceFinalized(_Snapshots):
    """A snapshot says that the settlement is published once the ledger took it over."""

    def changed(self, found: RecoverySnapshot) -> RecoverySnapshot:
        return replace(found, settlement_published=found.submission.settled is not None)


class HostUnpublished(_Snapshots):
    """A snapshot never says that the host of a guest is published."""

    def changed(self, found: RecoverySnapshot) -> RecoverySnapshot:
        return replace(found, host_published=False)


class InputByMarker(_Snapshots):
    """A snapshot has the place of the input from the marker, not from the log."""

    def changed(self, found: RecoverySnapshot) -> RecoverySnapshot:
        return replace(found, input_sequence=found.submission.input_sequence)


class ResolutionsForgotten(_Snapshots):
    """A snapshot shows no resolution once the work that it was for was woken."""

    def changed(self, found: RecoverySnapshot) -> RecoverySnapshot:
        parked = found.submission.state == "unknown"
        return found if parked else replace(found, resolutions=())


class ChildrenByWake(_Snapshots):
    """A snapshot knows no published child while its parent is suspended."""

    def changed(self, found: RecoverySnapshot) -> RecoverySnapshot:
        waits = found.submission.state == "suspended"
        return replace(found, published_children=frozenset()) if waits else found


def _finalized_again(right: Rule) -> Rule:
    """Settled work is to be finalized once more."""

    def wrong(snapshot: RecoverySnapshot, facts: object) -> object:
        settled = snapshot.submission.state == "settled"
        return FinalizeFromHistory() if settled else right(snapshot, facts)

    return wrong


def _first_page(right: Rule) -> Rule:
    """What is read of a run is the first page of its evidence."""

    async def wrong(threads: object, snapshot: object) -> object:
        found: list[Any] = await right(threads, snapshot)
        return found[:8]

    return wrong


def _up_to_now(right: Rule) -> Rule:
    """A run is read up to where its thread ends by then, not up to the snapshot's tail."""

    async def wrong(threads: Any, snapshot: RecoverySnapshot) -> object:  # noqa: ANN401 - a port
        if snapshot.lane.epoch:
            now = (await threads.tail(snapshot.lane.thread_id)).tail
            snapshot = replace(snapshot, tail=now)
        return await right(threads, snapshot)

    return wrong


def _unreadable_is_empty(right: Rule) -> Rule:
    """A run that cannot be read is taken for one without facts."""

    async def wrong(threads: object, snapshot: object) -> object:
        try:
            return await right(threads, snapshot)
        except YieldedError:
            return []

    return wrong


def _no_answer_is_no(right: Rule) -> Rule:
    """A child of which the store cannot say whether it was admitted was not."""

    async def wrong(ledger: object, key: object) -> object:
        answer = await right(ledger, key)
        return NotAdmitted() if isinstance(answer, Indeterminate) else answer

    return wrong


def _nobody_asks(_right: Rule) -> Rule:
    """The ledger is not asked whether a requested child was admitted."""

    async def wrong(_ledger: object, _key: object) -> object:
        return Indeterminate("nobody asked")

    return wrong


def _lineage_unread(_right: Rule) -> Rule:
    """The record of a child's lineage is not looked for."""

    async def wrong(_threads: object, _snapshot: object) -> object:
        return []

    return wrong


def _ends_at_a_fault(right: Rule) -> Rule:
    """A sweep ends at the first thread that is blocked."""

    async def wrong(*given: object, **named: object) -> Any:  # noqa: ANN401 - a generator
        async with aclosing(right(*given, **named)) as found:
            async for one, decision in found:
                yield one, decision
                if isinstance(decision, Blocked):
                    return

    return wrong


def _first_page_swept(right: Rule) -> Rule:
    """A sweep ends with its first page."""

    async def wrong(storage: object, *, limit: int = 256, **named: object) -> Any:  # noqa: ANN401
        left = limit
        async with aclosing(right(storage, limit=limit, **named)) as found:
            async for each in found:
                yield each
                left -= 1
                if not left:
                    return

    return wrong


SABOTEURS: Final = (
    Saboteur(
        "settled-work-finalized-again",
        ("RCV-1",),
        "test_settled_work_needs_nothing",
        WrongRule(recovery, "classify", _finalized_again),
    ),
    Saboteur(
        "published-once-finalized",
        ("RCV-2", "LED-8", "LED-15"),
        "test_a_published_settlement_is_finalized",
        PublishedOnceFinalized,
    ),
    Saboteur(
        "host-never-published",
        ("RCV-3", "LED-15"),
        "test_a_guest_settles_with_its_host",
        HostUnpublished,
    ),
    Saboteur(
        "children-not-asked-about",
        ("RCV-4", "RCV-8"),
        "test_an_abort_links_a_child_before_it_is_passed_on",
        WrongRule(recovering, "_admission", _nobody_asks),
    ),
    Saboteur(
        "first-page-of-a-run",
        ("RCV-5", "RCV-9"),
        "test_the_whole_run_counts",
        WrongRule(recovering, "_run_evidence", _first_page),
    ),
    Saboteur(
        "applied-resolutions-forgotten",
        ("RCV-6", "LED-13"),
        "test_a_call_in_doubt_is_resolved_by_a_person",
        ResolutionsForgotten,
    ),
    Saboteur(
        "published-children-of-the-suspended-lost",
        ("RCV-7", "LED-14"),
        "test_a_wake_that_was_lost_is_made_up_for",
        ChildrenByWake,
    ),
    Saboteur(
        "no-answer-taken-for-no",
        ("RCV-4", "RCV-8"),
        "test_no_answer_is_no_absence",
        WrongRule(recovering, "_admission", _no_answer_is_no),
    ),
    Saboteur(
        "evidence-beyond-the-snapshot",
        ("RCV-9",),
        "test_evidence_ends_at_the_tail_of_the_snapshot",
        WrongRule(recovering, "_run_evidence", _up_to_now),
    ),
    Saboteur(
        "lineage-not-looked-for",
        ("RCV-10",),
        "test_a_child_waits_for_its_lineage",
        WrongRule(recovering, "_lineage", _lineage_unread),
    ),
    Saboteur(
        "input-found-by-its-marker",
        ("RCV-3", "RCV-11", "LED-15"),
        "test_admitted_work_comes_to_its_input",
        InputByMarker,
    ),
    Saboteur(
        "unreadable-run-taken-for-empty",
        ("RCV-12",),
        "test_an_index_that_is_not_complete_blocks_its_thread",
        WrongRule(recovering, "_run_evidence", _unreadable_is_empty),
    ),
    Saboteur(
        "sweep-ends-at-a-fault",
        ("RCV-12",),
        "test_a_record_that_does_not_decode_blocks_its_thread",
        WrongRule(recovering, "sweep", _ends_at_a_fault),
    ),
    Saboteur(
        "sweep-of-one-page",
        ("RCV-12",),
        "test_a_sweep_assesses_each_submission",
        WrongRule(recovering, "sweep", _first_page_swept),
    ),
)
