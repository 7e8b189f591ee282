"""The schema of one transfer page, and of what its cursor holds (ARC-1, ARC-2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from yielded_core.records.bounds import (
    BATCH_RECORDS,
    CURSOR_UNITS,
    TRANSFER_FACTS,
)
from yielded_core.records.fields import (
    BatchIdField,
    DigestField,
    EpochText,
    Natural,
    Optional,
    Positive,
    ProducerIdField,
    RecordIdField,
    ThreadIdField,
)
from yielded_core.records.model import WireModel


class CapturedPart(WireModel):
    """The tail and the revision of independent facts that the whole archive is bound to."""

    sequence: Natural
    digest: DigestField
    epoch: EpochText
    fact_revision: Natural


class BatchPart(WireModel):
    """One whole batch; its records are canonical JSON of the record schema."""

    batch_id: BatchIdField
    producer_id: ProducerIdField
    epoch: EpochText
    first_sequence: Positive
    previous_tail_digest: DigestField
    tail_digest: DigestField
    records: Annotated[list[Any], Field(min_length=1, max_length=BATCH_RECORDS)]


class PageHeader(WireModel):
    """One page of an archive."""

    format: Literal["effect-agent/thread-transfer@1"]
    record_format: Literal["effect-agent/thread@3"]
    thread_id: ThreadIdField
    page: Positive
    section: Literal[
        "batches", "admissions", "abortCommands", "approvals", "resolutions", "deliveries"
    ]
    captured: CapturedPart
    batch: Annotated[BatchPart | None, Optional] = None
    facts: Annotated[Annotated[list[Any], Field(max_length=TRANSFER_FACTS)] | None, Optional] = None
    dependencies: list[RecordIdField]
    cursor: Annotated[
        Annotated[str, Field(min_length=1, max_length=CURSOR_UNITS)] | None, Optional
    ] = None
    previous_page_digest: DigestField
    page_digest: DigestField

    @model_validator(mode="after")
    def _one_content(self) -> PageHeader:
        if (self.batch is not None) != (self.section == "batches"):
            raise PydanticCustomError("page_content", "a batch belongs to section batches alone")
        if (self.batch is None) == (self.facts is None):
            raise PydanticCustomError("page_content", "a page holds a batch or facts")
        return self


class ExportPosition(WireModel):
    """What a cursor holds: where an export stands after a page."""

    captured: CapturedPart
    pages: Positive
    content: DigestField
    """Content digest of the page that the cursor stands in."""
    sequence: Natural
    digest: DigestField
    """Tail after the batches exported so far."""
    sections: Natural
    """Sections of facts exported so far."""
    place: Natural = 0
    """Place in the lane of the last submission of whose facts of this section all are exported."""
    taken: Natural = 0
    """How many facts of the next one are."""
