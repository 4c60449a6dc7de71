"""The pages of a leaderboard: README.md, and index.html with the same sections and sortable tables."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections import Counter
from collections.abc import Sequence
from html import escape as html_escape
from pathlib import Path

from eval.reproduce.claims import Json
from eval.reproduce.leaderboard.figures import SCORES, TRADEOFF, figure_names, figures
from eval.reproduce.leaderboard.results import judge_again
from eval.reproduce.leaderboard.view import COSTS, SIGNS, Quantity, Results, amount, mark, p_value
from eval.stats import SIGNIFICANT
from eval.tables import Cell, Column, Section, Strong, format_sections, heading, one_line
from learned_sparse.core.files import atomic_write

_STATIC = Path(__file__).parent / "static"
_STATUSES = {"done": "done", "failed": "failed", "absent": "not run", "published": "published"}
"""Statuses that are counted; a cell with any other status is left out by the matrix."""


def write_report(folder: Path) -> Results:
    """Judge the results in ``folder`` and write their report there; equal results give equal files.

    Without matplotlib, only the figures are missing.
    """
    content, trainings = judge_again(folder)
    results = Results(content=content, trainings=trainings)
    texts = {"README.md": markdown(results), "index.html": html(results), "cells.csv": cells_csv(results)}
    texts |= figures(results)
    for name, text in texts.items():
        with atomic_write(folder / name) as file:
            file.write(f"{text.rstrip()}\n".encode(errors="replace"))
    for stale in {SCORES, TRADEOFF} - texts.keys():
        (folder / stale).unlink(missing_ok=True)
    return results


def sections(results: Results) -> list[Section]:
    """The parts of both pages, the claims first."""
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
    title = one_line(results.content["title"])
    drawn = [f"![{name.partition('.')[0]}]({name})" for name in figure_names(results)]
    text = format_sections(title, sections(results), markdown=True)
    files = "[index.html](index.html) (sortable), [results.json](results.json), [cells.csv](cells.csv)"
    return "\n\n".join([text, *drawn, f"All numbers: {files}; of each query: [values.csv.gz](values.csv.gz)."])


def html(results: Results) -> str:
    """The leaderboard as one HTML page without a network; a click on a heading sorts its table."""
    style, script = ((_STATIC / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    title, body = html_escape(one_line(results.content["title"])), "\n".join(map(_html, sections(results)))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _html(section: Section) -> str:
    lines = [f"<h2>{html_escape(section.title)}</h2>"] if section.title else []
    lines += [f"<p>{html_escape(one_line(remark))}</p>" for remark in section.remarks]
    if section.columns:
        headings = map(html_escape, map(heading, section.columns))
        head = "".join(f'<th scope="col"><button>{text}</button></th>' for text in headings)
        rows = ["<tr>" + "".join(map(_html_cell, row)) + "</tr>" for row in section.rows]
        lines += [f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>", *rows, "</tbody>\n</table>"]
    return "\n".join(lines)


def _html_cell(cell: Cell) -> str:
    text = html_escape("–" if cell is None else one_line(cell))
    return f"<td><b>{text}</b></td>" if isinstance(cell, Strong) else f"<td>{text}</td>"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def cells_csv(results: Results) -> str:
    """One line per cell: row, column, status, then every measure and cost; an unknown value is an empty field."""
    quantities = dict.fromkeys(
        one for column in results.content["columns"] for one in results.quantities(column) if not one.cost
    )
    shown: list[Quantity] = [*quantities, *COSTS]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["row", "column", "status", *(quantity.key for quantity in shown)])
    for (row, column), cell in results.cells.items():
        writer.writerow([row, column, cell["status"], *(results.value(row, column, quantity) for quantity in shown)])
    return buffer.getvalue()


def _facts(results: Results) -> Section:
    content, cells = results.content, results.content["cells"]
    published = {row["name"] for row in results.content["rows"] if row["kind"] == "published"}
    statuses = Counter(cell["status"] for cell in cells if cell["status"] != "absent" or cell["row"] not in published)
    counted = ", ".join(f"{statuses[status]} {word}" for status, word in _STATUSES.items() if statuses[status])
    lines = [content["about"]] if content["about"] else []
    lines.append(f"{len(results.content['rows'])} rows × {len(results.content['columns'])} columns: {counted}.")
    lines.append(f"Written by {content['command']}; {content['processor']}.")
    return Section("", lines, [], [])


def _claims(content: Json) -> Section:
    columns: list[Column | str] = [
        *("paper", "claim", "column", "ours, 95 % interval"), Column("detectable", right=True),
        Column("the paper's", right=True), Column("examples", right=True), Column("the paper's", right=True), "here",
    ]  # fmt: skip
    papers = list(dict.fromkeys(claim["paper"] for claim in content["claims"]))
    ordered = sorted(content["claims"], key=lambda claim: papers.index(claim["paper"]))
    remarks = [*content["notes"], *(f"{word}: {meaning}" for word, meaning in content["meanings"].items())]
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
    headings = [Column(quantity.heading, right=True) for quantity in quantities]
    gains = [Column(f"minus {base}, 95 % interval", right=True)] if base is not None else []
    return Section(name, _legend(results, column), ["row", *headings[:1], *gains, *headings[1:]], rows)


def _shown(results: Results, row: Json, column: Json, quantity: Quantity) -> str:
    cell = results.cells.get((row["name"], column["name"]), {})
    text = quantity.show(results.value(row["name"], column["name"], quantity))
    if quantity.cost or text == "–":
        return text
    spread = (cell.get("spread") or {}).get(quantity.key)
    full = text + (f" ± {quantity.show(spread)}" if spread is not None else "") + mark(cell, quantity.key)
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
    if column["pool"] is not None:
        lines.append(
            f"Cut down to what is relevant and BM25's {column['pool']} best documents for each query: the documents "
            "left out are those that only a learned model would find, so scores of the whole collection are others."
        )
    return lines


def _expected(content: Json) -> list[list[Cell]]:
    return [
        [cell["row"], cell["column"], key, value, cell["scores"].get(key), SIGNS[cell["verdicts"].get(key)]]
        for cell in content["cells"]
        for key, value in (cell["expected"] or {}).items()
    ]


def _kind(row: Json) -> str:
    return f"{row['kind']}: {row['source']}" if row["source"] else str(row["kind"])


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
    for key, text in (("overlap", "queries of class {}"), ("pool", "pool of {}")):
        what += f", {text.format(column[key])}" if column.get(key) is not None else ""
    what += f", sample with seed {column['sample']['seed']}" if column.get("sample") else ""
    what += f" ({column['published_queries']:,} queries published)" if column.get("published_queries") else ""
    return [column["name"], what, column["documents"], column["queries"]]
