"""Which records outside a batch its records name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import InvalidRecord
from yielded_core.log.dependencies import dependencies_among, dependencies_of
from yielded_core.records.identifiers import RecordId
from yielded_core.records.payloads import PAYLOADS, Payload
from yielded_testing.samples import sample_payload
from yielded_testing.suites.archive_pages import stored_log
from yielded_testing.suites.builders import batch, note, record

if TYPE_CHECKING:
    from yielded_core.ports.values import StoredBatch


def stored(*records: tuple[str, Payload]) -> StoredBatch:
    return stored_log(batch("batch-1", *(record(*each) for each in records)))[0]


NAMED = {
    "RunContinuation": ("completed-1", "context-1", "input:submission-1", "response-1"),
    "RunContextRecorded": ("record-2", "record-5"),
    "WorkHandoffCompleted": ("record-27",),
}


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize("tag", sorted(PAYLOADS))
def test_each_family_names_the_records_it_names(tag: str) -> None:
    given = record("record-1", sample_payload(tag))
    assert dependencies_of(stored(("record-1", given.payload))) == NAMED.get(tag, ())
    assert dependencies_among([given]) == NAMED.get(tag, ())


@pytest.mark.rule("ARC-2")
def test_records_of_the_batch_itself_are_left_out_and_each_id_comes_once() -> None:
    context = sample_payload("RunContextRecorded")
    found = stored(("a", context), ("record-5", note("x").payload), ("b", context))
    assert dependencies_of(found) == ("record-2",)


@pytest.mark.rule("ARC-2")
def test_a_record_that_may_name_others_must_decode() -> None:
    damaged = stored(("a", sample_payload("WorkHandoffCompleted")))
    wire = damaged.records[0][1].replace(b'"ownerId"', b'"OwnerId"')
    broken = replace(damaged, records=((RecordId("a"), wire),))
    with pytest.raises(InvalidRecord):
        dependencies_of(broken)
