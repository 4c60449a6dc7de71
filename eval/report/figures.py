"""The figures of a leaderboard with matplotlib, as SVG and PNG: equal results give equal bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eval.report.curves import COLOURS
from eval.report.quantities import COSTS, Quantity
from eval.report.results import Found, Json
from learned_sparse.core import LearnedSparseError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 6  # panels
_SHAPES = "os^Dv<>pP*X"
_SCORES = "scores"
_AGAINST = {
    "tradeoff-flops": next(cost for cost in COSTS if cost.key == "FLOPS"),
    "tradeoff-ms-per-query": next(cost for cost in COSTS if cost.key == "ms/query"),
}
NAMES = tuple(f"{name}.{end}" for name in (_SCORES, *_AGAINST) for end in ("svg", "png"))
"""Every file that may be drawn."""
_SETTINGS = {
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

Points = dict[str, list[tuple[float, float]]]
"""Of each line, from left to right."""


def titles(found: Found) -> dict[str, str]:
    """Which figures there are, by file name without its end: one of scores, and one for each cost known."""
    measured = _measured(found)
    drawn = {_SCORES: f"{found.quantities(measured[0])[0].heading} of every row on every column"} if measured else {}
    for name, cost in _AGAINST.items():
        if any(_points(found, column, cost) for column in found.columns):
            drawn[name] = f"quality against {cost.heading}"
    return drawn


def figures(found: Found) -> dict[str, bytes]:
    """Every figure by file name, as ``.svg`` and as ``.png``."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise LearnedSparseError(
            "figures are drawn by matplotlib, which is not installed; pip install 'learned-sparse[report]'"
        ) from error
    files: dict[str, bytes] = {}
    settings: Any = dict(mpl.rcParamsDefault) | _SETTINGS  # nobody's own settings
    with mpl.rc_context(settings):
        for name in titles(found):
            figure = _scores(found) if name == _SCORES else _tradeoff(found, _AGAINST[name])
            files[f"{name}.svg"] = _saved(figure, "svg", {"Date": None, "Creator": None})
            files[f"{name}.png"] = _saved(figure, "png", {"Software": None})
    return files


def _saved(figure: Figure, kind: str, metadata: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150, metadata=metadata, facecolor="white")
    return buffer.getvalue()


def _scores(found: Found) -> Figure:
    """A panel for each column, a dot for each row that has a score; published rows are hollow."""
    from matplotlib.figure import Figure

    columns = _measured(found)
    rows = [row for row in found.rows if any(_score(found, row, column) is not None for column in columns)]
    across = min(_ACROSS, len(columns))
    down = math.ceil(len(columns) / across)
    figure = Figure(figsize=(2.2 + 1.7 * across, down * (0.9 + 0.22 * len(rows))), layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False).flatten()
    names = [_label(row["name"]) for row in rows]
    for panel, column in zip(panels, columns, strict=False):
        for place, row in enumerate(rows):
            value = _score(found, row, column)
            if value is not None:
                hollow = "white" if row["kind"] == "published" else COLOURS[0]
                panel.plot([value], [place], "o", color=COLOURS[0], markerfacecolor=hollow, markersize=5)
        panel.set_yticks(range(len(names)), names)
        panel.set_title(_label(column["name"]), fontsize=9)
        panel.set_xlabel(found.quantities(column)[0].heading)
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def _tradeoff(found: Found, cost: Quantity) -> Figure:
    """A panel for each column whose rows have this cost; rows of one curve are joined."""
    from matplotlib.figure import Figure

    drawn = [(column, points) for column in found.columns if (points := _points(found, column, cost))]
    lines = list(dict.fromkeys(_line(row) for row in found.rows if any(_line(row) in points for _, points in drawn)))
    across = min(3, len(drawn))
    down = math.ceil(len(drawn) / across)
    beside = max(1, int(3.3 * across / (0.55 + 0.075 * max(map(len, lines)))))  # names that fit into a line
    rows_of_legend = math.ceil(len(lines) / beside)
    figure = Figure(figsize=(3.3 * across, 2.6 * down + 0.25 + 0.2 * rows_of_legend), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    handles: dict[str, Any] = {}
    for panel, (column, points) in zip(panels, drawn, strict=False):
        handles |= _panel(panel, points, lines)
        panel.set_title(_label(column["name"]), fontsize=9)
        panel.set_xlabel(cost.heading)
        panel.set_ylabel(found.quantities(column)[0].heading)
    for panel in panels[len(drawn) :]:
        panel.set_visible(False)
    shown = [line for line in lines if line in handles]
    labels = [_label(line) for line in shown]
    drawn_lines = [handles[line] for line in shown]
    figure.legend(drawn_lines, labels, loc="outside lower center", ncols=beside, frameon=False)
    return figure


def _panel(panel: Axes, points: Mapping[str, Sequence[tuple[float, float]]], lines: Sequence[str]) -> dict[str, Any]:
    """The line that was drawn for each name; the axis is logarithmic where costs differ by more than 20 times."""
    costs = [x for line in points.values() for x, _ in line]
    if min(costs) > 0 and max(costs) > 20 * min(costs):
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")  # the usual one writes formulas
        panel.xaxis.set_minor_formatter("")
    drawn: dict[str, Any] = {}
    for line, places in points.items():
        number = lines.index(line)
        xs, ys = zip(*places, strict=True)
        (drawn[line],) = panel.plot(xs, ys, marker=_SHAPES[number % len(_SHAPES)], linewidth=1.4, markersize=5)
        drawn[line].set_color(COLOURS[number % len(COLOURS)])
    return drawn


def _measured(found: Found) -> list[Json]:
    """Columns in which any row has a score."""
    return [column for column in found.columns if any(_score(found, row, column) is not None for row in found.rows)]


def _score(found: Found, row: Json, column: Json) -> float | None:
    """In the first of a column's measures."""
    first = found.quantities(column)[:1]
    return found.value(row["name"], column["name"], first[0]) if first and not first[0].cost else None


def _points(found: Found, column: Json, cost: Quantity) -> Points:
    points: Points = {}
    for row in found.rows:
        x, y = found.value(row["name"], column["name"], cost), _score(found, row, column)
        if x is not None and y is not None:
            points.setdefault(_line(row), []).append((x * cost.scale, y))
    return {line: sorted(places) for line, places in points.items()}


def _line(row: Json) -> str:
    """The curve a row is a point of; a row of none is a line of its own."""
    return str(row.get("curve") or row["name"])


def _label(text: str) -> str:
    """Without characters that no font has and XML refuses; a name that begins with ``_`` would be left out."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return f" {shown}" if shown.startswith("_") else shown
