"""The results of a leaderboard as JSON: scores, costs, comparisons and verdicts on claims, from the output of steps."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from eval.measures import Test, p_values
from eval.reproduce.claims import COSTS, MEANINGS, NOTES, Side, judged_claims
from eval.reproduce.matrix import Column, Row, columns_of_average, rows_of_curve, seeds_of
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.steps import HOME, Marker, Status, marker_of, status_of, times_of
from learned_sparse.collections import data_root
from learned_sparse.core import atomic_write, read_json, write_json

RESULTS, PER_QUERY = "results.json", "per_query.json"
DIGITS = 6
"""Digits of numbers in the files; trec_eval gives four."""
_HOME = "learned_sparse_home"  # the default name of the home folder, as a person types it
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Results of one row on one column, averaged over its seeds."""

    status: Status
    error: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] | None = None
    """Sample standard deviation over the seeds; None for a single training."""
    per_query: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    by_seed: Sequence[Mapping[str, Mapping[str, float]]] = ()
    """``per_query`` of each training, if there are several."""
    costs: Mapping[str, float | None] | None = None
    documents: int | None = None


Cells = Mapping[tuple[str, str], Measured]
"""By row and column."""


def write_leaderboard(plan: Plan, folder: Path, command: str) -> dict[str, Any]:
    """Write ``results.json`` and ``per_query.json`` of the whole matrix; returns the content of the first."""
    cells = measured_cells(plan)
    results = leaderboard(plan, cells, command)
    per_query: dict[str, dict[str, Any]] = {column: {} for column in plan.matrix.columns}
    for (row, column), cell in cells.items():
        if cell.status == "done" and column in per_query:
            per_query[column][row] = cell.per_query
    write_json(folder / RESULTS, results)
    with atomic_write(folder / PER_QUERY) as file:
        file.write(
            json.dumps(per_query, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
        )
    return results


def exit_status(results: Mapping[str, Any], chosen: Set[tuple[str, str]]) -> int:
    """1 if one of the ``chosen`` cells (row and column) failed or is worse than expected, else 0."""
    cells = [cell for cell in results["cells"] if (cell["row"], cell["column"]) in chosen]
    return int(any(cell["status"] == "failed" or "worse" in cell["verdicts"].values() for cell in cells))


def measured_cells(plan: Plan) -> Cells:
    """Every row that is not published on every column and average; a pair without a planned cell is absent."""
    rows = [name for name, row in plan.matrix.rows.items() if row.kind != "published"]
    cells = {(row, column): measured(_planned(plan, row, column)) for row in rows for column in plan.matrix.columns}
    for name in plan.matrix.averages:
        weights = columns_of_average(plan.matrix, name)
        cells |= {(row, name): averaged({column: cells[row, column] for column in weights}, weights) for row in rows}
    return cells


def measured(cells: Sequence[CellPlan]) -> Measured:
    """The results of one row on one column, from one planned cell per seed; without numbers unless all are done."""
    states = [status_of(cell.steps) for cell in cells]
    errors = [error for status, error in states if status == "failed"]
    if errors:
        return Measured(status="failed", error=cells[0].steps[0].neutral(str(errors[0])))
    if not cells or any(status != "done" for status, _ in states):
        return Measured(status="absent")
    runs = [read_json(cell.evaluated)["runs"][0] for cell in cells]
    costs = [_costs(cell) for cell in cells if cell.costs]
    scores = [run["scores"] for run in runs]
    spread = (
        {name: round(stdev(means[name] for means in scores), DIGITS) for name in scores[0]} if len(cells) > 1 else None
    )
    return Measured(
        status="done",
        scores=_means(scores),
        spread=spread,
        per_query={name: _means([run["per_query"][name] for run in runs]) for name in scores[0]},
        by_seed=[run["per_query"] for run in runs] if len(runs) > 1 else (),
        costs={name: _mean(result["costs"].get(name) for result in costs) for name in COSTS} if costs else None,
        documents=costs[0]["documents"] if costs else None,
    )


def averaged(cells: Mapping[str, Measured], weights: Mapping[str, float]) -> Measured:
    """The weighted mean of one row over columns; without numbers unless all cells are done.

    Values of queries are weighted so that their mean is that of the columns' means, whatever their numbers of queries.
    """
    for status in ("failed", "absent"):
        if broken := [cell for cell in cells.values() if cell.status == status]:
            return Measured(status=broken[0].status, error=broken[0].error)
    first, *others = (cell.scores for cell in cells.values())
    names = [name for name in first if all(name in scores for scores in others)]
    queries = {name: sum(len(cell.per_query[name]) for cell in cells.values()) for name in names}

    def weighted(per_query: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
        return {
            name: {
                f"{at}/{query}": value * weights[at] * queries[name] / len(per_query[at][name])
                for at in cells
                for query, value in per_query[at][name].items()
            }
            for name in names
        }

    trainings = {len(cell.by_seed) for cell in cells.values()}
    return Measured(
        status="done",
        scores={name: round(sum(weights[at] * cells[at].scores[name] for at in cells), DIGITS) for name in names},
        per_query=weighted({at: cell.per_query for at, cell in cells.items()}),
        by_seed=[
            weighted({at: cell.by_seed[number] for at, cell in cells.items()}) for number in range(min(trainings))
        ],
    )


def leaderboard(plan: Plan, cells: Cells, command: str) -> dict[str, Any]:
    """The content of ``results.json``; versions and machines are those of the steps when they were run."""
    matrix = plan.matrix
    done = [cell for cell in plan.cells if cells[cell.row, cell.column].status == "done"]
    provenance = _distinct(marker.provenance for cell in done for marker in _markers([cell]))
    return {
        "matrix": plan.name,
        "title": matrix.title,
        "about": matrix.about,
        "command": command,
        "versions": _versions(provenance),
        "processor": "; ".join(dict.fromkeys(", ".join([one["processor"], *one["gpus"]]) for one in provenance)),
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


def training_budget(checkpoint: Path) -> dict[str, Any]:
    """Processor, time, backbone and stages of the training of a finished checkpoint, as JSON values."""
    from encoders.checkpoints import read_notes

    notes = read_notes(checkpoint)
    recipe = notes.recipe
    return {
        "processor": notes.training["device"],
        "threads": notes.training["threads"],
        "seconds": round(notes.training["seconds"]),
        "backbone": recipe["backbone"],
        "layers": recipe["num_hidden_layers"],
        "max_length": recipe["max_length"],
        "stages": [{key: stage[key] for key in ("name", "steps", "batch_size")} for stage in recipe["stages"]],
    }


def _planned(plan: Plan, row: str, column: str) -> list[CellPlan]:
    """The planned cells of a row on a column, one for each seed."""
    return [cell for cell in plan.cells if (cell.row, cell.column) == (row, column)]


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
        "training": _training(plan, name, row, cells),
        "seeds": list(seeds_of(plan.matrix, name)),
    }


def _without_data_folder(plan: Plan, path: str) -> str:
    return path.removeprefix(f"{plan.data or data_root()}/")


def _training(plan: Plan, name: str, row: Row, cells: Cells) -> dict[str, Any] | None:
    """Budget of the row's training with its first seed; None before the row is measured."""
    trained = [cell.checkpoint for cell in plan.cells if cell.row == name and cells[name, cell.column].status == "done"]
    return training_budget(Path(str(trained[0]))) if row.recipe is not None and trained else None


def _cell_results(
    plan: Plan, column: str, cells: Cells, provenance: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    matrix = plan.matrix
    comparison = _compared(cells, column, matrix.baseline, matrix.test) if matrix.baseline else {}
    for name, row in matrix.rows.items():
        cell = cells.get((name, column), Measured(status="absent"))
        planned = _planned(plan, name, column)
        markers = _markers(planned) if cell.status == "done" else []
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
            "commands": _commands(planned),
            "seconds": round(sum(marker.seconds for marker in markers), 1) if markers else None,
            "provenance": sorted({provenance.index(marker.provenance) for marker in markers}),
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


def _markers(planned: Sequence[CellPlan]) -> list[Marker]:
    """The markers of all finished steps, each once."""
    steps = dict.fromkeys(step for cell in planned for step in cell.steps)
    return [marker for step in steps if (marker := marker_of(step))]


def _distinct(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, in a fixed order."""
    return [json.loads(text) for text in sorted({json.dumps(record, sort_keys=True) for record in records})]


def _versions(provenance: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Each version, or all of them if steps were run with different ones; commits are a version too."""
    known = [{"commit": one["commit"] or "", **one["versions"]} for one in provenance]
    names = dict.fromkeys(name for one in known for name in one)
    values = {name: list(dict.fromkeys(one[name] for one in known if one.get(name))) for name in names}
    return {name: " and ".join(several) for name, several in values.items() if several}


def _compared(cells: Cells, column: str, baseline: str, test: Test) -> dict[str, dict[str, dict[str, float]]]:
    """``{row: {"difference": {measure: ...}, "p": {measure: ...}}}`` of the rows of a column from the baseline.

    The p-values are corrected for the number of rows. Empty if the baseline is not measured.
    """
    done = {row: cell for (row, where), cell in cells.items() if where == column and cell.status == "done"}
    if baseline not in done:
        return {}
    reference = done[baseline].scores
    return {
        row: {
            "difference": {name: round(done[row].scores[name] - reference[name], DIGITS) for name in reference},
            "p": {name: round(p, DIGITS) for name, p in p_by_measure.items()},
        }
        for row, p_by_measure in p_values({row: cell.per_query for row, cell in done.items()}, baseline, test).items()
    }


def _side(plan: Plan, cells: Cells, row: str, column: str) -> Side:
    """A row on a column, as claims compare it; a published row has scores, and no values of queries."""
    if (row, column) not in cells:
        scores = plan.matrix.rows[row].scores.get(column, {})
        return Side(scores=scores, costs={name: scores.get(name) for name in COSTS})
    cell = cells[row, column]
    trainings = cell.by_seed or [cell.per_query]
    return Side(done=cell.status == "done", scores=cell.scores, trainings=trainings, costs=cell.costs or {})


def _costs(cell: CellPlan) -> dict[str, Any]:
    """Output of ``eval.costs``, with ``documents/s`` of the encoding if no other step ran at the same time."""
    costs: dict[str, Any] = read_json(str(cell.costs))
    encodings = [step for step in cell.steps if step.kind == "encode"]
    times = times_of(encodings[-1]) if encodings else None
    if times and times["seconds"] > 0:
        costs["costs"]["documents/s"] = round(times["documents"] / times["seconds"], 2)
    return costs


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(mean(means[name] for means in scores), DIGITS) for name in scores[0]}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(mean(known), DIGITS) if known else None
