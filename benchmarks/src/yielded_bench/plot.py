"""Drawing how far each row is from its target."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_bench.figures import Row

_MET: Final = "#2f7d4f"
_MISSED: Final = "#c4562f"
_SHORTEST: Final = 1 / 16
_LONGEST: Final = 16.0
"""How long bars are at most; the label of one that would be longer still says how far it is."""


def draw(rows: tuple[Row, ...], path: Path) -> None:
    """Write a picture: a bar a row, on a logarithmic axis, from the target outwards."""
    # Any: the stubs of matplotlib leave most keyword arguments unknown.
    figure: Any = Figure(figsize=(10, 0.45 * len(rows) + 1.2), layout="constrained")
    FigureCanvasSVG(figure)
    axes: Any = figure.add_subplot()
    for place, row in enumerate(reversed(rows)):
        share = min(max(row.share, _SHORTEST), _LONGEST)
        axes.barh(place, share - 1, left=1, height=0.6, color=_MET if row.met else _MISSED)
        side, offset = ("left", 5) if row.met else ("right", -5)
        axes.annotate(
            f"{row.measured.partition(' (')[0]} ({row.target})",
            (share, place),
            (offset, 0),
            textcoords="offset points",
            ha=side,
            va="center",
            fontsize=9,
        )
    labels = ["\n".join(textwrap.wrap(row.work, 48)) for row in reversed(rows)]
    axes.set_yticks(range(len(rows)), labels, fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_xlim(_SHORTEST / 8, _LONGEST * 8)
    axes.set_xticks([2.0**power for power in range(-4, 5)])
    axes.xaxis.set_major_formatter(FuncFormatter(_fraction))
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("measured against the target: right of 1 is met")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.margins(y=0.01)
    figure.savefig(path, metadata={"Date": None})


def _fraction(value: float, _position: int | None) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"
