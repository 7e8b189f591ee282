"""The PostgreSQL adapter of yielded."""

from __future__ import annotations

from yielded_storage_postgres.layout import layout
from yielded_storage_postgres.store import open_storage, storage_over

__all__ = ["layout", "open_storage", "storage_over"]
