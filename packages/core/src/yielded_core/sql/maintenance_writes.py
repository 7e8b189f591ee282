"""Mutations around the log: indexes, archive ranges, deletion, checkpoints, a new incarnation."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yielded_core.errors import StorageCorrupt
from yielded_core.log.checkpoints import check_binding
from yielded_core.log.facts import facts_of
from yielded_core.log.reads import require_indexed
from yielded_core.log.retention import (
    RESTORE_LEAP,
    BatchExtent,
    check_deletable,
    leap,
    open_begins_at,
    plan_range,
    sealed_range,
)
from yielded_core.ports.values import ArchiveRange, IndexState, Tombstone
from yielded_core.records.envelope import EncodedRecord, decode_record
from yielded_core.records.identifiers import Digest
from yielded_core.sql import log_statements as sql
from yielded_core.sql.chunks import chunk_lines, pack_chunks
from yielded_core.sql.ledger_statements import ALL_TAKEN_OVER, OWES_WORK
from yielded_core.sql.log_writes import (
    epoch_floor,
    find_thread,
    find_tombstone,
    live_thread,
    plan_progress,
    write_indexes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yielded_core.log.append import ThreadState
    from yielded_core.ports.values import Checkpoint
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.session import Clock, Rows, Session

PURGE_ROWS: Final = 2_000
"""Rows that one transaction of a purge removes, so that other writers go on."""

# --- indexes -------------------------------------------------------------------------------------


def drop_indexes(connection: Session, thread: ThreadId) -> None:
    """Begin a rebuild: forget the index rows of a thread (LOG-17)."""
    state = live_thread(connection, thread)
    for table in sql.INDEX_TABLES:
        connection.execute(
            f"DELETE FROM {table} WHERE thread_id = ? AND generation = ?",  # noqa: S608 - own names
            (thread, state.generation),
        )
    connection.execute(sql.SET_INDEXED, (0, thread))


def rebuild_indexes(connection: Session, thread: ThreadId, limit: int) -> IndexState:
    """Index the next whole batches: at least one, then as many as `limit` records hold."""
    state = live_thread(connection, thread)
    key = (thread, state.generation)
    through = state.indexed_through
    indexed = 0
    for first, last in connection.execute(sql.BATCHES_TO_INDEX, (*key, through, limit)).fetchall():
        indexed += last - first + 1
        if through > state.indexed_through and indexed > limit:
            break
        facts = [
            facts_of(sequence, EncodedRecord(decode_record(wire), wire))
            for sequence, wire in _wires(connection, state, first, last)
        ]
        if len(facts) != last - first + 1:
            raise StorageCorrupt(f"records from {first} to {last} are missing")
        write_indexes(connection, state, facts, plan_progress(connection, state, facts))
        through = last
    connection.execute(sql.SET_INDEXED, (through, thread))
    return IndexState(through, state.sequence)


def _wires(
    connection: Session, state: ThreadState, first: int, last: int
) -> list[tuple[int, bytes]]:
    key = (state.thread_id, state.generation)
    found: dict[int, bytes] = {}
    for begins, content in _chunks(connection, key, (first, last)):
        found.update(enumerate(chunk_lines(content), begins))
    hot = connection.execute(sql.WIRES, (*key, first, last))
    found.update((sequence, wire) for sequence, _, wire in hot)
    return [(sequence, found[sequence]) for sequence in range(first, last + 1) if sequence in found]


def _chunks(connection: Session, key: tuple[ThreadId, int], span: tuple[int, int]) -> Rows:
    (thread, generation), (first, last) = key, span
    named = {"thread": thread, "generation": generation, "first": first, "last": last}
    return connection.execute(sql.CHUNKS, named)


# --- archive ranges ------------------------------------------------------------------------------


def ranges_of(connection: Session, state: ThreadState) -> list[ArchiveRange]:
    """Return the ranges of a thread, ascending."""
    rows = connection.execute(sql.RANGES, (state.thread_id, state.generation))
    return [ArchiveRange(*row) for row in rows]


def seal_range(connection: Session, thread: ThreadId, through: int) -> ArchiveRange:
    """Close the oldest open batches (ARC-6)."""
    state = live_thread(connection, thread)
    first = open_begins_at(ranges_of(connection, state))
    extents = connection.execute(sql.OPEN_EXTENTS, (thread, state.generation, first))
    sealed = plan_range(thread, first, through, (BatchExtent(*row) for row in extents))
    connection.execute(
        sql.INSERT_RANGE,
        (
            thread,
            state.generation,
            sealed.first_sequence,
            sealed.last_sequence,
            sealed.state,
            sealed.record_count,
            sealed.byte_count,
        ),
    )
    return sealed


def archive_range(connection: Session, thread: ThreadId, first: int) -> ArchiveRange:
    """Copy a sealed range, verify the copy, and only then free the hot rows (ARC-6)."""
    state = live_thread(connection, thread)
    found = sealed_range(thread, first, ranges_of(connection, state))
    if found.state == "archived":
        return found
    key = (thread, state.generation)
    span = (found.first_sequence, found.last_sequence)
    rows = connection.execute(sql.WIRES, (*key, *span)).fetchall()
    if len(rows) != found.record_count:
        raise StorageCorrupt(f"records from {span[0]} to {span[1]} are missing")
    for begins, ends, content in pack_chunks((sequence, wire) for sequence, _, wire in rows):
        connection.execute(sql.INSERT_CHUNK, (*key, ends, begins, content))
    connection.executemany(
        sql.INSERT_ARCHIVED_RECORD, [(*key, record_id, sequence) for sequence, record_id, _ in rows]
    )
    if _copy_digest(connection, key, span) != _digest_of(wire for _, _, wire in rows):
        raise StorageCorrupt("the copy of an archive range does not equal its records")
    connection.execute(sql.FREE_RECORDS, (*key, *span))
    connection.execute(sql.SET_ARCHIVED, (*key, first))
    return replace(found, state="archived")


def _copy_digest(connection: Session, key: tuple[ThreadId, int], span: tuple[int, int]) -> bytes:
    chunks = _chunks(connection, key, span)
    return _digest_of(line for _, content in chunks for line in chunk_lines(content))


def _digest_of(wires: Iterator[bytes]) -> bytes:
    digest = hashlib.sha256()
    for wire in wires:
        digest.update(wire)
        digest.update(b"\n")
    return digest.digest()


# --- deletion ------------------------------------------------------------------------------------


def delete_thread(connection: Session, thread: ThreadId, instant: int) -> Tombstone:
    """Leave a tombstone in place of a thread; its rows are purged afterwards (ARC-7)."""
    state = find_thread(connection, thread)
    if state is None:
        row = connection.execute(sql.TOMBSTONE, (thread,)).fetchone()
        if row is None:
            live_thread(connection, thread)
        tombstone = find_tombstone(connection, thread)
        if tombstone is None or row is None:
            raise StorageCorrupt("a thread is neither live, deleted nor missing")
        return Tombstone(thread, tombstone, row[0])
    require_indexed(state, state.sequence)
    (handoffs,) = connection.execute(sql.COUNT_HANDOFFS, (thread, state.generation)).fetchone()
    unsettled = connection.execute(OWES_WORK, (thread, state.generation)).fetchone()
    check_deletable(thread, handoffs, owes_work=unsettled is not None)
    digest = bytes.fromhex(state.digest)
    connection.execute(sql.INSERT_TOMBSTONE, (thread, state.epoch, state.sequence, digest, instant))
    connection.execute(sql.INSERT_GARBAGE, (thread, state.generation))
    connection.execute(sql.DELETE_THREAD, (thread,))
    return Tombstone(thread, state.tail, state.epoch)


def purge(connection: Session) -> bool:
    """Remove some rows of a generation that nothing reads; say whether more may be left."""
    row = connection.execute(sql.GARBAGE).fetchone()
    if row is None:
        return False
    left = PURGE_ROWS
    for table, rest in sql.PURGED_TABLES:
        left -= connection.execute(
            f"DELETE FROM {table} WHERE thread_id = :thread AND generation = :generation "  # noqa: S608 - own names
            f"AND ({rest}) IN (SELECT {rest} FROM {table} "
            "WHERE thread_id = :thread AND generation = :generation LIMIT :most)",
            {"thread": row[0], "generation": row[1], "most": left},
        ).rowcount
        if left <= 0:
            return True
    connection.execute(sql.DELETE_GARBAGE, row)
    return True


# --- checkpoints ---------------------------------------------------------------------------------


def save_checkpoint(connection: Session, checkpoint: Checkpoint, text: bytes) -> None:
    """Save a checkpoint bound to a batch tail (LOG-13)."""
    state = live_thread(connection, checkpoint.thread_id)
    key = (state.thread_id, state.generation, checkpoint.through_sequence)
    row = connection.execute(sql.BATCH_ENDING_AT, key).fetchone()
    digest = None if row is None else Digest(row[0].hex())
    check_binding(checkpoint, state.sequence, digest)
    connection.execute(
        sql.SET_CHECKPOINT,
        (
            *key,
            checkpoint.schema_version,
            bytes.fromhex(checkpoint.tail_digest),
            text,
            checkpoint.created_at,
        ),
    )


# --- the store -----------------------------------------------------------------------------------


def new_incarnation(connection: Session, incarnation: str, clock: Clock) -> None:
    """Begin a new timeline: every epoch rises by 2^32, those still to begin too (STO-4)."""
    (highest,) = connection.execute(sql.HIGHEST_EPOCH).fetchone()
    leap(highest)
    floor = leap(epoch_floor(connection))
    connection.execute(sql.RAISE_EPOCHS, (RESTORE_LEAP,))
    now = clock.moment(connection.execute, writing=True).store
    connection.execute(ALL_TAKEN_OVER, {"now": now})
    connection.execute(sql.SET_INCARNATION, (incarnation, floor))
