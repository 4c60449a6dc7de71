"""The cells of a leaderboard with their numbers, from the output of steps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from encoders.training import CoTraining
from eval.measures import PerQuery
from eval.reproduce.claims import COSTS
from eval.reproduce.matrix import RecipeRow, SystemRow, columns_of_average
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.steps import Status, Step, json_digest, record_of, status_of, times_of
from eval.stats import STRATUM
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json
from learned_sparse.core.settings import parse

DIGITS = 6
"""Digits of numbers in the files; trec_eval gives four."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Results of one row on one column, averaged over its seeds."""

    status: Status
    error: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] | None = None
    """Sample standard deviation over the seeds; None for a single training."""
    trainings: Sequence[PerQuery] = ()
    """Scores of each training, or of the only run."""
    costs: Mapping[str, float | None] | None = None
    timed_on: str = ""
    """Processors that the costs were measured on."""
    documents: int | None = None
    training: Mapping[str, Any] | None = None
    """Budget of the first training; None for a row that trains nothing."""
    seconds: float | None = None
    """Time of all steps."""
    provenance: Sequence[Mapping[str, Any]] = ()
    """Commits, versions and machines of the steps, each once."""
    key: str | None = None
    """Digest of all settings and input files of the steps; None if an input file is missing."""


Cells = Mapping[tuple[str, str], Measured]
"""By row and column."""


def measured_cells(plan: Plan, kept: Cells | None = None) -> Cells:
    """Every row that is not published on every column and average; a pair without a planned cell is absent.

    A cell that is not done here is taken from ``kept``.
    """
    matrix, kept = plan.matrix, kept or {}
    rows = [name for name, row in matrix.rows.items() if isinstance(row, SystemRow)]
    cells: dict[tuple[str, str], Measured] = {}
    for row in rows:
        for column in matrix.columns:
            own = measured(planned(plan, row, column), trained=isinstance(matrix.rows[row], RecipeRow))
            cells[row, column] = own if own.status == "done" else kept.get((row, column), own)
    for name in matrix.averages:
        weights = columns_of_average(matrix, name)
        cells |= {(row, name): averaged({column: cells[row, column] for column in weights}, weights) for row in rows}
    return cells


def measured(cells: Sequence[CellPlan], *, trained: bool = False) -> Measured:
    """The results of one row on one column, from one planned cell per seed; without numbers unless all are done.

    ``trained``: whether the row trains its checkpoint.
    """
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
    records = {step: record for step in _steps(cells) if (record := record_of(step))}
    return Measured(
        status="done",
        scores=_means(scores),
        spread=spread,
        trainings=[run["per_query"] for run in runs],
        costs={name: _mean(result["costs"].get(name) for result in costs) for name in COSTS} if costs else None,
        timed_on=processors(record.provenance for step, record in records.items() if step.kind == "costs"),
        documents=costs[0]["documents"] if costs else None,
        training=training_budget(Path(str(cells[0].checkpoint))) if trained else None,
        seconds=round(sum(record.seconds for record in records.values()), 1) if records else None,
        provenance=distinct(record.provenance for record in records.values()),
        key=key_of(cells),
    )


def averaged(cells: Mapping[str, Measured], weights: Mapping[str, float]) -> Measured:
    """The weighted mean of one row over columns; without numbers unless all cells are done.

    Values of queries are weighted so that their mean is that of the columns' means, whatever their numbers of queries.
    Their ids begin with the column and ``STRATUM``.
    """
    for status in ("failed", "absent"):
        if broken := [cell for cell in cells.values() if cell.status == status]:
            return Measured(status=broken[0].status, error=broken[0].error)
    first, *others = (cell.scores for cell in cells.values())
    names = [name for name in first if all(name in scores for scores in others)]
    sizes = {name: {at: len(cell.trainings[0][name]) for at, cell in cells.items()} for name in names}

    def training(number: int) -> PerQuery:
        return {
            name: {
                f"{at}{STRATUM}{query}": value * weights[at] * sum(sizes[name].values()) / sizes[name][at]
                for at, cell in cells.items()
                for query, value in cell.trainings[number][name].items()
            }
            for name in names
        }

    return Measured(
        status="done",
        scores={name: round(sum(weights[at] * cells[at].scores[name] for at in cells), DIGITS) for name in names},
        trainings=[training(number) for number in range(min(len(cell.trainings) for cell in cells.values()))],
    )


def training_budget(checkpoint: Path) -> dict[str, Any]:
    """Processor, time, backbone and stages of the training of a finished checkpoint, as JSON values."""
    from encoders.checkpoints.notes import read_notes

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
        "examples": examples_of(recipe["stages"]),
    }


def examples_of(stages: Iterable[Mapping[str, Any]]) -> int:
    """Training queries that a recipe's stages give to the network that sees most; repeated ones count each time."""
    seen: Counter[str] = Counter()
    for stage in stages:
        of_step, networks = stage["batch_size"], [stage["component"] or stage["objective"]]
        if together := stage["options"].get("cotraining"):  # an option of SpaDE's stages
            sizes = {key: together[key] for key in ("select_from", "share")}
            of_step, networks = parse(CoTraining, sizes, "cotraining").selected, ["weighting", "expansion"]
        seen.update(dict.fromkeys(networks, stage["steps"] * of_step))
    return max(seen.values())


def planned(plan: Plan, row: str, column: str) -> list[CellPlan]:
    """The planned cells of a row on a column, one for each seed."""
    return [cell for cell in plan.cells if (cell.row, cell.column) == (row, column)]


def _steps(planned: Iterable[CellPlan]) -> list[Step]:
    """All steps, each once, in order."""
    return list(dict.fromkeys(step for cell in planned for step in cell.steps))


def key_of(planned: Sequence[CellPlan]) -> str | None:
    """See ``Measured.key``; cells with equal keys have equal results."""
    if not planned:
        return None
    try:
        return json_digest([step.key for step in _steps(planned)])
    except LearnedSparseError:  # a missing file
        return None


def distinct(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, in a fixed order."""
    return [json.loads(text) for text in sorted({json.dumps(record, sort_keys=True) for record in records})]


def processors(provenance: Iterable[Mapping[str, Any]]) -> str:
    """The processors and GPUs of machines, each combination once."""
    return "; ".join(dict.fromkeys(", ".join([one["processor"], *one["gpus"]]) for one in distinct(provenance)))


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
