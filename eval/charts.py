"""Charts drawn by matplotlib as SVG: their style, scales and labels."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eval.tables import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLE = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": 8.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "learned_sparse",
    "text.parse_math": False,  # a name may hold $
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
}


@contextmanager
def new_figure(width: float, height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure of this size (inches) and its panel, while our style and not the user's settings hold for matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = dict(mpl.rcParamsDefault) | _STYLE
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def svg(figure: Figure) -> str:
    """A figure as SVG text without date and program; equal figures give equal text."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    return buffer.getvalue().decode()


def set_scale(panel: Axes, name: str, *, logarithmic: bool) -> None:
    """Scale of axis ``name``; ticks are plain numbers where matplotlib would write powers of ten as formulas."""
    ticks = panel.xaxis if name == "x" else panel.yaxis
    if logarithmic:
        panel.set(**{f"{name}scale": "log"})
        ticks.set_minor_formatter("")
    ticks.set_major_formatter("{x:,.10g}")


def label(text: str) -> str:
    """``text`` without unprintable characters, which XML forbids; matplotlib hides labels that begin with ``_``."""
    return f" {one_line(text)}" if text.startswith("_") else one_line(text)
