"""What each operation of the ledger asks of SQLite, for the table of statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_bench.records import PRODUCER
from yielded_bench.work import claimed, input_batch, offered, queued, settlement
from yielded_core.ports.work import JoiningGuard, Suspension
from yielded_core.records.identifiers import (
    AttemptId,
    OwnershipToken,
    RunId,
    ThreadId,
    ToolCallId,
    settlement_id,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from yielded_core.storage import Storage

LANE: Final = ThreadId("lane")
_CALL: Final = ToolCallId("call")


async def count_ledger(
    add: Callable[[str, Awaitable[Any]], Awaitable[Any]], storage: Storage
) -> None:
    """Run every operation of the ledger once; `add` notes what each costs.

    The first change of a lane writes where the store's clock is anchored: it is not counted.
    """
    ledger = storage.ledger
    await storage.threads.materialize(LANE, epoch=1)
    await queued(storage, LANE, "first of all")
    second = await add("admit", ledger.admit(offered(LANE, "second")))
    await add("admit, replayed", ledger.admit(offered(LANE, "second")))
    await add("mark_ready", ledger.mark_ready(LANE, second.submission_id))
    await _own(add, storage)
    await _wait(add, storage)
    await _settle(add, storage)
    await _ask(add, storage)


async def _own(add: Callable[[str, Awaitable[Any]], Awaitable[Any]], storage: Storage) -> None:
    ledger, token = storage.ledger, OwnershipToken("token")
    claim = ledger.claim(LANE, attempt=AttemptId("attempt"), token=token)
    grant = await add("claim", claim)
    other = ledger.claim(LANE, attempt=AttemptId("other"), token=OwnershipToken("other"))
    await add("claim, owned by another", other)
    await add("renew", ledger.renew(LANE, token=token))
    done = await storage.threads.append(
        LANE, input_batch(grant), expected=grant.tail, epoch=grant.epoch
    )
    name = grant.submission.submission_id
    marked = ledger.mark_input_applied(LANE, name, token=token, sequence=done.first_sequence)
    await add("mark_input_applied", marked)
    await add("claim_joining, 1 guest", ledger.claim_joining(LANE, name, token=token))
    (guest,) = await ledger.claim_joining(LANE, name, token=token)
    guard = JoiningGuard(name, token)
    await add("revert_joining", ledger.revert_joining(LANE, guest.submission_id, guard=guard))
    await add("release", ledger.release(LANE, token=token))


async def _wait(add: Callable[[str, Awaitable[Any]], Awaitable[Any]], storage: Storage) -> None:
    ledger = storage.ledger
    grant, token = await claimed(storage, LANE)
    name = grant.submission.submission_id
    waiting = Suspension(approvals=(_CALL,))
    await add("suspend", ledger.suspend(LANE, name, token=token, waiting_for=waiting))
    decided = ledger.record_approval_decision(
        LANE, name, _CALL, decision="approved", resolver="somebody", reason=""
    )
    await add("record_approval_decision, it wakes", decided)
    parked = ledger.mark_unknown(LANE, name, run=RunId("run"), calls=[(_CALL, "lost")])
    await add("mark_unknown, 1 call", parked)
    resolved = ledger.record_unknown_resolution(
        LANE, name, _CALL, resolution="safe-to-retry", author="somebody", reason=""
    )
    await add("record_unknown_resolution, it wakes", resolved)


async def _settle(add: Callable[[str, Awaitable[Any]], Awaitable[Any]], storage: Storage) -> None:
    grant, token = await claimed(storage, LANE)
    published = storage.settlements.publish(
        LANE, settlement(grant), producer=PRODUCER, token=token, authority="owned"
    )
    await add("publish", published)
    name = grant.submission.submission_id
    final = storage.ledger.finalize_settlement(LANE, name, settlement=settlement_id(name))
    await add("finalize_settlement", final)
    grant, token = await claimed(storage, LANE)
    both = storage.settlements.publish(
        LANE, settlement(grant), producer=PRODUCER, token=token, authority="owned", finalize=True
    )
    await add("publish and finalize", both)


async def _ask(add: Callable[[str, Awaitable[Any]], Awaitable[Any]], storage: Storage) -> None:
    ledger = storage.ledger
    work = await queued(storage, LANE, "asked about")
    name = work.submission_id
    await add("request_abort", ledger.request_abort(LANE, name, author="somebody", reason=""))
    await add("read_abort_intent", ledger.read_abort_intent(LANE, name))
    await add("lookup", ledger.lookup(name))
    offer = offered(LANE, "asked about")
    key = ledger.lookup_key(LANE, offer.principal, offer.idempotency_key)
    await add("lookup_key", key)
    await add("lane", ledger.lane(LANE))
    await add("load_recovery_snapshot", ledger.load_recovery_snapshot(LANE, name))
    await add("scan_nonterminal, 1 entry", ledger.scan_nonterminal())
    await add("runnable, 1 lane", ledger.runnable())
