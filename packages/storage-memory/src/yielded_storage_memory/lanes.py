"""The lanes of a memory store: submissions and what belongs to them, over dictionaries."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yielded_core.ledger.lane import Ownership
    from yielded_core.ports.work import (
        ApprovalDecision,
        Reservation,
        ResolutionKind,
        Submission,
        UnknownCall,
        UnknownResolution,
    )
    from yielded_core.records.identifiers import (
        IdempotencyKey,
        Principal,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )


@dataclass
class Entry:
    """One submission with everything that belongs to it."""

    submission: Submission
    given: bytes
    linkage: bytes
    message: bytes
    publisher: bytes | None = None
    approvals: dict[ToolCallId, ApprovalDecision] = field(default_factory=dict)
    unknown_calls: dict[ToolCallId, UnknownCall] = field(default_factory=dict)
    resolutions: dict[tuple[ToolCallId, ResolutionKind], UnknownResolution] = field(
        default_factory=dict
    )
    reservations: dict[ToolCallId, Reservation] = field(default_factory=dict)

    @property
    def facts(self) -> int:
        """How many facts it consists of, as an archive carries them."""
        found = self.submission
        given = 1 + (found.abort is not None) + (found.deferred_at is not None)
        return given + len(self.approvals) + len(self.resolutions)


@dataclass
class LaneRows:
    """The queue of one thread."""

    version: int = 0
    last_queue_sequence: int = 0
    fact_revision: int = 0
    ownership: Ownership | None = None
    entries: dict[SubmissionId, Entry] = field(default_factory=dict)
    keys: dict[tuple[Principal, IdempotencyKey], SubmissionId] = field(default_factory=dict)
    places: list[SubmissionId] = field(default_factory=list)
    """The submission at each place of the lane, from 1."""
    unsettled: dict[int, SubmissionId] = field(default_factory=dict)
    """By place in the lane, ascending: places only grow."""

    @property
    def facts(self) -> int:
        """How many facts the lane consists of, as an archive carries them."""
        return sum(entry.facts for entry in self.entries.values())

    def cut(self, count: int) -> None:
        """Forget every submission but the first ones."""
        for name in self.places[count:]:
            gone = self.entries.pop(name).submission
            del self.keys[gone.principal, gone.idempotency_key]
            self.unsettled.pop(gone.queue_sequence, None)
        del self.places[count:]

    def open_submissions(self) -> Iterator[Submission]:
        """Go through the unsettled submissions in lane order."""
        return (self.entries[name].submission for name in self.unsettled.values())


@dataclass
class Lanes:
    """Every lane of a store, and which of them have work."""

    rows: dict[ThreadId, LaneRows] = field(default_factory=dict)
    threads: dict[SubmissionId, ThreadId] = field(default_factory=dict)
    """The thread of each submission, to find it by its id alone."""
    runnable: dict[ThreadId, int] = field(default_factory=dict)
    """Since when, or from when on, each of these lanes is claimable."""
    _with_work: list[ThreadId] = field(default_factory=list)

    def note_work(self, thread: ThreadId) -> None:
        """Keep the sorted list of lanes with unsettled work true to one lane."""
        at = bisect_left(self._with_work, thread)
        listed = at < len(self._with_work) and self._with_work[at] == thread
        rows = self.rows.get(thread)
        has_work = rows is not None and bool(rows.unsettled)
        if has_work and not listed:
            insort(self._with_work, thread)
        elif listed and not has_work:
            del self._with_work[at]

    def with_work(self, first: ThreadId) -> Iterator[ThreadId]:
        """Go through the lanes with unsettled work, from a thread on."""
        for at in range(bisect_left(self._with_work, first), len(self._with_work)):
            yield self._with_work[at]

    def end_ownership(self, thread: ThreadId, now: int) -> None:
        """Let a lane whose epoch rose be found as what it is: claimable at once (LED-17)."""
        since = self.runnable.get(thread)
        if since is not None:
            self.runnable[thread] = min(since, now)

    def adopt(self, thread: ThreadId, staged: Lanes) -> None:
        """Take over the lane of an import in place of one without work."""
        rows = self.rows[thread] = staged.rows[thread]
        self.threads.update(dict.fromkeys(rows.entries, thread))
        self.note_work(thread)

    def remove(self, thread: ThreadId) -> None:
        """Forget a lane and everything in it."""
        rows = self.rows.pop(thread, None)
        if rows is not None:
            for submission in rows.entries:
                self.threads.pop(submission, None)
        self.runnable.pop(thread, None)
        self.note_work(thread)
