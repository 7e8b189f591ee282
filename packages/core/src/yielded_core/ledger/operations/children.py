"""What a parent holds for its children: reserved, attached, releasing, released (LED-14)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from yielded_core.errors import ChildReservationConflict
from yielded_core.ledger.lane import owns_submission
from yielded_core.ledger.operations.evidence import lane_and_submission
from yielded_core.ledger.transitions import Facts, advance
from yielded_core.ports.work import Reservation
from yielded_core.records.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import AwaitedChild
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.identifiers import (
        Digest,
        OwnershipToken,
        SubmissionId,
        ThreadId,
        ToolCallId,
    )


def reserve(known: Reservation | None, wanted: Reservation) -> Reservation | str:
    """Return the reservation after `reserve_child`, or why it is refused."""
    if known is None:
        return wanted
    if (known.digest, known.reservation_id) != (wanted.digest, wanted.reservation_id):
        return "the call holds another reservation"
    return known


def attach(known: Reservation | None, child: AwaitedChild) -> Reservation | str:
    """Return the reservation after `attach_child`, or why it is refused."""
    if known is None:
        return "nothing is reserved"
    if known.child == child:
        return known
    if known.child is not None:
        return "another child is attached"
    if known.status != "reserved":
        return "its release began"
    return replace(known, child=child, status="attached")


def begin(known: Reservation | None, accounting: JsonValue) -> Reservation | str:
    """Return the reservation after `begin_release`, or why it is refused."""
    if known is None:
        return "nothing is reserved"
    if known.status in {"reserved", "attached"}:
        return replace(known, accounting=accounting, status="releasing")
    if canonical_json(known.accounting) != canonical_json(accounting):
        return "its accounting is frozen"
    return known


def free(known: Reservation | None) -> Reservation | str:
    """Return the reservation after `release_child`, or why it is refused."""
    if known is None:
        return "nothing is reserved"
    if known.status in {"reserved", "attached"}:
        return "its release has not begun"
    return replace(known, status="released")


def reserve_child(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    call: ToolCallId,
    reservation_id: str,
    digest: Digest,
) -> Reservation:
    """Reserve for the one child of a call."""
    wanted = Reservation(call, reservation_id, digest)
    return _change(unit, thread, submission, token, call, lambda known: reserve(known, wanted))


def attach_child(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken,
    call: ToolCallId,
    child: AwaitedChild,
) -> Reservation:
    """Name the child of a reservation, once."""
    return _change(unit, thread, submission, token, call, lambda known: attach(known, child))


def begin_release(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken | None,
    call: ToolCallId,
    accounting: JsonValue,
) -> Reservation:
    """Freeze the accounting of a reservation, once; a settled parent needs no token."""
    rule = partial(begin, accounting=accounting)
    return _change(unit, thread, submission, token, call, rule, freeing=True)


def release_child(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken | None,
    call: ToolCallId,
) -> Reservation:
    """Free a reservation whose release began; a settled parent needs no token."""
    return _change(unit, thread, submission, token, call, free, freeing=True)


def _change(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    token: OwnershipToken | None,
    call: ToolCallId,
    rule: Callable[[Reservation | None], Reservation | str],
    *,
    freeing: bool = False,
) -> Reservation:
    lane, found = lane_and_submission(unit, thread, submission)
    held = unit.reservations(lane, found)
    known = next((one for one in held if one.tool_call_id == call), None)
    after = rule(known)
    conflict = None
    if isinstance(after, str):
        status = "none" if known is None else known.status
        conflict = ChildReservationConflict(thread, submission, call, status, after)
    facts = Facts(
        owned=owns_submission(lane, submission, token), freeing=freeing, conflict=conflict
    )
    advance("change-reservation", lane, found, facts)
    if isinstance(after, str):  # refused above
        raise TypeError(after)
    if after != known:
        unit.save_reservation(lane, found, after)
        unit.save_lane(lane.changed())
    return after
