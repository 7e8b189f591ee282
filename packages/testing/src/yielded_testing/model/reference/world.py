"""What the reference model knows: lanes, their work, their logs, their owners, and the time.

The model says what contract 2 demands of a store, with plain dictionaries and the slowest way of
doing everything. It imports none of the rules that the adapters share, so that a wrong rule shows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from yielded_core.errors import SubmissionNotFound
from yielded_core.ports.values import Tail
from yielded_core.ports.work import Lane, Owner, Submission
from yielded_core.records.identifiers import Digest, ReceiptId, SubmissionId, ThreadId

if TYPE_CHECKING:
    from yielded_core.ports.work import (
        AbortIntent,
        ApprovalDecision,
        Reservation,
        ResolutionKind,
        Settled,
        State,
        Suspension,
        UnknownCall,
        UnknownResolution,
    )
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import (
        AttemptId,
        BatchId,
        IdempotencyKey,
        OwnershipToken,
        Principal,
        ProducerId,
        RecordId,
        ToolCallId,
    )

NOBODY: Final = SubmissionId("nobody")
"""A submission that no store holds."""
_EMPTY: Final = Digest("0" * 64)
_UNLEARNED: Final = Digest("")
_UNMINTED: Final = (SubmissionId("(none)"), ReceiptId("(none)"))


class _Anything:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Final = cast("Any", _Anything())
"""Stands in a prediction for prose and for what an adapter chooses: it is equal to everything."""


class Disagreement(AssertionError):
    """The store did not do what the model says."""


class Unlike:
    """Stands in a prediction for whatever is not a certain value."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return other != self._value

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"anything but {self._value!r}"


class Held(NamedTuple):
    """The ownership of a lane. It ends by release, settlement, suspension, claim or takeover."""

    submission: SubmissionId
    attempt: AttemptId
    token: OwnershipToken
    expires_at: int


class Written(NamedTuple):
    """One batch of a log."""

    batch: BatchId
    producer: ProducerId
    epoch: int
    first: int
    records: tuple[tuple[RecordId, bytes], ...]
    tail: Tail


@dataclass
class Work:
    """One submission with everything that belongs to it."""

    thread: ThreadId
    name: SubmissionId
    receipt: ReceiptId
    place: int
    principal: Principal
    key: IdempotencyKey
    group: str | None
    input: JsonValue
    linkage: JsonValue
    message: JsonValue
    input_digest: Digest
    admitted_at: int
    digest: Digest = _UNLEARNED
    """Of everything that a replay repeats. How an adapter makes it is its own affair: the model
    learns it, and holds the adapter to it."""
    state: State = "admitted"
    marked: int | None = None
    host: SubmissionId | None = None
    waits: Suspension | None = None
    abort: AbortIntent | None = None
    settled: Settled | None = None
    deferred_at: int | None = None
    publisher: OwnershipToken | None = None
    approvals: dict[ToolCallId, ApprovalDecision] = field(
        default_factory=dict["ToolCallId", "ApprovalDecision"]
    )
    calls: dict[ToolCallId, UnknownCall] = field(default_factory=dict["ToolCallId", "UnknownCall"])
    resolutions: dict[tuple[ToolCallId, ResolutionKind], UnknownResolution] = field(
        default_factory=dict["tuple[ToolCallId, ResolutionKind]", "UnknownResolution"]
    )
    reservations: dict[ToolCallId, Reservation] = field(
        default_factory=dict["ToolCallId", "Reservation"]
    )

    @property
    def label(self) -> str:
        """What commands call it: `a2` is the second of lane `a`."""
        return f"{self.thread}{self.place}"

    @property
    def open(self) -> bool:
        """Whether it is still owed."""
        return self.state != "settled"

    @property
    def active(self) -> bool:
        """Whether an owner may work on it."""
        return self.state in {"running", "input-applied"}

    @property
    def passed_over(self) -> bool:
        """Whether a claim passes over it."""
        return self.state == "unknown" and self.abort is None

    @property
    def claimable(self) -> bool:
        """Whether a claim may take it when it is the head."""
        return (
            self.active
            or self.state == "ready"
            or (self.state == "unknown" and not self.passed_over)
        )

    @property
    def unresolved(self) -> set[ToolCallId]:
        """The calls of unknown outcome about which nobody said anything."""
        return {call for call in self.calls if not any(call == of for of, _ in self.resolutions)}

    def resume(self) -> None:
        """Go back to where it was before it waited."""
        self.state = "running" if self.marked is None else "input-applied"
        self.waits = None

    def view(self) -> Submission:
        """Return its control fields."""
        return Submission(
            self.thread,
            self.name,
            self.receipt,
            self.place,
            self.principal,
            self.key,
            self.group,
            self.input_digest,
            self.digest,
            self.admitted_at,
            self.state,
            self.marked,
            self.host,
            self.waits,
            self.abort,
            self.settled,
            self.deferred_at,
        )


