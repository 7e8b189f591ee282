"""The store of an adapter that is compared with the model: opened, on a clock, and opened again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from yielded_testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from yielded_core.storage import Storage


@dataclass(frozen=True, slots=True)
class Adapter:
    """What the model-based test needs to know of an adapter."""

    open_storage: Callable[[Path, Callable[[], int]], Storage]
    """Returns a storage, not yet opened, of the store in a folder, whose clocks are the function;
    a folder is empty when it is given for the first time."""
    survives_reopening: bool
    """Whether a store outlives its storage, so that a crash can be tried by opening it again."""


class Store:
    """One store of an adapter."""

    def __init__(self, adapter: Adapter, folder: Path) -> None:
        self.clock = VirtualClock()
        self._adapter = adapter
        self._folder = folder
        self._storage: Storage | None = None

    @property
    def storage(self) -> Storage:
        """The open storage."""
        if self._storage is None:
            message = "the store is not open"
            raise RuntimeError(message)
        return self._storage

    async def reopen(self) -> None:
        """Leave the storage and open the store by another one."""
        await self.close()
        await self.open()

    async def open(self) -> Self:
        """Open the store."""
        storage = self._adapter.open_storage(self._folder, self.clock)
        await storage.__aenter__()
        self._storage = storage
        return self

    async def close(self) -> None:
        """Close the store; nothing happens where it is not open."""
        storage, self._storage = self._storage, None
        if storage is not None:
            await storage.__aexit__(None, None, None)
