"""The page of a leaderboard, README.md with a figure, and its table for other programs, cells.csv."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from eval.charts import label, new_figure, set_scale, svg
from eval.reproduce.claims import MEANINGS, NOTES, SHOWN_COSTS, Json, Trainings
from eval.reproduce.results import judge_again
from eval.stats import SIGNIFICANT, difference
from eval.tables import Cell, Column, Section, Strong, format_sections, one_line
from learned_sparse.core.files import new_file

PAGE, FIGURE = "README.md", "tradeoff.svg"
FLOPS = "FLOPS"
_MARKERS = "os^Dv<>pP*X"
_COLOURS = 10
_LEGEND_LINES = 24
_STATUSES = {"done": "done", "failed": "failed", "absent": "not run", "published": "published"}
"""Statuses that are counted; a cell with any other status is left out by the matrix."""
SIGNS = {
    "agrees": "✓ agrees", "disagrees": "✗ disagrees", "inconclusive": "? inconclusive", None: "–", "equal": "= equal",
    "within tolerance": "≈ within tolerance", "worse": "✗ worse", "better": "✗ better",
}  # fmt: skip
"""Text of each verdict on a claim or an expected score."""


def show(quantity: str, value: float | None) -> str:
    """Text of a value in a table; a dash for an unknown value."""
    scale, digits = 1e-6 if quantity == "index bytes" else 1.0, SHOWN_COSTS.get(quantity, ("", 4))[1]
    return "–" if value is None else f"{value * scale:.{digits}f}"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The content of ``results.json``, and the values of queries."""

    content: Json
    trainings: Trainings = field(default_factory=dict)

    @cached_property
    def cells(self) -> dict[tuple[str, str], Json]:
        """All cells by row and column."""
        return {(cell["row"], cell["column"]): cell for cell in self.content["cells"]}

    def value(self, row: str, column: str, quantity: str) -> float | None:
        """Value of one cell, None if unknown. Published rows have their costs among their scores."""
        cell = self.cells.get((row, column), {"scores": {}})
        value: float | None = (cell.get("costs") or {}).get(quantity)
        return cell["scores"].get(quantity) if value is None else value

    def quantities(self, column: Json) -> list[str]:
        """Measures of the column and of its published scores, then each cost that one of its cells has."""
        names, at = [row["name"] for row in self.content["rows"]], column["name"]
        scored = [key for name in names for key in self.cells.get((name, at), {"scores": {}})["scores"]]
        keys = [key for key in dict.fromkeys([*column["measures"], *scored]) if key not in SHOWN_COSTS]
        return [*keys, *(cost for cost in SHOWN_COSTS if any(self.value(name, at, cost) is not None for name in names))]

    def best(self, column: str, quantity: str) -> str | None:
        """Text of the best value of a measure; published rows and upper bounds do not compete. None for one value."""
        ours = [row["name"] for row in self.content["rows"] if row["kind"] not in {"published", "best_of"}]
        known = [value for row in ours if (value := self.value(row, column, quantity)) is not None]
        return show(quantity, max(known)) if len(known) > 1 and quantity not in SHOWN_COSTS else None

    @cached_property
    def plotted(self) -> Json | None:
        """The first column with a measure and FLOPS, which the figure shows."""
        columns: list[Json] = self.content["columns"]
        for column in columns:
            if FLOPS in (known := self.quantities(column)) and known[0] not in SHOWN_COSTS:
                return column
        return None

    def interval(self, row: str, column: str, quantity: str) -> tuple[float, float] | None:
        """95 % interval of a mean over trainings and queries; None if published, or of a single query."""
        trainings = self.trainings.get((row, column), ())
        if not trainings or len(trainings[0].get(quantity, {})) < 2:
            return None
        zeros = [{quantity: dict.fromkeys(each[quantity], 0.0)} for each in trainings]
        return difference(trainings, zeros, quantity).interval

    def gain(self, row: str, column: str, quantity: str) -> str:
        """The difference from the baseline with its 95 % interval as text; empty without."""
        base = self.content["baseline"]
        ours, theirs = self.trainings.get((row, column)), self.trainings.get((base, column))
        if row == base or not ours or not theirs or quantity not in theirs[0]:
            return ""
        estimate = difference(ours, theirs, quantity)
        low, high = estimate.interval
        return f"{signed(estimate.value)} ({signed(low)} to {signed(high)})"


