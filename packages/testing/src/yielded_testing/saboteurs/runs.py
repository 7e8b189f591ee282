"""Saboteurs of checkpoints, runs, evidence and indexes (LOG-13 to LOG-17)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core.errors import EvidenceFault
from yielded_core.log import checkpoints, progress, reads
from yielded_core.records import bounds
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Checkpoints, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from yielded_core.log.facts import RecordFacts
    from yielded_core.log.progress import RunProgress
    from yielded_core.ports.values import Checkpoint, IndexState, OperationEvidence
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import RunId, ThreadId, ToolCallId

    Advance = Callable[
        [ThreadId, Sequence[RecordFacts], Mapping[RunId, RunProgress]], dict[RunId, RunProgress]
    ]


def _unbound(_right: object) -> Callable[..., None]:
    """A checkpoint is kept without comparing it with a batch's tail."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


class LoadsTheNewest(Checkpoints):
    """The newest checkpoint is loaded, also when an older one was asked for."""

    async def load(self, thread: ThreadId, *, at_or_before: int | None = None) -> Checkpoint | None:
        del at_or_before
        return await self.inner.load(thread)


class KeepsTheFirst(Checkpoints):
    """A checkpoint at a sequence that has one is dropped."""

    async def save(self, checkpoint: Checkpoint) -> None:
        found = await self.inner.load(
            checkpoint.thread_id, at_or_before=checkpoint.through_sequence
        )
        if found is None or found.through_sequence != checkpoint.through_sequence:
            await self.inner.save(checkpoint)


def _one_more(right: int) -> int:
    """A run may have one fact more after its continuation."""
    return right + 1


class NewestContinuation(Threads):
    """The newest continuation of a run is read, also when it is beyond the captured sequence."""

    async def read_continuation(
        self, thread: ThreadId, run: RunId, *, through: int
    ) -> StoredRecord | None:
        await self.inner.read_continuation(thread, run, through=through)
        tail = (await self.inner.tail(thread)).sequence
        return await self.inner.read_continuation(thread, run, through=tail)


class HandoffsEndWithTheRun(Threads):
    """Preparations are no longer listed once a submission of the thread is settled."""

    async def work_handoffs(
        self, thread: ThreadId, *, after: int = 0, limit: int = 256
    ) -> tuple[StoredRecord, ...]:
        found = await self.inner.work_handoffs(thread, after=after, limit=limit)
        log = await self.inner.read(thread) if found else ()
        settled = any(each.record.payload.tag == "SubmissionSettled" for each in log)
        return () if settled else found


class OperationsWithoutTheRun(Threads):
    """What is recorded about a tool call is found by the call's id alone."""

    async def read_operation_evidence(
        self, thread: ThreadId, run: RunId, call: ToolCallId, *, through: int
    ) -> OperationEvidence:
        found = await self.inner.read_operation_evidence(thread, run, call, through=through)
        others = tuple(
            each
            for each in await self.inner.read(thread)
            if getattr(each.record.payload, "tool_call_id", None) == call
            and each.sequence <= through
        )
        return replace(found, facts=others)


class TerminalFactsLeftOut(Threads):
    """The facts that end a run are no part of its evidence."""

    async def read_run_evidence(
        self, thread: ThreadId, run: RunId, *, after: int, through: int, limit: int = 8
    ) -> tuple[StoredRecord, ...]:
        page = await self.inner.read_run_evidence(
            thread, run, after=after, through=through, limit=limit
        )
        return tuple(each for each in page if each.record.payload.tag not in _TERMINAL)


_TERMINAL: Final = ("ModelCompleted", "RunCompleted", "RunFailed", "SubmissionSettled")


def _any_revision(right: Advance) -> Advance:
    """The revision of a continuation is taken from itself."""
    return _assuming(right, lambda kept, stated: kept._replace(revision=stated.revision - 1))


def _any_accounting(right: Advance) -> Advance:
    """The accounting of a continuation is not compared with the one before it."""
    return _assuming(right, lambda kept, _stated: kept._replace(accounting=None))


def _any_submission(right: Advance) -> Advance:
    """A continuation may go over to another submission."""
    return _assuming(right, lambda kept, _stated: kept._replace(submission=None))


