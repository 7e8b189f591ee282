"""What a process knows of threads that it appends to: where they end, how far their runs are.

It is never believed: it becomes the guard of the statement that rests on it, so that a stale entry
costs a statement and nothing else. Bounded, the threads not used for longest leave first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.log.append import ThreadState
    from yielded_core.ports.values import Tail
    from yielded_core.records.identifiers import ThreadId

MOST_THREADS: Final = 1_024
MOST_RUNS: Final = 16
"""Runs of one thread; an append is about one, seldom two."""


class Known(NamedTuple):
    """The row of a thread, and the progress of some of its runs at that tail."""

    state: ThreadState
    progress: Mapping[str, bytes | None]
    """None for a run without any."""

    def after(self, tail: Tail, progress: Mapping[str, bytes]) -> Known:
        """Return what is known after an append that moved the tail and some runs."""
        left = {run: state for run, state in self.progress.items() if run not in progress}
        runs = {**left, **progress}
        state = self.state._replace(
            sequence=tail.sequence, digest=tail.digest, indexed_through=tail.sequence
        )
        return Known(state, dict(list(runs.items())[-MOST_RUNS:]))


class KnownThreads:
    """The threads of one open store."""

    def __init__(self) -> None:
        self._threads: OrderedDict[ThreadId, Known] = OrderedDict()

    def get(self, thread: ThreadId) -> Known | None:
        """Return what is known of a thread."""
        known = self._threads.get(thread)
        if known is not None:
            self._threads.move_to_end(thread)
        return known

    def learn(self, known: Known) -> None:
        """Keep what was seen or written last."""
        thread = known.state.thread_id
        self._threads[thread] = known
        self._threads.move_to_end(thread)
        if len(self._threads) > MOST_THREADS:
            self._threads.popitem(last=False)

    def learn_state(self, state: ThreadState) -> None:
        """Keep the row of a thread, and the progress of its runs where the tail is still there."""
        before = self.get(state.thread_id)
        same = before is not None and before.state._replace(epoch=state.epoch) == state
        self.learn(Known(state, before.progress if before is not None and same else {}))

    def forget(self, thread: ThreadId) -> None:
        """Drop what turned out to be stale."""
        self._threads.pop(thread, None)
