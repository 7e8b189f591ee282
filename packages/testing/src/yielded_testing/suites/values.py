"""Cases of hostile values: stored exactly, or refused with a typed error (REC-1, REC-3, REC-4)."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import pytest

from yielded_core.errors import InvalidBatch, InvalidInput, InvalidRecord
from yielded_core.ports.values import Batch
from yielded_core.records.envelope import decode_record
from yielded_core.records.identifiers import BatchId, ProducerId, RecordId, RunId, ThreadId
from yielded_core.records.payloads import RepairAnnotated, UserInputRecorded
from yielded_testing.suites.builders import (
    EMPTY,
    EMPTY_DIGEST,
    INSTANT,
    THREAD,
    Writer,
    batch,
    canonical,
    next_digest,
    note,
    note_value,
    record,
)
from yielded_testing.suites.support import (
    every_operation,
    import_operations,
    refused,
    stored_names,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage

MIB: Final = 1_048_576


def nested(depth: int) -> JsonValue:
    """Return lists so many levels deep."""
    value: JsonValue = 0
    for _ in range(depth):
        value = [value]
    return value


KEPT: Final[dict[str, JsonValue]] = {
    "NUL": "a\u0000b",
    "emoji": "🧵👩‍👩‍👧‍👦",
    "controls": "".join(chr(code) for code in range(32)) + "\x7f\u2028\u2029\ufeff\ufffe",
    "escaped surrogate": "\\ud800",
    "right to left": "\u202eabc\u202c שלום",
    "combining": ["é", "é", "e\u0301"],
    "astral keys": {"\ue000": 1, "𐀀": 2, "é": 3, "": 4, "a\u0000": 5},
    "prototype": {"__proto__": {"constructor": None}, "toString": 1},
    "SQL": "'; DROP TABLE yielded_threads; --",
    "empty": [{}, [], ""],
    "depth 64": nested(64),
    "4,096 keys": {f"k{number}": number for number in range(4_096)},
    "4,096 items": list(range(4_096)),
    "2^53": [2**53, -(2**53)],
    "1e16": [10**16, 1e16, 1e21, 10**20],
    "doubles": [5e-324, 1.7976931348623157e308, 1e-7, 0.1, -1.5, 1e6],
    "negative zero": -0.0,
    "1 MiB": "x" * (MIB - 2),
}
REFUSED: Final[dict[str, Any]] = {
    "depth 65": nested(65),
    "depth 100,000": nested(100_000),
    "4,097 keys": {f"k{number}": number for number in range(4_097)},
    "4,097 items": list(range(4_097)),
    "65,537 values": [[0] * 4_095] * 16,
    "2^53+1": 2**53 + 1,
    "2^64": 2**64,
    "10^400": 10**400,
    "NaN": math.nan,
    "infinity": [math.inf],
    "negative infinity": {"a": -math.inf},
    "lone surrogate": "\ud83e",
    "lone surrogate in a key": {"\udd75": 1},
    "1 MiB and 1": "x" * (MIB - 1),
    "bytes": b"text",
    "tuple": (1, 2),
    "number as key": {1: 2},
    "set": {1},
}
_SHORT: Final = 64
NOISE: Final = "".join(hashlib.sha256(b"%d" % part).hexdigest() for part in range(64))
"""4,096 characters that no compression makes fit an index."""
IDS: Final = (
    "'; DROP TABLE yielded_threads; --",
    '"quoted"',
    "a:b",
    'a","b',
    "a/b\\c",
    "%",
    "_",
    "\u202eabc",
    "__proto__",
    "🧵",
    " ",
    "a ",
    "a",
    "A",
    "é",
    "e\u0301",
    "1",
    "01",
    "1e0",
    "null",
    "x" * 4_096,
    "x" * 4_095 + "y",
    NOISE,
    f"{NOISE[:-1]}!",
    "🧵" * 2_048,
    "\n\t\x01",
)
"""Distinct identifiers of hostile shapes, the longest included."""


def in_order(names: Sequence[str]) -> bool:
    """Say whether each of IDS is among some names once, the short ones by their code points.

    The index of a store may hold long names under keys, whose order it then goes by.
    """
    short = [name for name in names if len(name) <= _SHORT]
    return Counter(names) == Counter(IDS) and short == sorted(short, key=str.encode)


class ValueCases:
    """REC-3 and REC-4: values at and beyond the bounds."""

    @pytest.mark.rule("REC-3", "REC-4")
    @pytest.mark.parametrize("kind", list(KEPT))
    async def test_a_legal_value_is_stored_exactly(self, storage: Storage, kind: str) -> None:
        """It comes back by page and by id as its canonical bytes and as an equal value."""
        writer = await Writer.begin(storage)
        await writer.append(note("one", KEPT[kind]))
        stored = (await storage.threads.read(THREAD))[0]
        expected = json.loads(json.dumps(note_value("one", KEPT[kind])), parse_int=float)
        assert stored.wire == canonical(expected)
        assert isinstance(stored.record.payload, RepairAnnotated)
        assert stored.record.payload.details == KEPT[kind]
        assert await storage.threads.get_record(THREAD, RecordId("one")) == stored

    @pytest.mark.rule("REC-3")
    @pytest.mark.parametrize("kind", list(REFUSED))
    async def test_an_illegal_value_is_refused(self, storage: Storage, kind: str) -> None:
        """A typed error that names the record and shows nothing of it; nothing is written."""
        writer = await Writer.begin(storage)
        payload = RepairAnnotated.model_construct(reason="canary", details=REFUSED[kind])
        bad = note("bad").model_copy(update={"payload": payload})
        fault = await refused(InvalidInput, writer.append(note("good"), bad))
        assert "canary" not in f"{fault}{fault!r}"
        assert await storage.threads.read(THREAD) == ()
        await writer.append(note("good"))

    @pytest.mark.rule("REC-3", "REC-0")
    @pytest.mark.parametrize(("text", "fits"), [("🧵" * 32_768, True), ("🧵" * 32_769, False)])
    async def test_text_is_counted_in_utf_16_units(
        self, storage: Storage, text: str, *, fits: bool
    ) -> None:
        """A character beyond the Basic Multilingual Plane counts twice."""
        writer = await Writer.begin(storage)
        payload = RepairAnnotated.model_construct(reason=text, details=None)
        given = note("one").model_copy(update={"payload": payload})
        if fits:
            await writer.append(given)
            assert await stored_names(storage) == ["one"]
        else:
            await refused(InvalidRecord, writer.append(given))

    @pytest.mark.slow_case
    @pytest.mark.rule("REC-3")
    async def test_a_batch_holds_16_mib(self, storage: Storage) -> None:
        """More is refused as a whole; what fits is stored as a whole."""
        writer = await Writer.begin(storage)
        big = [note(f"big-{number}", "x" * (MIB - 2)) for number in range(16)]
        await refused(InvalidBatch, writer.append(*big))
        assert await storage.threads.read(THREAD) == ()
        await writer.append(*big[:15])

    @pytest.mark.rule("REC-4")
    @pytest.mark.parametrize("offset", [None, timedelta(hours=1)])
    async def test_an_instant_is_utc_milliseconds(
        self, storage: Storage, offset: timedelta | None
    ) -> None:
        """Finer instants, and those of another zone, are refused, not rounded or converted."""
        writer = await Writer.begin(storage)
        wrong = INSTANT + timedelta(microseconds=1)
        if offset is not None:
            wrong = INSTANT.astimezone(timezone(offset))
        with pytest.raises((InvalidInput, ValueError)):
            await writer.append(note("one").model_copy(update={"created_at": wrong}))
        assert await storage.threads.read(THREAD) == ()

    @pytest.mark.rule("REC-4")
    async def test_unknown_fields_survive(self, storage: Storage) -> None:
        """Members that this version does not know are stored and read byte for byte."""
        value = note_value("one", {"known": True})
        value["futureEnvelope"] = {"b": [1.5, None], "a": "🧵"}
        value["payload"]["futureField"] = 7
        wire = canonical(value)
        writer = await Writer.begin(storage)
        await writer.append(decode_record(wire))
        stored = (await storage.threads.read(THREAD))[0]
        assert stored.wire == wire
        assert (await storage.threads.get_record(THREAD, RecordId("one"))).wire == wire

    @pytest.mark.rule("REC-7", "REC-4")
    async def test_unknown_fields_are_digested(self, storage: Storage) -> None:
        """The chain is made over the stored bytes, unknown members included."""
        value = note_value("one")
        value["futureEnvelope"] = True
        wire = canonical(value)
        done = await (await Writer.begin(storage)).append(decode_record(wire))
        assert done.tail.digest == next_digest(EMPTY_DIGEST, "batch-1", [wire])


class IdentityValueCases:
    """REC-1: identifiers of any shape are told apart, on every path that they take."""

    @pytest.mark.rule("REC-1")
    async def test_thread_ids_of_any_shape_are_distinct(self, storage: Storage) -> None:
        """Each names its own thread, and the listing gives each back."""
        for number, name in enumerate(IDS):
            writer = await Writer.begin(storage, ThreadId(name), epoch=number + 1)
            await writer.append(note(f"of-{number}"))
        for number, name in enumerate(IDS):
            assert (await storage.threads.tail(ThreadId(name))).epoch == number + 1
            assert await stored_names(storage, ThreadId(name)) == [f"of-{number}"]
        page = await storage.threads.threads(limit=100)
        assert in_order([each.thread_id for each in page])

    @pytest.mark.rule("REC-1")
    async def test_record_ids_of_any_shape_are_distinct(self, storage: Storage) -> None:
        """Each finds its own record."""
        writer = await Writer.begin(storage)
        await writer.append(*(note(name, number) for number, name in enumerate(IDS)))
        assert await stored_names(storage) == list(IDS)
        for number, name in enumerate(IDS, start=1):
            found = await storage.threads.get_record(THREAD, RecordId(name))
            assert (found.sequence, found.record.record_id) == (number, name)

    @pytest.mark.rule("REC-1")
    async def test_batch_producer_and_run_ids_of_any_shape_are_distinct(
        self, storage: Storage
    ) -> None:
        """Each batch replays as itself, each run finds its own input."""
        writer = await Writer.begin(storage)
        for number, name in enumerate(IDS):
            given = UserInputRecorded(kind="user", run_id=RunId(name), input=number)
            await writer.append_batch(
                batch(name, record(f"r-{number}", given), producer=ProducerId(name))
            )
        stored = await storage.threads.read_batches(
            THREAD, after=0, through=writer.tail.sequence, byte_limit=MIB
        )
        assert [(each.batch_id, each.producer_id) for each in stored] == [(n, n) for n in IDS]
        for number, name in enumerate(IDS, start=1):
            found = await storage.threads.get_run_input(THREAD, RunId(name))
            assert (found.sequence, found.batch_id) == (number, name)

    @pytest.mark.rule("REC-1")
    @pytest.mark.parametrize("bad", ["", "a\x00b", "\ud800", "x" * 4_097, "🧵" * 2_049, None, 7])
    async def test_what_is_no_identifier_reaches_no_store(self, storage: Storage, bad: Any) -> None:  # noqa: ANN401 - anything may come
        """Every operation refuses it as a thread id, an append also in a batch or a record."""
        thread = ThreadId(bad)
        await refused(InvalidInput, storage.threads.materialize(thread, epoch=1))
        operations = every_operation(storage, thread) | import_operations(storage, thread)
        for call in operations.values():
            await refused(InvalidInput, call())
        await Writer.begin(storage)
        good = note("one")
        for given in (
            batch("batch", good.model_copy(update={"record_id": RecordId(bad)})),
            batch("batch", good, producer=ProducerId(bad)),
            Batch(BatchId(bad), ProducerId("producer"), (good,)),
        ):
            work = storage.threads.append(THREAD, given, expected=EMPTY, epoch=1)
            await refused(InvalidInput, work)
        assert [each.thread_id for each in await storage.threads.threads()] == [THREAD]
