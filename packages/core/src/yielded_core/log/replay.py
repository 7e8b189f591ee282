"""Replaying what the records of a log say about its runs, as far as it spans batches (LOG-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.log.progress import advance_runs, check_handoffs, runs_of
from yielded_core.records.payloads import (
    RunCompleted,
    RunFailed,
    SubagentJoined,
    SubagentRequested,
    SubmissionSettled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_core.log.facts import RecordFacts
    from yielded_core.log.progress import RunProgress
    from yielded_core.log.states import States
    from yielded_core.records.envelope import EncodedRecord
    from yielded_core.records.identifiers import RunId, ThreadId, ToolCallId
    from yielded_core.records.payloads import Payload

_ENDS: Final = (RunCompleted, RunFailed, SubmissionSettled)
_FAMILIES: Final = frozenset((SubagentRequested, SubagentJoined, *_ENDS))


class RunReplay:
    """The progress of every run and the open handoffs, after the batches applied so far.

    A run is never forgotten, because late facts of it still count.
    """

    def __init__(self, thread: ThreadId, runs: States[RunProgress], handoffs: States[int]) -> None:
        self._thread = thread
        self._runs = runs
        self._handoffs = handoffs

    def apply(self, facts: Sequence[RecordFacts]) -> None:
        """Apply the facts of the next batch, or raise ProgressRefused and change nothing."""
        closed = {fact.closes_handoff for fact in facts if fact.closes_handoff is not None}
        is_open = {name for name in closed if self._handoffs.get(name) is not None}
        check_handoffs(self._thread, facts, is_open)
        before: dict[RunId, RunProgress] = {}
        for run in runs_of(facts):
            progress = self._runs.get(run)
            if progress is not None:
                before[run] = progress
        for run, progress in advance_runs(self._thread, facts, before).items():
            self._runs.put(run, progress)
        for fact in facts:
            if fact.opens_handoff:
                self._handoffs.put(fact.record_id, fact.sequence)
            elif fact.closes_handoff is not None:
                self._handoffs.remove(fact.closes_handoff)

    def open_handoff(self) -> str | None:
        """Return the record id of a preparation that is still open, or None."""
        return self._handoffs.first()


class ChildReplay:
    """The calls whose child was requested, and neither joined nor left behind by its run's end."""

    def __init__(self, calls: States[tuple[ToolCallId, ...]]) -> None:
        self._calls = calls

    def apply(self, records: Iterable[EncodedRecord]) -> None:
        """Apply the records of the next batch."""
        for encoded in records:
            if type(encoded.record.payload) in _FAMILIES:
                self._apply(encoded.record.payload)

    def open_child(self) -> str | None:
        """Return the run of a child that is still open, or None."""
        return self._calls.first()

    def _apply(self, payload: Payload) -> None:
        if isinstance(payload, SubagentRequested):
            known = self._calls.get(payload.run_id) or ()
            if payload.tool_call_id not in known:
                self._calls.put(payload.run_id, (*known, payload.tool_call_id))
        elif isinstance(payload, SubagentJoined):
            self._close(payload.run_id, payload.tool_call_id)
        elif isinstance(payload, _ENDS) and payload.run_id is not None:
            self._calls.remove(payload.run_id)

    def _close(self, run: RunId, call: ToolCallId) -> None:
        known = self._calls.get(run) or ()
        left = tuple(each for each in known if each != call)
        if left:
            self._calls.put(run, left)
        elif known:
            self._calls.remove(run)
