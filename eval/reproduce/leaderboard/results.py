"""The results of a leaderboard as JSON: scores, costs, comparisons and verdicts on claims, from the output of steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Literal

from eval.measures import Test, p_values
from eval.reproduce.claims import COSTS, MEANINGS, NOTES, Side, judged_claims
from eval.reproduce.leaderboard.cells import (
    DIGITS,
    Cells,
    Measured,
    distinct,
    planned,
    processors,
)
from eval.reproduce.matrix import Column, Row, columns_of_average, rows_of_curve, seeds_of
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.steps import HOME
from learned_sparse.collections.collection import data_root

_HOME = "learned_sparse_home"  # the default name of the home folder, as a person types it
_ROUNDING = 1e-9


def exit_status(results: Mapping[str, Any], chosen: Set[tuple[str, str]]) -> int:
    """1 if one of the ``chosen`` cells (row and column) failed or is worse than expected, else 0."""
    cells = [cell for cell in results["cells"] if (cell["row"], cell["column"]) in chosen]
    return int(any(cell["status"] == "failed" or "worse" in cell["verdicts"].values() for cell in cells))


def leaderboard(plan: Plan, cells: Cells, command: str) -> dict[str, Any]:
    """The content of ``results.json``; versions and machines are those of the steps when they were run."""
    matrix = plan.matrix
    provenance = distinct(record for cell in cells.values() for record in cell.provenance)
    return {
        "matrix": plan.name,
        "title": matrix.title,
        "about": matrix.about,
        "command": command,
        "versions": _versions(provenance),
        "processor": processors(provenance),
        "provenance": provenance,
        "baseline": matrix.baseline,
        "test": matrix.test,
        "columns": [_column(plan, name, cells) for name in (*matrix.columns, *matrix.averages)],
        "rows": [_row(plan, name, cells) for name in matrix.rows],
        "cells": [
            cell
            for name in (*matrix.columns, *matrix.averages)
            for cell in _cell_results(plan, name, cells, provenance)
        ],
        "claims": judged_claims(
            matrix.claims,
            matrix.columns,
            lambda row, column: _side(plan, cells, row, column),
            {row.curve: rows_of_curve(matrix, row.curve) for row in matrix.rows.values() if row.curve},
        ),
        "meanings": MEANINGS if matrix.claims else {},
        "notes": list(NOTES) if matrix.claims else [],
    }


def score_verdict(
    score: float, expected: float, tolerance: float
) -> Literal["equal", "within tolerance", "worse", "better"]:
    """A score compared with the expected one: equal to four decimals, within the tolerance, or on which side.

    >>> [score_verdict(score, 0.5, 0.001) for score in (0.50004, 0.501, 0.4985, 0.5015)]
    ['equal', 'within tolerance', 'worse', 'better']
    """
    if round(score, 4) == round(expected, 4):
        return "equal"
    if abs(score - expected) <= tolerance + _ROUNDING:
        return "within tolerance"
    return "worse" if score < expected else "better"


def _column(plan: Plan, name: str, cells: Cells) -> dict[str, Any]:
    column = plan.matrix.columns.get(name, Column(collection="", split=""))
    done = [cell for (_, where), cell in cells.items() if where == name and cell.status == "done"]
    per_query = done[0].per_query if done else {}
    return {
        "name": name,
        "collection": _without_data_folder(plan, column.collection),
        "split": column.split,
        "measures": list(column.measures or per_query),
        "documents": next((cell.documents for cell in done if cell.documents is not None), None),
        "queries": len(next(iter(per_query.values()), {})),
        "pool": column.pool,
        "sample": None if column.sample is None else dataclasses.asdict(column.sample),
        "overlap": column.overlap,
        "published_queries": column.queries,
        "average": list(plan.matrix.averages.get(name, ())),
    }


def _row(plan: Plan, name: str, cells: Cells) -> dict[str, Any]:
    row = plan.matrix.rows[name]
    return {
        "name": name,
        "kind": row.kind,
        "source": _without_data_folder(plan, ", ".join(row.best_of or ()) or getattr(row, row.kind)),
        "curve": row.curve,
        "note": row.note,
        "training": next((cell.training for (of, _), cell in cells.items() if of == name and cell.training), None),
        "seeds": list(seeds_of(plan.matrix, name)),
    }


def _without_data_folder(plan: Plan, path: str) -> str:
    return path.removeprefix(f"{plan.data or data_root()}/")


def _cell_results(
    plan: Plan, column: str, cells: Cells, provenance: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    matrix = plan.matrix
    comparison = _compared(cells, column, matrix.baseline, matrix.test) if matrix.baseline else {}
    for name, row in matrix.rows.items():
        cell = cells.get((name, column), Measured(status="absent"))
        published, expected = row.scores.get(column), row.expected.get(column)
        yield {
            "row": name,
            "column": column,
            "status": _status(plan, row, column, cell),
            "scores": dict(cell.scores if published is None else published),
            "spread": cell.spread,
            "expected": expected,
            "verdicts": {
                measure: score_verdict(cell.scores[measure], value, row.tolerance)
                for measure, value in (expected or {}).items()
                if measure in cell.scores
            },
            "difference": comparison.get(name, {}).get("difference", {}),
            "p": comparison.get(name, {}).get("p", {}),
            "costs": cell.costs,
            "commands": _commands(planned(plan, name, column)),
            "timed_on": cell.timed_on,
            "seconds": cell.seconds,
            "provenance": sorted(provenance.index(record) for record in cell.provenance),
            "key": cell.key,
            "error": cell.error,
        }


def _status(plan: Plan, row: Row, column: str, cell: Measured) -> str:
    if column in row.scores:
        return "published"
    measured_there = all(map(row.runs_on, columns_of_average(plan.matrix, column)))
    return cell.status if row.published is not None or measured_there else "left out"


def _commands(planned: Sequence[CellPlan]) -> list[str]:
    """The commands of all steps, each once, in order, without paths of this machine."""
    steps = [step for cell in planned for step in cell.steps]
    return list(dict.fromkeys(step.neutral(step.command).replace(HOME, _HOME) for step in steps))


def _versions(provenance: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Each version, or all of them if steps were run with different ones; commits are a version too."""
    known = [{"commit": one["commit"] or "", **one["versions"]} for one in provenance]
    names = dict.fromkeys(name for one in known for name in one)
    values = {name: list(dict.fromkeys(one[name] for one in known if one.get(name))) for name in names}
    return {name: " and ".join(several) for name, several in values.items() if several}


