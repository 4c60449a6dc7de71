"""What a leaderboard found, as JSON: scores, costs, verdicts, chances and claims, from the files its steps wrote."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.measures import Test
from eval.reproduce.claims import COSTS, Claim, Verdict, judge, judge_cost, spelled
from eval.reproduce.leaderboard_cells import DIGITS, Cells, Measured, compared, measured, verdict
from eval.reproduce.matrix import Row
from eval.reproduce.plan import HOME, CellPlan, Plan
from learned_sparse.collections import data_root
from learned_sparse.core import atomic_write, write_json
from learned_sparse.jsonvector import versions

RESULTS, PER_QUERY = "results.json", "per_query.json"
NOT_MEASURED = "not measured"
"""The verdict on a claim of which a row is not done."""
_HOME = "learned_sparse_home"  # the home folder by its default name, as a person types it
_NONE = Measured(status="absent")


def write_leaderboard(plan: Plan, folder: Path, command: str) -> dict[str, Any]:
    """Write both files of a plan for the whole of its matrix, and give what is in the first."""
    cells = measured_cells(plan)
    results = leaderboard(plan, cells, command)
    of_queries: dict[str, dict[str, Any]] = {column: {} for column in plan.matrix.columns}
    for (row, column), cell in cells.items():
        if cell.status == "done":
            of_queries[column][row] = cell.per_query
    write_json(folder / RESULTS, results)
    with atomic_write(folder / PER_QUERY) as file:
        file.write(
            json.dumps(of_queries, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
        )
    return results


def exit_status(results: Mapping[str, Any]) -> int:
    """1 if a cell failed, or a score is worse than it ought to be; else 0."""
    return int(any(cell["status"] == "failed" or "worse" in cell["verdicts"].values() for cell in results["cells"]))


def measured_cells(plan: Plan) -> Cells:
    """Every row that is run on every column; what the plan has no cell for is absent."""
    ours = [name for name, row in plan.matrix.rows.items() if row.kind != "published"]
    return {(row, column): measured(_planned(plan, row, column)) for row in ours for column in plan.matrix.columns}


def leaderboard(plan: Plan, cells: Cells, command: str) -> dict[str, Any]:
    """As ``results.json`` holds it."""
    matrix = plan.matrix
    return {
        "matrix": plan.name,
        "title": matrix.title,
        "about": matrix.about,
        "command": command,
        "versions": _versions(),
        "processor": processor(),
        "baseline": matrix.baseline,
        "test": matrix.test,
        "columns": [_column(plan, name, cells) for name in matrix.columns],
        "rows": [_row(plan, name, cells) for name in matrix.rows],
        "cells": [cell for column in matrix.columns for cell in _cells_of(plan, column, cells)],
        "claims": [said for claim in matrix.claims for said in _judged(claim, plan, cells)],
    }


def processor() -> str:
    """What the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _planned(plan: Plan, row: str, column: str) -> list[CellPlan]:
    """One for each seed."""
    return [cell for cell in plan.cells if (cell.row, cell.column) == (row, column)]


def _column(plan: Plan, name: str, cells: Cells) -> dict[str, Any]:
    column = plan.matrix.columns[name]
    done = [cell for (_, where), cell in cells.items() if where == name and cell.status == "done"]
    first = done[0].per_query if done else {}
    return {
        "name": name,
        "collection": _named(plan, column.collection),
        "split": column.split,
        "measures": list(column.measures or first),
        "documents": next((cell.documents for cell in done if cell.documents is not None), None),
        "queries": len(next(iter(first.values()), {})),
        "pool": column.pool,
    }


def _row(plan: Plan, name: str, cells: Cells) -> dict[str, Any]:
    row = plan.matrix.rows[name]
    return {
        "name": name,
        "kind": row.kind,
        "source": _named(plan, getattr(row, row.kind)),
        "curve": row.curve,
        "note": row.note,
        "training": _training(plan, name, row, cells),
        "seeds": list(plan.matrix.rows[row.model].seeds if row.model else row.seeds),
    }


def _named(plan: Plan, place: str) -> str:
    """What lies in the data folder without the place that has on this machine."""
    return place.removeprefix(f"{plan.data or data_root()}/")


def _training(plan: Plan, name: str, row: Row, cells: Cells) -> dict[str, Any] | None:
    """What the row's (first) training was given, once something is measured of it."""
    trained = [cell.checkpoint for cell in plan.cells if cell.row == name and cells[name, cell.column].status == "done"]
    if row.recipe is None or not trained:
        return None
    from eval.reproduce.budgets import budget_of

    return budget_of(Path(str(trained[0])))


def _cells_of(plan: Plan, column: str, cells: Cells) -> Iterator[dict[str, Any]]:
    matrix = plan.matrix
    beside = compared(cells, column, matrix.baseline, matrix.test) if matrix.baseline else {}
    for name, row in matrix.rows.items():
        planned, cell = _planned(plan, name, column), cells.get((name, column), _NONE)
        frozen = row.scores.get(column)
        expected = row.expected.get(column)
        yield {
            "row": name,
            "column": column,
            "status": _status(row, column, cell),
            "scores": dict(cell.scores if frozen is None else frozen),
            "spread": cell.spread,
            "expected": expected,
            "verdicts": _verdicts(cell.scores, expected or {}, row.tolerance),
            "difference": beside.get(name, {}).get("difference", {}),
            "p": beside.get(name, {}).get("p", {}),
            "costs": cell.costs,
            "commands": _commands(planned),
            "error": cell.error,
        }


def _status(row: Row, column: str, cell: Measured) -> str:
    if column in row.scores:
        return "published"
    return cell.status if row.published is not None or row.runs_on(column) else "left out"


def _verdicts(scores: Mapping[str, float], expected: Mapping[str, float], tolerance: float) -> dict[str, str]:
    return {name: verdict(scores[name], value, tolerance) for name, value in expected.items() if name in scores}


def _commands(planned: Sequence[CellPlan]) -> list[str]:
    """Each once, in order; the home folder by its default name, the folder of ``--data`` as a matrix names it."""
    steps = [step for cell in planned for step in cell.steps]
    return list(dict.fromkeys(step.neutral(step.command).replace(HOME, _HOME) for step in steps))


def _judged(claim: Claim, plan: Plan, cells: Cells) -> Iterator[dict[str, Any]]:
    """The verdict on each column that the claim is about, and that measures it."""
    for column in claim.columns or plan.matrix.columns:
        better, worse = (cells[row, column] for row in (claim.better, claim.worse))
        said = {"source": claim.source, "claim": spelled(claim), "column": column}
        done = better.status == worse.status == "done"
        if done and claim.quantity not in {*COSTS, *better.scores}:
            continue
        found = _verdict(claim, better, worse, plan.matrix.test) if done else None
        p = None if found is None or found.p is None else round(found.p, DIGITS)
        yield said | {
            "difference": None if found is None else round(found.difference, DIGITS),
            "p": p,
            "verdict": NOT_MEASURED if found is None else found.holds,
        }


def _verdict(claim: Claim, better: Measured, worse: Measured, test: Test) -> Verdict | None:
    """None where the cost of a row is not known."""
    name = claim.quantity
    if name not in COSTS:
        return judge(claim, better.per_query[name], worse.per_query[name], test)
    more, less = ((cell.costs or {}).get(name) for cell in (better, worse))
    return None if more is None or less is None else judge_cost(claim, more, less)


def _versions() -> dict[str, str]:
    return {**versions(), "pyserini": importlib.metadata.version("pyserini")}
