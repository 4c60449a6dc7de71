"""Charts drawn by matplotlib: the line chart of every room, and the figures of a leaderboard."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval.report.results import COSTS, Json, Quantity, Results
from learned_sparse.core import LearnedSparseError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#3182bd", "#e6550d", "#31a354", "#756bb1", "#8c8c8c", "#b15928", "#17becf", "#e377c2")
_MARKERS = "os^Dv<>pP*X"
_PANELS_PER_LINE = 6
_SCORES = "scores"
_TRADEOFFS = {
    "tradeoff-flops": next(cost for cost in COSTS if cost.key == "FLOPS"),
    "tradeoff-ms-per-query": next(cost for cost in COSTS if cost.key == "ms/query"),
    "tradeoff-pisa": next(cost for cost in COSTS if cost.key == "PISA ms/query"),
}
NAMES = tuple(f"{name}.{suffix}" for name in (_SCORES, *_TRADEOFFS) for suffix in ("svg", "png"))
"""Every file that ``figures`` may draw."""
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

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """Label and scale of an axis of a line chart."""

    label: str
    logarithmic: bool = False
    """A logarithmic axis leaves out points whose value is not above zero."""
    names: tuple[str, ...] = ()
    """Tick labels of the values 0, 1, 2, ...: for categories, or for numbers shown at equal distances."""


def line_chart(title: str, lines: Mapping[str, Sequence[Point]], x: Axis, y: Axis) -> str:
    """A line chart as SVG text: for each entry of ``lines`` a line with a dot at each point, in the order given.

    The SVG group of line number n has the id ``line-n``. Equal arguments give equal text. The text is a document of
    its own: a page shows it as ``<img>``, since the pages' Content-Security-Policy forbids inline styles.

    Raises LearnedSparseError if matplotlib (extra ``report``) is not installed.
    """
    with _matplotlib():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        panel = figure.subplots()
        for number, (name, points) in enumerate(lines.items()):
            shown = [point for point in points if _drawable(point, x, y)]
            xs, ys = [point[0] for point in shown], [point[1] for point in shown]
            colour = COLOURS[number % len(COLOURS)]
            panel.plot(xs, ys, marker="o", markersize=3.5, color=colour, label=_label(name), gid=f"line-{number}")
        _set_axis(panel, "x", x)
        _set_axis(panel, "y", y)
        panel.set_title(_label(title))
        if lines:
            figure.legend(loc="outside lower center", ncols=min(3, len(lines)), frameon=False)
        return _saved(figure, "svg").decode()


def titles(results: Results) -> dict[str, str]:
    """Title of each figure by file name without suffix: the scores, and one for each cost that is known."""
    measured = _measured(results)
    drawn = {_SCORES: f"{results.quantities(measured[0])[0].heading} of every row on every column"} if measured else {}
    for name, cost in _TRADEOFFS.items():
        if any(_points(results, column, cost) for column in results.columns):
            drawn[name] = f"quality against {cost.heading}"
    return drawn


def figures(results: Results) -> dict[str, bytes]:
    """Every figure by file name, as ``.svg`` and as ``.png``; equal results give equal bytes."""
    files: dict[str, bytes] = {}
    with _matplotlib():
        for name in titles(results):
            figure = _scores(results) if name == _SCORES else _tradeoff(results, _TRADEOFFS[name])
            files[f"{name}.svg"] = _saved(figure, "svg")
            files[f"{name}.png"] = _saved(figure, "png")
    return files


@contextmanager
def _matplotlib() -> Iterator[None]:
    """Import matplotlib and apply the style of the figures to matplotlib's defaults, not to the user's settings."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise LearnedSparseError(
            "figures need matplotlib, which is not installed; pip install 'learned-sparse[report]'"
        ) from error
    settings: Any = dict(mpl.rcParamsDefault) | _STYLE
    with mpl.rc_context(settings):
        yield


def _saved(figure: Figure, suffix: str) -> bytes:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if suffix == "svg" else {"Software": None}
    figure.savefig(buffer, format=suffix, dpi=150, metadata=metadata, facecolor="white")
    return buffer.getvalue()


def _drawable(point: Point, x: Axis, y: Axis) -> bool:
    pairs = zip(point, (x, y), strict=True)
    return all(math.isfinite(value) and (value > 0 or not axis.logarithmic) for value, axis in pairs)


def _set_axis(panel: Axes, name: str, axis: Axis) -> None:
    panel.set(**{f"{name}label": _label(axis.label)})
    ticks = panel.xaxis if name == "x" else panel.yaxis
    if axis.names:
        ticks.set_ticks(range(len(axis.names)), [_label(text) for text in axis.names])
        panel.set(**{f"{name}lim": (-0.25, len(axis.names) - 0.75)})
    elif axis.logarithmic:
        panel.set(**{f"{name}scale": "log"})
        _plain_numbers(ticks)
    else:
        ticks.set_major_formatter("{x:,.10g}")