def _compared(cells: Cells, column: str, baseline: str, test: Test) -> dict[str, dict[str, dict[str, float]]]:
    """``{row: {"difference": {measure: ...}, "p": {measure: ...}}}`` of the rows of a column from the baseline.

    The p-values of a measure are corrected for the number of rows. Empty if the baseline is not measured.
    """
    done = {row: cell for (row, where), cell in cells.items() if where == column and cell.status == "done"}
    if baseline not in done:
        return {}
    reference = done[baseline].scores
    trainings = {row: cell.by_seed or [cell.per_query] for row, cell in done.items()}
    return {
        row: {
            "difference": {name: round(done[row].scores[name] - reference[name], DIGITS) for name in reference},
            "p": {name: round(p, DIGITS) for name, p in p_by_measure.items()},
        }
        for row, p_by_measure in p_values(trainings, baseline, test).items()
    }


def _side(plan: Plan, cells: Cells, row: str, column: str) -> Side:
    """A row on a column, as claims compare it; a published row has scores, and no values of queries."""
    if (row, column) not in cells:
        scores = plan.matrix.rows[row].scores.get(column, {})
        return Side(scores=scores, costs={name: scores.get(name) for name in COSTS})
    cell = cells[row, column]
    trainings = cell.by_seed or [cell.per_query]
    return Side(
        done=cell.status == "done", scores=cell.scores, trainings=trainings, costs=cell.costs or {},
        timed_on=cell.timed_on,
    )  # fmt: skip