def write_report(folder: Path) -> Results:
    """Judge the results in ``folder`` and write their report there; equal results give equal files."""
    content, trainings = judge_again(folder)
    results = Results(content=content, trainings=trainings)
    texts = {PAGE: markdown(results), "cells.csv": cells_csv(results)}
    if column := results.plotted:
        texts[FIGURE] = tradeoff(results, column)
    for name, text in texts.items():
        with new_file(folder / name) as temporary:
            temporary.write_text(f"{text.rstrip()}\n", encoding="utf-8", errors="replace")
    return results


def sections(results: Results) -> list[Section]:
    """The parts of the page, the claims first."""
    content = results.content
    parts = [_facts(results)]
    if content["claims"]:
        parts.append(_claims(content))
    parts += [section for column in results.content["columns"] if (section := scores(results, column))]
    if expected := _expected(content):
        parts.append(Section("Expected scores", [], ["row", "column", "measure", "expected", "found", ""], expected))
    failed = [[cell["row"], cell["column"], cell["error"]] for cell in content["cells"] if cell["status"] == "failed"]
    if failed:
        parts.append(Section("Failed", [], ["row", "column", "error"], failed))
    rows: list[list[Cell]] = [[row["name"], _kind(row), row["note"], _training(row)] for row in results.content["rows"]]
    parts.append(Section("Rows", [], ["row", "what it is", "note", "training"], rows))
    columns = [_column(column) for column in results.content["columns"]]
    parts.append(Section("Columns", [], ["column", "what it is", "documents", "queries"], columns))
    versions = [f"{name} {version}" for name, version in content["versions"].items()]
    return [*parts, Section("Versions", [", ".join(versions)], [], [])]


def markdown(results: Results) -> str:
    """The leaderboard as Markdown, with links to its other files."""
    text = format_sections(one_line(results.content["title"]), sections(results), markdown=True)
    files = "[results.json](results.json), [cells.csv](cells.csv)"
    numbers = f"All numbers: {files}; of each query: [values.csv.gz](values.csv.gz)."
    return "\n\n".join([text, *([f"![tradeoff]({FIGURE})"] if results.plotted else []), numbers])


def tradeoff(results: Results, column: Json) -> str:
    """Quality against FLOPS in a column, as SVG: all rows in one panel, each pair of colour and marker once.

    The rows of a curve are joined. Rows of words are a line at their score: FLOPS of words and of word pieces count
    different things. The axis is logarithmic where costs differ by more than 20 times.
    """
    measure, lines = results.quantities(column)[0], dict[str, list[tuple[float, float, float, float, Json]]]()
    for row in results.content["rows"]:
        score, cost = (results.value(row["name"], column["name"], quantity) for quantity in (measure, FLOPS))
        if score is not None and (_has_words(row) or cost is not None):
            low, high = results.interval(row["name"], column["name"], measure) or (score, score)
            point = (cost or 0.0, score, max(0.0, score - low), max(0.0, high - score), row)
            lines.setdefault(row.get("curve") or row["name"], []).append(point)
    costs: list[float] = []
    with new_figure(8.0, 5.0) as (figure, panel):
        for number, (name, points) in enumerate(lines.items()):
            colour, marker = f"C{number % _COLOURS}", _MARKERS[number // _COLOURS % len(_MARKERS)]
            first = points[0][-1]
            if _has_words(first):
                panel.axhline(points[0][1], linestyle="--", linewidth=1.1, color=colour, label=label(name))
                continue
            xs, ys, below, above, _ = zip(*sorted(points, key=lambda point: point[0]), strict=True)
            costs += xs
            panel.errorbar(
                xs, ys, yerr=[below, above], marker=marker, color=colour, linewidth=1.4, markersize=5, elinewidth=0.9,
                markerfacecolor="white" if first["kind"] == "published" else colour, label=label(name),
            )  # fmt: skip
        set_scale(panel, "x", logarithmic=bool(costs) and min(costs) > 0 and max(costs) > 20 * min(costs))
        panel.set(xlabel=FLOPS, ylabel=label(measure))
        title = f"{measure} against {FLOPS}, {column['name']}, 95 % intervals"
        panel.set_title(label(title), fontsize=9)
        figure.legend(loc="outside right upper", ncols=math.ceil(len(lines) / _LEGEND_LINES), frameon=False, fontsize=7)
        return svg(figure)


def _has_words(row: Json) -> bool:
    return bool(row["kind"] == "bm25" and row["source"] != "word-pieces")


def cells_csv(results: Results) -> str:
    """One line per cell: row, column, status, then every measure and cost; an unknown value is an empty field."""
    quantities = (one for column in results.content["columns"] for one in results.quantities(column))
    shown = [*dict.fromkeys(one for one in quantities if one not in SHOWN_COSTS), *SHOWN_COSTS]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["row", "column", "status", *shown])
    for (row, column), cell in results.cells.items():
        writer.writerow([row, column, cell["status"], *(results.value(row, column, quantity) for quantity in shown)])
    return buffer.getvalue()


