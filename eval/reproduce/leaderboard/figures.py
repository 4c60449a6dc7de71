"""The two figures of a leaderboard: scores, and quality against cost, of its first measured column."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from eval.reproduce.claims import Json
from eval.reproduce.leaderboard.view import COSTS, Quantity, Results
from eval.tables import label, matplotlib_style, set_scale, svg

_logger = logging.getLogger(__name__)
SCORES, TRADEOFF = "scores.svg", "tradeoff.svg"
_COST = next(cost for cost in COSTS if cost.key == "FLOPS")
_MARKERS = "os^Dv<>pP*X"
_COLOURS = 10
_LEGEND_LINES = 24


@dataclass(frozen=True)
class _Mark:
    """A row, its score with the 95 % interval (none if published), and its cost."""

    row: Json
    score: float
    below: float
    above: float
    cost: float | None

    @property
    def words(self) -> bool:
        """Whether its terms are words: FLOPS of words and of word pieces count different things."""
        return bool(self.row["kind"] == "bm25" and self.row["source"] != "word-pieces")


def figure_names(results: Results) -> list[str]:
    """The files that ``figures`` draws: none without a score or matplotlib, no trade-off without costs."""
    column = results.measured() if find_spec("matplotlib") else None
    return [] if column is None else [SCORES, TRADEOFF] if _COST in results.quantities(column) else [SCORES]


def figures(results: Results) -> dict[str, str]:
    """``{file: SVG}``."""
    column, names = results.measured(), figure_names(results)
    if column is None or not names:
        if column:
            _logger.warning("no figures without matplotlib; pip install 'learned-sparse[report]', then --report")
        return {}
    measure = results.quantities(column)[0]
    marks = [mark for row in results.content["rows"] if (mark := _mark(results, row, column, measure))]
    with matplotlib_style():
        drawn = {SCORES: _scores(marks, f"{measure.heading}, {column['name']}, 95 % intervals")}
        if TRADEOFF in names:
            title = f"{measure.heading} against {_COST.heading}, {column['name']}, 95 % intervals"
            drawn[TRADEOFF] = _tradeoff(marks, title, measure)
    return drawn


def _mark(results: Results, row: Json, column: Json, measure: Quantity) -> _Mark | None:
    score = results.value(row["name"], column["name"], measure)
    if score is None:
        return None
    low, high = results.interval(row["name"], column["name"], measure) or (score, score)
    cost = results.value(row["name"], column["name"], _COST)
    return _Mark(row, score, max(0.0, score - low), max(0.0, high - score), cost)


def _scores(marks: Sequence[_Mark], title: str) -> str:
    """Every row with its interval; published rows are hollow."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 1.0 + 0.2 * len(marks)), layout="constrained")
    panel = figure.subplots()
    for number, mark in enumerate(marks):
        panel.errorbar(
            [mark.score], [number], xerr=[[mark.below], [mark.above]], fmt="o", color="#3182bd", markersize=5,
            markerfacecolor="white" if mark.row["kind"] == "published" else "#3182bd", elinewidth=1.1,
        )  # fmt: skip
    panel.set_yticks(range(len(marks)), [label(mark.row["name"]) for mark in marks])
    panel.set_ylim(len(marks) - 0.5, -0.5)
    panel.set_title(label(title), fontsize=9)
    return svg(figure)


def _tradeoff(marks: Sequence[_Mark], title: str, measure: Quantity) -> str:
    """All rows in one panel, each pair of colour and marker once; the rows of a curve are joined.

    Rows of words are a line at their score. The axis is logarithmic where costs differ by more than 20 times.
    """
    from matplotlib.figure import Figure

    lines: dict[str, list[_Mark]] = {}
    for mark in marks:
        if mark.words or mark.cost is not None:
            lines.setdefault(mark.row.get("curve") or mark.row["name"], []).append(mark)
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    panel = figure.subplots()
    costs = []
    for number, (name, of_line) in enumerate(lines.items()):
        colour, marker = f"C{number % _COLOURS}", _MARKERS[number // _COLOURS % len(_MARKERS)]
        if of_line[0].words:
            panel.axhline(of_line[0].score, linestyle="--", linewidth=1.1, color=colour, label=label(name))
            continue
        of_line.sort(key=lambda mark: mark.cost or 0.0)
        costs += (xs := [mark.cost or 0.0 for mark in of_line])
        panel.errorbar(
            xs, [mark.score for mark in of_line], yerr=[[m.below for m in of_line], [m.above for m in of_line]],
            marker=marker, color=colour, markerfacecolor="white" if of_line[0].row["kind"] == "published" else colour,
            linewidth=1.4, markersize=5, elinewidth=0.9, label=label(name),
        )  # fmt: skip
    logarithmic = bool(costs) and min(costs) > 0 and max(costs) > 20 * min(costs)
    set_scale(panel, "x", logarithmic=logarithmic)
    panel.set(xlabel=_COST.heading, ylabel=label(measure.heading))
    panel.set_title(label(title), fontsize=9)
    figure.legend(loc="outside right upper", ncols=math.ceil(len(lines) / _LEGEND_LINES), frameon=False, fontsize=7)
    return svg(figure)
