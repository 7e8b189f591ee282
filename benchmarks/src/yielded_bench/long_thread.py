"""A thread of any length, as agents write it: ten interleaved runs of ten record families.

Each batch holds the next turns of ten runs and, behind them, a continuation of each run. A run ends
after some batches, and the next one takes its place, so that no bound of LOG-14 is ever reached.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yielded_bench.records import PRODUCER, record
from yielded_core.digest import batch_content, content_digest
from yielded_core.log.facts import facts_of
from yielded_core.log.progress import RunProgress, advance_runs
from yielded_core.ports.values import PreparedBatch
from yielded_core.records import payloads as p
from yielded_core.records.canonical import sha256_hex
from yielded_core.records.envelope import encode_record
from yielded_core.records.identifiers import (
    BatchId,
    Digest,
    ReceiptId,
    RecordId,
    RunId,
    SubmissionId,
    ThreadId,
    ToolCallId,
    TurnId,
    run_id,
    settlement_id,
)

if TYPE_CHECKING:
    from yielded_core.log.progress import FactReference
    from yielded_core.ports.values import Tail
    from yielded_core.records.envelope import EncodedRecord
    from yielded_core.records.prompt import AssistantMessage, TextPart, ToolCallPart
    from yielded_core.storage import Storage

RUNS: Final = 10
"""Runs that are written at the same time."""
FACTS: Final = 24
"""Facts of each run in one batch."""
BATCH_RECORDS: Final = RUNS * (FACTS + 1)
"""Records in one batch: the facts of every run, and its continuation."""
_RUN_BATCHES: Final = 40
"""Batches that a run spans: 960 facts, a megabyte."""
_TURN_FACTS: Final = 3
_ANSWER: Final = "x" * 150
_RESULT: Final = "x" * 760
_DIGEST: Final = sha256_hex(b"a definition of the benchmark")


@dataclass
class _Run:
    """One run on its way: what it has written, and what it writes next."""

    submission: SubmissionId
    batches: int
    """Batches that are left, this one included."""
    turn: int = 0
    written: int = 0
    progress: RunProgress = field(default_factory=RunProgress)

    @property
    def run(self) -> RunId:
        return run_id(self.submission)

    @property
    def newest_call(self) -> ToolCallId:
        return _call_id(self.turn, 0)

    def facts(self, through: int) -> list[EncodedRecord]:
        """Return the facts of the next batch; `through` is the thread's tail before it."""
        opening = [] if self.written else self._opening(through)
        closing = self._closing() if self.batches == 1 else []
        made = [*opening]
        if not opening and not closing and self.batches % 4 == 0:
            made += [self._compaction(through), *self._turn(1)]
        while len(made) + len(closing) < FACTS:
            made += self._turn(_TURN_FACTS - 1)
        encoded = [encode_record(record(self._name(), payload)) for payload in (*made, *closing)]
        assert len(encoded) == FACTS, "a batch has as many facts of each run"
        self.batches -= 1
        return encoded

    def continuation(self, last: EncodedRecord, progress: RunProgress) -> EncodedRecord:
        """Return the continuation after the facts that led to this progress."""
        original = progress.original_input
        assert original is not None, "a run begins with its input"
        payload = p.RunContinuation(
            version=1,
            run_id=self.run,
            submission_id=self.submission,
            revision=progress.revision + 1,
            record_count=progress.record_count,
            record_bytes=progress.record_bytes,
            turn=progress.turn,
            turn_bytes=progress.turn_bytes,
            terminal_bytes=progress.terminal_bytes,
            terminal_records=progress.terminal_records,
            terminal_usage_bytes=progress.terminal_usage_bytes,
            original_input=_evidence(original),
            saved_context=_perhaps(progress.saved_context),
            latest_response=_perhaps(progress.latest_response),
            terminal=_perhaps(progress.terminal),
            last_fact=p.EvidenceReference(record_id=last.record.record_id, digest=last.digest),
            position="processing-operations" if self.batches else "settled",
            accounting=self._accounting(),
        )
        return encode_record(record(self._name(), payload))

    def _name(self) -> str:
        self.written += 1
        return f"{self.submission}:{self.written:05d}"

    def _opening(self, through: int) -> list[p.Payload]:
        return [
            p.UserInputRecorded(
                submission_id=self.submission,
                kind="user",
                run_id=self.run,
                input={"text": _RESULT},
            ),
            p.RunStarted(run_id=self.run, policy_accounting_version=1, max_duration_millis=600_000),
            p.RunContextRecorded(
                version=1,
                run_id=self.run,
                run_scoped_input={"text": _RESULT},
                history_from=1,
                history_through=through,
                retained=(),
                history_digest=_DIGEST,
                prior_history_length=through,
            ),
        ]

    def _turn(self, results: int) -> list[p.Payload]:
        self.turn += 1
        calls = [_call_id(self.turn, number) for number in range(results)]
        response = p.ModelResponseRecorded(
            run_id=self.run,
            turn_id=TurnId(f"turn-{self.turn}"),
            turn=self.turn,
            messages={"content": [_message(calls)]},
            messages_digest=_DIGEST,
            tool_result_max_bytes=65_536,
            tool_selection_max_bytes=1_024,
            tool_operations=tuple(map(_operation, calls)),
        )
        return [response, *(self._result(call) for call in calls)]

    def _result(self, call: ToolCallId) -> p.ToolCallSettled:
        return p.ToolCallSettled(
            run_id=self.run,
            tool_call_id=call,
            tool_name="look-up",
            result={"text": _RESULT},
            is_failure=False,
        )

    def _compaction(self, through: int) -> p.CompactionCreated:
        return p.CompactionCreated(
            run_id=self.run,
            turn=self.turn,
            kind="summarize",
            covers_through=through,
            summary=_RESULT,
        )

    def _closing(self) -> list[p.Payload]:
        return [
            p.ModelCompleted(run_id=self.run, output={"text": _RESULT}),
            p.RunCompleted(run_id=self.run, output={"text": _RESULT}),
            p.SubmissionSettled(
                submission_id=self.submission,
                settlement_id=settlement_id(self.submission),
                receipt_id=ReceiptId(f"receipt:{self.submission}"),
                outcome="completed",
                run_id=self.run,
                result={"text": _RESULT},
            ),
        ]

    def _accounting(self) -> p.Accounting:
        return p.Accounting(
            programmatic_tool_calls=0,
            model_restarts=0,
            model_calls=self.turn,
            unobserved_model_calls=0,
            input_tokens=100 * self.turn,
            output_tokens=10 * self.turn,
            last_input_tokens=100,
            last_output_tokens=10,
            cost_microusd=self.turn,
            accounted_tool_turn=self.turn,
            finalization_used=False,
        )


