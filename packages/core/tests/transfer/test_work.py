"""Accepted work in archives of stores that are told what to say: audits, races, bounded memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from yielded_core.errors import ArchiveRefused, ImportRefused, StorageCorrupt
from yielded_core.ports.work import FactsPage, Settled
from yielded_core.records.identifiers import Digest, SettlementId
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.importing import import_archive
from yielded_core.transfer.verify import verify_archive, verify_thread
from yielded_testing.clock import VirtualClock
from yielded_testing.suites.archive_lanes import every_state, facts_of
from yielded_testing.suites.archive_pages import archive_lines, parsed_pages, sealed_lines
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_handoff import handoff
from yielded_testing.suites.transfer import content_of, lines_of, streamed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yielded_core.ports.values import ImportState, Verification
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage

Change = tuple[str, "Callable[[SubmissionFacts], SubmissionFacts]"]


def found_in(verification: Verification) -> dict[str, str]:
    return {one.invariant: one.detail for one in verification.findings if one.outcome == "failed"}


def told(storage: Storage, monkeypatch: pytest.MonkeyPatch, *facts: SubmissionFacts) -> None:
    """Let the ledger of a store say this."""

    async def facts_from(thread: ThreadId, *, after: int = 0, **_: object) -> FactsPage:
        assert thread == THREAD
        return FactsPage(1, tuple(facts[after:]))

    monkeypatch.setattr(storage.ledger, "facts", facts_from)


def with_submission(entry: SubmissionFacts, **changes: Any) -> SubmissionFacts:  # noqa: ANN401
    return replace(entry, submission=replace(entry.submission, **changes))


DAMAGED: dict[str, tuple[int, Callable[[SubmissionFacts], SubmissionFacts], str]] = {
    "another input": (4, lambda one: replace(one, input=b'"x"'), "its input is not what its"),
    "another linkage": (6, lambda one: replace(one, linkage=b"1"), "linkage or message"),
    "another digest": (
        4,
        lambda one: with_submission(one, input_digest=Digest("a" * 64)),
        "is not what was admitted",
    ),
    "another receipt": (0, lambda one: with_submission(one, receipt_id="r"), "another receipt"),
    "another marker": (4, lambda one: with_submission(one, input_sequence=2), "marked at"),
    "a marker without input": (6, lambda one: with_submission(one, input_sequence=2), "marked at"),
    "a settlement without record": (
        6,
        lambda one: with_submission(
            one, state="settled", settled=Settled(SettlementId("s"), "completed", 1)
        ),
        "does not hold the settlement",
    ),
    "another outcome": (
        0,
        lambda one: with_submission(
            one,
            settled=replace(
                one.submission.settled or Settled(SettlementId("s"), "failed", 1), outcome="failed"
            ),
        ),
        "does not hold the settlement",
    ),
    "another place": (3, lambda one: with_submission(one, queue_sequence=9), "place 9 stands"),
    "a key twice": (
        3,
        lambda one: with_submission(one, idempotency_key="settled"),
        "a second time",
    ),
}


@pytest.mark.rule("ARC-3", "LED-8")
@pytest.mark.parametrize("name", DAMAGED)
async def test_verify_finds_work_that_the_log_contradicts(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await every_state(storage, VirtualClock())
    assert found_in(await verify_thread(storage, THREAD)) == {}
    at, change, detail = DAMAGED[name]
    facts = await facts_of(storage)
    told(storage, monkeypatch, *facts[:at], change(facts[at]), *facts[at + 1 :])
    assert detail in found_in(await verify_thread(storage, THREAD))["ledger-log-agreement"]


@pytest.mark.rule("ARC-3")
async def test_verify_finds_an_order_that_no_lane_has(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = await LaneScript.begin(storage)
    for key in ("one", "two"):
        await lane.run(key)
        await lane.apply_input(key)
        await lane.settle(key)
    first, second = await facts_of(storage)
    swapped = [with_submission(one, queue_sequence=at) for at, one in enumerate((second, first), 1)]
    told(storage, monkeypatch, *swapped)
    found = found_in(await verify_thread(storage, THREAD))
    assert set(found) == {"fifo-input-order", "fifo-settlement-order"}
    told(storage, monkeypatch, with_submission(first, queue_sequence=1), *swapped[1:])
    assert "fifo-settlement-order" not in found_in(await verify_thread(storage, THREAD))


@pytest.mark.rule("ARC-3", "LED-5", "CRT-6")
async def test_verify_takes_a_handoff_for_no_wrong_order(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = await LaneScript.begin(storage)
    await lane.defer("head")
    await lane.ready("next")
    await lane.claim(handoff=await handoff(lane))
    await lane.apply_input("next")
    await lane.settle("next")
    assert found_in(await verify_thread(storage, THREAD)) == {}
    await lane.claim()
    await lane.settle("head")
    assert found_in(await verify_thread(storage, THREAD)) == {}
    head, following = await facts_of(storage)
    told(storage, monkeypatch, with_submission(head, deferred_at=None), following)
    assert set(found_in(await verify_thread(storage, THREAD))) == {"fifo-settlement-order"}


@pytest.mark.rule("ARC-3")
async def test_a_damaged_admission_is_not_exported(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = await LaneScript.begin(storage)
    await lane.admit("one")
    (entry,) = await facts_of(storage)
    told(storage, monkeypatch, replace(entry, input=b"{"))
    pages = export_pages(storage, THREAD)
    with pytest.raises(StorageCorrupt):
        await anext(pages)


@pytest.mark.rule("ARC-3")
async def test_verify_goes_on_while_a_lane_is_worked_on(storage: Storage) -> None:
    """What the ledger said when it was read is in the log that is read after it."""
    lane = await LaneScript.begin(storage)
    keys = [f"key-{number}" for number in range(60)]
    await lane.ready(*keys)

    async def work_on() -> None:
        for key in keys:
            await lane.claim()
            await lane.apply_input(key)
            await lane.settle(key)
            await asyncio.sleep(0)

    working = asyncio.create_task(work_on())
    while not working.done():
        assert found_in(await verify_thread(storage, THREAD)) == {}
    await working
    assert found_in(await verify_thread(storage, THREAD)) == {}


@pytest.mark.rule("ARC-4")
async def test_an_import_is_resumed_where_its_work_was_cut_off(
    storage: Storage, destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = await LaneScript.begin(storage)
    await lane.admit(*(f"key-{number}" for number in range(600)))
    lines = await lines_of(storage)
    stage = destination.archives.stage_work
    calls = 0

    async def failing(thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise asyncio.CancelledError
        return await stage(thread, entries)

    monkeypatch.setattr(destination.archives, "stage_work", failing)
    with pytest.raises(asyncio.CancelledError):
        await import_archive(destination, streamed(lines))
    state = await destination.archives.import_state(THREAD)
    assert state is not None
    assert state.work == 256
    await import_archive(destination, streamed(lines))
    assert content_of(await lines_of(destination)) == content_of(lines)


@pytest.mark.rule("ARC-4")
async def test_work_that_was_staged_otherwise_is_not_published(
    storage: Storage, destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await every_state(storage, VirtualClock())
    stage = destination.archives.stage_work

    async def changing(thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        return await stage(thread, [with_submission(one, admitted_at=1) for one in entries])

    monkeypatch.setattr(destination.archives, "stage_work", changing)
    with pytest.raises(StorageCorrupt):
        await import_archive(destination, streamed(await lines_of(storage)))
    assert await destination.ledger.lane(THREAD) is None


@pytest.mark.rule("ARC-4")
async def test_two_imports_of_one_archive_do_not_mix(
    storage: Storage, destination: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await every_state(storage, VirtualClock())
    lines = await lines_of(storage)
    stage = destination.archives.stage_work

    async def raced(thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        await stage(thread, entries)
        return await stage(thread, entries)

    monkeypatch.setattr(destination.archives, "stage_work", raced)
    with pytest.raises(ImportRefused) as refused:
        await import_archive(destination, streamed(lines))
    assert refused.value.reason == "in-progress"


@pytest.mark.rule("ARC-3", "ARC-4")
async def test_a_fact_that_is_none_is_refused_with_its_page(destination: Storage) -> None:
    pages = parsed_pages(archive_lines([]))
    pages[2]["facts"] = [{"submissionId": "s"}]
    lines = sealed_lines(pages)
    for attempt in (import_archive(destination, streamed(lines)), verify_archive(streamed(lines))):
        with pytest.raises(ArchiveRefused) as refused:
            await attempt
        assert (refused.value.reason, refused.value.page) == ("record", 3)


@pytest.mark.slow_case
@pytest.mark.rule("ARC-3", "ARC-4")
async def test_checking_many_submissions_takes_bounded_memory() -> None:
    def admission(number: int) -> dict[str, object]:
        return {
            "queueSequence": float(number),
            "submissionId": f"submission-{number}",
            "receiptId": f"receipt-{number}",
            "principal": "user-1",
            "idempotencyKey": f"key-{number}",
            "input": {"said": "hello" * 10},
            "linkage": None,
            "message": None,
            "admittedAt": "2026-01-02T03:04:05.678Z",
        }

    pages = parsed_pages(archive_lines([]))
    facts = [
        {**pages[0], "cursor": f"c-{first}", "facts": [admission(first + n) for n in range(250)]}
        for first in range(1, 20_001, 250)
    ]
    lines = sealed_lines([*facts, *pages[1:]])
    del facts
    tracemalloc.start()
    try:
        assert (await verify_archive(streamed(lines))).ok
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 1_048_576
