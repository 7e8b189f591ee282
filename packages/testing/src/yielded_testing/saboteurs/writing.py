"""Saboteurs of writing: epochs, order of refusal, replay, tails, cancellation (LOG-1 to LOG-7)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core.errors import AppendConflict, FenceRejected
from yielded_core.log import append
from yielded_core.log.append import KnownBatch
from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Appended, Batch, Tail
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.log.append import ThreadState
    from yielded_core.ports.threads import ArchiveStore, ThreadStore
    from yielded_core.ports.values import PreparedBatch, ThreadTail
    from yielded_core.records.envelope import StoredRecord
    from yielded_core.records.identifiers import ThreadId


class LowerEpochIgnored(Threads):
    """Registering at a lower epoch is answered as if it were a repetition."""

    async def materialize(self, thread: ThreadId, *, epoch: int) -> ThreadTail:
        try:
            return await self.inner.materialize(thread, epoch=epoch)
        except FenceRejected:
            return await self.inner.tail(thread)


class HigherEpochWrites(Threads):
    """The fence compares with `<`, so that an epoch nobody was granted may write."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        try:
            return await self.inner.append(thread, batch, expected=expected, epoch=epoch)
        except FenceRejected as fence:
            if epoch < fence.actual:
                raise
            return await self.inner.append(thread, batch, expected=expected, epoch=fence.actual)


class LosesTheLastOf256(Threads):
    """Rows are written in chunks of 255, and the rest of a full batch is lost."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        if isinstance(batch, Batch) and len(batch.records) == 256:
            batch = replace(batch, records=batch.records[:255])
        return await self.inner.append(thread, batch, expected=expected, epoch=epoch)


class DirtyReads(Threads):
    """A page shows the first records of a batch that is not yet committed."""

    def __init__(self, inner: ThreadStore, archives: ArchiveStore) -> None:
        super().__init__(inner, archives)
        self._dirty = 0

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        done = await self.inner.append(thread, batch, expected=expected, epoch=epoch)
        self._dirty = max(done.tail.sequence - done.first_sequence, 0)
        try:
            await asyncio.sleep(0)
        finally:
            self._dirty = 0
        return done

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        page = await self.inner.read(thread, after=after, limit=limit)
        return page[: len(page) - self._dirty] if self._dirty else page


class ReplaysToAnyone(Threads):
    """A batch that is stored is answered before the fence is looked at."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        try:
            return await self.inner.append(thread, batch, expected=expected, epoch=epoch)
        except FenceRejected:
            given = prepare_batch(batch)
            tail = await self.inner.tail(thread)
            for stored in await self.inner.read_batches(
                thread, after=0, through=tail.sequence, byte_limit=2**24
            ):
                if stored.content_digest == given.content_digest:
                    made = Tail(stored.last_sequence, stored.tail_digest)
                    return Appended(stored.first_sequence, made, replayed=True)
            raise


def _tail_first(right: Callable[..., Any]) -> Callable[..., Any]:
    """The tail is compared before batch and record identities."""

    def wrong(
        state: ThreadState,
        batch: PreparedBatch,
        expected: Tail,
        *,
        known: KnownBatch | None,
        taken: str | None,
    ) -> Any:  # noqa: ANN401 - what the right rule returns
        if known is None and expected != state.tail:
            raise AppendConflict(state.thread_id, "tail", state.sequence, state.digest)
        return right(state, batch, expected, known=known, taken=taken)

    return wrong


