"""Cases of prompt reads: sparse pages of a narrow projection (LOG-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import BeyondTail, InvalidArgument
from yielded_core.records.payloads import UserInputRecorded
from yielded_testing.suites.builders import (
    THREAD,
    Writer,
    append_every_family,
    note,
    notes,
    record,
)
from yielded_testing.suites.support import refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record
    from yielded_core.records.prompt_record import PromptRecord
    from yielded_core.storage import Storage

PROMPT_FIELDS: Final = {
    "UserInputRecorded": ("submission_id", "kind", "run_id", "input"),
    "ModelCompleted": ("run_id", "output", "messages", "history"),
    "ModelResponseRecorded": ("run_id", "turn", "messages"),
    "ToolCallSettled": ("run_id", "tool_call_id", "tool_name", "result", "is_failure"),
    "CompactionCreated": ("run_id", "kind", "covers_through", "summary", "handoff"),
    "RunCompleted": ("run_id", "output"),
    "RunFailed": ("run_id", "failure"),
    "SubmissionSettled": ("submission_id", "outcome", "run_id", "result"),
}
"""The families that a prompt is rebuilt from, with the fields that it is rebuilt from."""


def said(record_id: str, value: JsonValue = None) -> Record:
    """Return a user's input that belongs to no run."""
    return record(record_id, UserInputRecorded(kind="user", input=value))


def positions(page: Sequence[PromptRecord]) -> list[int]:
    """Return the sequences of prompt records."""
    return [each.sequence for each in page]


class PromptCases:
    """LOG-12 in a live thread; the same read across ranges and imports stands with those."""

    @pytest.mark.rule("LOG-12")
    async def test_exactly_the_prompt_families_are_selected(self, storage: Storage) -> None:
        """Of a record of every family, those of eight tags, with their prompt fields."""
        given = await append_every_family(await Writer.begin(storage))
        page = await storage.threads.read_prompt(THREAD, after=0, through=len(given), limit=100)
        expected = [
            (sequence, each)
            for sequence, each in enumerate(given, start=1)
            if each.payload.tag in PROMPT_FIELDS
        ]
        assert {each.payload.tag for _, each in expected} == set(PROMPT_FIELDS)
        assert positions(page) == [sequence for sequence, _ in expected]
        for found, (_, each) in zip(page, expected, strict=True):
            assert found.record_id == each.record_id
            assert found.payload.tag == each.payload.tag
            for name in PROMPT_FIELDS[each.payload.tag]:
                assert getattr(found.payload, name) == getattr(each.payload, name)

    @pytest.mark.rule("LOG-12")
    async def test_pages_are_sparse_and_full(self, storage: Storage) -> None:
        """Among 280 other records, only the page at the end of the range is short."""
        writer = await Writer.begin(storage)
        for number in range(1, 8):
            await writer.append(*notes(f"noise-{number}", 40), said(f"said-{number}"))
        tail = writer.tail.sequence
        every = await storage.threads.read_prompt(THREAD, after=0, through=tail, limit=1_024)
        assert positions(every) == [41 * number for number in range(1, 8)]
        found: list[PromptRecord] = []
        lengths: list[int] = []
        while not lengths or lengths[-1] == 3:
            after = found[-1].sequence if found else 0
            page = await storage.threads.read_prompt(THREAD, after=after, through=tail, limit=3)
            found += page
            lengths.append(len(page))
        assert (lengths, tuple(found)) == ([3, 3, 1], every)

    @pytest.mark.rule("LOG-12")
    async def test_the_range_is_half_open(self, storage: Storage) -> None:
        """`after` is excluded and `through` included; later appends are not in it."""
        writer = await Writer.begin(storage)
        await writer.append(*(said(f"said-{number}") for number in range(1, 6)))
        read = storage.threads.read_prompt
        assert positions(await read(THREAD, after=1, through=4, limit=9)) == [2, 3, 4]
        assert positions(await read(THREAD, after=4, through=5, limit=9)) == [5]
        for after, through in ((0, 0), (3, 3), (4, 2), (5, 5)):
            assert await read(THREAD, after=after, through=through, limit=9) == ()

    @pytest.mark.rule("LOG-12")
    async def test_bytes_never_shorten_a_page(self, storage: Storage) -> None:
        """Ten records of 600 KiB are a page of ten, though they are more than 4 MiB."""
        writer = await Writer.begin(storage)
        for number in range(1, 13):
            await writer.append(said(f"said-{number}", "x" * 600_000))
        page = await storage.threads.read_prompt(THREAD, after=1, through=12, limit=10)
        assert positions(page) == list(range(2, 12))
        assert {len(str(getattr(each.payload, "input", ""))) for each in page} == {600_000}

    @pytest.mark.rule("LOG-12")
    async def test_a_range_beyond_the_tail_is_refused(self, storage: Storage) -> None:
        """The error tells the attempted sequence and the tail."""
        writer = await Writer.begin(storage)
        await writer.append(said("one"), note("two"))
        read = storage.threads.read_prompt
        fault = await refused(BeyondTail, read(THREAD, after=0, through=3, limit=1))
        assert (fault.thread, fault.attempted, fault.tail) == (THREAD, 3, 2)
        await refused(BeyondTail, read(THREAD, after=0, through=2**70, limit=1))

    @pytest.mark.rule("LOG-12")
    @pytest.mark.parametrize(
        ("after", "through", "limit"),
        [(-1, 1, 1), (0, -1, 1), (0, 1, 0), (0, 1, 1_025), (0, 1, True), (0, 1.0, 1)],
    )
    async def test_another_range_or_limit_is_refused(
        self, storage: Storage, after: int, through: int, limit: int
    ) -> None:
        """Positions are integers from 0, a limit is one from 1 to 1,024."""
        await (await Writer.begin(storage)).append(said("one"))
        work = storage.threads.read_prompt(THREAD, after=after, through=through, limit=limit)
        await refused(InvalidArgument, work)
