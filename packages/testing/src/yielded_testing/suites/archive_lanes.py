"""Lanes whose work the cases of archives export, and bring to another thread of their store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core.records.identifiers import RunId, SubmissionId, ToolCallId
from yielded_core.records.payloads import UserInputRecorded
from yielded_core.transfer.importing import import_archive
from yielded_testing.sample_parts import Subject
from yielded_testing.samples import sample_payload
from yielded_testing.suites.archive_pages import parsed_pages, rechained_pages, sealed_lines
from yielded_testing.suites.builders import OTHER, THREAD, record
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.transfer import lines_of, streamed

if TYPE_CHECKING:
    from yielded_core.ports.work import State, SubmissionFacts
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

EXPECTED: Final[dict[str, State]] = {
    "settled": "settled",
    "aborted": "settled",
    "unknown": "unknown",
    "resolved": "input-applied",
    "host": "input-applied",
    "guest": "joined",
    "queued": "ready",
    "unwanted": "ready",
    "waiting": "ready",
}
"""What becomes of the work of `every_state`."""


async def every_state(storage: Storage, clock: VirtualClock) -> LaneScript:
    """Write a lane whose work is in every state that an archive tells apart."""
    lane = await LaneScript.begin(storage)
    await lane.run("settled")
    await lane.apply_input("settled")
    clock.advance(1)
    await lane.decide("settled", "approved-call")
    await lane.settle("settled")
    await lane.ready("aborted")
    await lane.abort_queued("aborted")
    for key in ("unknown", "resolved"):
        await _in_doubt(lane, key, "call-1", "call-2")
        clock.advance(1)
        await resolve(lane, key, "call-2", result={"said": "\u0000\U0001f600"})
    await lane.run("host")
    await lane.apply_input("host")
    await lane.decide("host", "denied-call", approve=False)
    await lane.ready("guest")
    await lane.ledger.claim_joining(lane.thread, lane.id("host"), token=lane.token)
    await _join(lane, "guest", "host")
    clock.advance(1)
    await lane.ready("queued", "unwanted", group=None)
    await lane.abort("unwanted")
    await lane.admit("waiting")
    await resolve(lane, "resolved", "call-1")
    return lane


async def _in_doubt(lane: LaneScript, key: str, *calls: str) -> None:
    """Park work on calls that the log holds to be unknown."""
    submission = await lane.run(key)
    await lane.apply_input(key)
    run = RunId(f"run:{submission}")
    subjects = [Subject(submission, run, call=ToolCallId(call)) for call in calls]
    unknown = [sample_payload("ToolCallUnknown", subject) for subject in subjects]
    await lane.append(
        *(record(f"{run} {call}", told) for call, told in zip(calls, unknown, strict=True))
    )
    await lane.mark_unknown(key, *calls)
    await lane.release()


async def _join(lane: LaneScript, key: str, host: str) -> None:
    """Append the input of joining work to the run of its host, and mark it."""
    payload = UserInputRecorded(
        kind="steering",
        submission_id=lane.id(key),
        run_id=RunId(f"run:{lane.id(host)}"),
        input="hello",
    )
    tail = await lane.append(record(f"input:{lane.id(key)}", payload))
    await lane.ledger.mark_joined(lane.thread, lane.id(key), sequence=tail.sequence)


async def resolve(lane: LaneScript, key: str, call: str, *, result: Any = None) -> None:  # noqa: ANN401 - JSON
    """Resolve a call of unknown outcome."""
    await lane.ledger.record_unknown_resolution(
        lane.thread,
        lane.id(key),
        ToolCallId(call),
        resolution="safe-to-retry" if result is None else "completed-with-result",
        author="author-1",
        reason="because",
        result=result,
    )


def renamed(name: str) -> str:
    """Return what a submission or a receipt is called in the other thread."""
    return f"moved-{name}"


async def moved(storage: Storage, *names: str) -> list[bytes]:
    """Return the archive of a thread as the other thread, its submissions and receipts renamed."""
    text = b"\n".join(await lines_of(storage))
    for name in names:
        text = text.replace(name.encode(), renamed(name).encode())
    pages = [{**page, "threadId": OTHER} for page in parsed_pages(text.split(b"\n"))]
    return sealed_lines(rechained_pages(pages))


async def archive_of(lane: LaneScript) -> list[bytes]:
    """Return the archive of a lane for the other thread."""
    given = lane.receipts.values()
    names = [name for one in given for name in (one.submission_id, one.receipt_id)]
    return await moved(lane.storage, *names)


async def brought(lane: LaneScript) -> LaneScript:
    """Import a lane as the other thread, and work on it there as another worker."""
    await import_archive(lane.storage, streamed(await archive_of(lane)))
    return other_lane(lane)


def other_lane(lane: LaneScript) -> LaneScript:
    """Return a worker on the other thread, who knows the receipts that a lane was given."""
    receipts = {
        key: replace(
            one,
            thread_id=OTHER,
            submission_id=SubmissionId(renamed(one.submission_id)),
            receipt_id=type(one.receipt_id)(renamed(one.receipt_id)),
        )
        for key, one in lane.receipts.items()
    }
    return LaneScript(lane.storage, OTHER, "other", receipts)


async def facts_of(storage: Storage, thread: Any = THREAD) -> list[SubmissionFacts]:  # noqa: ANN401
    """Return everything that the ledger holds of the submissions of a thread."""
    found: list[SubmissionFacts] = []
    while page := (await storage.ledger.facts(thread, after=len(found))).facts:
        found.extend(page)
    return found
