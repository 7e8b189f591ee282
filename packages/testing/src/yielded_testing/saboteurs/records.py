"""Saboteurs of records: identifiers, values, wire, placement, chain (REC)."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson
import rfc8785

from yielded_core import digest
from yielded_core.log import placement
from yielded_core.ports.values import Batch
from yielded_core.records import bounded_json, envelope, identifiers
from yielded_core.records.envelope import EncodedRecord, Record, decode_record
from yielded_core.records.identifiers import ThreadId
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yielded_core.ports.values import Appended, PreparedBatch, StoredBatch, Tail, ThreadTail
    from yielded_core.records.bounded_json import JsonShape
    from yielded_core.records.envelope import StoredRecord


def _code_points(_right: Callable[[str], int]) -> Callable[[str], int]:
    """Text is counted in code points, so that an astral character counts once."""
    return len


def _c_strings(right: Callable[[object, int], str | None]) -> Callable[[object, int], str | None]:
    """Identifiers are checked up to their first U+0000, as C strings are."""

    def wrong(text: object, units: int) -> str | None:
        return right(text.partition("\x00")[0] if isinstance(text, str) else text, units)

    return wrong


def _one_level_more(right: Callable[..., JsonShape]) -> Callable[..., JsonShape]:
    """JSON may be one level deeper than the bound."""

    def wrong(value: object, **bounds: int) -> JsonShape:
        return right(value, **{**bounds, "depth": bounds.get("depth", 64) + 1})

    return wrong


def _trusting(_right: object) -> Callable[[bytes], EncodedRecord]:
    """Stored bytes are decoded but not compared with their canonical form."""
    return lambda wire: EncodedRecord(decode_record(wire), wire)


def _unplaced(_right: object) -> Callable[..., None]:
    """Where a record may stand in its thread is not checked."""
    return _unchecked


def _alone(_right: object) -> Callable[..., None]:
    """A record may come without the one that it must be committed with."""
    return _unchecked


def _unchecked(*_arguments: object) -> None:
    return None


def _unlinked(right: Callable[[str, bytes], str]) -> Callable[[str, bytes], str]:
    """A batch's digest does not cover the digest before it."""
    return lambda _previous, content: right("0" * 64, content)


def _reencoded(right: Callable[..., bytes]) -> Callable[..., bytes]:
    """The digest is made over the fields that this version knows, not over the stored bytes."""

    def known(wire: bytes) -> bytes:
        try:
            value: dict[str, Any] = orjson.loads(wire)
        except orjson.JSONDecodeError:
            return wire
        return orjson.dumps({name: each for name, each in value.items() if name in _ENVELOPE})

    def wrong(batch: str, producer: str, records: Sequence[bytes]) -> bytes:
        return right(batch, producer, [known(wire) for wire in records])

    return wrong


_ENVELOPE: Final = frozenset(
    {"recordId", "family", "schemaVersion", "createdAt", "deploymentId", "payload"}
)


class NormalizedIds(Threads):
    """Thread ids are normalized, so that two spellings of one name are one thread."""

    async def materialize(self, thread: ThreadId, *, epoch: int) -> ThreadTail:
        return await self.inner.materialize(_composed(thread), epoch=epoch)

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        return await self.inner.append(_composed(thread), batch, expected=expected, epoch=epoch)

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        return await self.inner.read(_composed(thread), after=after, limit=limit)


def _composed(thread: ThreadId) -> ThreadId:
    return ThreadId(unicodedata.normalize("NFC", thread)) if type(thread) is str else thread


class ForgetsUnknownFields(Threads):
    """An append keeps the fields that this version knows and drops the others."""

    async def append(
        self, thread: ThreadId, batch: Batch | PreparedBatch, *, expected: Tail, epoch: int
    ) -> Appended:
        if isinstance(batch, Batch):
            batch = replace(batch, records=tuple(known_part(record) for record in batch.records))
        return await self.inner.append(thread, batch, expected=expected, epoch=epoch)


def known_part(record: Record) -> Record:
    """Return a record without the members of its envelope that this version does not know."""
    if not record.__pydantic_extra__:
        return record
    return Record.model_construct(**{name: getattr(record, name) for name in Record.model_fields})


class StoresParsedJson(Threads):
    """Stored records are kept parsed and written again when they are read (a JSONB column)."""

    async def read_batches(
        self, thread: ThreadId, *, after: int, through: int, byte_limit: int
    ) -> tuple[StoredBatch, ...]:
        found = await self.inner.read_batches(
            thread, after=after, through=through, byte_limit=byte_limit
        )
        return tuple(
            replace(each, records=tuple((name, _rewritten(wire)) for name, wire in each.records))
            for each in found
        )


def _rewritten(wire: bytes) -> bytes:
    try:
        return rfc8785.dumps(orjson.loads(wire))
    except orjson.JSONDecodeError:
        return b"{}"


class PageOfOneBatch(Threads):
    """Every record of a page is said to be of the batch of its first one."""

    async def read(
        self, thread: ThreadId, *, after: int = 0, limit: int = 1_024
    ) -> tuple[StoredRecord, ...]:
        page = await self.inner.read(thread, after=after, limit=limit)
        return tuple(replace(each, batch_id=page[0].batch_id) for each in page)


SABOTEURS: Final = (
    Saboteur(
        "code-points",
        ("REC-0", "REC-1"),
        "test_text_is_counted_in_utf_16_units",
        WrongRule(identifiers, "utf16_length", _code_points),
    ),
    Saboteur(
        "c-strings",
        ("REC-1",),
        "test_what_is_no_identifier_reaches_no_store",
        WrongRule(identifiers, "identifier_fault", _c_strings),
    ),
    Saboteur(
        "normalized-ids",
        ("REC-1",),
        "test_thread_ids_of_any_shape_are_distinct",
        NormalizedIds,
    ),
    Saboteur(
        "one-level-more",
        ("REC-3",),
        "test_an_illegal_value_is_refused",
        WrongRule(bounded_json, "check_json", _one_level_more),
    ),
    Saboteur(
        "forgets-unknown-fields",
        ("REC-4",),
        "test_unknown_fields_survive",
        ForgetsUnknownFields,
    ),
    Saboteur(
        "canonical-form-unchecked",
        ("REC-4",),
        "test_a_record_that_is_not_canonical_is_found",
        WrongRule(envelope, "encoded_from_wire", _trusting),
    ),
    Saboteur(
        "page-of-one-batch",
        ("REC-5",),
        "test_a_stored_record_says_where_it_stands",
        PageOfOneBatch,
    ),
    Saboteur(
        "placement-unchecked",
        ("REC-6",),
        "test_a_thread_s_creation_is_its_first_record",
        WrongRule(placement, "check_placement", _unplaced),
    ),
    Saboteur(
        "company-unchecked",
        ("REC-6",),
        "test_a_result_comes_with_its_settled_call",
        WrongRule(placement, "check_company", _alone),
    ),
    Saboteur(
        "chain-without-links",
        ("REC-7",),
        "test_the_tail_digest_is_the_chain_s",
        WrongRule(digest, "chain_digest", _unlinked),
    ),
    Saboteur(
        "chain-over-known-fields",
        ("REC-7",),
        "test_unknown_fields_are_digested",
        WrongRule(digest, "batch_content", _reencoded),
    ),
    Saboteur(
        "stores-parsed-json",
        ("ARC-3", "REC-4"),
        "test_a_record_that_is_not_canonical_is_found",
        StoresParsedJson,
    ),
)
