"""Made-up results of a leaderboard, for the tests of its report."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pandas as pd

from eval.reproduce.claims import MEANINGS, NOTES
from eval.reproduce.leaderboard import RESULTS, VALUES
from eval.reproduce.leaderboard.view import Results
from learned_sparse.core.files import write_json

HOSTILE = (
    "</script><script>alert(1)</script>",
    "a\"b'c & <img src=x onerror=alert(1)>",
    "\u2028| `x` *y* $z$",
    "_under",
)
"""Names with characters that HTML, JavaScript or Markdown interpret unless they are escaped."""
MEASURES = ("nDCG@10", "MRR@10", "R@100")
COLUMNS = ("msmarco-mini", "msmarco-mini DL19", "squad-sent", "scifact", "vaswani")
ROWS = (
    ("BM25", "bm25", None, 0.0),
    ("BM25, word pieces", "bm25", None, -0.04),
    ("SparTerm literal-only", "recipe", None, -0.02),
    ("SparTerm expansion", "recipe", None, 0.01),
    ("SPLADE-max", "recipe", None, 0.06),
    *((f"SPLADE-FLOPS λ={weight}", "recipe", "SPLADE-FLOPS", 0.05 - 0.01 * i) for i, weight in enumerate("1358")),
    *((f"SpaDE k={k}", "recipe", "SpaDE, k", 0.03 - 0.01 * i) for i, k in enumerate((100, 10, 5))),
    ("SpaDE pruned γ=0.7", "model", None, 0.028),
    ("UHD-BERT", "recipe", None, 0.02),
    ("UHD-BERT binarised", "model", None, 0.018),
    ("docT5query (given run)", "run", None, 0.01),
    ("SPLADE", "published", None, 0.08),
)


def made_up(
    *, queries: int = 200, names: tuple[str, ...] | None = None, columns: tuple[str, ...] = COLUMNS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """``results.json`` and ``per_query.json``; ``names`` replace the names of the first rows."""
    rng = random.Random(5)
    titles = [*(names or ()), *(name for name, *_ in ROWS)][: len(ROWS)] if names else [name for name, *_ in ROWS]
    per_query: dict[str, Any] = {column: {} for column in columns}
    cells = []
    for column in columns:
        base_scores = [rng.betavariate(1.2, 0.8) for _ in range(queries)]
        for title, (_, kind, _, gain) in zip(titles, ROWS, strict=True):
            cells.append(_cell(rng, title, column, kind, gain, base_scores, per_query[column]))
    rows = [
        {
            "name": title,
            "kind": kind,
            "source": "SPLADE, Table 1" if kind == "published" else title.lower(),
            "curve": curve,
            "note": "queries are bags of word pieces" if "SpaDE" in title else "",
            "training": _training() if kind == "recipe" else None,
            "seeds": [1, 2, 3] if title == "SPLADE-max" else [],
        }
        for title, (_, kind, curve, _) in zip(titles, ROWS, strict=True)
    ]
    results = {
        "matrix": "made-up",
        "title": "Four systems on small real collections",
        "about": "BM25, SparTerm, SPLADE, SpaDE and UHD-BERT, trained for minutes on two processor cores.",
        "command": "python -m eval.reproduce --matrix small-real --data DIR",
        "versions": {"learned_sparse": "0.5.0", "pyserini": "1.6.0", "python": "3.11.7", "torch": "2.13.0"},
        "processor": "Intel Xeon Platinum 8488C, 2 threads",
        "baseline": titles[0],
        "columns": [_column(column, queries) for column in columns],
        "rows": rows,
        "cells": cells,
        "claims": _claims(titles, columns),
        "meanings": MEANINGS,
        "notes": list(NOTES),
    }
    return results, per_query


def trainings(per_query: dict[str, Any]) -> dict[tuple[str, str], list[Any]]:
    """Values of queries as a report reads them, one training each."""
    return {(row, column): [values] for column, rows in per_query.items() for row, values in rows.items()}


def write(folder: Path, results: dict[str, Any], per_query: dict[str, Any]) -> Path:
    """Write the input files of a report."""
    lines = [
        (row, column, 1, measure, query, value)
        for (row, column), (of_row,) in trainings(per_query).items()
        for measure, values in of_row.items()
        for query, value in values.items()
    ]
    table = pd.DataFrame(lines, columns=["row", "column", "training", "measure", "query", "value"]).to_csv(index=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / VALUES).write_bytes(gzip.compress(table.encode(), mtime=0))
    write_json(folder / RESULTS, results)
    return folder


def made_up_results(**options: Any) -> Results:
    """Made-up results of few queries, as a report reads them."""
    results, per_query = made_up(queries=8, **options)
    return Results(content=results, trainings=trainings(per_query))


def published_only() -> Results:
    """Results of published rows only, with columns without measures."""
    results, _ = made_up(queries=2)
    rows = [row for row in results["rows"] if row["kind"] == "published"]
    cells = [cell for cell in results["cells"] if cell["row"] == "SPLADE"]
    columns = [{**column, "measures": []} for column in results["columns"]]
    return Results(content={**results, "rows": rows, "cells": cells, "columns": columns, "claims": []})


def _column(name: str, queries: int) -> dict[str, Any]:
    pool = 100 if name == "vaswani" else None
    split = "test-dl19" if "DL19" in name else "test"
    collection = name.split(maxsplit=1)[0]
    sizes = {"collection": collection, "split": split, "documents": 11_429, "queries": queries, "pool": pool}
    return {"name": name, "measures": list(MEASURES), "average": [], "weights": {}, **sizes}


def _cell(
    rng: random.Random,
    row: str,
    column: str,
    kind: str,
    gain: float,
    base_scores: list[float],
    per_query: dict[str, Any],
) -> dict[str, Any]:
    cell: dict[str, Any] = {"row": row, "column": column, "status": "done", "scores": {}, "spread": None}
    cell |= {
        "expected": None,
        "verdicts": {},
        "difference": {},
        "p": {},
        "costs": None,
        "error": None,
        "timed_on": "",
    }
    if kind == "published":
        scores = {"MRR@10": 0.322, "nDCG@10": 0.61, "FLOPS": 0.73, "PISA ms/query": 31}
        return cell | {"status": "published"} | ({"scores": scores} if column == COLUMNS[0] else {"status": "absent"})
    if row == "UHD-BERT" and column == "vaswani":
        return cell | {"status": "failed", "error": "encode ended with status 137: killed"}
    per_query[row] = {
        measure: {
            f"q{number:03d}": _judged(rng, measure, base + gain + 0.05 * position)
            for number, base in enumerate(base_scores)
        }
        for position, measure in enumerate(MEASURES)
    }
    cell["scores"] = {measure: sum(values.values()) / len(values) for measure, values in per_query[row].items()}
    if row == "SPLADE-max":
        cell["spread"] = dict.fromkeys(MEASURES, 0.0042)
    if kind == "bm25" and column == "scifact":
        cell["expected"] = {"nDCG@10": cell["scores"]["nDCG@10"] + (0.0 if row == "BM25" else 0.01)}
        cell["verdicts"] = {"nDCG@10": "equal" if row == "BM25" else "worse"}
    if gain:
        cell["difference"] = dict.fromkeys(MEASURES, gain)
        cell["p"] = dict.fromkeys(MEASURES, 0.0012 if abs(gain) > 0.02 else 0.31)
    cell["costs"] = _costs(rng, gain, kind)
    return cell


def _judged(rng: random.Random, measure: str, value: float) -> float:
    value = min(1.0, max(0.0, rng.gauss(value, 0.15)))
    return [0.0, 0.1, 0.125, 0.2, 0.25, 1 / 3, 0.5, 1.0][int(value * 7.99)] if measure == "MRR@10" else value


def _costs(rng: random.Random, gain: float, kind: str) -> dict[str, float | None]:
    terms = max(12.0, 60 + 1500 * gain + rng.uniform(-5, 5))
    costs: dict[str, float | None] = {"FLOPS": None if kind in {"bm25", "run"} else terms**1.5 / 900}
    costs |= {"terms/document": terms, "terms/query": 8.5 + 100 * max(gain, 0), "index bytes": terms * 31_000}
    return costs | {"ms/query": terms / 40, "p99 ms/query": terms / 11, "documents/s": 180.0 - terms / 3}


def _training() -> dict[str, Any]:
    stages = [{"name": "gate", "steps": 250, "batch_size": 16}, {"name": "rank", "steps": 900, "batch_size": 32}]
    sizes = {"threads": 2, "seconds": 1453, "layers": 6, "max_length": {"document": 128, "query": 32}}
    return {"processor": "Intel Xeon Platinum 8488C", "backbone": "all-MiniLM-L6-v2", "stages": stages, **sizes}


def _claims(titles: list[str], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "source": f"paper {number}, Table {number + 1}",
            "paper": f"paper {number}",
            "claim": f"{titles[number + 3]} has more R@100 than {titles[2]}",
            "better": titles[number + 3],
            "worse": titles[2],
            "quantity": "R@100",
            "kind": "higher",
            "column": column,
            "relative": False,
            "difference": 0.0213 - 0.02 * number,
            "p": 0.0004 * 30**number,
            "published": [0.352, 0.32],
            "interval": [-0.01, 0.04],
            "detectable": 0.035,
            "verdict": verdict,
            "reason": "",
            "unequal": None,
            "examples": 5984,
            "paper_examples": 18_600_000,
        }
        for number, verdict in enumerate(("agrees", "disagrees", "inconclusive"))
        for column in columns[:3]
    ]
