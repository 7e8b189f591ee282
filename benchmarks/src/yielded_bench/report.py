"""Writing results as Markdown, on the screen and between the marks of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from yielded_bench.figures import Figure, Results

RESULTS: Final = "results"
STATEMENTS: Final = "statements"
ROUND_TRIPS: Final = "round trips"


def result_table(results: Results) -> list[str]:
    """Return the rows as lines of Markdown."""
    return [
        "| work | target | measured | met |",
        "|---|---|---|---|",
        *(
            f"| {row.work} | {row.target} | {row.measured} | {'yes' if row.met else '**no**'} |"
            for row in results.rows
        ),
    ]


def figure_table(title: str, figures: Sequence[Figure]) -> list[str]:
    """Return figures as lines of Markdown."""
    return [
        f"| {title} | |",
        "|---|---|",
        *(f"| {figure.what} | {figure.value} |" for figure in figures),
    ]


def results_section(results: Results, environment: Sequence[Figure], plot: str) -> list[str]:
    """Return everything that one run has to say; `plot` is the name of the picture."""
    return [
        *result_table(results),
        "",
        f"![How far each figure is from its target]({plot})",
        "",
        *figure_table("figures behind it", results.figures),
        "",
        *figure_table("measured on", environment),
    ]


def section_of(document: str, name: str) -> list[str]:
    """Return the lines between the marks of a section."""
    begin, end = _marks(name)
    lines = document.splitlines()
    return lines[lines.index(begin) + 1 : lines.index(end)]


def write_section(path: Path, name: str, lines: Sequence[str]) -> None:
    """Replace the lines between the marks of a section; raises ValueError without the marks."""
    begin, end = _marks(name)
    document = path.read_text(encoding="utf-8").splitlines()
    start, stop = document.index(begin) + 1, document.index(end)
    document[start:stop] = ["", *lines, ""]
    path.write_text("\n".join(document) + "\n", encoding="utf-8")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- yielded-bench: {name} -->", f"<!-- end of {name} -->"
