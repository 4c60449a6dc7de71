"""Results of a leaderboard for the tests of its report: those of small-real, with a row and cells of every kind."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

from eval.reproduce.pages import Results
from eval.reproduce.results import read_leaderboard

FOLDER = Path(__file__).parents[3] / "eval" / "results" / "small-real"
QUERIES = 8
"""Queries whose values are kept."""
PUBLISHED = {"MRR@10": 0.322, "nDCG@10": 0.61, "FLOPS": 0.73, "PISA ms/query": 31}


@functools.cache
def _stored() -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
    content, trainings = read_leaderboard(FOLDER)
    few = {
        pair: [{measure: dict(list(values.items())[:QUERIES]) for measure, values in one.items()} for one in of_cell]
        for pair, of_cell in trainings.items()
    }
    return content, few


def results(*names: str) -> Results:
    """Results with few queries, in which ``names`` replace the names of the first rows.

    One cell failed, one has not its expected score, one column is a sample, and one row is published.
    """
    content, trainings = copy.deepcopy(_stored())
    paper: dict[str, Any] = {
        "name": "Paper",
        "kind": "published",
        "source": "SPLADE, Table 1",
        "curve": None,
        "note": "",
        "seeds": [],
    }
    content["rows"].append(paper | {"training": None})
    next(row for row in content["rows"] if row["name"] == "splade-tiny")["curve"] = "a curve"
    empty: dict[str, Any] = {"spread": None, "expected": None, "verdicts": {}, "difference": {}, "p": {}, "costs": None}
    for column in content["columns"]:
        first = column["name"] == "msmarco-mini"
        status = {"status": "published", "scores": PUBLISHED} if first else {"status": "absent", "scores": {}}
        content["cells"].append({"row": "Paper", "column": column["name"], "error": None, **empty, **status})
    content["columns"][1]["sample"] = {"queries": None, "documents": None, "pool": 100, "seed": 1}
    for cell in content["cells"]:
        if (cell["row"], cell["column"]) == ("BM25", "msmarco-mini"):
            cell |= {"expected": {"MRR@10": 0.8635, "R@100": 0.99}, "verdicts": {"MRR@10": "equal", "R@100": "worse"}}
        if (cell["row"], cell["column"]) == ("UHD", "scifact"):
            cell |= {"status": "failed", "scores": {}, "costs": None, "error": "encode ended with status 137: killed"}
    renamed: dict[str, str] = dict(zip([row["name"] for row in content["rows"]], names, strict=False))

    def name(old: str) -> str:
        return renamed.get(old, old)

    content["baseline"] = name(content["baseline"])
    for row in content["rows"]:
        row["name"] = name(row["name"])
    for cell in content["cells"]:
        cell["row"] = name(cell["row"])
    return Results(content=content, trainings={(name(row), at): of for (row, at), of in trainings.items()})
