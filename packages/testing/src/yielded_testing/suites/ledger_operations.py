"""Calls of every operation of accepted work, for the cases that are about all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from yielded_core.ports.work import AwaitedChild, JoiningGuard, Suspension
from yielded_core.records.identifiers import (
    AttemptId,
    Digest,
    IdempotencyKey,
    OwnershipToken,
    RunId,
    SettlementId,
    SubmissionId,
    ThreadId,
    ToolCallId,
)
from yielded_testing.suites.builders import PRODUCER, THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import CALL, LEASE, USER, settlement_of, token, work
from yielded_testing.suites.ledger_values import receipt as receipt_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yielded_core.storage import Storage

Call: TypeAlias = "Callable[[], Awaitable[object]]"
OwnedCall: TypeAlias = "Callable[[LaneScript, OwnershipToken], Awaitable[object]]"

DIGEST: Final = Digest("a" * 64)
CHILD: Final = AwaitedChild(ThreadId("child"), SubmissionId("child-submission"))
RESERVED: Final = ToolCallId("reserved")
RELEASING: Final = ToolCallId("releasing")


async def staged(storage: Storage, thread: ThreadId = THREAD) -> LaneScript:
    """Return a lane on which every operation of `OWNED` succeeds with the current token.

    `host` runs and its input stands at sequence 1, `guest` is joining it; two reservations are
    made, and the release of one has begun.
    """
    lane = await LaneScript.begin(storage, thread)
    ledger, host = storage.ledger, await lane.run("host")
    await lane.ready("guest")
    await lane.append_input("host")
    await ledger.claim_joining(thread, host, token=lane.token)
    for call in (RESERVED, RELEASING):
        await ledger.reserve_child(
            thread, host, token=lane.token, call=call, reservation_id=f"r-{call}", digest=DIGEST
        )
    await ledger.begin_release(thread, host, token=lane.token, call=RELEASING, accounting=1)
    return lane


def _reserve(lane: LaneScript, owner: OwnershipToken) -> Awaitable[object]:
    return lane.ledger.reserve_child(
        lane.thread,
        lane.id("host"),
        token=owner,
        call=ToolCallId("new"),
        reservation_id="r-new",
        digest=DIGEST,
    )


OWNED: Final[dict[str, OwnedCall]] = {
    "renew": lambda lane, owner: lane.ledger.renew(lane.thread, token=owner, lease=2 * LEASE),
    "release": lambda lane, owner: lane.ledger.release(lane.thread, token=owner),
    "mark_input_applied": lambda lane, owner: lane.ledger.mark_input_applied(
        lane.thread, lane.id("host"), token=owner, sequence=1
    ),
    "claim_joining": lambda lane, owner: lane.ledger.claim_joining(
        lane.thread, lane.id("host"), token=owner
    ),
    "suspend": lambda lane, owner: lane.ledger.suspend(
        lane.thread, lane.id("host"), token=owner, waiting_for=Suspension((CALL,))
    ),
    "reserve_child": _reserve,
    "attach_child": lambda lane, owner: lane.ledger.attach_child(
        lane.thread, lane.id("host"), token=owner, call=RESERVED, child=CHILD
    ),
    "begin_release": lambda lane, owner: lane.ledger.begin_release(
        lane.thread, lane.id("host"), token=owner, call=RESERVED, accounting={"used": 1}
    ),
    "release_child": lambda lane, owner: lane.ledger.release_child(
        lane.thread, lane.id("host"), token=owner, call=RELEASING
    ),
    "revert_joining": lambda lane, owner: lane.ledger.revert_joining(
        lane.thread, lane.id("guest"), guard=JoiningGuard(lane.id("host"), owner)
    ),
    "publish": lambda lane, owner: lane.publish("host", by=owner),
}
"""Every operation that a token allows, by its name."""
WITHOUT_OWNER: Final = frozenset({"revert_joining", "begin_release", "release_child", "publish"})
"""Those of them that are otherwise decided once the submission is settled."""


def submission_operations(
    storage: Storage, thread: ThreadId, submission: SubmissionId
) -> dict[str, Call]:
    """Return a call of every operation that names a submission of a thread."""
    ledger, owner = storage.ledger, token("nobody")
    receipt = receipt_for(submission, thread)
    return {
        "read_abort_intent": lambda: ledger.read_abort_intent(thread, submission),
        "load_recovery_snapshot": lambda: ledger.load_recovery_snapshot(thread, submission),
        "mark_ready": lambda: ledger.mark_ready(thread, submission),
        "mark_input_applied": lambda: ledger.mark_input_applied(
            thread, submission, token=owner, sequence=1
        ),
        "request_abort": lambda: ledger.request_abort(
            thread, submission, author="me", reason="enough"
        ),
        "claim_joining": lambda: ledger.claim_joining(thread, submission, token=owner),
        "mark_joined": lambda: ledger.mark_joined(thread, submission, sequence=1),
        "revert_joining": lambda: ledger.revert_joining(thread, submission),
        "suspend": lambda: ledger.suspend(
            thread, submission, token=owner, waiting_for=Suspension((CALL,))
        ),
        "record_approval_decision": lambda: ledger.record_approval_decision(
            thread, submission, CALL, decision="approved", resolver="me", reason=""
        ),
        "mark_unknown": lambda: ledger.mark_unknown(
            thread, submission, run=RunId("run"), calls=[(CALL, "")]
        ),
        "record_unknown_resolution": lambda: ledger.record_unknown_resolution(
            thread, submission, CALL, resolution="safe-to-retry", author="me", reason=""
        ),
        "reserve_child": lambda: ledger.reserve_child(
            thread, submission, token=owner, call=CALL, reservation_id="r", digest=DIGEST
        ),
        "attach_child": lambda: ledger.attach_child(
            thread, submission, token=owner, call=CALL, child=CHILD
        ),
        "begin_release": lambda: ledger.begin_release(
            thread, submission, token=owner, call=CALL, accounting=None
        ),
        "release_child": lambda: ledger.release_child(thread, submission, token=owner, call=CALL),
        "record_child_settled": lambda: ledger.record_child_settled(
            thread, submission, child=CHILD
        ),
        "finalize_settlement": lambda: ledger.finalize_settlement(
            thread, submission, settlement=SettlementId(f"settlement:{submission}")
        ),
        "publish": lambda: storage.settlements.publish(
            thread, settlement_of(receipt), producer=PRODUCER, token=owner, authority="owned"
        ),
    }


def lane_operations(storage: Storage, thread: ThreadId) -> dict[str, Call]:
    """Return a call of every operation that names a thread, but for `resolve_admission`."""
    ledger, key = storage.ledger, IdempotencyKey("key-1")
    return {
        "admit": lambda: ledger.admit(work("key-1", thread=thread)),
        "lookup_key": lambda: ledger.lookup_key(thread, USER, key),
        "lane": lambda: ledger.lane(thread),
        "claim": lambda: ledger.claim(thread, attempt=AttemptId("a"), token=token("nobody")),
        "renew": lambda: ledger.renew(thread, token=token("nobody")),
        "release": lambda: ledger.release(thread, token=token("nobody")),
        **submission_operations(storage, thread, SubmissionId("nobody")),
    }


def store_operations(storage: Storage) -> dict[str, Call]:
    """Return a call of every operation that is about the whole store."""
    return {
        "lookup": lambda: storage.ledger.lookup(SubmissionId("nobody")),
        "scan_nonterminal": storage.ledger.scan_nonterminal,
        "runnable": storage.ledger.runnable,
    }
