"""The reference adapter of yielded: the rules over dictionaries, for one process's lifetime."""

from __future__ import annotations

from yielded_storage_memory.store import MemoryStorage, open_storage

__all__ = ["MemoryStorage", "open_storage"]
