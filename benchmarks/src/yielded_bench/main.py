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
    postgres,
    processes,
    reading,
    round_trips,
    statements,
    transferring,
    working,
)
from yielded_bench.effort import FULL, QUICK, SMOKE, Effort
from yielded_bench.figures import Figure, Results
from yielded_bench.peers import missing
from yielded_bench.report import (
    RESULTS,
    ROUND_TRIPS,
    STATEMENTS,
    figure_table,
    result_table,
    results_section,
    write_section,
)
from yielded_bench.server import running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeAlias

    from yielded_bench.server import Server

    Part: TypeAlias = Callable[[Effort, Path, Server], Awaitable[Results]]


def _without_server(measure: Callable[[Effort, Path], Awaitable[Results]]) -> Part:
    return lambda effort, folder, _server: measure(effort, folder)


PARTS: Final[dict[str, Part]] = {
    "appending": _without_server(appending.measure),
    "processes": _without_server(processes.measure),
    "reading": _without_server(reading.measure),
    "transferring": _without_server(transferring.measure),
    "working": _without_server(working.measure),
    "observing": _without_server(observing.measure),
    "opening": _without_server(opening.measure),
    "postgres": postgres.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the arguments say."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.only and options.write is not None:
        parser.error("a document is written as a whole: leave out --only")
    measures = options.write is not None and not options.statements
    if measures and options.effort is not SMOKE and (absent := missing()):
        parser.error(f"{', '.join(absent)} must be measured too: uv sync --group bench")
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="yielded-bench", description=__doc__)
    efforts = parser.add_mutually_exclusive_group()
    for effort, meaning in (
        (SMOKE, "a minute: shows that the harness works, its figures mean nothing"),
        (QUICK, "four minutes instead of half an hour"),
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
        "--only",
        action="append",
        choices=PARTS,
        help="measure only this part; may be given several times, and not with --write",
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
    async with running(options.folder) as server:
        with tempfile.TemporaryDirectory(prefix="yielded-bench-", dir=options.folder) as name:
            folder = Path(name)
            if not options.statements:
                parts = options.only or list(PARTS)
                await _measure(options.effort, parts, folder, server, options.write)
            if not options.only:
                await _count(folder, server, options.write)


async def _count(folder: Path, server: Server, document: Path | None) -> None:
    for section, lines in (
        (STATEMENTS, statements.table(await statements.count(folder))),
        (ROUND_TRIPS, round_trips.table(await round_trips.count(server))),
    ):
        _print(lines)
        if document is not None:
            write_section(document, section, lines)


async def _measure(
    effort: Effort, parts: Sequence[str], folder: Path, server: Server, document: Path | None
) -> None:
    start, before = time.monotonic(), environment.load()
    place = await environment.describe(folder, server, effort.name)
    results = Results()
    for part in parts:
        own = folder / part
        own.mkdir()
        found = await PARTS[part](effort, own, server)
        results = Results(results.rows + found.rows, results.figures + found.figures)
        sys.stderr.write(f"{part}: done at {time.monotonic() - start:.0f} s\n")
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