@dataclass
class LongThread:
    """Writes a thread through `append`, and knows what can be asked of it."""

    thread: ThreadId
    tail: Tail
    record_ids: list[RecordId] = field(default_factory=list[RecordId])
    """Some record of each batch."""
    families: Counter[str] = field(default_factory=Counter[str])
    """How many records of each family were written."""
    calls: dict[RunId, ToolCallId] = field(default_factory=dict[RunId, ToolCallId])
    """The runs of the newest batch, each with its newest tool call."""
    _runs: list[_Run] = field(default_factory=list[_Run])
    _begun: int = 0
    _batches: int = 0

    @staticmethod
    async def begin(storage: Storage, name: str) -> LongThread:
        """Materialize the thread."""
        thread = ThreadId(name)
        found = await storage.threads.materialize(thread, epoch=1)
        long = LongThread(thread, found.tail)
        for place in range(RUNS):  # the first runs are of different lengths, so their ends spread
            long._runs.append(long._new_run(1 + (place + 1) * _RUN_BATCHES // RUNS))
        return long

    async def grow(self, storage: Storage, records: int) -> None:
        """Append whole batches until the thread has this many records, a multiple of 250."""
        while self.tail.sequence < records:
            batch = self.next_batch()
            done = await storage.threads.append(self.thread, batch, expected=self.tail, epoch=1)
            self.tail = done.tail
        assert self.tail.sequence == records, f"{records} is no multiple of {BATCH_RECORDS}"

    def next_batch(self) -> PreparedBatch:
        """Return the next batch, prepared."""
        through = self.tail.sequence
        parts = [run.facts(through) for run in self._runs]
        facts = [encoded for turn in zip(*parts, strict=True) for encoded in turn]
        before = {run.run: run.progress for run in self._runs}
        progress = advance_runs(
            self.thread, [facts_of(at, each) for at, each in enumerate(facts, through + 1)], before
        )
        continuations = [
            run.continuation(part[-1], progress[run.run])
            for run, part in zip(self._runs, parts, strict=True)
        ]
        records = (*facts, *continuations)
        after = advance_runs(
            self.thread, [facts_of(at, each) for at, each in enumerate(records, 1)], before
        )
        for run in self._runs:
            run.progress = after[run.run]
        self.record_ids.append(facts[self._batches % len(facts)].record.record_id)
        self.families.update(encoded.record.payload.tag for encoded in records)
        self.calls = {run.run: run.newest_call for run in self._runs}
        self._runs = [run if run.batches else self._new_run(_RUN_BATCHES) for run in self._runs]
        return self._prepared(records)

    def _prepared(self, records: tuple[EncodedRecord, ...]) -> PreparedBatch:
        self._batches += 1
        batch = BatchId(f"batch-{self._batches:07d}")
        content = batch_content(batch, PRODUCER, [encoded.wire for encoded in records])
        return PreparedBatch(batch, PRODUCER, records, content, content_digest(content))

    def _new_run(self, batches: int) -> _Run:
        self._begun += 1
        return _Run(SubmissionId(f"submission-{self._begun:06d}"), batches)


def _call_id(turn: int, number: int) -> ToolCallId:
    return ToolCallId(f"call-{turn}-{number}")


def _message(calls: list[ToolCallId]) -> AssistantMessage:
    return {"role": "assistant", "content": [_text(), *map(_call, calls)]}


def _text() -> TextPart:
    return {"type": "text", "text": _ANSWER}


def _call(call: ToolCallId) -> ToolCallPart:
    return {
        "type": "tool-call",
        "id": call,
        "name": "look-up",
        "params": {"key": "thread"},
        "providerExecuted": False,
    }


def _operation(call: ToolCallId) -> p.Operation:
    return p.Operation(
        tool_call_id=call,
        tool_name="look-up",
        execution_class="readonly",
        execution_kind="ordinary",
        replay=_DIGEST,
    )


def _evidence(fact: FactReference) -> p.EvidenceReference:
    return p.EvidenceReference(record_id=RecordId(fact.record_id), digest=Digest(fact.digest))


def _perhaps(fact: FactReference | None) -> p.EvidenceReference | None:
    return None if fact is None else _evidence(fact)
