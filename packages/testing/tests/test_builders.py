"""The means by which the suites expect bytes and digests agree with the core on every family."""

from __future__ import annotations

import pytest

from yielded_core.digest import batch_content, chain_digest
from yielded_core.records.envelope import Record, encode_record
from yielded_core.records.identifiers import BatchId
from yielded_testing.samples import all_samples
from yielded_testing.suites.builders import (
    EMPTY_DIGEST,
    PRODUCER,
    canonical,
    next_digest,
    note,
    note_value,
    record_bytes,
    record_digest,
)
from yielded_testing.suites.runs import RunScript


@pytest.mark.rule("REC-4", "REC-7")
@pytest.mark.parametrize("record", all_samples(), ids=lambda record: record.payload.tag)
def test_a_record_s_bytes_agree(record: Record) -> None:
    encoded = encode_record(record)
    assert record_bytes(record) == encoded.wire
    assert record_digest(record) == encoded.digest


@pytest.mark.rule("REC-7")
def test_the_chain_agrees() -> None:
    wires = [record_bytes(record) for record in all_samples()]
    content = batch_content(BatchId("🧵"), PRODUCER, wires)
    assert next_digest(EMPTY_DIGEST, "🧵", wires) == chain_digest(EMPTY_DIGEST, content)


def test_a_note_is_what_its_value_says() -> None:
    details = {"a": [1.0, None, "é"]}
    assert record_bytes(note("one", details)) == canonical(note_value("one", details))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("size", [2_000, 1_048_576])
def test_a_fact_can_have_any_size(size: int) -> None:
    run = RunScript()
    assert len(record_bytes(run.sized(size))) == size
    assert len(record_bytes(run.sized_terminal(2 * size))) == 2 * size
    assert (run.record_bytes, run.terminal_bytes) == (size, 2 * size)
