"""An append planned before it is sent: the shared rules over what is known, their rows collected.

What the plan rests on, the row of the thread, becomes the guard of the one statement that commits
it, so that it commits exactly where the rules would have decided the same under a lock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from yielded_core.sql import log_statements, log_writes
from yielded_storage_postgres.dialect import in_schema
from yielded_storage_postgres.names import is_own_key
from yielded_storage_postgres.session import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_core.log.append import ThreadState
    from yielded_core.ports.values import Appended, PreparedBatch, Tail
    from yielded_core.sql.session import Values

_KEY_COLUMNS: Final = 2
"""Thread and generation, which every row of a thread begins with."""
_TYPES: Final[Mapping[type[object], str]] = {str: "text", int: "bigint", bytes: "bytea"}
_VALUES: Final = re.compile(r"VALUES \(\?(?:, \?)*\)")
GUARD_PARAMETERS: Final = 8
"""Those of GUARD, SEEN and MOVED, as `Plan.guard` gives them."""
SEEN: Final = """
seen AS MATERIALIZED (
  SELECT generation, tail_digest, lane_version FROM yielded_threads WHERE thread_id = $1)
"""
MOVED: Final = "tail_sequence = $7, tail_digest = $8, indexed_through = $7"
_HOLDS: Final = """
SELECT 1 FROM unnest($6::text[]) AS n (name), LATERAL (
  SELECT 1 FROM {table} AS r
   WHERE r.thread_id = $1 AND r.generation = $2 AND r.record_id = n.name
   LIMIT 1) AS held
"""
"""The limit keeps each name a look-up of its own: of many names at once, the planner would rather
walk through the whole thread (LOG-18)."""
# A statement that waits for a lock looks at the row of the thread again, and at nothing else: what
# it has seen of other tables counts only where the thread has not moved meanwhile. Records that an
# archive takes leave their table without moving the tail, so both tables are asked in one snapshot.
GUARD: Final = f"""
t.thread_id = $1 AND t.generation = $2 AND t.epoch = $3
AND t.tail_sequence = $4 AND t.tail_digest = $5 AND t.indexed_through >= $4
AND seen.generation = $2 AND seen.tail_digest = $5
AND NOT EXISTS ({_HOLDS.format(table="yielded_records")})
AND NOT EXISTS ({_HOLDS.format(table="yielded_archived_records")})
"""
APPEND: Final = f"""
WITH {SEEN}, moved AS (
  UPDATE yielded_threads AS t SET {MOVED} FROM seen WHERE {GUARD} RETURNING t.generation)
"""


class NotPlanned(Exception):
    """The append needs more than is known: it is decided in a transaction."""


class Rows(NamedTuple):
    """The rows of one shared INSERT."""

    statement: str
    types: tuple[str, ...]
    """Of the columns after thread and generation."""
    one: bool
    """Whether there is one row, whose values need no arrays, which cost both sides more."""


Shape = tuple[Rows, ...]
"""What a statement's text depends on."""


class Plan(NamedTuple):
    """An append that is to be committed by one statement."""

    appended: Appended
    guard: tuple[object, ...]
    """Values of the guard: thread, generation, epoch, tail, record ids, the tail to come."""
    shape: Shape
    values: tuple[object, ...]
    """Of the rows in the order of the shape: those of one row, or the columns of several."""
    progress: dict[str, bytes]
    """What it leaves of the progress of its runs."""


