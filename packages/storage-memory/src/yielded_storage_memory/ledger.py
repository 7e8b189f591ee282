"""The transactions of a memory store: an operation runs without an await, so nothing interferes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from yielded_storage_memory.unit import MemoryUnit

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_core.ledger.unit import LedgerEvidence, LedgerUnit
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_memory.store import Store

Result = TypeVar("Result")


class MemoryTransactions:
    """LedgerTransactions over dictionaries. Operations decide before they write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(
        self, operation: Callable[[LedgerUnit], Result], *, touches: ThreadId | None = None
    ) -> Result:
        """Run an operation, then wake the observers of what it touches."""
        with self._store.operation():
            result = operation(MemoryUnit(self._store, self._store.clock.moment()))
            if touches is not None:
                self._store.wake(touches)
            return result

    async def inspect(self, question: Callable[[LedgerEvidence], Result]) -> Result:
        """Answer a question."""
        with self._store.operation():
            return question(MemoryUnit(self._store, self._store.clock.moment()))
