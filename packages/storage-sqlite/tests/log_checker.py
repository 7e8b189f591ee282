"""Checks a store by other means than the adapter's: sqlite3, json and hashlib (REC-7, LOG-2).

Nothing here asks the rules of the log, so that a wrong rule cannot hide what it broke.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

EMPTY_DIGEST = "0" * 64


class StoredBatch(NamedTuple):
    """A batch as its rows tell it."""

    batch_id: str
    first: int
    last: int
    digest: str
    record_ids: tuple[str, ...]


def check_store(path: Path) -> dict[str, dict[str, StoredBatch]]:
    """Check every thread of a store that nobody writes to; return its batches by thread and id."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        threads = connection.execute(
            "SELECT thread_id, generation, tail_sequence, tail_digest FROM yielded_threads"
        ).fetchall()
        found = {row[0]: _check_thread(connection, *row) for row in threads}
        _check_nothing_else(connection)
        return found


def _check_thread(
    connection: sqlite3.Connection, thread: str, generation: int, tail: int, tail_digest: bytes
) -> dict[str, StoredBatch]:
    batches = connection.execute(
        "SELECT batch_id, producer_id, first_sequence, last_sequence, tail_digest"
        " FROM yielded_batches WHERE thread_id = ? AND generation = ? ORDER BY last_sequence",
        (thread, generation),
    ).fetchall()
    records = connection.execute(
        "SELECT sequence, record_id, wire FROM yielded_records"
        " WHERE thread_id = ? AND generation = ? ORDER BY sequence",
        (thread, generation),
    ).fetchall()
    assert [sequence for sequence, _, _ in records] == list(range(1, tail + 1)), thread
    end, digest = 0, EMPTY_DIGEST
    found: dict[str, StoredBatch] = {}
    for batch_id, producer, first, last, stored_digest in batches:
        assert first == end + 1, f"{thread}: a gap before {batch_id}"
        held = records[first - 1 : last]
        assert len(held) == last - first + 1, f"{thread}: {batch_id} is not whole"
        wires = [wire for _, _, wire in held]
        names = tuple(name for _, name, _ in held)
        assert [json.loads(wire)["recordId"] for wire in wires] == list(names)
        digest = _next_digest(digest, batch_id, producer, wires)
        assert stored_digest.hex() == digest, f"{thread}: the chain breaks at {batch_id}"
        assert batch_id not in found, f"{thread}: {batch_id} is stored twice"
        found[batch_id] = StoredBatch(batch_id, first, last, digest, names)
        end = last
    assert (tail, tail_digest.hex()) == (end, digest), thread
    return found


def _next_digest(previous: str, batch_id: str, producer: str, wires: list[bytes]) -> str:
    text = b'{"batch":{"batchId":%b,"producerId":%b,"records":[%b]},"previousTailDigest":"%b"}' % (
        json.dumps(batch_id).encode(),
        json.dumps(producer).encode(),
        b",".join(wires),
        previous.encode(),
    )
    return hashlib.sha256(text).hexdigest()


def _check_nothing_else(connection: sqlite3.Connection) -> None:
    """No row of the log belongs to a thread or generation that nobody can see."""
    for table in ("yielded_batches", "yielded_records"):
        stray = connection.execute(
            f"SELECT count(*) FROM {table} AS one LEFT JOIN yielded_threads AS thread"
            " USING (thread_id, generation) WHERE thread.thread_id IS NULL"
        ).fetchone()
        assert stray == (0,), table
