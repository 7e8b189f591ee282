"""Work that joins the run of its host (LED-10)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.ledger.lane import owns_submission
from yielded_core.ledger.operations.evidence import (
    lane_and_submission,
    require_input_at,
    sequence_of,
)
from yielded_core.ledger.operations.ownership import other_marker
from yielded_core.ledger.transitions import Facts, advance, moved, step
from yielded_core.records.identifiers import input_record_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import JoiningGuard, RevertAnswer, Submission
    from yielded_core.records.identifiers import OwnershipToken, SubmissionId, ThreadId

_PAGE: Final = 64
"""Submissions read at a time."""


def claim_joining(
    unit: LedgerUnit, thread: ThreadId, host: SubmissionId, token: OwnershipToken, limit: int
) -> tuple[Submission, ...]:
    """Move the contiguous ready submissions behind the host to joining (LED-10).

    Those that it took before and that did not join yet come first, so that a lost answer leaves
    none behind.
    """
    lane, found = lane_and_submission(unit, thread, host)
    advance("claim-joining", lane, found, Facts(owned=owns_submission(lane, host, token)))
    taken: list[Submission] = []
    changed = False
    for guest in _behind(unit, lane, found):
        if len(taken) == limit:
            break
        if guest.host == host:
            if guest.state == "joining":
                taken.append(guest)
            continue
        facts = Facts(owned=True, aborted=guest.abort is not None)
        row = step("join", guest.state, facts)
        if row.then == "none":
            break
        joining = replace(moved(row, guest), host=host)
        unit.save_submission(lane, joining)
        taken.append(joining)
        changed = True
    if changed:
        unit.save_lane(lane.changed())
    return tuple(taken)


def mark_joined(
    unit: LedgerUnit,
    thread: ThreadId,
    submission: SubmissionId,
    sequence: int,
) -> Submission:
    """Record that the input of a joining submission stands in the log (LED-10).

    The log proves it, so nobody's token has to.
    """
    lane, found = lane_and_submission(unit, thread, submission)
    facts = Facts(
        marked=found.input_sequence == sequence,
        conflict=other_marker(found, sequence),
    )
    row = advance("mark-joined", lane, found, facts)
    if row.then == "same":
        return found
    require_input_at(unit, lane, submission, sequence)
    joined = replace(moved(row, found), input_sequence=sequence)
    unit.save_submission(lane, joined)
    unit.save_lane(lane.changed())
    return joined


def revert_joining(
    unit: LedgerUnit, thread: ThreadId, submission: SubmissionId, guard: JoiningGuard | None
) -> RevertAnswer:
    """Give a joining submission back to the lane, unless its input is in the log (LED-10).

    Without a guard it stays while somebody's lease on its host is live.
    """
    lane, found = lane_and_submission(unit, thread, submission)
    if guard is not None and found.host is not None and found.host != guard.host:
        return "other-host"
    facts = Facts(
        owned=guard is None or _owned_host(lane, found, guard.token),
        host_settled=_host_settled(unit, lane, found),
        host_at_work=guard is None and _host_at_work(unit, lane, found),
        in_log=sequence_of(unit, lane, input_record_id(submission)) is not None,
    )
    row = advance("revert-joining", lane, found, facts)
    if row.then == "none":
        if found.state != "joining":
            return "not-joining"
        return "in-log" if facts.in_log else "host-at-work"
    unit.save_submission(lane, replace(moved(row, found), host=None))
    unit.save_lane(lane.changed())
    return "reverted"


def _behind(unit: LedgerUnit, lane: LaneState, host: Submission) -> Iterator[Submission]:
    """Go through the unsettled submissions behind a host."""
    place = host.queue_sequence
    while True:
        page = unit.behind(lane, place, _PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        place = page[-1].queue_sequence


def _owned_host(lane: LaneState, guest: Submission, token: OwnershipToken | None) -> bool:
    return guest.host is not None and owns_submission(lane, guest.host, token)


def _host_at_work(unit: LedgerUnit, lane: LaneState, guest: Submission) -> bool:
    owner = lane.owner if lane.is_owned(unit.moment.store) else None
    return owner is not None and owner.submission_id == guest.host


def _host_settled(unit: LedgerUnit, lane: LaneState, guest: Submission) -> bool:
    host = None if guest.host is None else unit.submission(lane, guest.host)
    return host is not None and host.state == "settled"
