"""Checks the log of a store by other means than the adapter's: SQL, json, hashlib (REC-7, LOG-2).

Nothing here asks the rules of the log, so that a wrong rule cannot hide what it broke.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server_side import Raw

_THREADS: Final = """
SELECT thread_id, generation, tail_sequence, tail_digest FROM yielded_threads ORDER BY thread_id
"""
_BATCHES: Final = """
SELECT batch_id, producer_id, first_sequence, last_sequence, tail_digest FROM yielded_batches
 WHERE thread_id = $1 AND generation = $2 ORDER BY last_sequence
"""
_RECORDS: Final = """
SELECT sequence, record_id, wire FROM yielded_records
 WHERE thread_id = $1 AND generation = $2 ORDER BY sequence
"""


class Held(NamedTuple):
    """A batch as its rows tell it."""

    first: int
    last: int
    digest: str
    records: tuple[str, ...]


async def held_batches(raw: Raw) -> dict[str, dict[str, Held]]:
    """Check every thread of the schema in the search path; return its batches by thread and id."""
    async with raw.transaction(isolation="repeatable_read", readonly=True):
        threads = [tuple(row) for row in await raw.fetch(_THREADS)]
        return {str(thread[0]): await _check_thread(raw, *thread) for thread in threads}


async def _check_thread(
    raw: Raw, thread: str, generation: int, tail: int, tail_digest: bytes
) -> dict[str, Held]:
    records = await raw.fetch(_RECORDS, thread, generation)
    assert [row["sequence"] for row in records] == list(range(1, tail + 1)), thread
    end, digest = 0, "0" * 64
    found: dict[str, Held] = {}
    for batch_id, producer, first, last, stored in await raw.fetch(_BATCHES, thread, generation):
        assert first == end + 1, f"{thread}: a gap before {batch_id}"
        held = records[first - 1 : last]
        assert len(held) == last - first + 1, f"{thread}: {batch_id} is not whole"
        names = tuple(str(row["record_id"]) for row in held)
        assert tuple(json.loads(row["wire"])["recordId"] for row in held) == names
        digest = _next_digest(digest, batch_id, producer, (row["wire"] for row in held))
        assert stored.hex() == digest, f"{thread}: the chain breaks at {batch_id}"
        assert batch_id not in found, f"{thread}: {batch_id} is stored twice"
        found[batch_id] = Held(first, last, digest, names)
        end = last
    assert (tail, tail_digest.hex()) == (end, digest), thread
    return found


def _next_digest(previous: str, batch_id: str, producer: str, wires: Iterable[bytes]) -> str:
    text = b'{"batch":{"batchId":%b,"producerId":%b,"records":[%b]},"previousTailDigest":"%b"}' % (
        json.dumps(batch_id).encode(),
        json.dumps(producer).encode(),
        b",".join(wires),
        previous.encode(),
    )
    return hashlib.sha256(text).hexdigest()
