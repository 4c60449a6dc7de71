"""Results of several runs side by side: as a table, as JSON, and what was left out of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.costs import Sparsity
from eval.measures.measures import Scores
from eval.measures.table import Cell, Column, format_table


@dataclass(frozen=True)
class Result:
    """What was found for one run; all results of one table have the same measures and queries."""

    name: str
    run: Path
    scores: Scores
    sparsity: Sparsity | None = None


def results_table(results: Sequence[Result], *, markdown: bool = False) -> str:
    """One row a run: its measures, then FLOPS and terms where any run has them."""
    columns = [Column("run"), *(Column(measure, best="highest") for measure in results[0].scores.mean)]
    rows: list[list[Cell]] = [[result.name, *result.scores.mean.values()] for result in results]
    if any(result.sparsity for result in results):
        columns += [Column("FLOPS", best="lowest"), Column("terms/document", 1), Column("terms/query", 1)]
        for row, result in zip(rows, results, strict=True):
            found = result.sparsity
            row += [found.flops, found.documents.mean, found.queries.mean] if found else [None, None, None]
    return format_table(columns, rows, markdown=markdown)


def queries_table(results: Sequence[Result], *, markdown: bool = False) -> str:
    """One row a query and measure, one column a run."""
    columns = [Column("query"), Column("measure"), *(Column(result.name, best="highest") for result in results)]
    measures = results[0].scores.per_query
    queries = sorted(next(iter(measures.values())))
    values = [result.scores.per_query for result in results]
    rows: list[list[Cell]] = [[q, m, *(of_run[m][q] for of_run in values)] for q in queries for m in measures]
    return format_table(columns, rows, markdown=markdown)


def result_as_json(result: Result, *, per_query: bool = False) -> dict[str, Any]:
    """Everything that was found, as JSON values."""
    found: dict[str, Any] = {"name": result.name, "run": str(result.run), "scores": dict(result.scores.mean)}
    if result.sparsity:
        found["sparsity"] = dataclasses.asdict(result.sparsity)
    found |= {"missing": list(result.scores.missing), "unjudged": list(result.scores.unjudged)}
    return found | ({"per_query": result.scores.per_query} if per_query else {})


def notes(result: Result) -> list[str]:
    """What a reader of the numbers ought to know about the run's queries."""
    scores = result.scores
    kinds = [
        (scores.missing, "judged queries without a result, each counted as zero"),
        (scores.unjudged, "queries without a judgement, counted nowhere"),
    ]
    return [f"{result.run}: {what}: {len(of)} (for instance {of[0]!r})" for of, what in kinds if of]