def _facts(results: Results) -> Section:
    content = results.content
    statuses = Counter(cell["status"] for cell in content["cells"])
    counted = ", ".join(f"{statuses[status]} {word}" for status, word in _STATUSES.items() if statuses[status])
    lines = [content["about"]] if content["about"] else []
    lines.append(f"{len(content['rows'])} rows × {len(content['columns'])} columns: {counted}.")
    lines.append(f"Written by {content['command']}; {content['processor']}.")
    return Section("", lines, [], [])


def _claims(content: Json) -> Section:
    columns: list[Column | str] = [
        *("paper", "claim", "column", "ours, 95 % interval"), Column("detectable", right=True),
        Column("the paper's", right=True), Column("examples", right=True), Column("the paper's", right=True), "here",
    ]  # fmt: skip
    papers = list(dict.fromkeys(claim["paper"] for claim in content["claims"]))
    ordered = sorted(content["claims"], key=lambda claim: papers.index(claim["paper"]))
    remarks = [*NOTES, *(f"{word}: {meaning}" for word, meaning in MEANINGS.items())]
    return Section("Claims of the papers", remarks, columns, [_claim(claim) for claim in ordered])


def _claim(claim: Json) -> list[Cell]:
    ours = amount(claim, claim["difference"])
    if claim["interval"]:
        ours += f" ({' to '.join(amount(claim, end) for end in claim['interval'])})"
    verdict = SIGNS[claim["verdict"]]
    verdict += f", {p_value(claim['p'])}" if claim["p"] is not None else ""
    verdict += f" ({claim['reason']})" if claim["reason"] else ""
    verdict += f" (unequal training: {claim['unequal']})" if claim["unequal"] else ""
    better, worse = claim["published"] or (None, None)
    paper = None if better is None else amount(claim, (better - worse) / worse if claim["relative"] else better - worse)
    detectable = None if claim["detectable"] is None else f"{claim['detectable']:.4f}"
    examples = [claim[key] and f"{claim[key]:,}" for key in ("examples", "paper_examples")]
    return [claim["source"], claim["claim"], claim["column"], ours, detectable, paper, *examples, verdict]


def scores(results: Results, column: Json) -> Section | None:
    """Measures, difference from the baseline in the first one, and costs of the rows that have any."""
    name, base = column["name"], results.content["baseline"]
    quantities = results.quantities(column)
    rows = []
    for row in results.content["rows"]:
        values = [_shown(results, row, column, quantity) for quantity in quantities]
        if any(value != "–" for value in values):
            shown = f"{row['name']} (published)" if row["kind"] == "published" else row["name"]
            gain = [results.gain(row["name"], name, quantities[0])] if base is not None else []
            rows.append([f"{shown} (baseline)" if row["name"] == base else shown, *values[:1], *gain, *values[1:]])
    if not rows:
        return None
    headings = [Column(SHOWN_COSTS.get(quantity, (quantity,))[0], right=True) for quantity in quantities]
    gains = [Column(f"minus {base}, 95 % interval", right=True)] if base is not None else []
    return Section(name, _legend(results, column), ["row", *headings[:1], *gains, *headings[1:]], rows)


