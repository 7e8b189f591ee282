"""One run as the cases write it: its facts, and continuations whose counters are counted here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from yielded_core.records.identifiers import RecordId, RunId, SubmissionId, ToolCallId
from yielded_core.records.payloads import (
    Accounting,
    EvidenceReference,
    ModelCompleted,
    ModelResponseRecorded,
    RunContinuation,
    SubmissionSettled,
)
from yielded_testing.sample_parts import Subject, sample_accounting
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import canonical, record, record_bytes, record_digest

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record
    from yielded_core.records.payloads import Payload
    from yielded_core.records.prompt import Prompt

TERMINAL: Final = ("ModelCompleted", "RunCompleted", "RunFailed", "SubmissionSettled")
"""The families whose facts are counted apart from a run's evidence (LOG-14)."""


def reference(given: Record) -> EvidenceReference:
    """Return a reference to a record (REC-7)."""
    return EvidenceReference(record_id=given.record_id, digest=record_digest(given))


@dataclass
class RunScript:
    """Writes the facts of one run, each to be appended in order, and counts them (LOG-16)."""

    name: str = "1"
    """Names submission, run and records, so that scripts do not collide in a thread."""
    turn: int = 0
    turn_bytes: int = 0
    record_count: int = 0
    record_bytes: int = 0
    terminal_records: int = 0
    terminal_bytes: int = 0
    terminal_usage_bytes: int = 0
    revision: int = 0
    references: dict[str, EvidenceReference] = field(default_factory=dict[str, EvidenceReference])
    accounting: Accounting = field(default_factory=sample_accounting)
    written: int = 0

    @property
    def submission(self) -> SubmissionId:
        """The submission that the run works on."""
        return SubmissionId(f"submission-{self.name}")

    @property
    def run(self) -> RunId:
        """The run of that submission."""
        return RunId(f"run:{self.submission}")

    @property
    def evidence(self) -> int:
        """Facts of the run that an index lists: every one, terminal ones included."""
        return self.record_count + self.terminal_records

    def payload(self, tag: str, *, call: str = "call-1", text: str = "hello") -> Payload:
        """Return a payload of this run that is not counted."""
        subject = Subject(self.submission, self.run, max(self.turn, 1), ToolCallId(call), text)
        return sample_payload(tag, subject)

    def fact(
        self, tag: str, *, call: str = "call-1", text: str = "hello", **changes: object
    ) -> Record:
        """Return the next fact and count it."""
        payload = self.payload(tag, call=call, text=text)
        return self.count(self._named(payload.model_copy(update=changes)))

    def count(self, given: Record) -> Record:
        """Count a record as the next fact of the run."""
        size = len(record_bytes(given))
        payload = given.payload
        named = self.references["last_fact"] = reference(given)
        if payload.tag in TERMINAL:
            self.terminal_records += 1
            self.terminal_bytes += size
            self.references["terminal"] = named
            if isinstance(payload, SubmissionSettled) and payload.usage_summary is not None:
                self.terminal_usage_bytes += len(canonical(payload.usage_summary))
            return given
        self.record_count += 1
        self.record_bytes += size
        self.turn_bytes += size
        if isinstance(payload, ModelResponseRecorded):
            if payload.turn > self.turn:
                self.turn, self.turn_bytes = payload.turn, size
            self.references["latest_response"] = named
        if payload.tag == "RunContextRecorded":
            self.references["saved_context"] = named
        if payload.tag == "UserInputRecorded":
            self.references.setdefault("original_input", named)
        return given

    def response(self, turn: int, *, call: str = "call-1", text: str = "hello") -> Record:
        """Return the model's answer of a turn, which declares one tool call."""
        subject = Subject(self.submission, self.run, turn, ToolCallId(call), text)
        return self.count(self._named(sample_payload("ModelResponseRecorded", subject)))

    def begin(self) -> tuple[Record, Record]:
        """Return the first two facts: the input and the start."""
        return self.fact("UserInputRecorded"), self.fact("RunStarted")

    def usage(self) -> Record:
        """Return a small fact."""
        return self.fact("RunPolicyUsageReserved")

    def sized(self, size: int) -> Record:
        """Return a fact whose record is exactly so many bytes long, at most about 1 MiB."""
        probe = self._named(self.payload("ToolCallSettled", text=""))
        self.written -= 1
        return self.fact("ToolCallSettled", text="x" * (size - len(record_bytes(probe))))

    def sized_terminal(self, size: int) -> Record:
        """Return a terminal fact whose record is exactly so many bytes long, at most 3 MiB."""

        def payload(text: int, messages: int, history: int) -> Payload:
            said: list[Prompt] = [
                {"content": [{"role": "system", "content": "x" * length}]}
                for length in (messages, history)
            ]
            return ModelCompleted(
                run_id=self.run, output="x" * text, messages=said[0], history=said[1]
            )

        probe = self._named(payload(0, 0, 0))
        self.written -= 1
        third, rest = divmod(size - len(record_bytes(probe)), 3)
        return self.count(self._named(payload(third + rest, third, third)))

    def continuation(self, **changes: object) -> Record:
        """Return the next continuation; `changes` make it wrong."""
        self.revision += 1
        values = {
            "version": 1,
            "run_id": self.run,
            "submission_id": self.submission,
            "revision": self.revision,
            "record_count": self.record_count,
            "record_bytes": self.record_bytes,
            "turn": self.turn,
            "turn_bytes": self.turn_bytes,
            "terminal_bytes": self.terminal_bytes,
            "terminal_records": self.terminal_records,
            "terminal_usage_bytes": self.terminal_usage_bytes,
            "position": "awaiting-model",
            "accounting": self.accounting,
            **self.references,
        }
        return self._named(RunContinuation(**cast("Any", {**values, **changes})))

    def _named(self, payload: Payload) -> Record:
        self.written += 1
        return record(RecordId(f"{self.name}/{self.written}"), payload)
