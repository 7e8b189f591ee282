"""What a transcript becomes: records of a thread, in appends of one exchange each.

Two processes that are given the same order make the same batches, byte for byte, so that either
may send any of them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import orjson

from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Batch
from yielded_core.records import identifiers as ids
from yielded_core.records.canonical import json_digest
from yielded_core.records.envelope import Record
from yielded_core.records.payloads import (
    Definitions,
    ModelCompleted,
    ThreadCreated,
    UserInputRecorded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.cli.demo.transcript import Message
    from yielded_core.ports.values import PreparedBatch
    from yielded_core.records.payloads import Payload

_AGENT: Final = ids.AgentId("demo-assistant")
_DEPLOYMENT: Final = ids.DeploymentId("yielded-demo")
_PRODUCER: Final = ids.ProducerId("yielded-demo")
_MESSAGES_AN_APPEND: Final = 8
"""So many of the longest possible messages stay below the bound of a batch."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a writer is told to do."""

    thread: ids.ThreadId
    epoch: int
    started: datetime
    """When the first record was made; each next one is a millisecond later."""

    def encode(self) -> bytes:
        """Return it as one line of JSON."""
        started = self.started.isoformat()
        return orjson.dumps({"thread": self.thread, "epoch": self.epoch, "started": started})

    @staticmethod
    def decode(line: bytes) -> Order:
        """Read what `encode` wrote."""
        values = orjson.loads(line)
        started = datetime.fromisoformat(values["started"])
        return Order(ids.ThreadId(values["thread"]), values["epoch"], started)


@dataclass(frozen=True, slots=True)
class Plan:
    """The appends that make the thread of a transcript."""

    appends: tuple[PreparedBatch, ...]
    ends: tuple[int, ...]
    """Sequence of the last record of each append."""

    @property
    def records(self) -> tuple[ids.RecordId, ...]:
        """The ids of all records in order."""
        return tuple(
            encoded.record.record_id for append in self.appends for encoded in append.records
        )

    def committed(self, sequence: int) -> int | None:
        """Return how many appends a log with this tail holds; None if one of them is partial."""
        if sequence == 0:
            return 0
        return self.ends.index(sequence) + 1 if sequence in self.ends else None


def make_plan(messages: Sequence[Message], started: datetime) -> Plan:
    """Turn a transcript into appends.

    What a person says is a UserInputRecorded and begins a run, what the assistant says is the
    ModelCompleted of that run; instructions of the system steer, and belong to no run.
    """
    created = ThreadCreated(agent_id=_AGENT, definitions=_definitions())
    payloads: list[Payload] = [created, *_payloads(messages)]
    records = [
        Record(
            record_id=ids.RecordId(f"message-{number}" if number else "thread-created"),
            created_at=started + timedelta(milliseconds=number),
            deployment_id=_DEPLOYMENT,
            payload=payload,
        )
        for number, payload in enumerate(payloads)
    ]
    appends: list[PreparedBatch] = []
    first = 0
    for size in _sizes(messages):
        last = first + size + (not appends)  # the record of the creation comes with the first one
        batch = Batch(
            ids.BatchId(f"exchange-{len(appends) + 1}"), _PRODUCER, tuple(records[first:last])
        )
        appends.append(prepare_batch(batch))
        first = last
    ends = tuple(accumulate(len(append.records) for append in appends))
    return Plan(tuple(appends), ends)


def _sizes(messages: Sequence[Message]) -> list[int]:
    """Return how many messages each append holds: what is said, and what is answered."""
    sizes: list[int] = []
    said = False
    for message in messages:
        begins = said and message.role != "assistant"
        if begins or not sizes or sizes[-1] == _MESSAGES_AN_APPEND:
            sizes.append(0)
            said = False
        sizes[-1] += 1
        said = said or message.role != "system"
    return sizes


def _payloads(messages: Sequence[Message]) -> list[Payload]:
    payloads: list[Payload] = []
    runs = 0
    waiting = False
    for message in messages:
        if message.role == "system":
            payloads.append(UserInputRecorded(kind="steering", input=message.value))
            continue
        asked = message.role == "user"
        runs += asked or not waiting
        waiting = asked
        run = ids.RunId(f"run-{runs}")
        if asked:
            payloads.append(UserInputRecorded(kind="user", run_id=run, input=message.value))
        else:
            payloads.append(ModelCompleted(run_id=run, output=message.value))
    return payloads


def _definitions() -> Definitions:
    return Definitions(
        agent=json_digest({"agent": _AGENT}),
        model=json_digest({"model": "as transcribed"}),
        tools=json_digest([]),
    )
