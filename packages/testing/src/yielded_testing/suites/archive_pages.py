"""Stored logs and archives made by hand, and forged: digests are right wherever that is wanted.

Everything is computed from the words of REC-7 and ARC-2 alone, without the rules of the log, so
that an archive that was forged with care can be told from one that was only damaged.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from yielded_core.ports.values import StoredBatch
from yielded_core.records.identifiers import Digest
from yielded_testing.suites.builders import (
    EMPTY_DIGEST,
    THREAD,
    canonical,
    next_digest,
    parsed,
    record_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from yielded_core.ports.values import Batch
    from yielded_core.records.identifiers import ThreadId

Page: TypeAlias = dict[str, Any]
"""The JSON value of one transfer page, its integers as doubles."""

SECTIONS: Final = ("admissions", "abortCommands", "approvals", "resolutions", "deliveries")
_SEALS: Final = ("cursor", "pageDigest")


def stored_log(*batches: Batch, epoch: int = 1) -> list[StoredBatch]:
    """Return batches as a store that was appended nothing else would hold them."""
    log: list[StoredBatch] = []
    sequence = 0
    tail = EMPTY_DIGEST
    for each in batches:
        wires = [record_bytes(given) for given in each.records]
        content = {
            "batchId": each.batch_id,
            "producerId": each.producer_id,
            "records": [parsed(wire) for wire in wires],
        }
        tail = next_digest(tail, each.batch_id, wires, each.producer_id)
        digest = Digest(_sha256(b"yielded/batch-content@1\n" + canonical(content)))
        sealed = f"yielded/epoch-seal@1\n{epoch}\n{digest}\n{tail}"
        log.append(
            StoredBatch(
                each.batch_id,
                each.producer_id,
                epoch,
                sequence + 1,
                sequence + len(wires),
                digest,
                tail,
                tuple(zip((given.record_id for given in each.records), wires, strict=True)),
                _sha256(sealed.encode())[:16],
            )
        )
        sequence += len(wires)
    return log


def archive_lines(
    log: Sequence[StoredBatch],
    *,
    thread: ThreadId = THREAD,
    epoch: int = 1,
    dependencies: Mapping[int, Sequence[str]] | None = None,
) -> list[bytes]:
    """Return the archive of a log; `dependencies` are those of the batches at these indexes."""
    named = dependencies or {}
    pages: list[Page] = [
        {
            "section": "batches",
            "batch": {
                "batchId": each.batch_id,
                "producerId": each.producer_id,
                "epoch": str(each.epoch),
                "records": [parsed(wire) for _, wire in each.records],
            },
            "dependencies": list(named.get(index, ())),
        }
        for index, each in enumerate(log)
    ]
    pages += [{"section": section, "facts": [], "dependencies": []} for section in SECTIONS]
    whole: Page = {
        "format": "effect-agent/thread-transfer@1",
        "recordFormat": "effect-agent/thread@3",
        "threadId": thread,
        "captured": {"epoch": str(epoch), "factRevision": 0},
    }
    sealed = [{**whole, **page, "cursor": f"cursor-{index}"} for index, page in enumerate(pages)]
    del sealed[-1]["cursor"]
    return sealed_lines(rechained_pages(sealed))


def parsed_pages(lines: Iterable[bytes]) -> list[Page]:
    """Return the values of the pages of an archive."""
    return [parsed(line) for line in lines]


def sealed_lines(pages: Iterable[Page]) -> list[bytes]:
    """Return the lines of an archive of these pages: numbers, links and digests made right."""
    lines: list[bytes] = []
    previous: str = EMPTY_DIGEST
    for number, page in enumerate(pages, 1):
        value = {**page, "page": number, "previousPageDigest": previous}
        content = {name: member for name, member in value.items() if name not in _SEALS}
        digested: Page = {"content": _sha256(canonical(content))}
        if "cursor" in value:
            digested["cursor"] = value["cursor"]
        previous = _sha256(canonical(digested))
        lines.append(canonical({**value, "pageDigest": previous}))
    return lines


def rechained_pages(pages: Sequence[Page]) -> list[Page]:
    """Return pages whose batches follow each other, and whose captured tail is their last one."""
    sequence = 0
    tail: str = EMPTY_DIGEST
    made: list[Page] = []
    for page in pages:
        batch: Page | None = page.get("batch")
        if batch is None:
            made.append(dict(page))
            continue
        wires = [canonical(record) for record in batch["records"]]
        linked = {**batch, "firstSequence": sequence + 1, "previousTailDigest": tail}
        tail = next_digest(tail, batch["batchId"], wires, batch["producerId"])
        sequence += len(wires)
        made.append({**page, "batch": {**linked, "tailDigest": tail}})
    captured = {"sequence": sequence, "digest": tail}
    return [{**page, "captured": {**page["captured"], **captured}} for page in made]


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
