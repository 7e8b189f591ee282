"""The text of transfer pages: canonical, bounded, and no byte of it free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from yielded_core.digest import EMPTY_TAIL_DIGEST, epoch_seal
from yielded_core.errors import ArchiveRefused
from yielded_core.log.append import accept
from yielded_core.log.pages import (
    FIRST_PAGE_DIGEST,
    Page,
    SealedPage,
    page_digest,
    read_page,
    seal_page,
)
from yielded_core.log.prepared import prepare_batch
from yielded_core.ports.values import CapturedThread, StoredBatch, Tail, ThreadTail
from yielded_core.records.bounds import CURSOR_UNITS, LAST_EPOCH, TRANSFER_BYTES
from yielded_core.records.identifiers import Cursor, Digest, RecordId, ThreadId
from yielded_testing.suites.archive_pages import Page as PageValue
from yielded_testing.suites.archive_pages import parsed_pages, sealed_lines
from yielded_testing.suites.builders import batch, note

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue

THREAD = ThreadId("thread \U0001f600")


def stored(*details: JsonValue) -> StoredBatch:
    records = [note(f"record-{number}", each) for number, each in enumerate(details, 1)]
    prepared = prepare_batch(batch("batch-1", *records))
    made = accept(Tail(0, EMPTY_TAIL_DIGEST), prepared)
    return StoredBatch(
        prepared.batch_id,
        prepared.producer_id,
        LAST_EPOCH,
        1,
        made.tail.sequence,
        prepared.content_digest,
        made.tail.digest,
        tuple((each.record.record_id, each.wire) for each in prepared.records),
        epoch_seal(LAST_EPOCH, prepared.content_digest, made.tail.digest),
    )


def batch_page(found: StoredBatch) -> Page:
    tail = ThreadTail(THREAD, found.last_sequence, found.tail_digest, LAST_EPOCH)
    return Page(
        thread_id=THREAD,
        number=1,
        captured=CapturedThread(tail, 7),
        section="batches",
        batch=found,
        previous_tail_digest=EMPTY_TAIL_DIGEST,
        facts=(),
        dependencies=("record-0",),
        cursor=Cursor("c1.position"),
        previous_page_digest=FIRST_PAGE_DIGEST,
    )


def facts_page(*facts: bytes, cursor: Cursor | None = None) -> Page:
    page = batch_page(stored(None))
    return replace(
        page,
        section="admissions",
        batch=None,
        previous_tail_digest=page.captured.tail.digest,
        facts=facts,
        dependencies=(),
        cursor=cursor,
    )


BATCH = batch_page(stored({"text": "Zürich \U0001f600\u0000"}, [1e21, -0.0, 5e-324, 10**16]))
PAGES = (BATCH, facts_page(b'{"a":1}', b"[1.5]", cursor=Cursor("c1.next")), facts_page())


def refusal(text: bytes, number: int = 1) -> ArchiveRefused:
    with pytest.raises(ArchiveRefused) as caught:
        read_page(text, number)
    return caught.value


def forged(page: Page, **changes: object) -> bytes:
    """Return a line with right digests whose values are changed; None removes one."""
    value: PageValue = {**parsed_pages([seal_page(page).text])[0], **changes}
    kept = {name: member for name, member in value.items() if member is not None}
    return sealed_lines([kept])[0]


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize("page", PAGES, ids=["batch", "facts", "last"])
def test_a_page_reads_back_as_it_was_written(page: Page) -> None:
    sealed = seal_page(page)
    assert read_page(sealed.text, 1) == (page, sealed.digest)
    assert read_page(sealed.text + b"\n", 1) == (page, sealed.digest)
    assert sealed_lines(parsed_pages([sealed.text])) == [sealed.text]


@pytest.mark.rule("ARC-2", "ARC-4")
@pytest.mark.parametrize("page", PAGES, ids=["batch", "facts", "last"])
def test_every_changed_bit_of_a_page_is_refused(page: Page) -> None:
    text = seal_page(page).text
    for index in range(len(text)):
        for bit in range(8):
            changed = bytearray(text)
            changed[index] ^= 1 << bit
            refusal(bytes(changed))


@pytest.mark.rule("ARC-2", "ARC-4")
def test_every_missing_or_doubled_byte_of_a_page_is_refused() -> None:
    text = seal_page(BATCH).text
    for index in range(len(text)):
        refusal(text[:index] + text[index + 1 :])
        refusal(text[:index] + text[index : index + 1] + text[index:])
        refusal(text[:index])


@pytest.mark.rule("ARC-2")
def test_the_cursor_is_made_from_the_content_and_covered_by_the_page_digest() -> None:
    seen: list[Digest] = []

    def cursor(content: Digest) -> Cursor:
        seen.append(content)
        return Cursor(f"c1.{content}")

    made = seal_page(replace(BATCH, cursor=None), cursor)
    assert made.cursor == f"c1.{seen[0]}"
    assert made.digest == page_digest(seen[0], made.cursor)
    assert read_page(made.text, 1)[0].cursor == made.cursor
    without = seal_page(replace(BATCH, cursor=None))
    assert without == SealedPage(without.text, page_digest(seen[0], None), None)
    assert without.digest != made.digest


@pytest.mark.rule("ARC-1", "REC-4")
def test_the_text_is_canonical_for_every_reader() -> None:
    text = seal_page(BATCH).text
    assert b'"epoch":"999999999999999999"' in text
    assert b'"format":"effect-agent/thread-transfer@1"' in text
    assert b'"recordFormat":"effect-agent/thread@3"' in text
    assert b"[1e+21,0,5e-324,10000000000000000]" in text


@pytest.mark.rule("ARC-1")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", "effect-agent/thread-transfer@2"),
        ("recordFormat", "effect-agent/thread@2"),
        ("format", None),
    ],
)
def test_another_format_is_refused_as_such(name: str, value: str | None) -> None:
    refused = refusal(forged(BATCH, **{name: value}))
    assert (refused.reason, refused.page) == ("format", 1)
    assert name in refused.detail


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize(
    ("page", "changes"),
    [
        (BATCH, {"unknown": 1}),
        (BATCH, {"section": "admissions"}),
        (BATCH, {"section": "others"}),
        (BATCH, {"facts": []}),
        (BATCH, {"batch": None}),
        (BATCH, {"cursor": ""}),
        (BATCH, {"cursor": "c" * (CURSOR_UNITS + 1)}),
        (BATCH, {"dependencies": None}),
        (BATCH, {"dependencies": [""]}),
        (BATCH, {"threadId": "t" * 4_097}),
        (BATCH, {"captured": {"sequence": 1, "digest": "0" * 64, "epoch": "1"}}),
        (facts_page(), {"section": "batches"}),
        (facts_page(), {"facts": [None] * 257}),
        (facts_page(), {"facts": None}),
    ],
)
def test_a_page_of_another_shape_is_refused(page: Page, changes: dict[str, object]) -> None:
    assert refusal(forged(page, **changes)).reason == "page"


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", 7),
        ("epoch", "0"),
        ("epoch", "01"),
        ("epoch", "1" + "0" * 18),
        ("firstSequence", 0),
        ("firstSequence", 1.5),
        ("records", []),
        ("records", [None] * 257),
        ("tailDigest", "A" * 64),
        ("batchId", "a\u0000b"),
        ("producerId", None),
        ("more", 1),
    ],
)
def test_a_batch_of_another_shape_is_refused(name: str, value: object) -> None:
    whole = parsed_pages([seal_page(BATCH).text])[0]["batch"]
    assert refusal(forged(BATCH, batch={**whole, name: value})).reason == "page"


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize(
    "text", [b"", b"\n", b"null", b"[]", b'""', b"{}", b"{", b"\xff", b"[" * 9999]
)
def test_what_is_no_page_is_refused(text: bytes) -> None:
    assert refusal(text).reason in {"page", "format"}


@pytest.mark.rule("ARC-2", "REC-3")
@pytest.mark.parametrize("depth", [129, 300, 900])
def test_hostile_depth_is_refused(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    assert refusal(seal_page(facts_page(deep)).text).reason == "record"
    records = ((RecordId(""), deep),)
    line = seal_page(batch_page(replace(stored(None), records=records))).text
    assert depth < 250 or refusal(line).reason == "record"


@pytest.mark.rule("ARC-2", "REC-4")
@pytest.mark.parametrize(
    "fact",
    [b"1.0", b"1e16", b"1e+16", b"-0", b"[1, 2]", b'{"b":1,"a":2}', b'{"a":1,"a":1}', b'"\\u0041"'],
)
def test_text_that_is_not_canonical_is_refused_though_its_digests_are_right(fact: bytes) -> None:
    assert refusal(seal_page(facts_page(fact)).text).reason == "page"


@pytest.mark.rule("ARC-2")
def test_a_page_stands_at_its_own_position() -> None:
    assert refusal(seal_page(BATCH).text, 2).reason == "page"


@pytest.mark.rule("ARC-2")
def test_a_page_is_at_most_32_mib() -> None:
    size = TRANSFER_BYTES - len(seal_page(facts_page(b'""')).text) + 2
    largest = facts_page(b'"%b"' % (b"x" * (size - 2)))
    sealed = seal_page(largest)
    assert len(sealed.text) == TRANSFER_BYTES
    assert read_page(sealed.text, 1) == (largest, sealed.digest)
    with pytest.raises(ArchiveRefused) as caught:
        seal_page(facts_page(b'"%b"' % (b"x" * (size - 1))))
    assert caught.value.reason == "bound"
    assert refusal(sealed.text.replace(b"xx", b"xxx", 1)).reason == "bound"
