"""Cases of refusal, replay and retry: LOG-3 to LOG-7."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

import pytest

from yielded_core.errors import AppendConflict, FenceRejected, ThreadNotMaterialized
from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import Appended, Tail
from yielded_core.records.identifiers import ProducerId
from yielded_core.records.payloads import RepairAnnotated
from yielded_testing.suites.builders import (
    EMPTY,
    NOWHERE,
    OTHER,
    THREAD,
    Writer,
    actual_tail,
    batch,
    canonical,
    note,
    note_value,
    notes,
)
from yielded_testing.suites.support import refused, stored_names, turns

if TYPE_CHECKING:
    from yielded_core.ports.values import Batch
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage

STORED: Final = batch("batch-1", note("note-1"), note("note-2"))
SAME_ID: Final = batch("batch-1", note("note-1"), note("other"))
TAKEN: Final = batch("batch-2", note("new"), note("note-2"))
TWICE: Final = batch("batch-2", note("new"), note("new"))
NEXT: Final = batch("batch-2", note("new"))
WRONG_TAILS: Final = ("before", "beyond", "digest", "both", "empty")


def wrong_tail(kind: str, tail: Tail) -> Tail:
    """Return a tail that is wrong in one way."""
    wrong = {
        "before": Tail(tail.sequence - 1, tail.digest),
        "beyond": Tail(tail.sequence + 1, tail.digest),
        "digest": Tail(tail.sequence, NOWHERE),
        "both": Tail(0, NOWHERE),
        "empty": EMPTY,
    }
    return wrong[kind]


class RefusalCases:
    """LOG-3: of several reasons to refuse, the first of the list is told. LOG-5: the tail."""

    @pytest.mark.rule("LOG-3")
    @pytest.mark.parametrize("epoch", [1, 7])
    async def test_not_materialized_comes_before_everything(
        self, storage: Storage, epoch: int
    ) -> None:
        """Without a thread, neither epoch nor records nor tail are looked at."""
        await _stored(storage)
        for given in (NEXT, TWICE, STORED):
            work = storage.threads.append(OTHER, given, expected=Tail(9, NOWHERE), epoch=epoch)
            await refused(ThreadNotMaterialized, work)

    @pytest.mark.rule("LOG-3", "LOG-2")
    @pytest.mark.parametrize("epoch", [1, 3])
    @pytest.mark.parametrize("given", [STORED, SAME_ID, TAKEN, TWICE, NEXT])
    async def test_the_fence_comes_before_the_batch(
        self, storage: Storage, epoch: int, given: Batch
    ) -> None:
        """A stale epoch learns that it is stale, even when it replays."""
        await _stored(storage)
        await storage.threads.materialize(THREAD, epoch=2)
        work = storage.threads.append(THREAD, given, expected=Tail(9, NOWHERE), epoch=epoch)
        fence = await refused(FenceRejected, work)
        assert (fence.actual, fence.attempted) == (2, epoch)

    @pytest.mark.rule("LOG-3", "LOG-4")
    @pytest.mark.parametrize("tail", ["right", "wrong"])
    async def test_the_batch_comes_before_its_records(self, storage: Storage, tail: str) -> None:
        """Another batch of a stored id is `batch-digest`, though its record id is stored too."""
        writer = await _stored(storage)
        expected = writer.tail if tail == "right" else EMPTY
        conflict = await _conflict(storage, SAME_ID, expected)
        assert conflict.reason == "batch-digest"

    @pytest.mark.rule("LOG-3", "LOG-4")
    @pytest.mark.parametrize("given", [TAKEN, TWICE])
    async def test_a_record_comes_before_the_tail(self, storage: Storage, given: Batch) -> None:
        """A record id that is stored, or twice in the batch, is told before a wrong tail."""
        await _stored(storage)
        assert (await _conflict(storage, given, EMPTY)).reason == "record-identity"

    @pytest.mark.rule("LOG-5")
    @pytest.mark.parametrize("kind", WRONG_TAILS)
    async def test_a_wrong_tail_is_told_the_actual_one(self, storage: Storage, kind: str) -> None:
        """A wrong sequence or digest is refused, and the error suffices to go on."""
        writer = await _stored(storage)
        conflict = await _conflict(storage, NEXT, wrong_tail(kind, writer.tail))
        assert conflict.reason == "tail"
        assert actual_tail(conflict) == writer.tail
        assert await stored_names(storage) == ["note-1", "note-2"]
        done = await storage.threads.append(THREAD, NEXT, expected=actual_tail(conflict), epoch=1)
        assert done.first_sequence == 3

    @pytest.mark.rule("LOG-5")
    async def test_an_empty_thread_has_a_tail_too(self, storage: Storage) -> None:
        """The expected tail of the first append is sequence 0 with 64 zeros, nothing else."""
        await Writer.begin(storage)
        for tail in (Tail(0, NOWHERE), Tail(1, EMPTY.digest)):
            conflict = await _conflict(storage, NEXT, tail)
            assert actual_tail(conflict) == EMPTY

    @pytest.mark.rule("LOG-5", "LOG-4")
    @pytest.mark.parametrize("given", [SAME_ID, TAKEN, TWICE])
    async def test_every_conflict_reports_the_actual_tail(
        self, storage: Storage, given: Batch
    ) -> None:
        """The tail is reported whatever the conflict is."""
        writer = await _stored(storage)
        await writer.append(note("later"), batch_id="later")
        assert actual_tail(await _conflict(storage, given, EMPTY)) == writer.tail


class ReplayCases:
    """LOG-4: a batch is recognized by its id and content, a record by its id."""

    @pytest.mark.rule("LOG-4")
    @pytest.mark.parametrize("kind", ["right", *WRONG_TAILS])
    async def test_a_replay_returns_the_first_result(self, storage: Storage, kind: str) -> None:
        """The same content again is answered with the first result, whatever tail it declares."""
        writer = await _stored(storage)
        first = writer.appended[0]
        expected = EMPTY if kind == "right" else wrong_tail(kind, writer.tail)
        again = await storage.threads.append(THREAD, STORED, expected=expected, epoch=1)
        assert again == Appended(first.first_sequence, first.tail, replayed=True)
        assert await stored_names(storage) == ["note-1", "note-2"]

    @pytest.mark.rule("LOG-4")
    async def test_a_replay_does_not_return_a_later_tail(self, storage: Storage) -> None:
        """A batch in the middle of the log is answered with the tail that it made."""
        writer = await _stored(storage)
        await writer.fill(2, 2)
        again = await storage.threads.append(THREAD, STORED, expected=writer.tail, epoch=1)
        assert again == Appended(1, writer.appended[0].tail, replayed=True)
        assert (await storage.threads.tail(THREAD)).tail == writer.tail

    @pytest.mark.rule("LOG-4")
    async def test_the_next_owner_can_replay(self, storage: Storage) -> None:
        """After a takeover the new epoch replays what the old one committed; it stays the old's."""
        writer = await _stored(storage)
        await storage.threads.materialize(THREAD, epoch=6)
        again = await storage.threads.append(THREAD, STORED, expected=EMPTY, epoch=6)
        assert (again.tail, again.replayed) == (writer.tail, True)
        page = await storage.threads.read_batches(THREAD, after=0, through=2, byte_limit=1)
        assert [each.epoch for each in page] == [1]

    @pytest.mark.rule("LOG-4")
    @pytest.mark.parametrize(
        "given",
        [
            pytest.param(batch("batch-1", note("note-1")), id="fewer"),
            pytest.param(batch("batch-1", note("note-2"), note("note-1")), id="order"),
            pytest.param(batch("batch-1", note("note-1"), note("note-2", 1)), id="payload"),
            pytest.param(batch("batch-1", *notes("note", 3)), id="more"),
            pytest.param(batch("batch-1", note("a"), note("b")), id="records"),
            pytest.param(
                batch("batch-1", *notes("note", 2), producer=ProducerId("producer-2")),
                id="producer",
            ),
            pytest.param(
                batch(
                    "batch-1",
                    note("note-1").model_copy(update={"deployment_id": "deployment-2"}),
                    note("note-2"),
                ),
                id="envelope",
            ),
        ],
    )
    async def test_other_content_of_a_stored_batch_is_refused(
        self, storage: Storage, given: Batch
    ) -> None:
        """Any difference in producer or records is `batch-digest`, and nothing is written."""
        writer = await _stored(storage)
        conflict = await _conflict(storage, given, writer.tail)
        assert conflict.reason == "batch-digest"
        assert await stored_names(storage) == ["note-1", "note-2"]

    @pytest.mark.rule("LOG-4")
    async def test_equal_values_are_equal_content(self, storage: Storage) -> None:
        """Content is canonical bytes: order of keys and spelling of numbers make no difference."""
        writer = await Writer.begin(storage)
        details: JsonValue = {"a": 1, "b": [1e2, -0.0]}
        done = await writer.append(note("one", details))
        other: JsonValue = {"b": [100, 0], "a": 1.0}
        again = await storage.threads.append(
            THREAD, batch("batch-1", note("one", other)), expected=EMPTY, epoch=1
        )
        assert (again.tail, again.replayed) == (done.tail, True)

    @pytest.mark.rule("LOG-4")
    @pytest.mark.parametrize("given", [TAKEN, TWICE])
    async def test_a_record_is_appended_once(self, storage: Storage, given: Batch) -> None:
        """A record id twice in a batch, or stored by another batch, is `record-identity`."""
        writer = await _stored(storage)
        conflict = await _conflict(storage, given, writer.tail)
        assert conflict.reason == "record-identity"
        assert await stored_names(storage) == ["note-1", "note-2"]

    @pytest.mark.rule("LOG-4")
    async def test_a_record_is_known_however_old(self, storage: Storage) -> None:
        """The first and the last of 600 records are both known by their ids."""
        writer = await Writer.begin(storage)
        await writer.fill(200, 200, 200)
        for name in ("note-1", "note-200", "note-201", "note-600"):
            conflict = await _conflict(storage, batch("late", note(name)), writer.tail)
            assert conflict.reason == "record-identity"

    @pytest.mark.rule("LOG-4")
    async def test_a_refused_batch_leaves_its_id_free(self, storage: Storage) -> None:
        """Neither the batch id nor the record ids of a refused append are taken."""
        writer = await _stored(storage)
        await _conflict(storage, TAKEN, writer.tail)
        await _conflict(storage, batch("batch-3", note("free")), EMPTY)
        for given in (NEXT, batch("batch-3", note("free"))):
            assert not (await writer.append_batch(given)).replayed

    @pytest.mark.rule("LOG-4", "LOG-7")
    async def test_a_retry_that_overtakes_commits_once(self, storage: Storage) -> None:
        """16 copies of one append at once: one result, one commit, the others replays."""
        await Writer.begin(storage)
        done = await asyncio.gather(
            *(storage.threads.append(THREAD, STORED, expected=EMPTY, epoch=1) for _ in range(16))
        )
        assert {(each.first_sequence, each.tail) for each in done} == {(1, done[0].tail)}
        assert sorted(each.replayed for each in done) == [False, *[True] * 15]
        assert await stored_names(storage) == ["note-1", "note-2"]

    @pytest.mark.rule("LOG-6")
    async def test_a_prepared_batch_serves_every_retry(self, storage: Storage) -> None:
        """One preparation is refused at a wrong tail, commits at the right one, and replays."""
        writer = await _stored(storage)
        prepared = prepare_batch(NEXT)
        await refused(
            AppendConflict, storage.threads.append(THREAD, prepared, expected=EMPTY, epoch=1)
        )
        done = await writer.append_batch(prepared)
        for given in (prepared, NEXT):
            again = await storage.threads.append(THREAD, given, expected=EMPTY, epoch=1)
            assert again == Appended(3, done.tail, replayed=True)
        assert await stored_names(storage) == ["note-1", "note-2", "new"]

    @pytest.mark.rule("LOG-6")
    async def test_later_changes_of_the_caller_s_objects_change_nothing(
        self, storage: Storage
    ) -> None:
        """What is stored is what was given when the append began."""
        await Writer.begin(storage)
        inner: dict[str, JsonValue] = {"kept": True}
        details: list[JsonValue] = [inner, "kept"]
        given = batch("batch-1", note("one", details), note("two", inner))
        work = asyncio.create_task(storage.threads.append(THREAD, given, expected=EMPTY, epoch=1))
        await turns(1)
        inner["late"] = True
        details.append("late")
        await work
        details.clear()
        one, two = await storage.threads.read(THREAD)
        assert one.wire == canonical(note_value("one", [{"kept": True}, "kept"]))
        assert two.wire == canonical(note_value("two", {"kept": True}))

    @pytest.mark.rule("LOG-6", "LOG-8")
    async def test_what_a_reader_changes_is_its_own(self, storage: Storage) -> None:
        """A reader that changes the values of its page changes nobody else's."""
        writer = await Writer.begin(storage)
        await writer.append(note("one", {"kept": [1]}))
        stored = (await storage.threads.read(THREAD))[0]
        payload = stored.record.payload
        assert isinstance(payload, RepairAnnotated)
        cast("dict[str, object]", payload.details)["late"] = True
        again = await storage.threads.get_record(THREAD, stored.record.record_id)
        assert again.wire == canonical(note_value("one", {"kept": [1]}))
        assert again.record == note("one", {"kept": [1]})


async def _stored(storage: Storage) -> Writer:
    writer = await Writer.begin(storage)
    await writer.append_batch(STORED)
    return writer


async def _conflict(storage: Storage, given: Batch, expected: Tail) -> AppendConflict:
    work = storage.threads.append(THREAD, given, expected=expected, epoch=1)
    return await refused(AppendConflict, work)
