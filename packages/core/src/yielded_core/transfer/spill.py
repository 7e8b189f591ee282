"""States of a replay in bounded memory: the newest in memory, the rest in a temporary file."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, Self, cast

import orjson

from yielded_core.errors import StorageFull
from yielded_core.ledger.traces import Trace
from yielded_core.log.progress import RunProgress
from yielded_core.log.states import State
from yielded_core.log.verifier import ReplayStates

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from yielded_core.records.identifiers import ToolCallId

_IN_MEMORY: Final = 8_192
"""States held before the least recently used half of them is written to the file."""
_CACHE_KIB: Final = 4_096
_FIRST: Final = "SELECT min(name) FROM states"


class SpilledStates(Generic[State]):
    """States by name; a context manager, for its temporary file.

    It is used by one thread at a time.
    """

    def __init__(
        self,
        encode: Callable[[State], bytes],
        decode: Callable[[bytes], State],
        *,
        in_memory: int = _IN_MEMORY,
    ) -> None:
        self._encode = encode
        self._decode = decode
        self._in_memory = in_memory
        self._newest: dict[str, State] = {}
        self._file: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def get(self, name: str) -> State | None:
        """Return a state, or None."""
        state = self._newest.get(name)
        if state is None and self._file is not None:
            query = "SELECT state FROM states WHERE name = ?"
            row = cast("tuple[bytes] | None", self._file.execute(query, (name,)).fetchone())
            state = None if row is None else self._decode(row[0])
        if state is not None:
            self.put(name, state)
        return state

    def put(self, name: str, state: State) -> None:
        """Keep a state in place of the one before; raises StorageFull without room for it."""
        self._newest.pop(name, None)
        self._newest[name] = state
        if len(self._newest) > self._in_memory:
            self._spill()

    def remove(self, name: str) -> None:
        """Forget a state; without one, a no-op."""
        self._newest.pop(name, None)
        if self._file is not None:
            self._file.execute("DELETE FROM states WHERE name = ?", (name,))

    def first(self) -> str | None:
        """Return the lowest name; None when there is none."""
        lowest = min(self._newest, default=None)
        if self._file is None:
            return lowest
        row = cast("tuple[str | None]", self._file.execute(_FIRST).fetchone())
        return min((name for name in (lowest, row[0]) if name is not None), default=None)

    def _spill(self) -> None:
        """Write the least recently used half of what is held."""
        oldest = list(self._newest)[: len(self._newest) // 2]
        rows = ((name, self._encode(self._newest.pop(name))) for name in oldest)
        try:
            if self._file is None:
                self._file = _temporary_file()
            with self._file:
                self._file.executemany("INSERT OR REPLACE INTO states VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise StorageFull("the temporary file of a replay cannot be written") from error


@contextmanager
def spilled_states(in_memory: int = _IN_MEMORY) -> Generator[ReplayStates]:
    """Open states for the replay of a log of any length, and remove their files at the end."""
    with (
        SpilledStates(RunProgress.encode, RunProgress.decode, in_memory=in_memory) as runs,
        SpilledStates(orjson.dumps, _sequence, in_memory=in_memory) as handoffs,
        SpilledStates(orjson.dumps, _calls, in_memory=in_memory) as children,
    ):
        yield ReplayStates(runs, handoffs, children)


def spilled_traces(in_memory: int = _IN_MEMORY) -> SpilledStates[Trace]:
    """Return a place for what a log of any length tells about its submissions."""
    return SpilledStates(Trace.encode, Trace.decode, in_memory=in_memory)


def _sequence(text: bytes) -> int:
    return int(orjson.loads(text))


def _calls(text: bytes) -> tuple[ToolCallId, ...]:
    return tuple(cast("list[ToolCallId]", orjson.loads(text)))


def _temporary_file() -> sqlite3.Connection:
    """Open a database that lies in a temporary file without a name, gone when it is closed."""
    file = sqlite3.connect("", check_same_thread=False)
    file.execute("PRAGMA journal_mode = OFF")
    file.execute("PRAGMA synchronous = OFF")
    file.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    file.execute("CREATE TABLE states (name TEXT PRIMARY KEY, state BLOB) WITHOUT ROWID")
    return file
