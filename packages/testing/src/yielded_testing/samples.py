"""Sample records: one valid payload of every family, the same in every run.

Ids are counted and instants are fixed, so that a suite, a benchmark and a document can quote them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from yielded_core.records.envelope import Record
from yielded_core.records.identifiers import DeploymentId, RecordId
from yielded_core.records.payloads import PAYLOADS, Payload
from yielded_testing.sample_parts import Subject
from yielded_testing.sample_payloads import BUILDERS

SAMPLE_INSTANT: Final = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
"""When the first sample record was created; each next one is a millisecond later."""


def sample_payload(tag: str, subject: Subject | None = None) -> Payload:
    """Return a valid payload of a family, with every optional key that the others allow."""
    return BUILDERS[tag](subject or Subject())


def sample_record(payload: Payload, number: int = 1) -> Record:
    """Wrap a payload as the record of this number: `record-1` and so on, a millisecond apart."""
    return Record(
        record_id=RecordId(f"record-{number}"),
        created_at=SAMPLE_INSTANT + timedelta(milliseconds=number - 1),
        deployment_id=DeploymentId("deployment-1"),
        payload=payload,
    )


def all_samples(subject: Subject | None = None) -> tuple[Record, ...]:
    """Return a record of every family, numbered from 1 in the order of `PAYLOADS`."""
    return tuple(
        sample_record(sample_payload(tag, subject), number)
        for number, tag in enumerate(PAYLOADS, start=1)
    )
