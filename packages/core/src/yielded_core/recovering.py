"""Reading what recovery decides on from a store, one submission or all of them (RCV-1 to RCV-12).

The rules in `ledger` do no I/O, so this stands beside them. Only reads are asked of a storage.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from yielded_core.errors import (
    InvalidInput,
    StorageClosed,
    StorageMisused,
    SubmissionNotFound,
    ThreadDeleted,
    YieldedError,
)
from yielded_core.ledger.canonical_facts import canonical_facts
from yielded_core.ledger.recovery import blocked, classify, deciding_row
from yielded_core.ledger.recovery_decisions import Blocked
from yielded_core.ledger.recovery_evidence import CanonicalFacts
from yielded_core.ports.threads import ThreadReader
from yielded_core.ports.work import Indeterminate
from yielded_core.records.bounds import EVIDENCE_RECORDS
from yielded_core.records.identifiers import run_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from yielded_core.ledger.recovery_decisions import RecoveryDecision
    from yielded_core.ledger.recovery_evidence import ChildKey
    from yielded_core.log.progress import RunProgress
    from yielded_core.ports.ledger import LedgerReader
    from yielded_core.ports.work import (
        AdmissionAnswer,
        AdmittedWork,
        AwaitedChild,
        RecoverySnapshot,
        Submission,
    )
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import RunId, SubmissionId, ThreadId

_BY_SNAPSHOT: Final = frozenset({"RCV-1", "RCV-2", "RCV-3"})
"""Rules that look at nothing but the snapshot: what they decide needs no evidence of the run."""
_MISUSE: Final = (StorageClosed, StorageMisused)
"""Faults of whoever holds the storage, which say nothing about a thread."""


class RunReader(ThreadReader, Protocol):
    """The reads of a thread store that recovery needs."""

    async def run_progress(self, thread: ThreadId, run: RunId) -> RunProgress | None:
        """Return the counters of a run, None where the log holds no facts of it (LOG-16)."""
        ...


class Recoverable(Protocol):
    """The part of a Storage that recovery reads."""

    @property
    def threads(self) -> RunReader:
        """The thread log."""
        ...

    @property
    def ledger(self) -> LedgerReader:
        """Accepted work."""
        ...


def is_linked(work: AdmittedWork) -> bool:
    """Say whether work was admitted with a linkage, as the children of a parent are (LED-1)."""
    return work.linkage is not None


async def assess(
    storage: Recoverable,
    thread: ThreadId,
    submission: SubmissionId,
    *,
    is_child: Callable[[AdmittedWork], bool] = is_linked,
) -> RecoveryDecision:
    """Decide what is to be done next for one submission (RCV-1 to RCV-12).

    Reads the recovery snapshot, then the facts of the submission's own run up to the tail of that
    snapshot, and asks the ledger about children that only the log names. What cannot be read is
    Blocked. `is_child` tells from what was admitted whether it works for a parent (RCV-10).

    Raises InvalidInput, SubmissionNotFound, ThreadDeleted, StorageClosed and StorageMisused: those
    are mistakes of the caller.
    """
    try:
        snapshot = await storage.ledger.load_recovery_snapshot(thread, submission)
    except (InvalidInput, SubmissionNotFound, ThreadDeleted, *_MISUSE):
        raise
    except YieldedError as fault:
        return blocked(thread, fault)
    nothing = CanonicalFacts()
    if deciding_row(snapshot, nothing).rule in _BY_SNAPSHOT:
        return classify(snapshot, nothing)
    try:
        facts = await _facts(storage, snapshot, is_child)
        published = await _published(storage.ledger, snapshot, facts)
    except (ThreadDeleted, *_MISUSE):
        raise
    except YieldedError as fault:
        return blocked(thread, fault)
    return classify(replace(snapshot, published_children=published), facts)


async def sweep(
    storage: Recoverable,
    *,
    limit: int = 256,
    is_child: Callable[[AdmittedWork], bool] = is_linked,
) -> AsyncGenerator[tuple[Submission, RecoveryDecision]]:
    """Assess every unsettled submission by (thread, place), `limit` (1 to 1,024) listed at a time.

    Grants nothing and changes nothing. A fault blocks its thread and not the sweep (RCV-12): from
    the submission where it shows on, each one of that thread is Blocked by it. A thread that is
    deleted meanwhile is left out. Holds one page and the evidence of one run; close the generator
    when done (`contextlib.aclosing`).

    Raises InvalidArgument for the limit, and the StorageError of a listing that fails.
    """
    after: tuple[ThreadId, int] | None = None
    fault: Blocked | None = None
    while True:
        page = await storage.ledger.scan_nonterminal(after=after, limit=limit)
        for one in page:
            if fault is not None and fault.thread_id == one.thread_id:
                yield one, fault
                continue
            decision = await _assess_listed(storage, one, is_child)
            fault = decision if isinstance(decision, Blocked) else None
            if decision is not None:
                yield one, decision
        if len(page) < limit:
            return
        after = page[-1].thread_id, page[-1].queue_sequence


async def _assess_listed(
    storage: Recoverable, listed: Submission, is_child: Callable[[AdmittedWork], bool]
) -> RecoveryDecision | None:
    """Assess what a listing named, so that no caller is to blame; None once it is deleted."""
    try:
        return await assess(storage, listed.thread_id, listed.submission_id, is_child=is_child)
    except ThreadDeleted:
        return None
    except (InvalidInput, SubmissionNotFound) as fault:
        return blocked(listed.thread_id, fault)


async def _facts(
    storage: Recoverable, snapshot: RecoverySnapshot, is_child: Callable[[AdmittedWork], bool]
) -> CanonicalFacts:
    submission = snapshot.submission
    records = await _run_evidence(storage.threads, snapshot)
    child = False
    if submission.state == "admitted":  # the only state in which the lineage is asked for
        work = await storage.ledger.lookup(submission.submission_id)
        child = work is not None and is_child(work)
    if child:
        records = [*await _lineage(storage.threads, snapshot), *records]
    facts = canonical_facts(submission, records, child=child)
    return facts.answered(
        {
            one.tool_call_id: await _admission(storage.ledger, one.request)
            for one in facts.to_ask
            if one.request is not None
        }
    )


async def _run_evidence(threads: RunReader, snapshot: RecoverySnapshot) -> list[StoredRecord]:
    """Return the facts of the submission's run up to the captured tail."""
    if snapshot.lane.epoch == 0:
        return []
    thread, run = snapshot.submission.thread_id, run_id(snapshot.submission.submission_id)
    # A run without facts has no evidence to read. Where its input is in the log there must be some.
    if snapshot.input_sequence is None and await threads.run_progress(thread, run) is None:
        return []
    found: list[StoredRecord] = []
    while True:
        page = await threads.read_run_evidence(
            thread,
            run,
            after=found[-1].sequence if found else 0,
            through=snapshot.tail.sequence,
            limit=EVIDENCE_RECORDS,
        )
        found.extend(page)
        if len(page) < EVIDENCE_RECORDS:
            return found


