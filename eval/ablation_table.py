"""The results of ``eval.ablations`` as a page for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.budgets import stages, threads
from eval.table import Cell, Column, format_table

_MEASURES = ("MRR@10", "nDCG@10", "R@100")
_COSTS = (
    Column("FLOPS", 2),
    Column("terms/document", 1),
    Column("terms/query", 1),
    Column("ms/query", 2),
    Column("index MB", 2),
)


def page(found: Mapping[str, Any]) -> str:
    """All of ``ablations.json`` as Markdown: budgets, one table a split, one of claims."""
    places = list(dict.fromkeys((row["collection"], row["split"]) for row in found["results"]))
    lines = ["# SpaDE and UHD-BERT: ablations", "", *_preface(found)]
    lines += ["", "![MRR@10](ablations.svg)"]
    for place in places:
        rows = [row for row in found["results"] if (row["collection"], row["split"]) == place]
        lines += ["", f"## {place[0]}, {place[1]}", "", _table(rows)]
    lines += ["", "## Do the papers' directions hold here?", "", _claims(found["claims"])]
    return "\n".join(lines)


def _preface(found: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Written by `{found['command']}`; searched by Lucene, measured by trec_eval. ms/query: median time of our",
        "search for 100 documents, one query at a time on one thread, its encoding left out. Postings of",
        f"{found['verified documents of each index']} documents of every index were compared with the encoder's files.",
        "The collection is cut down to what BM25 ranks first for the test queries and what is relevant to them. Scores",
        "compare the learned rows with each other; they say nothing about the full collection, and BM25 is at a",
        "disadvantage: whatever misleads it is there, what would mislead the others need not be. Models, data and",
        "training are far smaller than the papers'. One seed; p is not corrected for the number of claims.",
        "",
    ]
    for model, budget in found["training"].items():
        minutes = f"{budget['seconds'] / 60:.1f} minutes"
        lines.append(f"- {model}: {stages(budget)}; {minutes} ({threads(budget)}, {budget['processor']})")
    return lines


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = [Column("row"), *(Column(measure, best="highest") for measure in _MEASURES), *_COSTS]
    cells: list[list[Cell]] = [
        [row["row"], *(row["scores"][measure] for measure in _MEASURES), *(row.get(cost.heading) for cost in _COSTS)]
        for row in rows
    ]
    return format_table(columns, cells, markdown=True)


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    columns = [Column(name) for name in ("paper", "claim", "on", "difference", "p", "verdict")]
    cells: list[list[Cell]] = [
        [
            claim["source"],
            claim["claim"],
            f"{claim['collection']} {claim['split']}",
            claim["difference"],
            claim["p"],
            claim["verdict"],
        ]
        for claim in claims
    ]
    return format_table(columns, cells, markdown=True)
