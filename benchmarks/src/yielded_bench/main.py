"""The command `yielded-bench`: measures, prints the tables, and writes them where told."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yielded_bench import (
    appending,
    environment,
    observing,
    opening,
    processes,
    reading,
    statements,
    transferring,
    working,
)
from yielded_bench.effort import FULL, QUICK, SMOKE, Effort
from yielded_bench.figures import Figure, Results
from yielded_bench.report import (
    RESULTS,
    STATEMENTS,
    figure_table,
    result_table,
    results_section,
    write_section,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

PARTS: Final[tuple[Callable[[Effort, Path], Awaitable[Results]], ...]] = (
    appending.measure,
    processes.measure,
    reading.measure,
    transferring.measure,
    working.measure,
    observing.measure,
    opening.measure,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the arguments say."""
    options = _parser().parse_args(arguments)
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="yielded-bench", description=__doc__)
    efforts = parser.add_mutually_exclusive_group()
    for effort, meaning in (
        (SMOKE, "fifteen seconds: shows that the harness works, its figures mean nothing"),
        (QUICK, "two minutes instead of twenty"),
    ):
        efforts.add_argument(
            f"--{effort.name}",
            dest="effort",
            action="store_const",
            const=effort,
            default=FULL,
            help=meaning,
        )
    efforts.add_argument(
        "--statements", action="store_true", help="only count statements and rows; measure nothing"
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="DOCUMENT",
        help="also put the tables between the marks of this document, and the plot beside it",
    )
    parser.add_argument(
        "--folder", type=Path, help="where the stores are made: on the disk that is to be measured"
    )
    return parser


async def _run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="yielded-bench-", dir=options.folder) as name:
        folder = Path(name)
        if not options.statements:
            await _measure(options.effort, folder, options.write)
        lines = statements.table(await statements.count(folder))
    _print(lines)
    if options.write is not None:
        write_section(options.write, STATEMENTS, lines)


async def _measure(effort: Effort, folder: Path, document: Path | None) -> None:
    start, before = time.monotonic(), environment.load()
    place = await environment.describe(folder, effort.name)
    results = Results()
    for part in PARTS:
        own = folder / part.__module__.rpartition(".")[2]
        own.mkdir()
        found = await part(effort, own)
        results = Results(results.rows + found.rows, results.figures + found.figures)
        sys.stderr.write(f"{own.name}: done at {time.monotonic() - start:.0f} s\n")
    place += (
        Figure("load over 1, 5 and 15 minutes, before", before),
        Figure("the same, after", environment.load()),
        Figure("seconds that the run took", f"{time.monotonic() - start:.0f}"),
    )
    _print(result_table(results))
    _print(figure_table("figures behind it", results.figures))
    _print(figure_table("measured on", place))
    if document is not None:
        from yielded_bench.plot import draw  # noqa: PLC0415 - slow to load, and needed only here

        picture = document.with_suffix(".svg")
        draw(results.rows, picture)
        write_section(document, RESULTS, results_section(results, place, picture.name))


def _print(lines: Sequence[str]) -> None:
    print("\n".join(lines), end="\n\n")
