"""`yielded show`: everything that a store tells about one submission (LED-3, LED-15)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final, NamedTuple

import typer
from rich.text import Text

from yielded_core.cli.instants import instant
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.safe_text import visible
from yielded_core.cli.stores import existing_store
from yielded_core.cli.submissions import (
    SubmissionArgument,
    child_document,
    exact,
    find,
    lane_document,
    submission_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yielded_core.cli.output import Output
    from yielded_core.ports.work import (
        AdmittedWork,
        AwaitedChild,
        Lane,
        RecoverySnapshot,
        Reservation,
    )
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.identifiers import RecordId

_INDENT: Final = "  "
_MARK: Final = 10


class Told(NamedTuple):
    """What a store tells about a submission."""

    work: AdmittedWork
    snapshot: RecoverySnapshot
    abort_record: RecordId | None
    """The canonical record of its abort, where the log holds one."""


class Entry(NamedTuple):
    """One line of a section: a word that says what it is, and the rest."""

    mark: str
    text: str
    values: tuple[JsonValue, ...] = ()
    """JSON to be written below it, if any."""


def command(
    context: typer.Context,
    submission: SubmissionArgument,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one submission.

    Its receipt, its state, what it waits for, decisions about its calls, its settlement, and the
    input itself. It is found by its id alone, whatever thread it is in.
    """
    asyncio.run(_show(chosen(context, store, as_json), submission))


async def _show(options: Chosen, submission: str) -> None:
    async with existing_store(options.url) as storage:
        work = await find(storage, submission)
        thread, name = work.submission.thread_id, work.submission.submission_id
        snapshot = await storage.ledger.load_recovery_snapshot(thread, name)
        abort = await storage.ledger.read_abort_intent(thread, name)
    told = Told(work, snapshot, abort.record_id)
    output = options.output()
    if output.as_json:
        output.document(_document(told))
        return
    output.pairs(dict(_control(told)))
    sections = {
        "waits for": _awaited(snapshot),
        "approvals": _approvals(snapshot),
        "calls of unknown outcome": _unknown(snapshot),
        "reservations": _reservations(snapshot),
    }
    for title, entries in sections.items():
        _write_section(output, title, list(entries))
    for title, value in (
        ("linkage", work.linkage),
        ("message", work.message),
        ("input", work.input),
    ):
        if value is not None or title == "input":
            output.line(Text(title, "bold"))
            _write_json(output, value, _INDENT)


def _control(told: Told) -> Iterator[tuple[str, str]]:
    """Name what every submission has, and of the rest what this one has."""
    one, snapshot = told.snapshot.submission, told.snapshot
    yield "submission", one.submission_id
    yield "thread", one.thread_id
    yield "state", one.state
    yield "place", f"{one.queue_sequence:,}"
    yield "admitted", instant(one.admitted_at)
    yield "receipt", one.receipt_id
    yield "principal", one.principal
    yield "key", one.idempotency_key
    if one.group is not None:
        yield "group", one.group
    yield "digest", one.input_digest
    yield "input", _input(snapshot)
    if one.deferred_at is not None:
        yield "deferred", f"passed by a later one at {instant(one.deferred_at)}"
    if one.host is not None:
        published = ", whose settlement is published" if snapshot.host_published else ""
        yield "host", f"{one.host}{published}"
    intent = one.abort
    if intent is not None:
        because = f": {intent.reason}" if intent.reason else ""
        yield "abort", f"by {intent.author} at {instant(intent.requested_at)}{because}"
    if told.abort_record is not None:
        yield "recorded", told.abort_record
    if one.settled is not None:
        settled = one.settled
        yield "outcome", f"{settled.outcome} at {instant(settled.settled_at)}"
        yield "settlement", settled.settlement_id
    elif snapshot.settlement_published:
        yield "settlement", "published, not finalized yet"
    yield "lane", _lane(snapshot.lane)


def _input(snapshot: RecoverySnapshot) -> str:
    """Say where the log holds the input, and what the marker says."""
    marked, recorded = snapshot.submission.input_sequence, snapshot.input_sequence
    place = "not in the log" if recorded is None else f"at sequence {recorded:,}"
    if marked == recorded:
        return place
    return f"{place}, {'not marked' if marked is None else f'marked at {marked:,}'}"


def _lane(lane: Lane) -> str:
    if lane.epoch == 0:
        return "its thread is not materialized"
    owner = lane.owner
    if owner is None:
        return f"epoch {lane.epoch}, nobody owns it"
    state = "until" if owner.live else "lapsed at"
    return (
        f"epoch {lane.epoch}, owned by attempt {owner.attempt_id} for {owner.submission_id}, "
        f"{state} {instant(owner.expires_at)}"
    )


