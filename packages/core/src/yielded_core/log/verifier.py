"""Verifying a log while it streams by, in bounded memory (ARC-3, CRT-6).

The verifier takes whole batches as stored and says which invariants hold. Every byte of a stored
batch is covered by the chain, by the content digest, by the seal of its epoch, by the sequences or
by the record itself.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from yielded_core.digest import (
    EMPTY_TAIL_DIGEST,
    batch_content,
    chain_digest,
    content_digest,
    epoch_seal,
)
from yielded_core.errors import (
    InvalidBatch,
    InvalidInput,
    InvalidRecord,
    ProgressRefused,
    UnsupportedRecord,
)
from yielded_core.log.facts import facts_of
from yielded_core.log.identities import LAST_PLACE, IdentitySet
from yielded_core.log.placement import check_company
from yielded_core.log.replay import ChildReplay, RunReplay
from yielded_core.log.states import HeldStates
from yielded_core.ports.values import Finding, PreparedBatch, Tail
from yielded_core.records.bounds import BATCH_BYTES, BATCH_RECORDS, IDENTIFIER_UNITS
from yielded_core.records.envelope import encoded_from_wire
from yielded_core.records.identifiers import identifier_fault
from yielded_core.records.payloads import (
    RunCompleted,
    RunContextRecorded,
    RunFailed,
    SubmissionSettled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from yielded_core.log.progress import RunProgress
    from yielded_core.log.states import States
    from yielded_core.ports.values import StoredBatch, ThreadTail
    from yielded_core.records.envelope import EncodedRecord
    from yielded_core.records.identifiers import ThreadId, ToolCallId
    from yielded_core.records.payloads import Payload

SCHEMA: Final = "schema-round-trip"
IDENTITY: Final = "record-identity"
SEQUENCE: Final = "sequence-contiguity"
CHAIN: Final = "digest-chain"
CONTINUATION: Final = "continuation-evidence"
TERMINAL: Final = "terminal-uniqueness"

_CHECKED: Final = (SCHEMA, IDENTITY, SEQUENCE, CHAIN, CONTINUATION, TERMINAL)
_TELLING: Final = frozenset((SubmissionSettled, RunCompleted, RunFailed, RunContextRecorded))
"""Families of which only the whole log can say whether what they state is true."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")


class Fault(NamedTuple):
    """Where an invariant first fails, and why."""

    invariant: str
    sequence: int
    detail: str
    dependency: bool
    """Whether what is missing is a record that another one names."""


@dataclass(frozen=True, slots=True)
class ReplayStates:
    """Where a verifier keeps what it must remember of runs, handoffs and children."""

    runs: States[RunProgress] = field(default_factory=HeldStates["RunProgress"])
    handoffs: States[int] = field(default_factory=HeldStates[int])
    children: States[tuple[ToolCallId, ...]] = field(
        default_factory=HeldStates["tuple[ToolCallId, ...]"]
    )


