"""Checks the log of a store by other means than the adapter's: json and hashlib (REC-7, LOG-2).

Nothing here asks the rules of the log, so that a wrong rule cannot hide what it broke. The rows
come from whoever calls, as the engine's own tools read them.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row: TypeAlias = tuple[Any, ...]
Query: TypeAlias = "Callable[[str], Sequence[Row]]"
"""Runs a SELECT over the tables of layout 21, all in one transaction that sees nothing change, and
returns every row; binary columns are bytes. It must not use the adapter."""

EMPTY_DIGEST: Final = "0" * 64


class StoredBatch(NamedTuple):
    """A batch as its rows tell it."""

    batch_id: str
    first: int
    last: int
    digest: str
    record_ids: tuple[str, ...]


def check_log(query: Query) -> dict[str, dict[str, StoredBatch]]:
    """Check every thread of a store; return its batches by thread and id."""
    batches = _by_thread(
        query(
            "SELECT thread_id, generation, batch_id, producer_id, first_sequence, last_sequence,"
            " tail_digest FROM yielded_batches ORDER BY thread_id, generation, last_sequence"
        )
    )
    records = _by_thread(
        query(
            "SELECT thread_id, generation, sequence, record_id, wire FROM yielded_records"
            " ORDER BY thread_id, generation, sequence"
        )
    )
    threads = query("SELECT thread_id, generation, tail_sequence, tail_digest FROM yielded_threads")
    found: dict[str, dict[str, StoredBatch]] = {}
    for thread, generation, tail, digest in threads:
        rows = batches.pop((thread, generation), []), records.pop((thread, generation), [])
        found[thread] = _check_thread(thread, *rows, end=(tail, digest.hex()))
    # No row of the log belongs to a thread or generation that nobody can see.
    assert (list(batches), list(records)) == ([], [])
    return found


def _by_thread(rows: Sequence[Row]) -> dict[tuple[str, int], list[Row]]:
    """Return rows by the thread and generation that they begin with, without these."""
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for thread, generation, *rest in rows:
        found[thread, generation].append(tuple(rest))
    return found


def _check_thread(
    thread: str, batches: list[Row], records: list[Row], *, end: tuple[int, str]
) -> dict[str, StoredBatch]:
    tail, _ = end
    assert [sequence for sequence, _, _ in records] == list(range(1, tail + 1)), thread
    at, digest = 0, EMPTY_DIGEST
    found: dict[str, StoredBatch] = {}
    for batch_id, producer, first, last, stored_digest in batches:
        assert first == at + 1, f"{thread}: a gap before {batch_id}"
        held = records[first - 1 : last]
        assert len(held) == last - first + 1, f"{thread}: {batch_id} is not whole"
        wires = [wire for _, _, wire in held]
        names = tuple(name for _, name, _ in held)
        assert [json.loads(wire)["recordId"] for wire in wires] == list(names)
        digest = _next_digest(digest, batch_id, producer, wires)
        assert stored_digest.hex() == digest, f"{thread}: the chain breaks at {batch_id}"
        assert batch_id not in found, f"{thread}: {batch_id} is stored twice"
        found[batch_id] = StoredBatch(batch_id, first, last, digest, names)
        at = last
    assert (at, digest) == end, thread
    return found


def _next_digest(previous: str, batch_id: str, producer: str, wires: list[bytes]) -> str:
    text = b'{"batch":{"batchId":%b,"producerId":%b,"records":[%b]},"previousTailDigest":"%b"}' % (
        json.dumps(batch_id).encode(),
        json.dumps(producer).encode(),
        b",".join(wires),
        previous.encode(),
    )
    return hashlib.sha256(text).hexdigest()
