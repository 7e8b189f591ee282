"""Importing core and opening an existing store, each in fresh processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_bench.children import measured_by
from yielded_bench.figures import Results, at_most, median
from yielded_bench.long_thread import BATCH_RECORDS, LongThread
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_bench.effort import Effort


async def measure(effort: Effort, folder: Path) -> Results:
    """Measure both in as many processes."""
    url = f"sqlite:///{folder / 'existing.db'}"
    async with open_storage(url) as storage:
        long = await LongThread.begin(storage, "thread")
        await long.grow(storage, 4 * BATCH_RECORDS)
    imports: list[float] = []
    opens: list[float] = []
    for number in range(effort.children):
        other = f"sqlite:///{folder / f'other-{number}.db'}"
        imports.append((await measured_by("import"))["seconds"] * 1e3)
        opens.append((await measured_by("open", url, other))["seconds"] * 1e3)
    return Results(
        (
            at_most("import of yielded_core, over that of pydantic", median(imports), 120, "ms"),
            at_most("open of an existing SQLite store, imports apart", median(opens), 60, "ms"),
        )
    )