class LogVerifier:
    """Takes the batches of one thread in order; a context manager, for its temporary files.

    It never raises for what a batch holds: each invariant keeps the first place where it fails,
    and after a break the chain goes on from the digest that is stored.
    """

    def __init__(self, thread: ThreadId, states: ReplayStates | None = None) -> None:
        kept = ReplayStates() if states is None else states
        self.records = 0
        self.batches = 0
        self.wire_bytes = 0
        self._tail = Tail(0, EMPTY_TAIL_DIGEST)
        self._epoch = 1
        self._faults: dict[str, Fault] = {}
        self._replaying = True
        self._runs = RunReplay(thread, kept.runs, kept.handoffs)
        self._children = ChildReplay(kept.children)
        self._resources = ExitStack()
        self._identities = self._resources.enter_context(IdentitySet())
        self._ends = self._resources.enter_context(IdentitySet())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    @property
    def fault(self) -> Fault | None:
        """The first fault that was found, in the order of finding."""
        return next(iter(self._faults.values()), None)

    def feed(self, batch: StoredBatch) -> PreparedBatch | None:
        """Take the next batch; return it decoded, or None where a part of it is unreadable."""
        self.batches += 1
        self.records += len(batch.records)
        self._check_sequences(batch)
        content = self._check_chain(batch)
        records = self._decode(batch)
        self._identities.add(f"batch {batch.batch_id}", _place(batch.first_sequence))
        if content is None or len(records) != len(batch.records):
            self._replaying = False
            return None
        try:
            check_company(batch.batch_id, records)
        except InvalidBatch as error:
            self._fail(SCHEMA, batch.first_sequence, error.reason)
        self._replay(batch.first_sequence, records)
        return PreparedBatch(
            batch.batch_id, batch.producer_id, tuple(records), content, batch.content_digest
        )

    def unreadable(self, detail: str) -> None:
        """Note that the store could not give the next batch."""
        self._fail(SEQUENCE, self._tail.sequence + 1, detail)

    def finish(self, tail: ThreadTail) -> tuple[Finding, ...]:
        """Compare with the tail where the log should end, and say what was found."""
        if self._tail.sequence != tail.sequence:
            detail = f"the batches end at {self._tail.sequence} of {tail.sequence}"
            self._fail(SEQUENCE, self._tail.sequence + 1, detail)
        elif self._tail.digest != tail.digest:
            self._fail(CHAIN, tail.sequence, "the last batch does not make the thread's tail")
        if self._epoch > tail.epoch:
            detail = f"epoch {self._epoch} is above the thread's, {tail.epoch}"
            self._fail(SEQUENCE, self._tail.sequence, detail)
        identities, ends = self._identities.faults(), self._ends.faults()
        if identities.repeated is not None:
            self._fail(IDENTITY, identities.repeated, "an identity stands here a second time")
        if identities.missing is not None:
            detail = "a run retains a record that is not here"
            self._fail(CONTINUATION, identities.missing, detail, dependency=True)
        if ends.repeated is not None:
            self._fail(TERMINAL, ends.repeated, "a run or a submission ends here a second time")
        return tuple(self._finding(name) for name in _CHECKED)

    def obligation(self) -> str | None:
        """Say what the thread still owes to another one or awaits from it, or None (ARC-4)."""
        handoff, run = self._runs.open_handoff(), self._children.open_child()
        if handoff is not None:
            return f"the handoff {handoff} is open: another thread has to acknowledge it"
        if run is not None:
            return f"run {run} waits for a child, which is another thread"
        return None

    def _finding(self, name: str) -> Finding:
        fault = self._faults.get(name)
        if fault is not None:
            return Finding(name, "failed", f"sequence {fault.sequence}: {fault.detail}")
        if not self._replaying and name == CONTINUATION:
            return Finding(name, "skipped", "what a faulty record says of its run is unknown")
        return Finding(name, "passed", f"{self.records} records in {self.batches} batches")

    def _fail(
        self,
        invariant: str,
        sequence: int,
        detail: str,
        *,
        dependency: bool = False,
    ) -> None:
        known = self._faults.get(invariant)
        if known is None or sequence < known.sequence:
            self._faults[invariant] = Fault(invariant, sequence, detail, dependency)

    def _check_sequences(self, batch: StoredBatch) -> None:
        expected = self._tail.sequence + 1
        spans = batch.last_sequence - batch.first_sequence + 1
        detail: str | None = None
        if batch.first_sequence != expected:
            detail = f"the batch begins at {batch.first_sequence}"
        elif spans != len(batch.records) or not 1 <= spans <= BATCH_RECORDS:
            detail = f"the batch spans {spans} sequences and holds {len(batch.records)} records"
        elif batch.epoch < self._epoch:
            detail = f"epoch {batch.epoch} follows {self._epoch}"
        if detail is not None:
            self._fail(SEQUENCE, expected, detail)
        self._epoch = max(self._epoch, batch.epoch)

    def _check_chain(self, batch: StoredBatch) -> bytes | None:
        """Recompute both digests; return the content, or None where it cannot be made.

        The chain goes on from the digest that is stored, if it is one.
        """
        size = sum(len(wire) for _, wire in batch.records)
        self.wire_bytes += size
        fault: str | None = None
        for identifier in (batch.batch_id, batch.producer_id):
            fault = fault or identifier_fault(identifier, IDENTIFIER_UNITS)
        if fault is not None:
            detail = f"the id of the batch or its producer is refused: {fault}"
            self._fail(CHAIN, batch.first_sequence, detail)
            self._tail = Tail(batch.last_sequence, self._tail.digest)
            return None
        if size > BATCH_BYTES:
            detail = f"the batch is longer than {BATCH_BYTES} bytes"
            self._fail(SCHEMA, batch.first_sequence, detail)
        wires = [wire for _, wire in batch.records]
        content = batch_content(batch.batch_id, batch.producer_id, wires)
        own_digest = content_digest(content)
        if own_digest != batch.content_digest:
            detail = "the content digest is not that of the batch"
            self._fail(CHAIN, batch.first_sequence, detail)
        digest = chain_digest(self._tail.digest, content)
        if batch.tail_digest != digest:
            detail = "the tail digest does not follow from the batch and the tail before it"
            self._fail(CHAIN, batch.first_sequence, detail)
            digest = batch.tail_digest if _DIGEST.fullmatch(batch.tail_digest) else digest
        if epoch_seal(batch.epoch, own_digest, digest) != batch.epoch_seal:
            detail = "the epoch is not the one under which the batch was committed"
            self._fail(CHAIN, batch.first_sequence, detail)
        self._tail = Tail(batch.last_sequence, digest)
        return content

    def _decode(self, batch: StoredBatch) -> list[EncodedRecord]:
        """Return the records that are what they should be."""
        records: list[EncodedRecord] = []
        for sequence, (record_id, wire) in enumerate(batch.records, batch.first_sequence):
            self._identities.add(f"record {record_id}", _place(sequence))
            try:
                encoded = encoded_from_wire(wire)
            except InvalidInput as error:
                self._fail(SCHEMA, sequence, _rule(error))
                continue
            if encoded.record.record_id != record_id:
                self._fail(SCHEMA, sequence, "the record is kept under another id than its own")
            if type(encoded.record.payload) in _TELLING:
                self._collect(sequence, encoded.record.payload)
            records.append(encoded)
        return records

    def _collect(self, sequence: int, payload: Payload) -> None:
        if isinstance(payload, SubmissionSettled):
            self._ends.add(f"submission {payload.submission_id}", _place(sequence))
        elif isinstance(payload, (RunCompleted, RunFailed)):
            self._ends.add(f"run {payload.run_id}", _place(sequence))
        elif isinstance(payload, RunContextRecorded):
            for kept in payload.retained:
                self._identities.name(f"record {kept.record_id}", kept.sequence)
            if payload.retained and payload.retained[-1].sequence >= sequence:
                detail = "a run retains a record that comes later"
                self._fail(CONTINUATION, sequence, detail, dependency=True)

    def _replay(self, first: int, records: Sequence[EncodedRecord]) -> None:
        self._children.apply(records)
        if not self._replaying:
            return
        facts = [facts_of(sequence, encoded) for sequence, encoded in enumerate(records, first)]
        try:
            self._runs.apply(facts)
        except ProgressRefused as error:
            self._replaying = False
            detail = f"run {error.run}: {error.reason}: {error.detail}"
            self._fail(CONTINUATION, first, detail)


def _place(sequence: int) -> int:
    """Return a stored sequence, however wrong, as a place that an identity set takes."""
    return min(max(sequence, 0), LAST_PLACE)


def _rule(error: InvalidInput) -> str:
    """Say what is wrong with a record, without its content."""
    if isinstance(error, InvalidRecord):
        return f"{error.field}: {error.rule}"
    if isinstance(error, UnsupportedRecord):
        return f"it has {error.what}, which this version does not know"
    return "it is not the canonical form of its own parse"
