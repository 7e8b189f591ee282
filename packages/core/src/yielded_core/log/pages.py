"""Transfer pages: one whole batch, or facts of one section, as one line of canonical JSON (ARC-2).

A page carries two digests, so that a changed, dropped or reordered page is found even where the
chain of the log does not reach. Its content digest is the SHA-256 of the canonical page without
`cursor` and `pageDigest`; a cursor holds it, so that an export can go on after the page. Its page
digest is the SHA-256 of the canonical `{"content":…,"cursor":…}`, without `cursor` on the last
page, and stands in the page and, as `previousPageDigest`, in the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import orjson
from pydantic import ValidationError

from yielded_core.digest import batch_content, content_digest, epoch_seal
from yielded_core.errors import ArchiveRefused, InvalidJson
from yielded_core.log.page_schema import BatchPart, PageHeader
from yielded_core.ports.values import CapturedThread, StoredBatch, ThreadTail
from yielded_core.records.bounded_json import check_json
from yielded_core.records.bounds import (
    RECORD_BYTES,
    RECORD_FORMAT,
    TRANSFER_BYTES,
    TRANSFER_FORMAT,
)
from yielded_core.records.canonical import encode_checked, sha256_hex
from yielded_core.records.identifiers import Cursor, Digest, RecordId, ThreadId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BATCHES: Final = "batches"
FACT_SECTIONS: Final = ("admissions", "abortCommands", "approvals", "resolutions", "deliveries")
"""Sections of facts that change independently of the log, in the order of their pages."""
FIRST_PAGE_DIGEST: Final = Digest("0" * 64)

_VALUE_DEPTH: Final = 128
"""Above what a record can hold: it is judged as a record later, here it is only copied."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page, read or about to be written."""

    thread_id: ThreadId
    number: int
    """Position in the archive, from 1."""
    captured: CapturedThread
    section: str
    batch: StoredBatch | None
    previous_tail_digest: Digest
    """Tail before the batch; the captured tail on pages of facts."""
    facts: tuple[bytes, ...]
    dependencies: tuple[str, ...]
    """Record ids outside this page that it depends on."""
    cursor: Cursor | None
    previous_page_digest: Digest


@dataclass(frozen=True, slots=True)
class SealedPage:
    """The text of a page with its digest and its cursor."""

    text: bytes
    digest: Digest
    cursor: Cursor | None


