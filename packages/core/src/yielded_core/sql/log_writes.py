"""The thread log's mutations as whole functions over one connection: evidence, rule, rows.

Each runs inside a transaction that the writer opened; a rule that refuses raises before anything is
written. No function awaits, commits or looks at a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from yielded_core.digest import EMPTY_TAIL_DIGEST, epoch_seal
from yielded_core.log.append import (
    Accepted,
    KnownBatch,
    ThreadState,
    check_fence,
    decide_append,
    decide_materialize,
    require_live,
)
from yielded_core.log.facts import facts_of
from yielded_core.log.progress import RunProgress, advance_runs, check_handoffs, runs_of
from yielded_core.log.retention import first_epoch
from yielded_core.ports.values import Appended, Tail, ThreadTail
from yielded_core.records.identifiers import Digest, RecordId
from yielded_core.sql import log_statements as sql
from yielded_core.sql.ledger_statements import TAKEN_OVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_core.log.facts import RecordFacts
    from yielded_core.ports.values import PreparedBatch
    from yielded_core.records.identifiers import RunId, ThreadId
    from yielded_core.sql.session import Clock, Session

    _Row: TypeAlias = tuple[object, ...]


EMPTY_TAIL: Final = bytes.fromhex(EMPTY_TAIL_DIGEST)


def find_thread(connection: Session, thread: ThreadId) -> ThreadState | None:
    """Return the row of a live thread, or None."""
    row = connection.execute(sql.THREAD, (thread,)).fetchone()
    if row is None:
        return None
    generation, epoch, sequence, digest, indexed, revision = row
    return ThreadState(thread, generation, epoch, sequence, Digest(digest.hex()), indexed, revision)


def find_tombstone(connection: Session, thread: ThreadId) -> Tail | None:
    """Return the last tail of a deleted thread, or None."""
    row = connection.execute(sql.TOMBSTONE, (thread,)).fetchone()
    return None if row is None else Tail(row[1], Digest(row[2].hex()))


def live_thread(connection: Session, thread: ThreadId) -> ThreadState:
    """Return the row of a live thread; else ThreadNotMaterialized or ThreadDeleted."""
    state = find_thread(connection, thread)
    if state is not None:
        return state
    return require_live(thread, None, find_tombstone(connection, thread))


def epoch_floor(connection: Session) -> int:
    """Return what the restores of the store raised every epoch by (STO-4)."""
    (floor,) = connection.execute(sql.EPOCH_FLOOR).fetchone()
    return floor


def materialize(connection: Session, thread: ThreadId, epoch: int, clock: Clock) -> ThreadTail:
    """Register a thread, or take it over at a higher epoch (LOG-1)."""
    state = find_thread(connection, thread)
    if state is None:
        tombstone = find_tombstone(connection, thread)
        if tombstone is not None:
            require_live(thread, None, tombstone)
        decide_materialize(thread, None, epoch)
        begins = first_epoch(epoch, epoch_floor(connection))
        connection.execute(sql.INSERT_THREAD, (thread, begins, EMPTY_TAIL))
        return ThreadTail(thread, 0, EMPTY_TAIL_DIGEST, begins)
    if decide_materialize(thread, state.epoch, epoch):
        connection.execute(sql.SET_EPOCH, (epoch, thread))
        now = clock.moment(connection.execute, writing=True).store
        connection.execute(TAKEN_OVER, {"now": now, "thread": thread})
    return ThreadTail(thread, state.sequence, state.digest, max(epoch, state.epoch))


def append(
    connection: Session,
    thread: ThreadId,
    batch: PreparedBatch,
    expected: Tail,
    epoch: int,
) -> Appended:
    """Commit a whole batch at the expected tail (LOG-2 to LOG-5, LOG-16)."""
    state = live_thread(connection, thread)
    check_fence(state, epoch)
    known, taken = held_of(connection, state, batch)
    decision = decide_append(state, batch, expected, known=known, taken=taken)
    if isinstance(decision, Appended):
        return decision
    tail = decision.tail
    write_batch(connection, state, batch, decision, epoch)
    connection.execute(
        sql.MOVE_TAIL, (tail.sequence, bytes.fromhex(tail.digest), tail.sequence, thread)
    )
    return Appended(decision.first_sequence, tail, replayed=False)


def write_batch(
    connection: Session,
    state: ThreadState,
    batch: PreparedBatch,
    accepted: Accepted,
    epoch: int,
) -> None:
    """Write the rows of an accepted batch, its index rows and its runs' progress.

    What may still refuse, the progress of its runs, is decided before the first row is written.
    """
    key = (state.thread_id, state.generation)
    first = accepted.first_sequence
    facts = [facts_of(first + index, encoded) for index, encoded in enumerate(batch.records)]
    progress = plan_progress(connection, state, facts)
    connection.execute(
        sql.INSERT_BATCH,
        (
            *key,
            accepted.tail.sequence,
            first,
            batch.batch_id,
            batch.producer_id,
            epoch,
            bytes.fromhex(batch.content_digest),
            bytes.fromhex(accepted.tail.digest),
            bytes.fromhex(epoch_seal(epoch, batch.content_digest, accepted.tail.digest)),
        ),
    )
    connection.executemany(
        sql.INSERT_RECORD,
        [(*key, fact.sequence, fact.record_id, fact.encoded.wire) for fact in facts],
    )
    write_indexes(connection, state, facts, progress)


def plan_progress(
    connection: Session, state: ThreadState, facts: Sequence[RecordFacts]
) -> dict[RunId, RunProgress]:
    """Check facts against LOG-16 and return the progress they lead to; writes nothing."""
    key = (state.thread_id, state.generation)
    closed = [fact.closes_handoff for fact in facts if fact.closes_handoff is not None]
    if closed:
        known = [
            name
            for name in closed
            if connection.execute(sql.OPEN_HANDOFF, (*key, name)).fetchone() is not None
        ]
        check_handoffs(state.thread_id, facts, known)
    before: dict[RunId, RunProgress] = {}
    for run in runs_of(facts):
        row = connection.execute(sql.RUN_PROGRESS, (*key, run)).fetchone()
        if row is not None:
            before[run] = RunProgress.decode(row[0])
    return advance_runs(state.thread_id, facts, before)


def write_indexes(
    connection: Session,
    state: ThreadState,
    facts: Sequence[RecordFacts],
    progress: dict[RunId, RunProgress],
) -> None:
    """Write the index rows of facts in the transaction of the facts themselves."""
    key = (state.thread_id, state.generation)
    rows: dict[str, list[_Row]] = {statement: [] for statement in sql.FACT_ROWS}
    for fact in facts:
        _collect_rows(key, fact, rows)
    for statement, values in rows.items():
        if values:
            connection.executemany(statement, values)
    for run, moved in progress.items():
        connection.execute(sql.SET_RUN_PROGRESS, (*key, run, moved.encode()))


def _collect_rows(
    key: tuple[ThreadId, int], fact: RecordFacts, rows: dict[str, list[_Row]]
) -> None:
    """Add the index rows of one fact, each to those of its statement."""
    at = fact.sequence
    if fact.run is not None:
        rows[sql.INSERT_RUN_FACT].append((*key, fact.run, at))
        for call in dict.fromkeys(fact.calls):
            rows[sql.INSERT_OPERATION_FACT].append((*key, fact.run, call, at))
        if fact.run_input:
            rows[sql.INSERT_RUN_INPUT].append((*key, fact.run, at))
    if fact.prompt:
        rows[sql.INSERT_PROMPT_FACT].append((*key, at))
    if fact.continuation is not None:
        continued = fact.continuation
        rows[sql.INSERT_CONTINUATION].append((*key, continued.run_id, at, continued.revision))
    if fact.opens_handoff:
        rows[sql.INSERT_HANDOFF].append((*key, fact.record_id, at))
    if fact.closes_handoff is not None:
        rows[sql.CLOSE_HANDOFF].append((*key, fact.closes_handoff))


def held_of(
    connection: Session, state: ThreadState, batch: PreparedBatch
) -> tuple[KnownBatch | None, RecordId | None]:
    """Return what the thread already holds of a batch: the batch itself, and one of its records."""
    names = [encoded.record.record_id for encoded in batch.records]
    held = {
        "thread": state.thread_id,
        "generation": state.generation,
        "batch": batch.batch_id,
        "names": names[0] if len(names) == 1 else orjson.dumps(names).decode(),
    }
    rows = connection.execute(sql.HELD_OF_ONE if len(names) == 1 else sql.HELD_OF_MANY, held)
    known: KnownBatch | None = None
    taken: RecordId | None = None
    for content, first, last, digest, record_id in rows:
        if content is None:
            taken = RecordId(record_id)
        else:
            known = KnownBatch(Digest(content.hex()), first, Tail(last, Digest(digest.hex())))
    return known, taken
