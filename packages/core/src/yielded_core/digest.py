"""The digest chain (REC-7): what a batch's bytes are, and how one tail follows from another."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import orjson

from yielded_core.records.canonical import sha256_hex
from yielded_core.records.identifiers import BatchId, Digest, ProducerId

if TYPE_CHECKING:
    from collections.abc import Sequence

EMPTY_TAIL_DIGEST: Final = Digest("0" * 64)
"""The digest of a thread without batches."""


def batch_content(batch: BatchId, producer: ProducerId, records: Sequence[bytes]) -> bytes:
    """Return the canonical bytes of a batch over the exact bytes of its records."""
    head = b'{"batchId":%b,"producerId":%b,"records":[' % (
        orjson.dumps(batch),
        orjson.dumps(producer),
    )
    return b"".join((head, b",".join(records), b"]}"))


def content_digest(content: bytes) -> Digest:
    """Return the digest of a batch's content, by which a replay is recognized (LOG-4).

    Expected tail and epoch are not content. The domain prefix keeps it apart from every digest
    of the chain.
    """
    return Digest(hashlib.sha256(b"yielded/batch-content@1\n" + content).hexdigest())


def epoch_seal(epoch: int, content: Digest, tail: Digest) -> str:
    """Return what tells a changed epoch of a stored batch: 16 hexadecimal characters.

    An epoch is part neither of the content nor of the chain (LOG-4), so it is sealed by itself,
    with the two digests of its batch.
    """
    sealed = b"yielded/epoch-seal@1\n%d\n%b\n%b" % (epoch, content.encode(), tail.encode())
    return hashlib.sha256(sealed).hexdigest()[:16]


def chain_digest(previous: Digest, content: bytes) -> Digest:
    """Return the tail digest after a batch with this content."""
    return sha256_hex(b'{"batch":%b,"previousTailDigest":"%b"}' % (content, previous.encode()))