def seal_page(page: Page, cursor: Callable[[Digest], Cursor] | None = None) -> SealedPage:
    """Return the canonical line of a page and its digest.

    `cursor`, where given, makes the page's cursor from its content digest.
    Raises ArchiveRefused (`bound`) for a page beyond 32 MiB.
    """
    value = _value(page)
    content = sha256_hex(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    made = page.cursor if cursor is None else cursor(content)
    if made is not None:
        value["cursor"] = made
    digest = page_digest(content, made)
    value["pageDigest"] = digest
    text = _compact(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    if len(text) > TRANSFER_BYTES:
        detail = f"it would be longer than {TRANSFER_BYTES} bytes"
        raise ArchiveRefused(page.number, "bound", detail)
    return SealedPage(text, digest, made)


def page_digest(content: Digest, cursor: Cursor | None) -> Digest:
    """Return the digest of a page from its content digest and its cursor."""
    value = {"content": content} if cursor is None else {"content": content, "cursor": cursor}
    return sha256_hex(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def read_page(line: bytes, number: int) -> tuple[Page, Digest]:
    """Read one line of an archive: the page and its digest, every record with its exact bytes.

    Whether its records are valid, and their numbers canonical, the log's verifier says. Raises
    ArchiveRefused: `bound`, `format`, `record` or `page` (not a page, not canonical, or changed).
    """
    text = line.removesuffix(b"\n")
    if len(text) > TRANSFER_BYTES:
        raise ArchiveRefused(number, "bound", f"it is longer than {TRANSFER_BYTES} bytes")
    header = _parse(text, number)
    if header.page != number:
        detail = f"page {header.page} stands at position {number}"
        raise ArchiveRefused(number, "page", detail)
    encoders = (_canonical,) if header.batch is None else (_copied, _canonical)
    for encode in encoders:
        page = _page(header, encode)
        sealed = seal_page(page)
        if sealed.text == text:
            return page, sealed.digest
    raise ArchiveRefused(number, "page", "it is not the page that its digest stands for")


def _value(page: Page) -> dict[str, object]:
    captured = page.captured
    value: dict[str, object] = {
        "captured": {
            "digest": captured.tail.digest,
            "epoch": str(captured.tail.epoch),
            "factRevision": captured.fact_revision,
            "sequence": captured.tail.sequence,
        },
        "dependencies": page.dependencies,
        "format": TRANSFER_FORMAT,
        "page": page.number,
        "previousPageDigest": page.previous_page_digest,
        "recordFormat": RECORD_FORMAT,
        "section": page.section,
        "threadId": page.thread_id,
    }
    if page.batch is None:
        value["facts"] = [orjson.Fragment(fact) for fact in page.facts]
    else:
        value["batch"] = _batch_value(page.batch, page.previous_tail_digest)
    return value


def _batch_value(batch: StoredBatch, previous: Digest) -> dict[str, object]:
    return {
        "batchId": batch.batch_id,
        "epoch": str(batch.epoch),
        "firstSequence": batch.first_sequence,
        "previousTailDigest": previous,
        "producerId": batch.producer_id,
        "records": [orjson.Fragment(wire) for _, wire in batch.records],
        "tailDigest": batch.tail_digest,
    }


def _parse(text: bytes, number: int) -> PageHeader:
    try:
        return PageHeader.model_validate(orjson.loads(text), by_alias=True, by_name=False)
    except orjson.JSONDecodeError:
        raise ArchiveRefused(number, "page", "it is not JSON") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][:2])
        reason = "format" if where in {"format", "recordFormat"} else "page"
        detail = f"{where}: {first['msg']}" if where else first["msg"]
        raise ArchiveRefused(number, reason, detail) from None


def _copied(value: object) -> bytes:
    """Encode a value fast; the comparison of the whole page finds where that is not its text."""
    try:
        return _compact(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    except orjson.JSONEncodeError:
        raise InvalidJson("it is too deep") from None


def _compact(text: bytes) -> bytes:
    """Copy a text that is kept: what orjson returns holds on to 8 KiB, however short it is."""
    return b"%b" % text


def _canonical(value: object) -> bytes:
    return encode_checked(
        value, plain=check_json(value, depth=_VALUE_DEPTH, nodes=RECORD_BYTES).plain
    )


def _page(header: PageHeader, encode: Callable[[object], bytes]) -> Page:
    given = header.facts if header.batch is None else header.batch.records
    try:
        values = [encode(value) for value in given or ()]
    except InvalidJson as error:
        raise ArchiveRefused(header.page, "record", error.reason) from None
    part = header.captured
    tail = ThreadTail(header.thread_id, part.sequence, part.digest, int(part.epoch))
    page = Page(
        thread_id=header.thread_id,
        number=header.page,
        captured=CapturedThread(tail, part.fact_revision),
        section=header.section,
        batch=None,
        previous_tail_digest=part.digest,
        facts=tuple(values),
        dependencies=tuple(header.dependencies),
        cursor=None if header.cursor is None else Cursor(header.cursor),
        previous_page_digest=header.previous_page_digest,
    )
    if header.batch is None:
        return page
    batch = _batch(header.batch, values)
    previous = header.batch.previous_tail_digest
    return replace(page, batch=batch, previous_tail_digest=previous, facts=())


def _batch(part: BatchPart, wires: Sequence[bytes]) -> StoredBatch:
    content = content_digest(batch_content(part.batch_id, part.producer_id, wires))
    return StoredBatch(
        part.batch_id,
        part.producer_id,
        int(part.epoch),
        part.first_sequence,
        part.first_sequence + len(wires) - 1,
        content,
        part.tail_digest,
        tuple((_record_id(value), wire) for value, wire in zip(part.records, wires, strict=True)),
        epoch_seal(int(part.epoch), content, part.tail_digest),
    )


def _record_id(value: object) -> RecordId:
    found = cast("dict[str, object]", value).get("recordId") if isinstance(value, dict) else None
    return RecordId(found if isinstance(found, str) else "")
