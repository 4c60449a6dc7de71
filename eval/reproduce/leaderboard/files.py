"""The files of a leaderboard's results: written, and read again for the cells that are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.reproduce.leaderboard.cells import Cells, Measured, key_of, measured_cells, planned
from eval.reproduce.leaderboard.results import leaderboard
from eval.reproduce.plan import Plan
from learned_sparse.core.files import atomic_write, read_json, write_json

RESULTS, PER_QUERY, TRAININGS = "results.json", "per_query.json", "trainings.json"


def write_leaderboard(plan: Plan, folder: Path, command: str, kept: Cells | None = None) -> dict[str, Any]:
    """Write the results of the whole matrix as JSON; returns the content of ``results.json``.

    Cells that are not done here are taken from ``kept``. ``per_query.json`` has the values of queries, and
    ``trainings.json`` those of each training for rows with several.
    """
    cells = measured_cells(plan, kept)
    results = leaderboard(plan, cells, command)
    per_query: dict[str, dict[str, Any]] = {column: {} for column in plan.matrix.columns}
    trainings: dict[str, dict[str, Any]] = {}
    for (row, column), cell in cells.items():
        if cell.status == "done" and column in per_query:
            per_query[column][row] = cell.per_query
            if cell.by_seed:
                trainings.setdefault(column, {})[row] = cell.by_seed
    _write_compact(folder / TRAININGS, trainings)
    _write_compact(folder / PER_QUERY, per_query)
    write_json(folder / RESULTS, results)
    return results


def kept_cells(plan: Plan, folder: Path) -> Cells:
    """The measured cells of the results in ``folder`` whose steps have the inputs and settings of ``plan``."""
    if not (folder / RESULTS).is_file() or not (folder / TRAININGS).is_file():  # earlier versions wrote no trainings
        return {}
    results, per_query, trainings = (read_json(folder / name) for name in (RESULTS, PER_QUERY, TRAININGS))
    budgets = {row["name"]: row["training"] for row in results["rows"]}
    documents = {column["name"]: column["documents"] for column in results["columns"]}
    kept: dict[tuple[str, str], Measured] = {}
    for cell in results["cells"]:
        row, column = cell["row"], cell["column"]
        if cell["status"] == "done" and cell["key"] and cell["key"] == key_of(planned(plan, row, column)):
            kept[row, column] = Measured(
                status="done", scores=cell["scores"], spread=cell["spread"], per_query=per_query[column][row],
                by_seed=() if cell["spread"] is None else trainings[column][row], costs=cell["costs"],
                timed_on=cell["timed_on"], documents=documents[column], training=budgets[row], seconds=cell["seconds"],
                provenance=[results["provenance"][number] for number in cell["provenance"]], key=cell["key"],
            )  # fmt: skip
    return kept


def _write_compact(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    with atomic_write(path) as file:
        file.write(text.encode("ascii") + b"\n")
