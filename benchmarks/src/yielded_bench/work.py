"""Accepted work for the benchmark: admissions, inputs and settlements of no other worth."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from yielded_bench.records import PRODUCER, record
from yielded_core.ports.values import Batch
from yielded_core.ports.work import Admission
from yielded_core.records.identifiers import (
    AttemptId,
    IdempotencyKey,
    OwnershipToken,
    Principal,
    input_batch_id,
    input_record_id,
    run_id,
    settlement_id,
    settlement_record_id,
)
from yielded_core.records.payloads import SubmissionSettled, UserInputRecorded

if TYPE_CHECKING:
    from yielded_core.ports.work import Admitted, Grant
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage

PRINCIPAL: Final = Principal("benchmark")
TEXT: Final = "x" * 900


def offered(thread: ThreadId, key: str) -> Admission:
    """Return work of about a kilobyte."""
    return Admission(thread, PRINCIPAL, IdempotencyKey(key), {"text": TEXT})


async def queued(storage: Storage, thread: ThreadId, key: str) -> Admitted:
    """Accept work and make it claimable."""
    admitted = await storage.ledger.admit(offered(thread, key))
    await storage.ledger.mark_ready(thread, admitted.submission_id)
    return admitted


async def claimed(storage: Storage, thread: ThreadId) -> tuple[Grant, OwnershipToken]:
    """Own a lane that has claimable work."""
    token = OwnershipToken(uuid.uuid4().hex)
    grant = await storage.ledger.claim(thread, attempt=AttemptId(uuid.uuid4().hex), token=token)
    assert grant is not None, "nobody else claims here"
    return grant, token


def input_batch(grant: Grant) -> Batch:
    """Return the batch that makes the input of an owned submission canonical."""
    name = grant.submission.submission_id
    given = UserInputRecorded(
        submission_id=name, kind="user", run_id=run_id(name), input={"text": TEXT}
    )
    return Batch(input_batch_id(name), PRODUCER, (record(input_record_id(name), given),))


def settlement(grant: Grant) -> Record:
    """Return the settlement record of an owned submission."""
    name = grant.submission.submission_id
    content = SubmissionSettled(
        submission_id=name,
        settlement_id=settlement_id(name),
        receipt_id=grant.submission.receipt_id,
        outcome="completed",
        result={},
    )
    return record(settlement_record_id(name), content)


async def work_off(storage: Storage, lane: ThreadId, count: int) -> None:
    """Claim and settle some submissions of a lane that nobody else claims, two commits each."""
    for _ in range(count):
        grant, token = await claimed(storage, lane)
        await storage.settlements.publish(
            lane,
            settlement(grant),
            producer=PRODUCER,
            token=token,
            authority="owned",
            finalize=True,
        )