def _content_ignored(right: Callable[..., Any]) -> Callable[..., Any]:
    """A batch of a stored id is a replay, whatever it holds."""

    def wrong(
        state: ThreadState,
        batch: PreparedBatch,
        expected: Tail,
        **found: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - what the right rule takes and returns
        if found["known"] is not None:
            known: KnownBatch = found["known"]
            found["known"] = KnownBatch(batch.content_digest, known.first_sequence, known.tail)
        return right(state, batch, expected, **found)

    return wrong


def _new_in_the_thread(right: Callable[..., Any]) -> Callable[..., Any]:
    """Record ids are compared inside the batch only, not with those of the thread."""

    def wrong(
        state: ThreadState,
        batch: PreparedBatch,
        expected: Tail,
        **found: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - what the right rule takes and returns
        return right(state, batch, expected, known=found["known"], taken=None)

    return wrong


class ReplaysTheNewestTail(Threads):
    """A replay is answered with the tail that the thread has now."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        done = await self.inner.append(thread, batch, expected=expected, epoch=epoch)
        return replace(done, tail=(await self.inner.tail(thread)).tail) if done.replayed else done


class TailDigestIgnored(Threads):
    """Only the sequence of the expected tail is compared."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        try:
            return await self.inner.append(thread, batch, expected=expected, epoch=epoch)
        except AppendConflict as conflict:
            actual = (await self.inner.tail(thread)).tail
            if conflict.reason != "tail" or expected.sequence != actual.sequence:
                raise
            return await self.inner.append(thread, batch, expected=actual, epoch=epoch)


class EncodesLate(Threads):
    """A batch is encoded after the first await, when its caller may have changed it."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        await asyncio.sleep(0)
        return await self.inner.append(thread, batch, expected=expected, epoch=epoch)


class ForgetsCancelled(Threads):
    """A retry of a cancelled append is not recognized, though it was committed."""

    def __init__(self, inner: ThreadStore, archives: ArchiveStore) -> None:
        super().__init__(inner, archives)
        self._cancelled: set[str] = set()

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        done = await self.inner.append(thread, batch, expected=expected, epoch=epoch)
        if batch.batch_id in self._cancelled:
            tail = await self.inner.tail(thread)
            raise AppendConflict(thread, "tail", tail.sequence, tail.digest)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._cancelled.add(batch.batch_id)
            raise
        return done


class SwallowsCancellation(Threads):
    """A cancelled append goes on and returns, so that its task is not cancelled."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        given = prepare_batch(batch)
        work = asyncio.ensure_future(
            self.inner.append(thread, given, expected=expected, epoch=epoch)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            return await work


SABOTEURS: Final = (
    Saboteur("lower-epoch-ignored", ("LOG-1",), "test_a_lower_epoch_is_refused", LowerEpochIgnored),
    Saboteur(
        "higher-epoch-writes",
        ("LOG-2",),
        "test_only_the_thread_s_own_epoch_writes",
        HigherEpochWrites,
    ),
    Saboteur(
        "loses-the-last-of-256",
        ("LOG-2",),
        "test_a_batch_of_256_is_stored_whole",
        LosesTheLastOf256,
    ),
    Saboteur("dirty-reads", ("LOG-2",), "test_readers_see_whole_batches_only", DirtyReads),
    Saboteur(
        "replays-to-anyone", ("LOG-3",), "test_the_fence_comes_before_the_batch", ReplaysToAnyone
    ),
    Saboteur(
        "tail-before-records",
        ("LOG-3",),
        "test_a_record_comes_before_the_tail",
        WrongRule(append, "decide_append", _tail_first),
    ),
    Saboteur(
        "replay-ignores-content",
        ("LOG-4",),
        "test_other_content_of_a_stored_batch_is_refused",
        WrongRule(append, "decide_append", _content_ignored),
    ),
    Saboteur(
        "records-unique-in-a-batch-only",
        ("LOG-4",),
        "test_a_record_is_appended_once",
        WrongRule(append, "decide_append", _new_in_the_thread),
    ),
    Saboteur(
        "replays-the-newest-tail",
        ("LOG-4",),
        "test_a_replay_does_not_return_a_later_tail",
        ReplaysTheNewestTail,
    ),
    Saboteur(
        "tail-digest-ignored",
        ("LOG-5",),
        "test_a_wrong_tail_is_told_the_actual_one",
        TailDigestIgnored,
    ),
    Saboteur(
        "encodes-late",
        ("LOG-6",),
        "test_later_changes_of_the_caller_s_objects_change_nothing",
        EncodesLate,
    ),
    Saboteur(
        "forgets-cancelled",
        ("LOG-7",),
        "test_a_cancelled_append_is_all_or_nothing",
        ForgetsCancelled,
    ),
    Saboteur(
        "swallows-cancellation",
        ("LOG-7",),
        "test_a_cancelled_append_is_all_or_nothing",
        SwallowsCancellation,
    ),
)
