"""What processes said about a ledger, and what its file holds, as `ledger_checker.py` compares it.

The store is read by sqlite3 and json; that its log is whole is shown by `log_checker.py`.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from log_checker import StoredBatch, check_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Message: TypeAlias = dict[str, Any]


@dataclass
class Life:
    """What one process said from its start to its end."""

    name: str
    said: list[Message] = field(default_factory=list[Message])
    killed_at: int | None = None
    """Milliseconds since the boot at which it was certainly dead, if it was killed."""


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
    """What a file holds."""

    batches: dict[str, dict[str, StoredBatch]]
    rows: dict[str, Row]
    """By submission."""
    lanes: dict[str, int]
    """The epoch of each."""
    entries: dict[str, list[Entry]]
    """The log of each lane."""
    clock: tuple[int, int]
    """An instant of the clock since the boot, and the same one of the store's clock."""

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
        self.grants: dict[str, list[Grant]] = defaultdict(list)
        """Those of each lane by epoch, without repeated answers."""
        self.repeated: list[Message] = []
        self._current: dict[str, Grant] = {}
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

    def _take(self, life: Life, message: Message) -> None:
        if "begins" in message:
            self.begun[message["begins"]].append(message)
            if message["begins"] == "release" and message["attempt"] in self._current:
                self._current[message["attempt"]].released = True
        elif "refused" in message:
            self.refused[message["refused"]].append(message)
        elif "done" in message:
            self.done[message["done"]].append(message)
            if message["done"] == "claim" and "epoch" in message:
                self._take_grant(life, message)
            elif message["done"] == "renew" and message["attempt"] in self._current:
                grant = self._current[message["attempt"]]
                grant.until = max(grant.until, message["expires"])

    def _take_grant(self, life: Life, message: Message) -> None:
        if message["replayed"]:
            self.repeated.append(message)
            return
        grant = Grant(message, life, message["expires"])
        self.grants[message["lane"]].append(grant)
        self._current[message["attempt"]] = grant


def read_store(path: Path) -> Store:
    """Read a store after its log was found whole."""
    batches = check_store(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        rows = connection.execute(
            "SELECT thread_id, queue_sequence, submission_id, receipt_id, idempotency_key, state,"
            " input_sequence, settlement_id, outcome, settled_at, abort_at"
            " FROM yielded_submissions ORDER BY thread_id, queue_sequence"
        )
        lanes = connection.execute("SELECT thread_id, epoch FROM yielded_threads")
        records = connection.execute(
            "SELECT thread_id, sequence, record_id, wire, batch_id, producer_id, epoch"
            " FROM yielded_records JOIN yielded_batches AS batch USING (thread_id, generation)"
            " WHERE sequence BETWEEN first_sequence AND batch.last_sequence"
            " ORDER BY thread_id, sequence"
        )
        entries: dict[str, list[Entry]] = defaultdict(list)
        for lane, sequence, name, wire, *batch in records:
            entries[lane].append(Entry(sequence, name, json.loads(wire)["payload"], *batch))
        return Store(
            batches,
            {row[2]: Row(*row) for row in rows},
            dict(lanes.fetchall()),
            entries,
            connection.execute("SELECT boot_clock, instant FROM yielded_clock").fetchone(),
        )
