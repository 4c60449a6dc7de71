"""The files of a leaderboard's results: written, and read again."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from eval.reproduce.leaderboard.cells import Cells, Measured, averaged, key_of, measured_cells, planned
from eval.reproduce.leaderboard.results import Trainings, judged, leaderboard
from eval.reproduce.plan import Plan
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, read_json, write_json

RESULTS, VALUES = "results.json", "values.csv.gz"
_KEYS = ["row", "column", "training", "measure", "query"]
_MEMBERS = ("title", "about", "command", "versions", "processor", "baseline", "columns", "rows", "cells", "claims")


def write_leaderboard(plan: Plan, folder: Path, command: str, kept: Cells | None = None) -> dict[str, Any]:
    """Write the results of the whole matrix; returns the content of ``results.json``.

    Cells that are not done here are taken from ``kept``. ``values.csv.gz`` is one table of the value of each query:
    row, column, training (1, 2, ...), measure, query, value.
    """
    import pandas as pd

    cells = measured_cells(plan, kept)
    results = leaderboard(plan, cells, command)
    values = [
        (row, column, number, measure, query, value)
        for (row, column), cell in sorted(cells.items())
        if column in plan.matrix.columns
        for number, training in enumerate(cell.trainings, start=1)
        for measure, of_query in training.items()
        for query, value in sorted(of_query.items())
    ]
    table = pd.DataFrame(values, columns=[*_KEYS, "value"]).to_csv(index=False, lineterminator="\n")
    with atomic_write(folder / VALUES) as file:
        file.write(gzip.compress(table.encode(), mtime=0))
    write_json(folder / RESULTS, results)
    return results


def read_leaderboard(folder: Path) -> tuple[dict[str, Any], Trainings]:
    """The content of ``results.json``, and the scores of each training by row and column, averages left out."""
    import pandas as pd

    content = read_json(folder / RESULTS)
    missing = [key for key in _MEMBERS if not isinstance(content, dict) or key not in content]
    if missing:
        raise LearnedSparseError(f"{folder / RESULTS}: no {missing[0]!r}; python -m eval.reproduce writes it")
    if not (folder / VALUES).is_file():
        raise LearnedSparseError(
            f"{folder / VALUES}: not found; run python -m eval.reproduce again: it repeats no finished step"
        )
    table = pd.read_csv(folder / VALUES, dtype=str, keep_default_na=False)
    trainings: dict[tuple[str, str], list[dict[str, dict[str, float]]]] = {}
    for (row, column, number, measure), part in table.groupby(_KEYS[:-1], sort=False):
        of_cell = trainings.setdefault((row, column), [])
        of_cell += [{}] if len(of_cell) < int(number) else []
        of_cell[int(number) - 1][measure] = dict(zip(part["query"], map(float, part["value"]), strict=True))
    return content, dict(trainings)


def judge_again(folder: Path) -> tuple[dict[str, Any], Trainings]:
    """Compute the comparisons and verdicts of results from their stored values, and write them if they differ."""
    content, stored = read_leaderboard(folder)
    trainings: dict[tuple[str, str], Any] = dict(stored)
    scores = {(cell["row"], cell["column"]): cell["scores"] for cell in content["cells"] if cell["status"] == "done"}
    for column in content["columns"]:
        weights: dict[str, float] = column.get("weights") or {}
        for row in content["rows"] if weights else ():
            name = row["name"]
            if all((name, at) in stored for at in weights):
                parts = {
                    at: Measured(status="done", scores=scores[name, at], trainings=stored[name, at]) for at in weights
                }
                trainings[name, column["name"]] = averaged(parts, weights).trainings
    again = content | judged(content, None, trainings)
    if again != content:
        write_json(folder / RESULTS, again)
    return again, trainings


def kept_cells(plan: Plan, folder: Path) -> Cells:
    """The measured cells of the results in ``folder`` whose steps have the inputs and settings of ``plan``."""
    if not (folder / RESULTS).is_file():
        return {}
    results, trainings = read_leaderboard(folder)
    budgets = {row["name"]: row["training"] for row in results["rows"]}
    documents = {column["name"]: column["documents"] for column in results["columns"]}
    kept: dict[tuple[str, str], Measured] = {}
    for cell in results["cells"]:
        row, column = cell["row"], cell["column"]
        if cell["status"] == "done" and cell["key"] and cell["key"] == key_of(planned(plan, row, column)):
            kept[row, column] = Measured(
                status="done", scores=cell["scores"], spread=cell["spread"], trainings=trainings[row, column],
                costs=cell["costs"], timed_on=cell["timed_on"], documents=documents[column], training=budgets[row],
                seconds=cell["seconds"], key=cell["key"],
                provenance=[results["provenance"][number] for number in cell["provenance"]],
            )  # fmt: skip
    return kept
