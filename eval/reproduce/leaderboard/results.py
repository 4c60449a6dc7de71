"""The results of a leaderboard: the numbers of its cells from the output of steps, comparisons, and their files."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from encoders.training import CoTraining
from eval.measures import PerQuery
from eval.reproduce.claims import COSTS, MEANINGS, NOTES, Claim, Side, judged_claims
from eval.reproduce.matrix import Column, PublishedRow, RecipeRow, Row, SystemRow, columns_of_average, seeds_of
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.steps import HOME, Status, Step, json_digest, record_of, status_of, times_of
from eval.stats import STRATUM, comparisons
from learned_sparse.collections.collection import data_root
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, read_json, write_json
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
