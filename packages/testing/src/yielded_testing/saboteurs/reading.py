"""Saboteurs of reading: pages, observers, identity, exact and prompt reads (LOG-8 to LOG-12)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core.errors import BeyondTail, InvalidArgument, OffsetRefused, RecordUndecodable
from yielded_core.log import facts, reads
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Threads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from yielded_core.ports.values import ThreadIdentity
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import Offset, RunId, ThreadId
    from yielded_core.records.payloads import UserInputRecorded
    from yielded_core.records.prompt_record import PromptRecord


class AfterIsIncluded(Threads):
    """A page begins with the record that it should follow."""

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        before = after - 1 if type(after) is int and after > 0 else after
        return await self.inner.read(thread, after=before, limit=limit)


class LimitCutDown(Threads):
    """A limit beyond the bound is cut down instead of refused."""

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        try:
            return await self.inner.read(thread, after=after, limit=limit)
        except InvalidArgument as error:
            if error.name != "limit":
                raise
            return await self.inner.read(thread, after=after)


class SkipsUndecodable(Threads):
    """A record that does not decode is left out of its page."""

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        try:
            return await self.inner.read(thread, after=after, limit=limit)
        except RecordUndecodable as fault:
            page = await self.inner.read(thread, after=after, limit=fault.sequence - after - 1)
            return (*page, *await self.read(thread, after=fault.sequence, limit=limit))


class ObservesFromTheTail(Threads):
    """After the stored records an observer goes on from the tail, wherever it is by then."""

    async def observe(
        self, thread: ThreadId, *, after: Offset | None = None
    ) -> AsyncGenerator[StoredRecord]:
        seam = (await self.inner.tail(thread)).sequence
        async for each in self.inner.observe(thread, after=after):
            yield each
            if each.sequence == seam:
                break
        await asyncio.sleep(0)
        tail = (await self.inner.read(thread))[-1].offset
        async for each in self.inner.observe(thread, after=tail):
            yield each


class RepeatsAtTheSeam(Threads):
    """The last stored record is delivered as a stored and again as a new one."""

    async def observe(
        self, thread: ThreadId, *, after: Offset | None = None
    ) -> AsyncGenerator[StoredRecord]:
        seam = (await self.inner.tail(thread)).sequence
        async for each in self.inner.observe(thread, after=after):
            yield each
            if each.sequence == seam:
                yield each


class AnyOffset(Threads):
    """An offset is only its number: one of another thread or store is accepted."""

    async def observe(
        self, thread: ThreadId, *, after: Offset | None = None
    ) -> AsyncGenerator[StoredRecord]:
        try:
            async for each in self.inner.observe(thread, after=after):
                yield each
        except OffsetRefused:
            number = (after or "").rpartition(".")[2]
            for each in await self.inner.read(thread, after=int(number) if number.isdigit() else 0):
                yield each


class TwoReadsOfIdentity(Threads):
    """Tail and records of an identity come from two reads."""

    async def identity(self, thread: ThreadId) -> ThreadIdentity:
        tail = await self.inner.tail(thread)
        await asyncio.sleep(0)
        return replace(await self.inner.identity(thread), tail=tail)


class SecondIsLineage(Threads):
    """The second record is given as lineage, whatever it is."""

    async def identity(self, thread: ThreadId) -> ThreadIdentity:
        found = await self.inner.identity(thread)
        second = await self.inner.read(thread, after=1, limit=1)
        return replace(found, lineage=second[0] if second else None)


def _any_user_input(_right: object) -> Callable[[UserInputRecorded], bool]:
    """Every input of a person counts as original, also one that joined the run."""
    return lambda payload: payload.kind == "user" and payload.run_id is not None


def _takes_the_first(right: Callable[..., Any]) -> Callable[..., Any]:
    """Of several original inputs the first is taken."""

    def wrong(thread: ThreadId, run: RunId, found: Sequence[StoredRecord]) -> Any:  # noqa: ANN401
        return right(thread, run, found[:1])

    return wrong


class ShortPrompts(Threads):
    """A prompt page ends where 4 MiB of text are reached."""

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        page = await self.inner.read_prompt(thread, after=after, through=through, limit=limit)
        size, kept = 0, 0
        for each in page:
            size += len(each.payload.model_dump_json())
            if size > 4 * 1_048_576:
                break
            kept += 1
        return page[:kept]


class ForgetsCompactions(Threads):
    """A family is missing in the list of those that a prompt is rebuilt from."""

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        page = await self.inner.read_prompt(thread, after=after, through=through, limit=limit)
        return tuple(each for each in page if each.payload.tag != "CompactionCreated")


class RangeCutDown(Threads):
    """A prompt range beyond the tail is cut down to it."""

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        try:
            return await self.inner.read_prompt(thread, after=after, through=through, limit=limit)
        except BeyondTail as fault:
            return await self.inner.read_prompt(
                thread, after=after, through=fault.tail, limit=limit
            )


class StopsAtSmallPages(Threads):
    """A prompt page is filled from as many records as its limit, of whatever family."""

    async def read_prompt(
        self, thread: ThreadId, *, after: int, through: int, limit: int
    ) -> tuple[PromptRecord, ...]:
        page = await self.inner.read_prompt(thread, after=after, through=through, limit=limit)
        return tuple(each for each in page if each.sequence <= after + 40 * limit)


SABOTEURS: Final = (
    Saboteur(
        "after-is-included",
        ("LOG-8",),
        "test_a_page_begins_after_a_sequence",
        AfterIsIncluded,
    ),
    Saboteur("limit-cut-down", ("LOG-8",), "test_another_limit_is_refused", LimitCutDown),
    Saboteur(
        "skips-undecodable",
        ("LOG-8",),
        "test_an_undecodable_value_is_a_typed_error",
        SkipsUndecodable,
    ),
    Saboteur(
        "observes-from-the-tail",
        ("LOG-9",),
        "test_random_interleavings_leave_no_gap_or_repeat",
        ObservesFromTheTail,
    ),
    Saboteur(
        "repeats-at-the-seam",
        ("LOG-9",),
        "test_stored_records_come_first_then_new_ones",
        RepeatsAtTheSeam,
    ),
    Saboteur(
        "any-offset",
        ("LOG-9",),
        "test_what_is_no_offset_of_this_thread_is_refused",
        AnyOffset,
    ),
    Saboteur(
        "two-reads-of-identity",
        ("LOG-10",),
        "test_identity_is_one_consistent_read",
        TwoReadsOfIdentity,
    ),
    Saboteur(
        "second-is-lineage",
        ("LOG-10",),
        "test_a_second_record_need_not_be_a_lineage",
        SecondIsLineage,
    ),
    Saboteur(
        "any-user-input",
        ("LOG-11",),
        "test_joined_inputs_are_no_original_input",
        WrongRule(facts, "_is_original", _any_user_input),
    ),
    Saboteur(
        "takes-the-first-input",
        ("LOG-11",),
        "test_two_original_inputs_are_refused",
        WrongRule(reads, "single_run_input", _takes_the_first),
    ),
    Saboteur("short-prompts", ("LOG-12",), "test_bytes_never_shorten_a_page", ShortPrompts),
    Saboteur(
        "forgets-compactions",
        ("LOG-12",),
        "test_exactly_the_prompt_families_are_selected",
        ForgetsCompactions,
    ),
    Saboteur(
        "range-cut-down",
        ("LOG-12",),
        "test_a_range_beyond_the_tail_is_refused",
        RangeCutDown,
    ),
    Saboteur(
        "prompts-of-a-record-page",
        ("LOG-12",),
        "test_pages_are_sparse_and_full",
        StopsAtSmallPages,
    ),
)