async def _lineage(threads: RunReader, snapshot: RecoverySnapshot) -> list[StoredRecord]:
    """Return the lineage record where the log holds it up to the captured tail."""
    if snapshot.lane.epoch == 0:
        return []
    found = (await threads.identity(snapshot.submission.thread_id)).lineage
    return [] if found is None or found.sequence > snapshot.tail.sequence else [found]


async def _admission(ledger: LedgerReader, key: ChildKey) -> AdmissionAnswer:
    """Ask about one child; a thread that was deleted cannot tell any more, which is no absence."""
    try:
        return await ledger.resolve_admission(*key)
    except ThreadDeleted as gone:
        return Indeterminate(str(gone))


async def _published(
    ledger: LedgerReader, snapshot: RecoverySnapshot, facts: CanonicalFacts
) -> frozenset[AwaitedChild]:
    """Return which children are published, those included that no reservation names.

    The snapshot does not know these: an archive brings the log of a parent without what it reserved
    (ARC-2).
    """
    attached = {one.child for one in snapshot.reservations}
    unattached = [
        one.started
        for one in facts.delegations
        if one.started is not None and not one.joined and one.started not in attached
    ]
    found = [child for child in unattached if await _is_published(ledger, child)]
    return snapshot.published_children.union(found)


async def _is_published(ledger: LedgerReader, child: AwaitedChild) -> bool:
    """Say whether a child is settled in its log, as one is whose thread was deleted (ARC-7)."""
    try:
        found = await ledger.load_recovery_snapshot(child.thread_id, child.submission_id)
    except ThreadDeleted:
        return True
    except SubmissionNotFound:
        return False
    return found.settlement_published
