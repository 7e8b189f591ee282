"""What each port operation asks of SQLite: a table that does not vary, and that CI compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from yielded_bench.meter import Cost, Meter
from yielded_bench.operations import Bill, Line, every_operation
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Lines: TypeAlias = Sequence[Line[Cost]]


async def count(folder: Path) -> Lines:
    """Run every operation on SQLite and count."""
    with Meter() as meter:
        async with open_storage(f"sqlite:///{folder / 'counted.db'}") as storage:
            bill = Bill(meter.cost)
            await every_operation(bill, storage)
            return bill.lines


def table(lines: Lines) -> list[str]:
    """Return the table as lines of Markdown."""
    counted = [(line.operation, line.after.minus(line.before)) for line in lines]
    return [
        "| operation | statements | commits | rows read | rows written |",
        "|---|---|---|---|---|",
        *(
            f"| {operation} | {cost.statements} | {cost.commits} | {cost.read} | {cost.written} |"
            for operation, cost in counted
        ),
    ]
