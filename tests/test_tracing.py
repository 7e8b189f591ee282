"""Spans around port operations: one each, without anything that must not be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from yielded_core import (
    Admission,
    Batch,
    BatchId,
    IdempotencyKey,
    Principal,
    ProducerId,
    RecordId,
    ThreadId,
    open_storage,
)
from yielded_core.errors import FenceRejected, RecordNotFound
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.tracing import TracedStorage
from yielded_testing.samples import sample_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

CANARY = "canary-payload"
THREAD = ThreadId("traced")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("yielded_core.tracing.trace.get_tracer", provider.get_tracer)
    return exporter


def _batch() -> Batch:
    record = sample_record(UserInputRecorded(kind="user", input=CANARY))
    return Batch(BatchId("batch"), ProducerId("producer"), (record,))


def _names(found: Sequence[ReadableSpan]) -> list[str]:
    return [span.name for span in found]


async def test_each_operation_is_one_span(spans: InMemorySpanExporter) -> None:
    async with TracedStorage(open_storage("memory://")) as storage:
        before = await storage.threads.materialize(THREAD, epoch=1)
        await storage.threads.append(THREAD, _batch(), expected=before.tail, epoch=1)
        await storage.threads.read(THREAD)
        await storage.archives.ranges(THREAD)
        assert storage.checkpoints is not None
        await storage.checkpoints.load(THREAD)
    assert _names(spans.get_finished_spans()) == [
        "yielded.threads.materialize",
        "yielded.threads.append",
        "yielded.threads.read",
        "yielded.archives.ranges",
        "yielded.checkpoints.load",
    ]
    for span in spans.get_finished_spans():
        assert dict(span.attributes or {}) == {"yielded.thread": THREAD}


async def test_a_failure_is_its_code_alone(spans: InMemorySpanExporter) -> None:
    async with TracedStorage(open_storage("memory://")) as storage:
        before = await storage.threads.materialize(THREAD, epoch=2)
        with pytest.raises(FenceRejected):
            await storage.threads.append(THREAD, _batch(), expected=before.tail, epoch=1)
        with pytest.raises(RecordNotFound):
            await storage.threads.get_record(THREAD, RecordId(CANARY))
    failed = [span for span in spans.get_finished_spans() if not span.status.is_ok]
    codes = [dict(span.attributes or {})["yielded.error"] for span in failed]
    assert codes == ["fence-rejected", "record-not-found"]
    assert CANARY not in "".join(span.to_json() for span in spans.get_finished_spans())


async def test_observation_and_import_readers_pass_through(spans: InMemorySpanExporter) -> None:
    async with TracedStorage(open_storage("memory://")) as storage:
        before = await storage.threads.materialize(THREAD, epoch=1)
        await storage.threads.append(THREAD, _batch(), expected=before.tail, epoch=1)
        async for stored in storage.threads.observe(THREAD):
            assert stored.sequence == 1
            break
        archive = await storage.threads.tail(THREAD)
        other = ThreadId("imported")
        await storage.archives.begin_import(
            type(archive)(other, archive.sequence, archive.digest, archive.epoch)
        )
        assert (await storage.archives.import_reader(other).tail(other)).sequence == 0
    assert _names(spans.get_finished_spans())[-1] == "yielded.imports.tail"


async def test_accepted_work_is_traced_by_its_thread_alone(spans: InMemorySpanExporter) -> None:
    work = Admission(THREAD, Principal(CANARY), IdempotencyKey(CANARY), CANARY)
    async with TracedStorage(open_storage("memory://")) as storage:
        admitted = await storage.ledger.admit(work)
        await storage.ledger.lookup(admitted.submission_id)
        await storage.ledger.read_abort_intent(THREAD, admitted.submission_id)
    assert [(span.name, dict(span.attributes or {})) for span in spans.get_finished_spans()] == [
        ("yielded.ledger.admit", {}),
        ("yielded.ledger.lookup", {}),
        ("yielded.ledger.read_abort_intent", {"yielded.thread": THREAD}),
    ]
    assert CANARY not in "".join(span.to_json() for span in spans.get_finished_spans())
