"""The results of a leaderboard as JSON: scores, costs, comparisons and verdicts on claims, from the output of steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Literal

from eval.measures import PerQuery
from eval.reproduce.claims import MEANINGS, NOTES, Claim, Side, judged_claims
from eval.reproduce.leaderboard.cells import (
    DIGITS,
    Cells,
    Measured,
    distinct,
    planned,
    processors,
)
from eval.reproduce.matrix import Column, PublishedRow, Row, SystemRow, columns_of_average, seeds_of
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.steps import HOME
from eval.stats import comparisons
from learned_sparse.collections.collection import data_root

_HOME = "learned_sparse_home"  # the default name of the home folder, as a person types it
_ROUNDING = 1e-9
Trainings = Mapping[tuple[str, str], Sequence[PerQuery]]
"""Scores of each training by row and column."""


def exit_status(results: Mapping[str, Any], chosen: Set[tuple[str, str]]) -> int:
    """1 if one of the ``chosen`` cells (row and column) failed or has not the expected scores, else 0.

    A score above the expected one also means other data or settings.
    """
    cells = [cell for cell in results["cells"] if (cell["row"], cell["column"]) in chosen]
    return int(any(cell["status"] == "failed" or {"worse", "better"} & {*cell["verdicts"].values()} for cell in cells))


def leaderboard(plan: Plan, cells: Cells, command: str) -> dict[str, Any]:
    """The content of ``results.json``; versions and machines are those of the steps when they were run."""
    matrix = plan.matrix
    provenance = distinct(record for cell in cells.values() for record in cell.provenance)
    content = {
        "matrix": plan.name,
        "title": matrix.title,
        "about": matrix.about,
        "command": command,
        "versions": _versions(provenance),
        "processor": processors(provenance),
        "provenance": provenance,
        "baseline": matrix.baseline,
        "columns": [_column(plan, name, cells) for name in (*matrix.columns, *matrix.averages)],
        "rows": [_row(plan, name, cells) for name in matrix.rows],
        "cells": [
            cell
            for name in (*matrix.columns, *matrix.averages)
            for cell in _cell_results(plan, name, cells, provenance)
        ],
    }
    return content | judged(content, matrix.claims, {pair: cell.trainings for pair, cell in cells.items()})


def judged(content: Mapping[str, Any], claims: Sequence[Claim] | None, trainings: Trainings) -> dict[str, Any]:
    """The cells with their differences from the baseline, and the verdicts on ``claims``, as members of ``content``.

    None: the claims of ``content``, for results that were written before. In each column and measure, the p-values of
    the differences are corrected for the number of rows. An upper bound (``best_of``) is no system and is not tested.
    """
    bounds = {row["name"] for row in content["rows"] if row["kind"] == "best_of"}
    trained = {row["name"]: (row["training"] or {}).get("examples") for row in content["rows"]}
    models = {row["name"]: row["source"] if row["kind"] == "model" else row["name"] for row in content["rows"]}
    cells = {(cell["row"], cell["column"]): cell for cell in content["cells"]}
    compared: dict[tuple[str, str], dict[str, Any]] = {}
    for column in content["columns"]:
        name = column["name"]
        systems = {row: of for (row, at), of in trainings.items() if of and at == name and row not in bounds}
        if content["baseline"] in systems:
            for row, of_measure in comparisons(systems, content["baseline"]).items():
                compared[row, name] = {
                    "difference": {measure: round(one.difference, DIGITS) for measure, one in of_measure.items()},
                    "p": {measure: round(one.p_value, DIGITS) for measure, one in of_measure.items()},
                }
    if claims is None:
        known = {field.name for field in dataclasses.fields(Claim)}
        claims = [
            Claim(**{key: value for key, value in claim.items() if key in known}, columns=(claim["column"],))
            for claim in content["claims"]
        ]

    def side(row: str, column: str) -> Side:
        cell = cells[row, column]
        published = cell["status"] == "published"
        return Side(
            done=published or cell["status"] == "done",
            scores=cell["scores"],
            trainings=trainings.get((row, column), ()),
            costs=cell["scores"] if published else cell["costs"] or {},
            timed_on=cell["timed_on"],
            examples=trained.get(models[row]),
        )

    columns = [column["name"] for column in content["columns"] if not column["average"]]
    return {
        "cells": [cell | compared.get(pair, {"difference": {}, "p": {}}) for pair, cell in cells.items()],
        "claims": judged_claims(claims, columns, side),
        "meanings": MEANINGS if claims else {},
        "notes": list(NOTES) if claims else [],
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
    per_query = done[0].trainings[0] if done and done[0].trainings else {}
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
        "weights": columns_of_average(plan.matrix, name) if name in plan.matrix.averages else {},
    }


def _row(plan: Plan, name: str, cells: Cells) -> dict[str, Any]:
    row = plan.matrix.rows[name]
    return {
        "name": name,
        "kind": row.kind,
        "source": _without_data_folder(plan, row.source),
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
    for name, row in matrix.rows.items():
        cell = cells.get((name, column), Measured(status="absent"))
        published = row.scores.get(column) if isinstance(row, PublishedRow) else None
        expected = row.expected.get(column) if isinstance(row, SystemRow) else None
        tolerance = row.tolerance if isinstance(row, SystemRow) else 0.0
        yield {
            "row": name,
            "column": column,
            "status": _status(plan, row, column, cell),
            "scores": dict(cell.scores if published is None else published),
            "spread": cell.spread,
            "expected": expected,
            "verdicts": {
                measure: score_verdict(cell.scores[measure], value, tolerance)
                for measure, value in (expected or {}).items()
                if measure in cell.scores
            },
            "costs": cell.costs,
            "commands": _commands(planned(plan, name, column)),
            "timed_on": cell.timed_on,
            "seconds": cell.seconds,
            "provenance": sorted(provenance.index(record) for record in cell.provenance),
            "key": cell.key,
            "error": cell.error,
        }


def _status(plan: Plan, row: Row, column: str, cell: Measured) -> str:
    if isinstance(row, PublishedRow):
        return "published" if column in row.scores else cell.status
    measured_there = all(map(row.runs_on, columns_of_average(plan.matrix, column)))
    return cell.status if measured_there else "left out"


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
