"""Charts drawn by matplotlib: the line chart of every room, and the figures of a leaderboard."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eval.measures import estimate_difference
from eval.report.results import COMBINED, COSTS, Json, Quantity, Results, best_of_systems
from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#3182bd", "#e6550d", "#31a354", "#756bb1", "#8c8c8c", "#b15928", "#17becf", "#e377c2")
_MARKERS = "os^Dv<>pP*X"
_PANELS_PER_LINE = 2
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

MOST_MARKS = 8
"""In one panel."""
_WORDS, _PIECES, _PUBLISHED = "words", "word pieces", "published"
_STYLES = {
    _WORDS: ("s", COLOURS[4], COLOURS[4]),
    _PIECES: ("o", COLOURS[0], COLOURS[0]),
    _PUBLISHED: ("D", COLOURS[3], "white"),
}
"""Marker, colour and colour of its face for rows whose terms are words, for our other rows, and for published rows."""

Point = tuple[float, float]


@dataclass(frozen=True)
class _Mark:
    """A row in a panel, with its 95 % interval over trainings and queries (none if published) and its cost."""

    name: str
    kind: str
    score: float
    below: float
    above: float
    cost: float


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
    drawn = (
        {_SCORES: f"{results.quantities(measured[0])[0].heading} of the best row of each system, 95 % intervals"}
        if measured
        else {}
    )
    for name, cost in _TRADEOFFS.items():
        if any(_tradeoff_panels(results, column, cost) for column in results.columns):
            drawn[name] = f"quality against {cost.heading}"
    return drawn


def figures(results: Results) -> dict[str, bytes]:
    """Every figure by file name, as ``.svg`` and as ``.png``; equal results give equal bytes."""
    files: dict[str, bytes] = {}
    with _matplotlib():
        for name in titles(results):
            figure = _scores(results) if name == _SCORES else _tradeoff(results, _TRADEOFFS[name])
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # computed once for both files
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
    """A panel per column: the best row of each system with its interval."""
    from matplotlib.figure import Figure

    columns = _measured(results)
    marks = [_best_marks(results, column) for column in columns]
    across = min(_PANELS_PER_LINE, len(columns))
    down = math.ceil(len(columns) / across)
    height = down * (0.8 + 0.22 * max(map(len, marks)))
    figure = Figure(figsize=(4.2 * across, height + 0.3), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    handles: dict[str, Any] = {}
    for panel, column, shown in zip(panels, columns, marks, strict=False):
        for number, mark in enumerate(shown):
            marker, colour, face = _STYLES[mark.kind]
            handles[mark.kind] = panel.errorbar(
                [mark.score], [number], xerr=[[mark.below], [mark.above]], fmt=marker, color=colour,
                markerfacecolor=face, markersize=5, elinewidth=1.1,
            )  # fmt: skip
        panel.set_yticks(range(len(shown)), [_label(mark.name) for mark in shown])
        panel.set_ylim(len(shown) - 0.5, -0.5)
        panel.set_title(_label(column["name"]), fontsize=9)
        panel.set_xlabel(results.quantities(column)[0].heading)
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    kinds = [kind for kind in _STYLES if kind in handles]
    figure.legend([handles[kind] for kind in kinds], kinds, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _tradeoff(results: Results, cost: Quantity) -> Figure:
    """For each column a panel of the best rows of the systems, and panels of the curves; see ``_tradeoff_panels``."""
    from matplotlib.figure import Figure

    drawn = [panel for column in results.columns for panel in _tradeoff_panels(results, column, cost)]
    lines = list(dict.fromkeys(name for _, _, marks in drawn for name in marks))
    across = min(3, len(drawn))
    down = math.ceil(len(drawn) / across)
    names_per_line = max(1, int(3.3 * across / (0.55 + 0.075 * max(map(len, lines)))))
    legend_lines = math.ceil(len(lines) / names_per_line)
    figure = Figure(figsize=(3.3 * across, 2.6 * down + 0.25 + 0.2 * legend_lines), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    handles: dict[str, Any] = {}
    for panel, (column, title, marks) in zip(panels, drawn, strict=False):
        handles |= _draw_tradeoff(panel, marks, lines, cost)
        panel.set_title(_label(title), fontsize=9)
        panel.set_xlabel(cost.heading)
        panel.set_ylabel(results.quantities(column)[0].heading)
    curves: dict[str, list[Axes]] = {}
    for panel, (column, title, _) in zip(panels, drawn, strict=False):
        if title != column["name"]:  # else it has the best rows
            curves.setdefault(column["name"], []).append(panel)
    for of_column in curves.values():
        _share_axes(of_column)
    for panel in panels[len(drawn) :]:
        panel.set_visible(False)
    shown = [line for line in lines if line in handles]
    labels = [_label(line) for line in shown]
    figure.legend(
        [handles[line] for line in shown], labels, loc="outside lower center", ncols=names_per_line, frameon=False
    )
    return figure


def _share_axes(panels: Sequence[Axes]) -> None:
    """Give ``panels`` the scale and the limits that show the marks of all of them."""
    if any(panel.get_xscale() == "log" for panel in panels):
        positive = all(panel.dataLim.xmin > 0 for panel in panels)
        for panel in panels:
            panel.set_xscale("log" if positive else "linear")
            if positive:
                _plain_numbers(panel.xaxis)
    for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        limits = [getattr(panel, get)() for panel in panels]
        for panel in panels:
            getattr(panel, put)(min(low for low, _ in limits), max(high for _, high in limits))


def _tradeoff_panels(results: Results, column: Json, cost: Quantity) -> list[tuple[Json, str, dict[str, list[_Mark]]]]:
    """The panels of a column with their titles and marks by name: first the best row of each system.

    Curves, rows whose points are joined, have a panel of their own if all their points are more than ``MOST_MARKS``. Of
    a curve with more points, ``MOST_MARKS`` evenly spaced ones are drawn, with both ends.
    """
    best = {mark.name: [mark] for mark in _best_marks(results, column, cost)}
    curves: dict[str, list[_Mark]] = {}
    for row in results.rows:
        if row.get("curve") and (mark := _mark(results, row, column, cost)):
            curves.setdefault(str(row["curve"]), []).append(mark)
    curves = {name: sorted(marks, key=lambda mark: mark.cost) for name, marks in curves.items() if len(marks) > 1}
    together = sum(map(len, curves.values())) <= MOST_MARKS
    groups = [curves] if curves and together else [{name: _thinned(marks)} for name, marks in curves.items()]
    name = column["name"]
    return [(column, name, best)] * bool(best) + [(column, f"{name}: {', '.join(group)}", group) for group in groups]


def _thinned(marks: Sequence[_Mark]) -> list[_Mark]:
    if len(marks) <= MOST_MARKS:
        return list(marks)
    return [marks[round(place)] for place in np.linspace(0, len(marks) - 1, MOST_MARKS)]


def _draw_tradeoff(
    panel: Axes, marks: Mapping[str, Sequence[_Mark]], lines: Sequence[str], cost: Quantity
) -> dict[str, Any]:
    """Draw a panel; returns what the legend shows of each name.

    FLOPS of words and of word pieces count different things, so that words are a line at their score there. The axis
    is logarithmic where costs differ by more than 20 times.
    """
    costs: list[float] = []
    drawn: dict[str, Any] = {}
    for name, values in marks.items():
        number = lines.index(name)
        colour, marker = COLOURS[number % len(COLOURS)], _MARKERS[number % len(_MARKERS)]
        if values[0].kind == _WORDS and cost.key == "FLOPS":
            drawn[name] = panel.axhline(values[0].score, linestyle="--", linewidth=1.1, color=colour)
            continue
        costs += (xs := [mark.cost for mark in values])
        intervals = [[mark.below for mark in values], [mark.above for mark in values]]
        face = "white" if values[0].kind == _PUBLISHED else colour
        drawn[name] = panel.errorbar(
            xs, [mark.score for mark in values], yerr=intervals, marker=marker, color=colour, markerfacecolor=face,
            linewidth=1.4, markersize=5, elinewidth=0.9,
        )  # fmt: skip
    if costs and min(costs) > 0 and max(costs) > 20 * min(costs):
        panel.set_xscale("log")
        _plain_numbers(panel.xaxis)
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


def _best_marks(results: Results, column: Json, cost: Quantity | None = None) -> list[_Mark]:
    """The best rows of the systems, at most ``MOST_MARKS``: the baseline, then the best of ours, then published ones.

    They are in the order of ``_STYLES``, in each kind by score.
    """
    single = [row for row in results.rows if row["kind"] not in COMBINED]
    marks = [mark for row in single if (mark := _mark(results, row, column, cost))]
    by_kind = {kind: {mark.name: mark for mark in marks if mark.kind == kind} for kind in _STYLES}
    best = [of[name] for of in by_kind.values() for name in best_of_systems({one: of[one].score for one in of})]
    baseline = results.content["baseline"]
    kept = sorted(best, key=lambda mark: (mark.name != baseline, mark.kind == _PUBLISHED, -mark.score))[:MOST_MARKS]
    return [mark for mark in best if mark in kept]


def _mark(results: Results, row: Json, column: Json, cost: Quantity | None) -> _Mark | None:
    """A row in a column; None without a score or without the cost."""
    score = _score(results, row, column)
    price = results.value(row["name"], column["name"], cost) if cost else 0.0
    if score is None or price is None:
        return None
    below = above = 0.0
    values = results.by_training(row["name"], column["name"], results.quantities(column)[0])
    if values is not None and values.shape[1] > 1:
        low, high = estimate_difference(values, np.zeros((1, values.shape[1]))).interval
        below, above = max(0.0, score - low), max(0.0, high - score)
    words = row["kind"] == "bm25" and row["source"] != "word-pieces"
    kind = _PUBLISHED if row["kind"] == "published" else _WORDS if words else _PIECES
    return _Mark(row["name"], kind, score, below, above, price * (cost.scale if cost else 1.0))


def _label(text: str) -> str:
    """``text`` without unprintable characters, which XML forbids; matplotlib hides labels that begin with ``_``."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return f" {shown}" if shown.startswith("_") else shown
