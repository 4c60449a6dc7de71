"""A leaderboard as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eval.report.elements import items, pill, section, table, tag
from eval.report.quantities import VERDICTS, Quantity, chance, signed, verdict
from eval.report.results import Found, Json
from eval.report.scores import scores
from eval.report.words import column_facts, facts, kind, legend, trained
from learned_sparse.core import escape, page

_HERE = Path(__file__).parent / "static"
_SCRIPTS = ("report.js", "report_table.js", "report_charts.js", "report_plots.js")
_WITHOUT = "Sorting, the figures and the commands behind each number need JavaScript; the tables do not."


def html(found: Found) -> str:
    """The whole page, with the numbers of every query."""
    results = found.results
    parts = [
        tag("h1", escape(results["title"])),
        tag("p", escape(results["about"]), class_="about"),
        tag("p", tag("code", escape(results["command"])), "<br>", escape(results["processor"]), class_="soft"),
        items(facts(found), class_="facts"),
    ]
    chips = tag("div", id="shown", class_="controls", role="group", aria_label="Measures and costs shown")
    sections = [
        section("Scores", chips, scores(found), items(legend(found), class_="notes")),
        tag("noscript", tag("p", _WITHOUT)),
        section("Quality against cost", id="tradeoff", hidden=True),
        section("Query by query", id="queries", hidden=True),
        *_claims(found),
        *_failed(found),
        _rows(found),
        section("Columns", items(f"{column['name']}: {column_facts(column)}" for column in found.columns)),
        section("Versions", items(f"{name} {version}" for name, version in results["versions"].items())),
    ]
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    body = "\n".join([tag("header", *parts), tag("main", "\n".join(sections))])
    return page(results["title"], body, style=style, script=f'"use strict";\n{{\n{script}}}\n', data=page_data(found))


def page_data(found: Found) -> dict[str, Any]:
    """What the script needs: rows and columns by number, cells, and ``queries[column][row][measure]`` as lists."""
    return {
        "baseline": found.results["baseline"],
        "verdicts": {word: verdict(word) for word in VERDICTS},
        "rows": [{key: row.get(key) for key in ("name", "kind", "source", "curve", "note")} for row in found.rows],
        "columns": [
            {"name": column["name"], "quantities": [_described(quantity) for quantity in found.quantities(column)]}
            for column in found.columns
        ],
        "cells": [[found.cell(row["name"], column["name"]) for column in found.columns] for row in found.rows],
        "queries": [_queries(found, column["name"]) for column in found.columns],
    }


def _described(quantity: Quantity) -> dict[str, Any]:
    keys = ("key", "heading", "digits", "best", "scale", "cost")
    return {key: getattr(quantity, key) for key in keys}


def _queries(found: Found, column: str) -> dict[str, Any]:
    """Every query of a column in one order, and of each row and measure the values in that order."""
    rows = found.per_query.get(column, {})
    ids = sorted({query for measures in rows.values() for values in measures.values() for query in values})
    values = [
        {
            measure: [None if query not in given else round(given[query], 6) for query in ids]
            for measure, given in rows.get(row["name"], {}).items()
        }
        for row in found.rows
    ]
    return {"ids": ids, "rows": values}


def _claims(found: Found) -> list[str]:
    """A line for each claim, a column for each place where it was held against our numbers."""
    claims = found.claims()
    columns = list(dict.fromkeys(column for places in claims.values() for column in places))
    rows = [[_claimed(*key), *(_judged(places.get(column)) for column in columns)] for key, places in claims.items()]
    return [section("Claims", table(["Claim", *columns], rows), id="claims")] if rows else []


def _claimed(claim: str, source: str) -> str:
    return escape(claim) + tag("small", escape(source))


def _judged(claim: Json | None) -> str:
    if claim is None:
        return ""
    if claim["difference"] is None:
        return pill(claim["verdict"])
    chances = "" if claim["p"] is None else f", p {chance(claim['p'])}"
    return pill(claim["verdict"]) + tag("small", escape(signed(claim["difference"]) + chances))


def _failed(found: Found) -> list[str]:
    lines = [
        f"{cell['row']}, {cell['column']}: {cell.get('error') or 'no reason given'}"
        for cell in found.results["cells"]
        if cell["status"] == "failed"
    ]
    return [section("Failed", items(lines))] if lines else []


def _rows(found: Found) -> str:
    rows = [map(escape, (row["name"], kind(row), row.get("note") or "", trained(row))) for row in found.rows]
    return section("Rows", table(["Row", "What it is", "Note", "Training"], [list(row) for row in rows]), id="rows")