class PlannedSession:
    """A Session that answers from what is known and keeps what is to be written."""

    def __init__(self, state: ThreadState, progress: Mapping[str, bytes | None]) -> None:
        self._state = state
        self._known = progress
        self.rows: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)

    def execute(self, statement: str, values: Values = (), /) -> Answer:
        """Answer what is known, and keep what is to be inserted."""
        given = tuple(values.values()) if isinstance(values, Mapping) else values
        if statement == log_statements.THREAD:
            return Answer([_row(self._state)], 1)
        if statement in {log_statements.HELD_OF_ONE, log_statements.HELD_OF_MANY}:
            return Answer([], 0)  # the guard looks
        if statement == log_statements.RUN_PROGRESS:
            return self._progress(str(given[-1]))
        if statement != log_statements.MOVE_TAIL:  # the guard moves it
            self._keep(statement, given)
        return Answer([], 1)

    def executemany(self, statement: str, values: Iterable[tuple[object, ...]], /) -> None:
        """Keep what is to be inserted."""
        for row in values:
            self._keep(statement, row)

    def _progress(self, run: str) -> Answer:
        if run not in self._known:
            raise NotPlanned
        state = self._known[run]
        return Answer([] if state is None else [(state,)], 1)

    def _keep(self, statement: str, row: tuple[object, ...]) -> None:
        if _VALUES.search(statement) is None:
            raise NotPlanned
        self.rows[statement].append(row)


def plan_append(
    state: ThreadState,
    progress: Mapping[str, bytes | None],
    batch: PreparedBatch,
    expected: Tail,
    epoch: int,
) -> Plan:
    """Let the shared rules decide over a known state.

    Raises NotPlanned, and what the rules refuse with, which counts only where the state is that of
    the store.
    """
    session = PlannedSession(state, progress)
    appended = log_writes.append(session, state.thread_id, batch, expected, epoch)
    names = [encoded.record.record_id for encoded in batch.records]
    if not all(map(is_own_key, (state.thread_id, *names))) or not _own_keys(session.rows.values()):
        raise NotPlanned
    tail = appended.tail
    guard = (
        state.thread_id,
        state.generation,
        epoch,
        state.sequence,
        bytes.fromhex(state.digest),
        names,
        tail.sequence,
        bytes.fromhex(tail.digest),
    )
    rows = session.rows.items()
    shape = tuple(Rows(text, _types(some[0]), len(some) == 1) for text, some in rows)
    values = tuple(value for some in session.rows.values() for value in _values(some))
    moved = session.rows.get(log_statements.SET_RUN_PROGRESS, [])
    left = {str(run): state for *_, run, state in moved if isinstance(state, bytes)}
    return Plan(appended, guard, shape, values, left)


@lru_cache(maxsize=1_024)
def append_statement(schema: str, shape: Shape) -> str:
    """Return the statement that commits a plan of a shape: one row where it did, else none."""
    written = writes(shape, GUARD_PARAMETERS + 1)
    return in_schema(f"{APPEND}{written} SELECT 1 FROM moved", schema)


def writes(shape: Shape, first: int) -> str:
    """Return the parts of a statement that insert the rows, their parameters from `first` on."""
    parts: list[str] = []
    for number, (statement, types, one) in enumerate(shape):
        given = [f"${first + at}::{kind}" for at, kind in enumerate(types)]
        first += len(types)
        if one:
            select = f"SELECT $1, moved.generation, {', '.join(given)} FROM moved"
        else:
            arrays = ", ".join(f"{each}[]" for each in given)
            names = ", ".join(f"c{at}" for at in range(len(types)))
            rows = f"unnest({arrays}) AS x ({names})"
            select = f"SELECT $1, moved.generation, {names} FROM moved, {rows}"
        parts.append(f", written_{number} AS ({_VALUES.sub(select, statement)})")
    return "".join(parts)


def _row(state: ThreadState) -> tuple[object, ...]:
    _, generation, epoch, sequence, digest, indexed, revision = state
    return generation, epoch, sequence, bytes.fromhex(digest), indexed, revision


def _values(rows: Sequence[tuple[object, ...]]) -> Sequence[object]:
    """Return the values of one row, or the columns of several."""
    if len(rows) == 1:
        return rows[0][_KEY_COLUMNS:]
    return [list(column) for column in zip(*rows, strict=True)][_KEY_COLUMNS:]


def _types(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple([_TYPES[type(value)] for value in row[_KEY_COLUMNS:]])


def _own_keys(written: Iterable[Sequence[tuple[object, ...]]]) -> bool:
    for rows in written:
        for row in rows:
            for value in row[_KEY_COLUMNS:]:
                if isinstance(value, str) and not is_own_key(value):
                    return False
    return True