def _plain_numbers(ticks: Any) -> None:
    """Write ticks of a logarithmic axis as numbers; matplotlib's default writes powers of ten as formulas."""
    ticks.set_major_formatter("{x:,.10g}")
    ticks.set_minor_formatter("")


def _scores(results: Results) -> Figure:
    """A panel per column, a dot per row that has a score; published rows are hollow."""
    from matplotlib.figure import Figure

    columns = _measured(results)
    rows = [row for row in results.rows if any(_score(results, row, column) is not None for column in columns)]
    across = min(_PANELS_PER_LINE, len(columns))
    down = math.ceil(len(columns) / across)
    figure = Figure(figsize=(2.2 + 1.7 * across, down * (0.9 + 0.22 * len(rows))), layout="constrained")
    panels = figure.subplots(down, across, sharey=True, squeeze=False).flatten()
    names = [_label(row["name"]) for row in rows]
    for panel, column in zip(panels, columns, strict=False):
        for number, row in enumerate(rows):
            value = _score(results, row, column)
            if value is not None:
                face = "white" if row["kind"] == "published" else COLOURS[0]
                panel.plot([value], [number], "o", color=COLOURS[0], markerfacecolor=face, markersize=5)
        panel.set_yticks(range(len(names)), names)
        panel.set_title(_label(column["name"]), fontsize=9)
        panel.set_xlabel(results.quantities(column)[0].heading)
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    return figure


def _tradeoff(results: Results, cost: Quantity) -> Figure:
    """A panel per column whose rows have this cost; rows of one curve are joined."""
    from matplotlib.figure import Figure

    drawn = [(column, points) for column in results.columns if (points := _points(results, column, cost))]
    lines = list(dict.fromkeys(_line(row) for row in results.rows if any(_line(row) in points for _, points in drawn)))
    across = min(3, len(drawn))
    down = math.ceil(len(drawn) / across)
    names_per_line = max(1, int(3.3 * across / (0.55 + 0.075 * max(map(len, lines)))))
    legend_lines = math.ceil(len(lines) / names_per_line)
    figure = Figure(figsize=(3.3 * across, 2.6 * down + 0.25 + 0.2 * legend_lines), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    handles: dict[str, Any] = {}
    for panel, (column, points) in zip(panels, drawn, strict=False):
        handles |= _tradeoff_panel(panel, points, lines)
        panel.set_title(_label(column["name"]), fontsize=9)
        panel.set_xlabel(cost.heading)
        panel.set_ylabel(results.quantities(column)[0].heading)
    for panel in panels[len(drawn) :]:
        panel.set_visible(False)
    shown = [line for line in lines if line in handles]
    labels = [_label(line) for line in shown]
    figure.legend(
        [handles[line] for line in shown], labels, loc="outside lower center", ncols=names_per_line, frameon=False
    )
    return figure


def _tradeoff_panel(panel: Axes, points: Mapping[str, Sequence[Point]], lines: Sequence[str]) -> dict[str, Any]:
    """The matplotlib line of each name; the axis is logarithmic where costs differ by more than 20 times."""
    costs = [x for line in points.values() for x, _ in line]
    if min(costs) > 0 and max(costs) > 20 * min(costs):
        panel.set_xscale("log")
        _plain_numbers(panel.xaxis)
    drawn: dict[str, Any] = {}
    for line, values in points.items():
        number = lines.index(line)
        xs, ys = zip(*values, strict=True)
        (drawn[line],) = panel.plot(xs, ys, marker=_MARKERS[number % len(_MARKERS)], linewidth=1.4, markersize=5)
        drawn[line].set_color(COLOURS[number % len(COLOURS)])
    return drawn


def _measured(results: Results) -> list[Json]:
    """Columns in which at least one row has a score."""
    return [
        column for column in results.columns if any(_score(results, row, column) is not None for row in results.rows)
    ]


def _score(results: Results, row: Json, column: Json) -> float | None:
    """Score of a row in the first measure of a column."""
    first = results.quantities(column)[:1]
    return results.value(row["name"], column["name"], first[0]) if first and not first[0].cost else None


def _points(results: Results, column: Json, cost: Quantity) -> dict[str, list[Point]]:
    """Points (cost, score) of each line, from left to right."""
    points: dict[str, list[Point]] = {}
    for row in results.rows:
        x, y = results.value(row["name"], column["name"], cost), _score(results, row, column)
        if x is not None and y is not None:
            points.setdefault(_line(row), []).append((x * cost.scale, y))
    return {line: sorted(values) for line, values in points.items()}


def _line(row: Json) -> str:
    """Name of the curve that a row is a point of; a row without a curve is a line of its own."""
    return str(row.get("curve") or row["name"])


def _label(text: str) -> str:
    """``text`` without unprintable characters, which XML forbids; matplotlib hides labels that begin with ``_``."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return f" {shown}" if shown.startswith("_") else shown
