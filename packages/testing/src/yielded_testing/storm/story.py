"""What processes said about a ledger, and what its store holds, as `checker.py` compares it.

That the log of the store is whole is shown by `log_checker.py`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from yielded_testing.storm.log_checker import check_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yielded_testing.storm.channel import Message
    from yielded_testing.storm.log_checker import Query, StoredBatch


@dataclass
class Life:
    """What one process said from its start to its end."""

    name: str
    said: list[Message] = field(default_factory=list["Message"])
    killed_at: int | None = None
    """When it was certainly dead, if it was killed: milliseconds on the store's clock."""


class Row(NamedTuple):
    """A submission as its row tells it."""

    lane: str
    place: int
    submission: str
    receipt: str
    key: str
    state: str
    input_at: int | None
    settlement: str | None
    outcome: str | None
    settled_at: int | None
    abort_at: int | None


class Entry(NamedTuple):
    """A record with the batch that it came in."""

    sequence: int
    record_id: str
    payload: Message
    batch: str
    producer: str
    epoch: int


@dataclass
class Store:
    """What a store holds."""

    batches: dict[str, dict[str, StoredBatch]]
    rows: dict[str, Row]
    """By submission."""
    lanes: dict[str, int]
    """The epoch of each."""
    entries: dict[str, list[Entry]]
    """The log of each lane."""

    def settlements(self) -> dict[str, list[Entry]]:
        """Return the settlement records of each submission."""
        return self._tagged("SubmissionSettled")

    def inputs(self) -> dict[str, list[Entry]]:
        """Return the input records of each submission."""
        return self._tagged("UserInputRecorded")

    def _tagged(self, tag: str) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for entries in self.entries.values():
            for entry in entries:
                if entry.payload["_tag"] == tag:
                    found.setdefault(entry.payload["submissionId"], []).append(entry)
        return found


@dataclass
class Grant:
    """A claim that was answered with a lane."""

    said: Message
    life: Life
    until: int
    """The latest end of its lease that its owner heard of."""
    released: bool = False
    """Its owner began to release it."""

    @property
    def granted_at(self) -> int:
        """When it was granted, on the store's clock."""
        return int(self.said["expires"]) - int(self.said["lease"])


class Story:
    """What all processes said, by what it is about."""

    def __init__(self, lives: Iterable[Life]) -> None:
        self.begun: dict[str, list[Message]] = defaultdict(list)
        self.done: dict[str, list[Message]] = defaultdict(list)
        self.refused: dict[str, list[Message]] = defaultdict(list)
        self.lost: dict[str, list[Message]] = defaultdict(list)
        """What was begun, and its answer lost with the server: it was done or not."""
        self.grants: dict[str, list[Grant]] = defaultdict(list)
        """Those of each lane by epoch, without repeated answers."""
        self.repeated: list[Message] = []
        self._current: dict[str, Grant] = {}
        self._unheard: set[str] = set()
        """Attempts that may have been granted what nobody heard of; the next answer tells."""
        for life in lives:
            for message in life.said:
                self._take(life, message)
        for grants in self.grants.values():
            grants.sort(key=lambda grant: int(grant.said["epoch"]))
        self.epochs_of: dict[str, set[int]] = defaultdict(set)
        """The epochs that each attempt was granted."""
        for grant in self.all_grants():
            self.epochs_of[grant.said["attempt"]].add(grant.said["epoch"])
        self.owners = {
            (said["submission"], said["attempt"])
            for said in self.begun["publish"]
            if said["authority"] == "owned"
        }
        """Submissions with attempts that began to settle them as their owners."""

    def all_grants(self) -> Iterator[Grant]:
        """Return the grants of all lanes."""
        for grants in self.grants.values():
            yield from grants

    def lost_batches(self, operation: str) -> set[tuple[str, str, str]]:
        """Return the batches of appends or publications whose answer was lost."""
        return {batch_of(operation, said) for said in self.lost[operation]}

    def _take(self, life: Life, message: Message) -> None:
        if "begins" in message:
            self.begun[message["begins"]].append(message)
            if message["begins"] == "release" and message["attempt"] in self._current:
                self._current[message["attempt"]].released = True
        elif "refused" in message:
            self.refused[message["refused"]].append(message)
        elif "lost" in message:
            self.lost[message["lost"]].append(message)
            if message["lost"] == "claim":
                self._unheard.add(message["attempt"])
        elif "done" in message:
            self.done[message["done"]].append(message)
            if message["done"] == "claim" and "epoch" in message:
                self._take_grant(life, message)
            elif message["done"] == "renew" and message["attempt"] in self._current:
                grant = self._current[message["attempt"]]
                grant.until = max(grant.until, message["expires"])

    def _take_grant(self, life: Life, message: Message) -> None:
        attempt = message["attempt"]
        heard = self._current.get(attempt)
        repeats = attempt not in self._unheard or (
            heard is not None and heard.said["epoch"] == message["epoch"]
        )
        if message["replayed"] and repeats:
            self.repeated.append(message)
            return
        self._unheard.discard(attempt)
        grant = Grant(message, life, message["expires"])
        self.grants[message["lane"]].append(grant)
        self._current[attempt] = grant


def batch_of(operation: str, said: Message) -> tuple[str, str, str]:
    """Return the lane, the name and the producer of the batch that an operation writes."""
    settlement = operation == "publish"
    name = f"submission-settlement:{said['submission']}" if settlement else said["batch"]
    return said["lane"], name, said["attempt"]


def read_store(query: Query) -> Store:
    """Read a store after its log was found whole."""
    batches = check_log(query)
    rows = query(
        "SELECT thread_id, queue_sequence, submission_id, receipt_id, idempotency_key, state,"
        " input_sequence, settlement_id, outcome, settled_at, abort_at"
        " FROM yielded_submissions ORDER BY thread_id, queue_sequence"
    )
    lanes = query("SELECT thread_id, epoch FROM yielded_threads")
    records = query(
        "SELECT thread_id, sequence, record_id, wire, batch_id, producer_id, epoch"
        " FROM yielded_records JOIN yielded_batches AS batch USING (thread_id, generation)"
        " WHERE sequence BETWEEN first_sequence AND batch.last_sequence"
        " ORDER BY thread_id, sequence"
    )
    entries: dict[str, list[Entry]] = defaultdict(list)
    for lane, sequence, name, wire, *batch in records:
        entries[lane].append(Entry(sequence, name, json.loads(wire)["payload"], *batch))
    epochs = {str(lane): int(epoch) for lane, epoch in lanes}
    return Store(batches, {row[2]: Row(*row) for row in rows}, epochs, entries)
