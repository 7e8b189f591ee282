"""Small states by name, kept while a log is replayed: the mapping that a replay needs."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

State = TypeVar("State")


class States(Protocol[State]):
    """A mapping from text to a state, which may lie outside of memory."""

    def get(self, name: str) -> State | None:
        """Return a state, or None."""
        ...

    def put(self, name: str, state: State) -> None:
        """Keep a state in place of the one before."""
        ...

    def remove(self, name: str) -> None:
        """Forget a state; without one, a no-op."""
        ...

    def first(self) -> str | None:
        """Return the name of one of the states, the lowest; None when there is none."""
        ...


class HeldStates(Generic[State]):
    """States held in memory."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    def get(self, name: str) -> State | None:
        """Return a state, or None."""
        return self._states.get(name)

    def put(self, name: str, state: State) -> None:
        """Keep a state in place of the one before."""
        self._states[name] = state

    def remove(self, name: str) -> None:
        """Forget a state."""
        self._states.pop(name, None)

    def first(self) -> str | None:
        """Return the lowest name."""
        return min(self._states, default=None)
