"""One run through every operation of the ledger, for tests that look at its statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.ports.values import Batch
from yielded_core.ports.work import Admission, AwaitedChild, JoiningGuard, Suspension
from yielded_core.records.identifiers import (
    AttemptId,
    Digest,
    IdempotencyKey,
    OwnershipToken,
    Principal,
    ProducerId,
    RunId,
    SubmissionId,
    ThreadId,
    ToolCallId,
    input_batch_id,
    input_record_id,
    run_id,
    settlement_id,
    settlement_record_id,
)
from yielded_core.records.payloads import SubmissionSettled, ToolCallSettled, UserInputRecorded
from yielded_testing.suites.builders import record

if TYPE_CHECKING:
    from yielded_core.ports.work import Admitted, Authority, Outcome
    from yielded_core.records.envelope import Record
    from yielded_core.records.identifiers import ReceiptId
    from yielded_core.storage import Storage

LANE: Final = ThreadId("lane")
TOKEN: Final = OwnershipToken("token")
PRODUCER: Final = ProducerId("producer")
DIGEST: Final = Digest("0" * 64)
CALL: Final = ToolCallId("call")


async def admit(storage: Storage, key: str, group: str | None = None) -> Admitted:
    """Accept one more piece of work for the lane."""
    work = Admission(LANE, Principal("somebody"), IdempotencyKey(key), {"key": key}, group=group)
    return await storage.ledger.admit(work)


async def claim(storage: Storage, attempt: str, token: OwnershipToken = TOKEN) -> SubmissionId:
    """Own the lane."""
    grant = await storage.ledger.claim(LANE, attempt=AttemptId(attempt), token=token)
    assert grant is not None
    return grant.submission.submission_id


async def apply_input(storage: Storage, submission: SubmissionId) -> int:
    """Append the input of a submission and return where it stands."""
    tail = await storage.threads.tail(LANE)
    given = UserInputRecorded(
        submission_id=submission, kind="user", run_id=run_id(submission), input={}
    )
    entry = record(input_record_id(submission), given)
    batch = Batch(input_batch_id(submission), PRODUCER, (entry,))
    done = await storage.threads.append(LANE, batch, expected=tail.tail, epoch=tail.epoch)
    return done.first_sequence


def settlement(name: SubmissionId, receipt: ReceiptId, outcome: Outcome) -> Record:
    """Return the settlement record of a submission."""
    content = SubmissionSettled(
        submission_id=name,
        settlement_id=settlement_id(name),
        receipt_id=receipt,
        outcome=outcome,
        result={} if outcome == "completed" else None,
    )
    return record(settlement_record_id(name), content)


async def settle_everything(storage: Storage) -> None:
    """Settle what `every_operation` leaves: a joined submission and an aborted one."""
    authorities: dict[str, tuple[Authority, Outcome]] = {
        "joined": ("joined", "completed"),
        "admitted": ("queued-abort", "aborted"),
    }
    for work in await storage.ledger.scan_nonterminal():
        authority, outcome = authorities[work.state]
        await storage.settlements.publish(
            LANE,
            settlement(work.submission_id, work.receipt_id, outcome),
            producer=PRODUCER,
            token=TOKEN,
            authority=authority,
            finalize=True,
        )


async def settle(storage: Storage, work: Admitted, token: OwnershipToken = TOKEN) -> None:
    """Publish and finalize the settlement of the owned submission."""
    name = work.submission_id
    entry = settlement(name, work.receipt_id, "completed")
    await storage.settlements.publish(
        LANE, entry, producer=PRODUCER, token=token, authority="owned"
    )
    await storage.settlements.publish(
        LANE, entry, producer=PRODUCER, token=token, authority="owned"
    )
    await storage.ledger.finalize_settlement(LANE, name, settlement=settlement_id(name))


async def every_operation(storage: Storage, token: OwnershipToken = TOKEN) -> None:
    """Run each operation of the ledger at least once."""
    ledger = storage.ledger
    first, second = await admit(storage, "first", "group"), await admit(storage, "second")
    assert (await admit(storage, "first", "group")).replayed
    await storage.threads.materialize(LANE, epoch=1)
    for work in (first, second):
        await ledger.mark_ready(LANE, work.submission_id)
    host = await claim(storage, "one", token)
    await ledger.renew(LANE, token=token)
    await ledger.mark_input_applied(
        LANE, host, token=token, sequence=await apply_input(storage, host)
    )
    guest = second.submission_id
    await ledger.claim_joining(LANE, host, token=token)
    await ledger.revert_joining(LANE, guest, guard=JoiningGuard(host, token))
    await ledger.claim_joining(LANE, host, token=token)
    await ledger.mark_joined(LANE, guest, sequence=await apply_input(storage, guest))
    await ledger.suspend(LANE, host, token=token, waiting_for=Suspension(approvals=(CALL,)))
    await ledger.record_approval_decision(
        LANE, host, CALL, decision="approved", resolver="somebody", reason=""
    )
    await claim(storage, "two", token)
    await children(storage, host, token)
    await unknown(storage, host, token)
    await claim(storage, "three", token)
    await ledger.release(LANE, token=token)
    await claim(storage, "four", token)
    await settle(storage, first, token)
    await ledger.request_abort(
        LANE, (await admit(storage, "x")).submission_id, author="a", reason=""
    )
    await questions(storage, first)


async def children(storage: Storage, parent: SubmissionId, token: OwnershipToken) -> None:
    """Reserve, attach, release."""
    ledger, child = storage.ledger, AwaitedChild(ThreadId("child"), SubmissionId("child"))
    await ledger.reserve_child(
        LANE, parent, token=token, call=CALL, reservation_id="r", digest=DIGEST
    )
    await ledger.attach_child(LANE, parent, token=token, call=CALL, child=child)
    await ledger.begin_release(LANE, parent, token=token, call=CALL, accounting={})
    await ledger.release_child(LANE, parent, token=token, call=CALL)


async def unknown(storage: Storage, submission: SubmissionId, token: OwnershipToken) -> None:
    """Mark a call with a committed result unknown, and resolve it."""
    run = RunId("run")
    tail = await storage.threads.tail(LANE)
    result = ToolCallSettled(
        run_id=run, tool_call_id=CALL, tool_name="tool", result={"a": 1}, is_failure=False
    )
    batch = Batch(input_batch_id(SubmissionId("result")), PRODUCER, (record("result", result),))
    await storage.threads.append(LANE, batch, expected=tail.tail, epoch=tail.epoch)
    await storage.ledger.mark_unknown(LANE, submission, run=run, calls=[(CALL, "lost")])
    await storage.ledger.release(LANE, token=token)
    await storage.ledger.record_unknown_resolution(
        LANE,
        submission,
        CALL,
        resolution="completed-with-result",
        author="somebody",
        reason="",
        result={"a": 1},
    )


async def questions(storage: Storage, work: Admitted) -> None:
    """Ask everything that the ledger answers."""
    ledger, name = storage.ledger, work.submission_id
    assert await ledger.lookup(name) is not None
    await ledger.resolve_admission(LANE, Principal("somebody"), IdempotencyKey("first"))
    await ledger.read_abort_intent(LANE, name)
    await ledger.lane(LANE)
    await ledger.scan_nonterminal()
    await ledger.runnable()
    await ledger.load_recovery_snapshot(LANE, name)
