"""The SQLite adapter of yielded: a durable thread log in one file."""

from __future__ import annotations

from yielded_storage_sqlite.store import SqliteStorage, open_storage

__all__ = ["SqliteStorage", "open_storage"]