def _shown(results: Results, row: Json, column: Json, quantity: str) -> str:
    cell = results.cells.get((row["name"], column["name"]), {})
    text = show(quantity, results.value(row["name"], column["name"], quantity))
    if quantity in SHOWN_COSTS or text == "–":
        return text
    spread = (cell.get("spread") or {}).get(quantity)
    full = text + (f" ± {show(quantity, spread)}" if spread is not None else "") + mark(cell, quantity)
    competes = row["kind"] not in {"published", "best_of"}
    return Strong(full) if competes and text == results.best(column["name"], quantity) else full


def _legend(results: Results, column: Json) -> list[str]:
    lines = []
    if column is results.content["columns"][0]:
        lines.append("The best of our own systems is bold; published rows and upper bounds (best_of) do not compete.")
        if results.content["baseline"] is not None:
            lines.append(
                f"▲ ▼ differ significantly from {results.content['baseline']}: p < {SIGNIFICANT} by Student's t over "
                "queries and trainings, after Holm's correction over the rows of this table. Intervals are not "
                "corrected. ± is the standard deviation over trainings."
            )
    return lines


def _expected(content: Json) -> list[list[Cell]]:
    return [
        [cell["row"], cell["column"], key, value, cell["scores"].get(key), SIGNS[cell["verdicts"].get(key)]]
        for cell in content["cells"]
        for key, value in (cell["expected"] or {}).items()
    ]


def _kind(row: Json) -> str:
    return f"{row['kind']}: {row['source']}".removesuffix(": ")


def _training(row: Json) -> str:
    budget = row["training"]
    if not budget:
        return ""
    length = budget["max_length"]
    layers = f"{budget['layers']} layers of " if budget["layers"] else ""
    stages = [f"{stage['name']}: {stage['steps']} steps of {stage['batch_size']} queries" for stage in budget["stages"]]
    return (
        f"{', then '.join(stages)}; {budget['seconds'] / 60:.1f} minutes on {budget['processor']} ({budget['threads']} "
        f"threads); {layers}{budget['backbone']}, documents cut at "
        f"{length['document'] if isinstance(length, dict) else length} tokens"
        + (f"; {len(row['seeds'])} trainings (seeds {', '.join(map(str, row['seeds']))})" if row["seeds"] else "")
    )


def _column(column: Json) -> Sequence[Cell]:
    what = f"{column['collection']}, {column['split']}"
    if column["average"]:
        what = f"mean over {', '.join(column['average'])}"
    what += f", queries of class {column['overlap']}" if column.get("overlap") else ""
    sample = (f"{key} {number}" for key, number in (column.get("sample") or {}).items() if number is not None)
    what += f", sample: {', '.join(sample)}" if column.get("sample") else ""
    what += f" ({column['published_queries']:,} queries published)" if column.get("published_queries") else ""
    return [column["name"], what, column["documents"], column["queries"]]


def mark(cell: Json, key: str) -> str:
    """▲ or ▼ if a cell differs significantly from the baseline."""
    p, gain = (cell.get("p") or {}).get(key), (cell.get("difference") or {}).get(key)
    return "" if p is None or not gain or p >= SIGNIFICANT else "▲" if gain > 0 else "▼"


def p_value(p: float) -> str:
    """Text of a p-value.

    >>> p_value(0.00005), p_value(0.0312)
    ('p < 0.001', 'p 0.031')
    """
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def amount(claim: Json, value: float | None) -> str:
    """A difference of a claim as text: of costs in percent, with a decimal below 10 %.

    >>> amount({"relative": True}, -0.881), amount({"relative": False}, 0.01)
    ('−88 %', '+0.0100')
    """
    if value is None or not claim["relative"]:
        return signed(value)
    return f"{100 * value:+.{0 if abs(value) >= 0.0995 else 1}f} %".replace("-", "−")


def signed(value: float | None) -> str:
    """Text of a difference of measures or costs, with about four significant digits and a minus sign (U+2212).

    >>> signed(0.01234), signed(-12.5), signed(-2_345_678.9), signed(None)
    ('+0.0123', '−12.5', '−2,345,679', '–')
    """
    if value is None:
        return "–"
    digits = 4 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:+,.{digits}f}".replace("-", "−")