@dataclass
class Queue:
    """The lane of one thread, and its log."""

    thread: ThreadId
    epoch: int = 0
    """0 until the thread is materialized."""
    held: Held | None = None
    work: dict[SubmissionId, Work] = field(default_factory=dict["SubmissionId", "Work"])
    log: list[Written] = field(default_factory=list[Written])
    records: dict[RecordId, tuple[int, Record]] = field(
        default_factory=dict["RecordId", "tuple[int, Record]"]
    )
    version: int = 0
    """Learned: it only has to rise with every change."""
    head_since: int | None = None
    """Since when the head is one that a claim may take."""
    free_since: int = 0
    """When the last ownership ended, by its lease or before."""

    @property
    def exists(self) -> bool:
        """Whether anything was admitted or materialized."""
        return bool(self.epoch or self.work)

    @property
    def tail(self) -> Tail:
        """Where the log ends."""
        return self.log[-1].tail if self.log else Tail(0, _EMPTY)

    @property
    def heads(self) -> list[Work]:
        """What is still owed in lane order, without what a claim passes over."""
        return [work for work in self.work.values() if work.open and not work.passed_over]

    @property
    def owned(self) -> Work | None:
        """The submission of the owner."""
        return None if self.held is None else self.work[self.held.submission]

    def is_live(self, now: int) -> bool:
        """Say whether the owner's lease runs; equal time is expired."""
        return self.held is not None and now < self.held.expires_at

    def holds(self, token: OwnershipToken | None, submission: SubmissionId | None = None) -> bool:
        """Say whether a token owns the lane, for one submission where one is named."""
        held = self.held
        if held is None or held.token != token:
            return False
        return submission is None or held.submission == submission

    def end_ownership(self, now: int) -> None:
        """Leave the lane without owner."""
        if self.held is not None:
            self.free_since = min(now, self.held.expires_at)
            self.held = None

    def at(self, record: str) -> int | None:
        """Return the sequence of a record."""
        found = self.records.get(cast("RecordId", record))
        return None if found is None else found[0]

    def view(self, now: int) -> Lane:
        """Return what others see of the lane."""
        held = self.held
        owner = held and Owner(held.submission, held.attempt, held.expires_at, self.is_live(now))
        return Lane(self.thread, self.epoch, self.version, owner)

    def ledger_state(self) -> tuple[object, ...]:
        """Return what a change of makes a new version of the lane."""
        return (self.held, *(_all_of(work) for work in self.work.values()))


def _all_of(work: Work) -> tuple[object, ...]:
    return (
        work.view(),
        work.publisher,
        tuple(work.approvals.values()),
        tuple(work.calls.values()),
        tuple(work.resolutions.values()),
        tuple(work.reservations.values()),
    )


@dataclass
class World:
    """Everything that a store is expected to hold."""

    now: int
    queues: dict[ThreadId, Queue] = field(default_factory=dict["ThreadId", "Queue"])
    digests: dict[bytes, Digest] = field(default_factory=dict[bytes, Digest])
    """The digest that the adapter gave to each content that was admitted."""
    minted: tuple[SubmissionId, ReceiptId] = _UNMINTED
    """The ids of the newest admission, which the adapter chose."""
    tokens: list[OwnershipToken] = field(default_factory=list["OwnershipToken"])
    """Every token that was granted something."""
    restores: int = 0
    """How many timelines began after the first one."""

    def named(self, name: str) -> tuple[ThreadId, SubmissionId]:
        """Return the thread and the submission that `a2` stands for: the second of lane `a`."""
        queue = self.queue(ThreadId(name[0]))
        place = int(name[1:])
        for work in queue.work.values():
            if work.place == place:
                return queue.thread, work.name
        return queue.thread, NOBODY

    def queue(self, thread: ThreadId) -> Queue:
        """Return the lane of a thread, an empty one where there is nothing yet."""
        return self.queues.setdefault(thread, Queue(thread))

    def find(self, thread: ThreadId, submission: SubmissionId) -> tuple[Queue, Work]:
        """Return a submission and its lane. Raises SubmissionNotFound."""
        queue = self.queue(thread)
        if submission not in queue.work:
            raise SubmissionNotFound(thread, submission)
        return queue, queue.work[submission]

    def is_published(self, thread: ThreadId, submission: SubmissionId) -> bool:
        """Say whether the canonical settlement record of a submission exists."""
        return self.queue(thread).at(f"settlement:{submission}") is not None

    def state(self) -> tuple[object, ...]:
        """Return everything that a command may change."""
        queues = (
            (queue.epoch, len(queue.log), queue.ledger_state()) for queue in self.queues.values()
        )
        return (self.now, self.restores, *queues)

    def settle_queues(self) -> None:
        """Bring up to date since when each head is claimable; called after every command."""
        for queue in self.queues.values():
            claimable = bool(queue.heads) and queue.heads[0].claimable
            if not claimable:
                queue.head_since = None
            elif queue.head_since is None:
                queue.head_since = self.now

    def runnable_since(self, queue: Queue) -> int | None:
        """Return since when, or from when on, a claim finds something; None while it does not."""
        if queue.head_since is None:
            return None
        free = queue.free_since if queue.held is None else queue.held.expires_at
        return max(queue.head_since, free)


def text_of(value: object) -> bytes:
    """Return the canonical text of JSON without numbers beyond small integers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_of(value: object) -> Digest:
    """Return the SHA-256 of the canonical text of a value."""
    return Digest(hashlib.sha256(text_of(value)).hexdigest())
