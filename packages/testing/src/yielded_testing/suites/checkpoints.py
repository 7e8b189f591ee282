"""Cases of checkpoints: bound to a batch's tail, given back as they were (LOG-13)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import pytest

from yielded_core.errors import (
    CheckpointRefused,
    InvalidArgument,
    ThreadDeleted,
    ThreadNotMaterialized,
)
from yielded_core.ports.values import Checkpoint, Tail
from yielded_core.records.identifiers import Digest
from yielded_testing.suites.builders import (
    EMPTY,
    INSTANT_TEXT,
    NOWHERE,
    OTHER,
    THREAD,
    Writer,
)
from yielded_testing.suites.support import refused
from yielded_testing.suites.values import KEPT, nested

if TYPE_CHECKING:
    from yielded_core.ports.threads import CheckpointStore
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage


def checkpoint(
    tail: Tail, state: JsonValue = None, *, version: int = 1, instant: str = INSTANT_TEXT
) -> Checkpoint:
    """Return a checkpoint at a tail."""
    return Checkpoint(THREAD, tail.sequence, tail.digest, state, instant, version)


def store_of(storage: Storage) -> CheckpointStore:
    """Return the checkpoints of a storage that offers them."""
    assert storage.checkpoints is not None
    return storage.checkpoints


class CheckpointSuite:
    """Every rule of checkpoints; for adapters that offer them."""

    @pytest.mark.rule("LOG-13", "STO-1")
    async def test_checkpoints_are_declared(self, storage: Storage) -> None:
        """A storage that offers checkpoints says so."""
        assert "checkpoints" in (await storage.info()).optional_ports
        assert storage.checkpoints is not None

    @pytest.mark.rule("LOG-13")
    @pytest.mark.parametrize("kind", list(KEPT))
    async def test_a_state_comes_back_as_it_was(self, storage: Storage, kind: str) -> None:
        """Any bounded JSON, hostile values included."""
        writer = await Writer.begin(storage)
        await writer.fill(2)
        given = checkpoint(writer.tail, KEPT[kind])
        await store_of(storage).save(given)
        assert await store_of(storage).load(THREAD) == given

    @pytest.mark.rule("LOG-13")
    async def test_the_newest_at_or_before_a_sequence_is_loaded(self, storage: Storage) -> None:
        """In whatever order they were saved; none before the first."""
        writer = await Writer.begin(storage)
        done = await writer.fill(2, 3, 1, 2)
        assert await store_of(storage).load(THREAD) is None
        kept = [checkpoint(done[at].tail, f"state {at}") for at in (2, 0, 1)]
        for each in kept:
            await store_of(storage).save(each)
        expected = {0: None, 1: None, 2: "state 0", 4: "state 0", 5: "state 1", 6: "state 2"}
        expected |= {7: "state 2", 8: "state 2", 1_000: "state 2"}
        for at, state in expected.items():
            found = await store_of(storage).load(THREAD, at_or_before=at)
            assert (found and found.state) == state
        assert await store_of(storage).load(THREAD) == kept[0]

    @pytest.mark.rule("LOG-13")
    async def test_a_later_one_replaces_one_at_the_same_sequence(self, storage: Storage) -> None:
        """The newest saved state is given back."""
        writer = await Writer.begin(storage)
        await writer.fill(1)
        for state in ("first", "second"):
            await store_of(storage).save(checkpoint(writer.tail, state))
        found = await store_of(storage).load(THREAD)
        assert found == checkpoint(writer.tail, "second")

    @pytest.mark.rule("LOG-13")
    async def test_a_checkpoint_ahead_of_the_tail_is_refused(self, storage: Storage) -> None:
        """Whatever its digest is."""
        writer = await Writer.begin(storage)
        await writer.fill(2)
        for digest in (writer.tail.digest, NOWHERE):
            await _refused(storage, checkpoint(Tail(3, digest)), "ahead-of-tail")

    @pytest.mark.rule("LOG-13")
    async def test_a_checkpoint_binds_to_a_batch_s_tail(self, storage: Storage) -> None:
        """Another digest, the middle of a batch, and the empty tail are `digest-mismatch`."""
        writer = await Writer.begin(storage)
        first, second = await writer.fill(2, 2)
        for wrong in (
            Tail(4, NOWHERE),
            Tail(4, first.tail.digest),
            Tail(2, second.tail.digest),
            Tail(3, second.tail.digest),
            Tail(1, first.tail.digest),
            Tail(0, EMPTY.digest),
            Tail(4, Digest("")),
        ):
            await _refused(storage, checkpoint(wrong), "digest-mismatch")
        await store_of(storage).save(checkpoint(first.tail))

    @pytest.mark.rule("LOG-13")
    @pytest.mark.parametrize("version", [0, 2, 3, -1])
    async def test_another_version_is_refused(self, storage: Storage, version: int) -> None:
        """Only schema version 1 is kept."""
        writer = await Writer.begin(storage)
        await writer.fill(1)
        given = checkpoint(writer.tail, version=version)
        await _refused(storage, given, "unsupported-version")

    @pytest.mark.rule("LOG-13", "REC-3")
    async def test_a_state_beyond_bounded_json_is_refused(self, storage: Storage) -> None:
        """States and instants that are not what they should be are `corrupt`."""
        writer = await Writer.begin(storage)
        await writer.fill(1)
        bad: list[Any] = [math.nan, nested(65), "x" * 1_048_576, "\ud800", 2**64, {1: 2}, b"x"]
        for state in bad:
            await _refused(storage, checkpoint(writer.tail, cast("JsonValue", state)), "corrupt")
        for instant in ("", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678901Z", "yesterday"):
            await _refused(storage, checkpoint(writer.tail, instant=instant), "corrupt")

    @pytest.mark.rule("LOG-13")
    @pytest.mark.parametrize("sequence", [-1, 2**64, True, 1.0, "1"])
    async def test_what_is_no_sequence_is_refused(self, storage: Storage, sequence: int) -> None:
        """A checkpoint stands at an integer from 0 that a sequence can have."""
        writer = await Writer.begin(storage)
        await writer.fill(1)
        given = checkpoint(Tail(sequence, writer.tail.digest))
        await refused(InvalidArgument, store_of(storage).save(given))
        await refused(InvalidArgument, store_of(storage).load(THREAD, at_or_before=sequence))

    @pytest.mark.rule("LOG-13")
    async def test_a_saved_state_is_a_copy(self, storage: Storage) -> None:
        """Later changes of what was given, or of what was loaded, change nothing stored."""
        writer = await Writer.begin(storage)
        await writer.fill(1)
        state: dict[str, JsonValue] = {"kept": [1]}
        await store_of(storage).save(checkpoint(writer.tail, state))
        state["late"] = True
        found = await store_of(storage).load(THREAD)
        assert found is not None
        cast("dict[str, Any]", found.state)["kept"].append(2)
        again = await store_of(storage).load(THREAD)
        assert again == checkpoint(writer.tail, {"kept": [1]})

    @pytest.mark.rule("LOG-13", "ARC-7")
    async def test_checkpoints_belong_to_their_thread(self, storage: Storage) -> None:
        """Another thread has none; a thread never materialized, or deleted, is a typed error."""
        writer = await Writer.begin(storage)
        await writer.fill(1)
        await store_of(storage).save(checkpoint(writer.tail))
        await refused(ThreadNotMaterialized, store_of(storage).load(OTHER))
        await Writer.begin(storage, OTHER)
        assert await store_of(storage).load(OTHER) is None
        await storage.threads.delete_thread(THREAD)
        await refused(ThreadDeleted, store_of(storage).load(THREAD))
        await refused(ThreadDeleted, store_of(storage).save(checkpoint(writer.tail)))

    @pytest.mark.rule("LOG-13", "ARC-6")
    async def test_checkpoints_outlive_archiving_and_takeover(self, storage: Storage) -> None:
        """What a checkpoint binds to is the chain, wherever its records are kept."""
        writer = await Writer.begin(storage)
        first, second = await writer.fill(2, 2)
        await store_of(storage).save(checkpoint(first.tail, "first"))
        await storage.archives.seal_range(THREAD, through=4)
        await storage.archives.archive_range(THREAD, first=1)
        await storage.threads.materialize(THREAD, epoch=2)
        assert await store_of(storage).load(THREAD) == checkpoint(first.tail, "first")
        await store_of(storage).save(checkpoint(second.tail, "second"))
        assert await store_of(storage).load(THREAD) == checkpoint(second.tail, "second")


async def _refused(storage: Storage, given: Checkpoint, reason: str) -> None:
    fault = await refused(CheckpointRefused, store_of(storage).save(given))
    assert (fault.thread, fault.sequence, fault.reason) == (
        THREAD,
        given.through_sequence,
        reason,
    )
    assert await store_of(storage).load(THREAD) is None