def _assuming(right: Advance, change: Callable[[Any, Any], Any]) -> Advance:
    """Return the rule with the progress before it changed for each continuation of the batch."""

    def wrong(
        thread: ThreadId, facts: Sequence[RecordFacts], before: Mapping[RunId, RunProgress]
    ) -> dict[RunId, RunProgress]:
        assumed = dict(before)
        for fact in facts:
            if fact.continuation is not None:
                run = fact.continuation.run_id
                kept = assumed.get(run) or progress.RunProgress()
                assumed[run] = change(kept, fact.continuation)
        return right(thread, facts, assumed)

    return wrong


def _handoffs_unchecked(_right: object) -> Callable[..., None]:
    """Whatever is named is closed, whether it is an open preparation or not."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


class EmptyForMissing(Threads):
    """Evidence that is missing is an empty page."""

    async def read_run_evidence(
        self, thread: ThreadId, run: RunId, *, after: int, through: int, limit: int = 8
    ) -> tuple[StoredRecord, ...]:
        try:
            return await self.inner.read_run_evidence(
                thread, run, after=after, through=through, limit=limit
            )
        except EvidenceFault:
            return ()


def _partial_answers(_right: object) -> Callable[..., None]:
    """Reads are answered from what the indexes hold so far."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


class RebuildsFromTheStart(Threads):
    """Every step of a rebuild begins anew."""

    async def rebuild_indexes(
        self, thread: ThreadId, *, restart: bool = False, limit: int = 1_024
    ) -> IndexState:
        del restart
        return await self.inner.rebuild_indexes(thread, restart=True, limit=limit)


SABOTEURS: Final = (
    Saboteur(
        "checkpoint-unbound",
        ("LOG-13",),
        "test_a_checkpoint_binds_to_a_batch_s_tail",
        WrongRule(checkpoints, "check_binding", _unbound),
    ),
    Saboteur(
        "loads-the-newest-checkpoint",
        ("LOG-13",),
        "test_the_newest_at_or_before_a_sequence_is_loaded",
        LoadsTheNewest,
    ),
    Saboteur(
        "keeps-the-first-checkpoint",
        ("LOG-13",),
        "test_a_later_one_replaces_one_at_the_same_sequence",
        KeepsTheFirst,
    ),
    Saboteur(
        "suffix-one-more",
        ("LOG-14",),
        "test_64_facts_may_follow_a_continuation",
        WrongRule(bounds, "SUFFIX_RECORDS", _one_more),
    ),
    Saboteur(
        "newest-continuation",
        ("LOG-14",),
        "test_the_newest_in_a_range_is_found",
        NewestContinuation,
    ),
    Saboteur(
        "handoffs-end-with-the-run",
        ("LOG-15",),
        "test_a_preparation_outlives_its_run",
        HandoffsEndWithTheRun,
    ),
    Saboteur(
        "operations-without-the-run",
        ("LOG-15",),
        "test_operation_evidence_is_one_call_s",
        OperationsWithoutTheRun,
    ),
    Saboteur(
        "terminal-facts-left-out",
        ("LOG-15",),
        "test_run_evidence_is_all_facts_of_a_run",
        TerminalFactsLeftOut,
    ),
    Saboteur(
        "any-revision",
        ("LOG-16",),
        "test_the_revision_is_exactly_one_more",
        WrongRule(progress, "advance_runs", _any_revision),
    ),
    Saboteur(
        "any-accounting",
        ("LOG-16",),
        "test_accounting_never_regresses",
        WrongRule(progress, "advance_runs", _any_accounting),
    ),
    Saboteur(
        "any-submission",
        ("LOG-16",),
        "test_the_submission_never_changes",
        WrongRule(progress, "advance_runs", _any_submission),
    ),
    Saboteur(
        "closes-anything",
        ("LOG-15", "LOG-16"),
        "test_only_what_is_open_is_closed",
        WrongRule(progress, "check_handoffs", _handoffs_unchecked),
    ),
    Saboteur(
        "empty-for-missing",
        ("LOG-17",),
        "test_a_run_that_is_not_there_has_no_empty_evidence",
        EmptyForMissing,
    ),
    Saboteur(
        "partial-answers",
        ("LOG-17",),
        "test_incomplete_indexes_answer_nothing",
        WrongRule(reads, "require_indexed", _partial_answers),
    ),
    Saboteur(
        "rebuilds-from-the-start",
        ("LOG-17",),
        "test_a_step_indexes_whole_batches",
        RebuildsFromTheStart,
    ),
)
