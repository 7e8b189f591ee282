"""Imports: batches staged under an invisible generation, published by one transaction (ARC-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_core.digest import EMPTY_TAIL_DIGEST
from yielded_core.errors import AppendConflict, StorageCorrupt
from yielded_core.ledger.lane import LaneState
from yielded_core.ledger.operations.installing import install, stage
from yielded_core.log.append import Accepted, ThreadState, decide_append
from yielded_core.log.retention import decide_import, decide_publish, require_staged
from yielded_core.ports.values import ImportState, Tail, ThreadTail
from yielded_core.records.identifiers import Digest
from yielded_core.sql import log_statements as sql
from yielded_core.sql.ledger_statements import COUNT_FACTS, HAS_LANE, STAGED_WORK
from yielded_core.sql.log_writes import (
    epoch_floor,
    find_thread,
    find_tombstone,
    held_of,
    write_batch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yielded_core.ports.values import PreparedBatch
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.sql.ledger_unit import SqlUnit
    from yielded_core.sql.session import Execute, Session


def begin_import(connection: Session, archive: ThreadTail) -> ImportState:
    """Begin to stage an archive, or resume it."""
    thread = archive.thread_id
    found = _find_import(connection, thread)
    destination = find_thread(connection, thread)
    tombstone = find_tombstone(connection, thread)
    staged = None if found is None else found[1]
    work = _accepted_work(connection, thread)
    if decide_import(archive, destination, tombstone, staged, accepted_work=work):
        (generation,) = connection.execute(sql.NEXT_GENERATION, {"thread": thread}).fetchone()
        tail = (archive.epoch, archive.sequence, bytes.fromhex(archive.digest))
        empty = (0, bytes.fromhex(EMPTY_TAIL_DIGEST))
        connection.execute(sql.INSERT_IMPORT, (thread, generation, *tail, *empty))
    return _import_state(connection, thread)


def stage_batches(
    connection: Session,
    thread: ThreadId,
    batches: Sequence[tuple[PreparedBatch, int]],
) -> ImportState:
    """Stage batches after those staged before; the rules of an append hold."""
    state = _staged_state(connection, thread)
    for batch, epoch in batches:
        known, taken = held_of(connection, state, batch)
        decision = decide_append(state, batch, state.tail, known=known, taken=taken)
        if not isinstance(decision, Accepted):
            raise AppendConflict(thread, "batch-digest", state.sequence, state.digest)
        write_batch(connection, state, batch, decision, epoch)
        tail = decision.tail
        state = ThreadState(
            thread,
            state.generation,
            state.epoch,
            tail.sequence,
            tail.digest,
            tail.sequence,
            0,
        )
    connection.execute(sql.MOVE_STAGED, (state.sequence, bytes.fromhex(state.digest), thread))
    return _import_state(connection, thread)


def stage_work(
    connection: Session,
    unit: SqlUnit,
    thread: ThreadId,
    entries: Sequence[SubmissionFacts],
) -> ImportState:
    """Stage submissions after those staged before, in the generation of the import."""
    lane = staged_lane(connection.execute, thread)
    stage(unit, lane, entries)
    return _import_state(connection, thread)


def staged_lane(execute: Execute, thread: ThreadId) -> LaneState:
    """Return the lane of the work that is staged for a thread, or raise ImportRefused."""
    row = require_staged(thread, execute(sql.IMPORT, (thread,)).fetchone())
    (last,) = execute(STAGED_WORK, (thread, row[0])).fetchone()
    return LaneState(thread, row[0], 0, 0, last, 0)


def publish_import(
    connection: Session,
    unit: Callable[[Session], SqlUnit],
    thread: ThreadId,
) -> ThreadTail:
    """Make a completely staged import visible, its lane included.

    `unit` is asked for only where there is a lane.
    """
    state = _staged_state(connection, thread)
    found = _find_import(connection, thread)
    if found is None:
        raise StorageCorrupt("an import is neither staged nor missing")
    destination = find_thread(connection, thread)
    tombstone = find_tombstone(connection, thread)
    work = _accepted_work(connection, thread)
    tail = decide_publish(
        found[1],
        state.tail,
        destination,
        tombstone,
        accepted_work=work,
        floor=epoch_floor(connection),
    )
    if destination is not None:
        connection.execute(sql.INSERT_GARBAGE, (thread, destination.generation))
    connection.execute(
        sql.PUBLISH_THREAD,
        (
            thread,
            state.generation,
            tail.epoch,
            tail.sequence,
            bytes.fromhex(tail.digest),
            tail.sequence,
        ),
    )
    staged = staged_lane(connection.execute, thread)
    if staged.last_queue_sequence:
        key = {"thread": thread, "generation": state.generation}
        (facts,) = connection.execute(COUNT_FACTS, key).fetchone()
        install(unit(connection), thread, staged.last_queue_sequence, facts)
    connection.execute(sql.DELETE_IMPORT, (thread,))
    return tail


def discard_import(connection: Session, thread: ThreadId) -> None:
    """Forget a staged import; its rows are purged afterwards."""
    found = _find_import(connection, thread)
    if found is not None:
        connection.execute(sql.INSERT_GARBAGE, (thread, found[0]))
        connection.execute(sql.DELETE_IMPORT, (thread,))


def find_import_state(connection: Session, thread: ThreadId) -> ImportState | None:
    """Return how far an import was staged, or None."""
    found = _find_import(connection, thread)
    if found is None:
        return None
    generation, archive, staged = found
    (work,) = connection.execute(STAGED_WORK, (thread, generation)).fetchone()
    return ImportState(thread, archive.tail, staged, archive.tail == staged, work)


def _accepted_work(connection: Session, thread: ThreadId) -> bool:
    return connection.execute(HAS_LANE, (thread,)).fetchone() is not None


def _import_state(connection: Session, thread: ThreadId) -> ImportState:
    return require_staged(thread, find_import_state(connection, thread))


def _staged_state(connection: Session, thread: ThreadId) -> ThreadState:
    _import_state(connection, thread)
    found = _find_import(connection, thread)
    if found is None:
        raise StorageCorrupt("an import is neither staged nor missing")
    generation, archive, tail = found
    return ThreadState(
        thread, generation, archive.epoch, tail.sequence, tail.digest, tail.sequence, 0
    )


def _find_import(connection: Session, thread: ThreadId) -> tuple[int, ThreadTail, Tail] | None:
    row = connection.execute(sql.IMPORT, (thread,)).fetchone()
    if row is None:
        return None
    generation, epoch, sequence, digest, staged, staged_digest = row
    archive = ThreadTail(thread, sequence, Digest(digest.hex()), epoch)
    return generation, archive, Tail(staged, Digest(staged_digest.hex()))