def _awaited(snapshot: RecoverySnapshot) -> Iterator[Entry]:
    waiting = snapshot.submission.suspension
    if waiting is None:
        return
    decided = {one.tool_call_id: one.decision for one in snapshot.approvals}
    for call in waiting.approvals:
        yield Entry(decided.get(call, "undecided"), f"call {call}")
    for child in waiting.children:
        published = child in snapshot.published_children
        yield Entry("published" if published else "open", _child(child))


def _approvals(snapshot: RecoverySnapshot) -> Iterator[Entry]:
    for one in snapshot.approvals:
        yield Entry(one.decision, _said(one.tool_call_id, one.resolver, one.decided_at, one.reason))


def _unknown(snapshot: RecoverySnapshot) -> Iterator[Entry]:
    resolved = {one.tool_call_id for one in snapshot.resolutions}
    for call in snapshot.unknown_calls:
        because = f": {call.reason}" if call.reason else ""
        told = f"call {call.tool_call_id} of run {call.run_id}, {instant(call.marked_at)}{because}"
        yield Entry("resolved" if call.tool_call_id in resolved else "open", told)
        for one in snapshot.resolutions:
            if one.tool_call_id == call.tool_call_id:
                told = _said(one.resolution, one.author, one.resolved_at, one.reason)
                has_result = one.resolution == "completed-with-result"
                yield Entry("", told, (one.result,) if has_result else ())


def _reservations(snapshot: RecoverySnapshot) -> Iterator[Entry]:
    for one in snapshot.reservations:
        told = f"call {one.tool_call_id}, reservation {one.reservation_id} of {one.digest}"
        if one.child is not None:
            published = " (published)" if one.child in snapshot.published_children else ""
            told += f", {_child(one.child)}{published}"
        yield Entry(one.status, told, () if one.accounting is None else (one.accounting,))


def _said(what: str, who: str, when: int, reason: str) -> str:
    because = f": {reason}" if reason else ""
    return f"{what}, by {who} at {instant(when)}{because}"


def _child(child: AwaitedChild) -> str:
    return f"submission {child.submission_id} of thread {child.thread_id}"


def _write_section(output: Output, title: str, entries: list[Entry]) -> None:
    if not entries:
        return
    output.line(Text(title, "bold"))
    for entry in entries:
        output.item(Text(f"{_INDENT}{entry.mark:{_MARK}}"), entry.text)
        for value in entry.values:
            _write_json(output, value, " " * (len(_INDENT) + _MARK + 1))


def _write_json(output: Output, value: JsonValue, indent: str) -> None:
    laid_out = json.dumps(value, indent=2, ensure_ascii=False)
    for line in laid_out.split("\n"):
        output.paragraph(f"{indent}{visible(line)}")


def _document(told: Told) -> dict[str, object]:
    work, snapshot = told.work, told.snapshot
    return {
        **submission_document(snapshot.submission),
        "abortRecord": told.abort_record,
        "recordedInput": snapshot.input_sequence,
        "settlementPublished": snapshot.settlement_published,
        "hostPublished": snapshot.host_published,
        "lane": lane_document(snapshot.lane),
        "tail": {"sequence": snapshot.tail.sequence, "digest": snapshot.tail.digest},
        **_calls_document(snapshot),
        "publishedChildren": [
            child_document(child)
            for child in sorted(
                snapshot.published_children,
                key=lambda child: (child.thread_id, child.submission_id),
            )
        ],
        "input": exact(work.input),
        "linkage": exact(work.linkage),
        "message": exact(work.message),
    }


def _calls_document(snapshot: RecoverySnapshot) -> dict[str, object]:
    return {
        "approvals": [
            {
                "call": one.tool_call_id,
                "decision": one.decision,
                "resolver": one.resolver,
                "reason": one.reason,
                "decidedAt": instant(one.decided_at),
            }
            for one in snapshot.approvals
        ],
        "unknownCalls": [
            {
                "call": one.tool_call_id,
                "run": one.run_id,
                "reason": one.reason,
                "markedAt": instant(one.marked_at),
            }
            for one in snapshot.unknown_calls
        ],
        "resolutions": [
            {
                "call": one.tool_call_id,
                "resolution": one.resolution,
                "author": one.author,
                "reason": one.reason,
                "result": exact(one.result),
                "resolvedAt": instant(one.resolved_at),
            }
            for one in snapshot.resolutions
        ],
        "reservations": [_reservation_document(one) for one in snapshot.reservations],
    }


def _reservation_document(one: Reservation) -> dict[str, object]:
    return {
        "call": one.tool_call_id,
        "reservation": one.reservation_id,
        "digest": one.digest,
        "status": one.status,
        "child": one.child and child_document(one.child),
        "accounting": exact(one.accounting),
    }
