"""Every operation of the ledger once, for the tables of what each asks of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_bench.records import PRODUCER
from yielded_bench.work import claimed, input_batch, offered, queued, settlement
from yielded_core.ports.work import LEASE_MILLISECONDS, JoiningGuard, Suspension
from yielded_core.records.identifiers import (
    AttemptId,
    OwnershipToken,
    RunId,
    ToolCallId,
    settlement_id,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeAlias

    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage

    Add: TypeAlias = Callable[[str, Awaitable[Any]], Awaitable[Any]]

_CALL: Final = ToolCallId("call")


async def every_ledger_operation(add: Add, storage: Storage, lane: ThreadId) -> None:
    """Run every operation of the ledger once; `add` notes what each costs.

    The first change of a lane writes where the store's clock is anchored: it is not counted.
    """
    ledger = storage.ledger
    await storage.threads.materialize(lane, epoch=1)
    await queued(storage, lane, "first of all")
    second = await add("admit", ledger.admit(offered(lane, "second")))
    await add("admit, replayed", ledger.admit(offered(lane, "second")))
    await add("mark_ready", ledger.mark_ready(lane, second.submission_id))
    await _own(add, storage, lane)
    await _wait(add, storage, lane)
    await _settle(add, storage, lane)
    await _ask(add, storage, lane)


async def _own(add: Add, storage: Storage, lane: ThreadId) -> None:
    ledger, token = storage.ledger, OwnershipToken("token")
    claim = ledger.claim(lane, attempt=AttemptId("attempt"), token=token)
    grant = await add("claim", claim)
    other = ledger.claim(lane, attempt=AttemptId("other"), token=OwnershipToken("other"))
    await add("claim, owned by another", other)
    # Longer than the claim's: within its millisecond, the same lease would change less.
    await add("renew", ledger.renew(lane, token=token, lease=2 * LEASE_MILLISECONDS))
    done = await storage.threads.append(
        lane, input_batch(grant), expected=grant.tail, epoch=grant.epoch
    )
    name = grant.submission.submission_id
    marked = ledger.mark_input_applied(lane, name, token=token, sequence=done.first_sequence)
    await add("mark_input_applied", marked)
    await add("claim_joining, 1 guest", ledger.claim_joining(lane, name, token=token))
    (guest,) = await ledger.claim_joining(lane, name, token=token)
    guard = JoiningGuard(name, token)
    await add("revert_joining", ledger.revert_joining(lane, guest.submission_id, guard=guard))
    await add("release", ledger.release(lane, token=token))


async def _wait(add: Add, storage: Storage, lane: ThreadId) -> None:
    ledger = storage.ledger
    grant, token = await claimed(storage, lane)
    name = grant.submission.submission_id
    waiting = Suspension(approvals=(_CALL,))
    await add("suspend", ledger.suspend(lane, name, token=token, waiting_for=waiting))
    decided = ledger.record_approval_decision(
        lane, name, _CALL, decision="approved", resolver="somebody", reason=""
    )
    await add("record_approval_decision, it wakes", decided)
    parked = ledger.mark_unknown(lane, name, run=RunId("run"), calls=[(_CALL, "lost")])
    await add("mark_unknown, 1 call", parked)
    resolved = ledger.record_unknown_resolution(
        lane, name, _CALL, resolution="safe-to-retry", author="somebody", reason=""
    )
    await add("record_unknown_resolution, it wakes", resolved)


async def _settle(add: Add, storage: Storage, lane: ThreadId) -> None:
    grant, token = await claimed(storage, lane)
    published = storage.settlements.publish(
        lane, settlement(grant), producer=PRODUCER, token=token, authority="owned"
    )
    await add("publish", published)
    name = grant.submission.submission_id
    final = storage.ledger.finalize_settlement(lane, name, settlement=settlement_id(name))
    await add("finalize_settlement", final)
    grant, token = await claimed(storage, lane)
    both = storage.settlements.publish(
        lane, settlement(grant), producer=PRODUCER, token=token, authority="owned", finalize=True
    )
    await add("publish and finalize", both)


async def _ask(add: Add, storage: Storage, lane: ThreadId) -> None:
    ledger = storage.ledger
    work = await queued(storage, lane, "asked about")
    name = work.submission_id
    await add("request_abort", ledger.request_abort(lane, name, author="somebody", reason=""))
    await add("read_abort_intent", ledger.read_abort_intent(lane, name))
    await add("lookup", ledger.lookup(name))
    offer = offered(lane, "asked about")
    key = ledger.lookup_key(lane, offer.principal, offer.idempotency_key)
    await add("lookup_key", key)
    await add("lane", ledger.lane(lane))
    await add("load_recovery_snapshot", ledger.load_recovery_snapshot(lane, name))
    await add("scan_nonterminal, 1 entry", ledger.scan_nonterminal())
    await add("runnable, 1 lane", ledger.runnable())
