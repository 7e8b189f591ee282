"""The records that are appended: a kilobyte of canonical text each, in batches."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final

from yielded_core.ports.values import Batch
from yielded_core.records.envelope import Record, encode_record
from yielded_core.records.identifiers import (
    BatchId,
    DeploymentId,
    ProducerId,
    RecordId,
    RunId,
    ToolCallId,
)
from yielded_core.records.payloads import RepairAnnotated, ToolCallSettled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from yielded_core.records.payloads import Payload

    Make: TypeAlias = Callable[[int], Record]

WIRE_BYTES: Final = 1_024
INSTANT: Final = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
PRODUCER: Final = ProducerId("benchmark")
_RUN_FACTS: Final = 1_000
"""Records before the next run begins, far below what one run may hold."""


def record(name: str, payload: Payload) -> Record:
    """Wrap a payload as a record with this id."""
    return Record(
        record_id=RecordId(name),
        created_at=INSTANT,
        deployment_id=DeploymentId("benchmark"),
        payload=payload,
    )


def tool_result(number: int) -> Record:
    """Return the result of a tool call: a step of a run, which three indexes list."""
    return _tool_result(number, "x" * _padding(_tool_result))


def annotation(number: int) -> Record:
    """Return a record that no index but that of record ids lists."""
    return _annotation(number, "x" * _padding(_annotation))


def batches(make: Make, first: int, count: int, size: int = 1) -> list[Batch]:
    """Return batches of records, numbered from `first`."""
    return [
        Batch(
            BatchId(f"batch-{start:09d}"),
            PRODUCER,
            tuple(make(number) for number in range(start, start + size)),
        )
        for start in range(first, first + count * size, size)
    ]


def _tool_result(number: int, text: str) -> Record:
    payload = ToolCallSettled(
        run_id=RunId(f"run-{number // _RUN_FACTS:06d}"),
        tool_call_id=ToolCallId(f"call-{number:09d}"),
        tool_name="look-up",
        result={"text": text},
        is_failure=False,
    )
    return record(f"record-{number:09d}", payload)


def _annotation(number: int, text: str) -> Record:
    payload = RepairAnnotated(reason="benchmark", details={"text": text})
    return record(f"record-{number:09d}", payload)


@cache
def _padding(make: Callable[[int, str], Record]) -> int:
    """Return how many characters fill a record to its size."""
    return WIRE_BYTES - len(encode_record(make(0, "")).wire)
