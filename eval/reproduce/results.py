"""The results of a leaderboard: the numbers of its cells from the output of steps, comparisons, and their files."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from encoders.checkpoints.notes import read_notes
from encoders.training.recipe import CoTraining
from eval.measures import PerQuery
from eval.reproduce.claims import COSTS, DIGITS, Claim, Json, Trainings, judged_claims
from eval.reproduce.matrix import Column, columns_of_average, seeds_of
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.steps import HOME, Step, json_digest, record_of, status_of, times_of
from eval.stats import average_of_trainings, comparisons
from learned_sparse.collections.collection import data_root
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home, new_file, read_json, write_json
from learned_sparse.core.settings import parse

RESULTS, VALUES = "results.json", "values.csv.gz"
Measured = tuple[dict[str, Any], Sequence[PerQuery]]
"""A cell, and the scores of each training or of the only run.

A cell has ``status``, and if it is done ``scores`` (means over the seeds), ``spread`` (their sample standard deviation;
None for a single training), ``costs``, ``timed_on`` (processors that the costs were measured on), ``documents``,
``training`` (see ``training_budget``), ``seconds`` of all steps, ``provenance`` (commits, versions and machines of the
steps, each once), and ``key``: a digest of all settings and input files, None if an input file is missing.
"""
Cells = Mapping[tuple[str, str], Measured]
"""By row and column."""
_EMPTY: dict[str, Any] = {
    **dict.fromkeys(("error", "spread", "costs", "documents", "training", "seconds", "key")),
    "status": "absent",
    "scores": {},
    "timed_on": "",
    "provenance": [],
}
_HOME = "learned_sparse_home"  # the default name of the home folder, as a person types it
_ROUNDING = 1e-9
_KEYS = ["column", "training", "measure", "query"]
_MEMBERS = ("title", "about", "command", "versions", "processor", "baseline", "columns", "rows", "cells", "claims")


def measured(cells: Sequence[CellPlan], *, trained: bool = False) -> Measured:
    """The results of one row on one column, from one planned cell per seed; without numbers unless all are done.

    ``trained``: whether the row trains its checkpoint.
    """
    states = [status_of(cell.steps) for cell in cells]
    if errors := [error for _, error in states if error]:
        return _EMPTY | {"status": "failed", "error": cells[0].steps[0].neutral(errors[0])}, ()
    if not cells or not all(done for done, _ in states):
        return _EMPTY, ()
    runs = [cell.measured() for cell in cells]
    if not all(runs):
        return _EMPTY | {"status": "failed", "error": f"no query is of the class {cells[0].overlap!r}"}, ()
    scores = {name: [run["scores"][name] for run in runs] for name in runs[0]["scores"]}
    costs = [_costs(cell, cell.run.costs) for cell in cells if cell.run.costs]
    known = {name: [value for one in costs if (value := one["costs"].get(name)) is not None] for name in COSTS}
    records = {step: record for cell in cells for step in cell.steps if (record := record_of(step))}
    content = {
        "status": "done",
        "scores": {name: round(mean(values), DIGITS) for name, values in scores.items()},
        "spread": {name: round(stdev(of), DIGITS) for name, of in scores.items()} if len(cells) > 1 else None,
        "costs": {name: round(mean(of), DIGITS) if of else None for name, of in known.items()} if costs else None,
        "timed_on": processors(record.provenance for step, record in records.items() if step.kind == "costs"),
        "documents": costs[0]["documents"] if costs else None,
        "training": training_budget(Path(str(cells[0].run.checkpoint))) if trained else None,
        "seconds": round(sum(record.seconds for record in records.values()), 1) if records else None,
        "provenance": distinct(record.provenance for record in records.values()),
        "key": key_of(cells),
    }
    return _EMPTY | content, [run["per_query"] for run in runs]


def _costs(cell: CellPlan, measured: Step) -> dict[str, Any]:
    """Output of ``eval.costs``, with ``documents/s`` of the encoding if no other step ran at the same time."""
    costs: dict[str, Any] = read_json(measured.output)
    encodings = [step for step in cell.steps if step.kind == "encode"]
    times = times_of(encodings[-1]) if encodings else None
    if times and times["seconds"] > 0:
        costs["costs"]["documents/s"] = round(times["documents"] / times["seconds"], 2)
    return costs


def training_budget(checkpoint: Path) -> dict[str, Any]:
    """Processor, time, backbone and stages of the training of a finished checkpoint, as JSON values."""
    notes = read_notes(checkpoint)
    recipe = notes.recipe
    return {
        "processor": notes.training["device"],
        "threads": notes.training["threads"],
        "seconds": round(notes.training["seconds"]),
        "backbone": Path(recipe["backbone"]).name if Path(recipe["backbone"]).is_absolute() else recipe["backbone"],
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


def key_of(planned: Sequence[CellPlan]) -> str | None:
    """The key of a cell (see ``Measured``); cells with equal keys have equal results."""
    steps = dict.fromkeys(step for cell in planned for step in cell.steps)
    try:
        return json_digest([step.key for step in steps]) if steps else None
    except LearnedSparseError:  # a missing file
        return None


def distinct(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each record once, in a fixed order."""
    return [json.loads(text) for text in sorted({json.dumps(record, sort_keys=True) for record in records})]


def processors(provenance: Iterable[Mapping[str, Any]]) -> str:
    """The processors and GPUs of machines, each combination once."""
    return "; ".join(dict.fromkeys(", ".join([one["processor"], *one["gpus"]]) for one in distinct(provenance)))


def exit_status(results: Json, chosen: Set[tuple[str, str]]) -> int:
    """1 if one of the ``chosen`` cells (row and column) failed or has not the expected scores, else 0.

    A score above the expected one also means other data or settings.
    """
    cells = [cell for cell in results["cells"] if (cell["row"], cell["column"]) in chosen]
    return int(any(cell["status"] == "failed" or {"worse", "better"} & {*cell["verdicts"].values()} for cell in cells))


def leaderboard(plan: Plan, command: str, kept: Cells | None = None) -> tuple[dict[str, Any], Trainings]:
    """The content of ``results.json``, and the scores of each training; cells that are not done are those of ``kept``.

    Versions and machines are those of the steps when they were run.
    """
    matrix, kept = plan.matrix, kept or {}
    systems = [name for name, row in matrix.rows.items() if not row.published]
    found: dict[tuple[str, str], Measured] = {}
    for pair in ((row, column) for row in systems for column in matrix.columns):
        own = measured(planned(plan, *pair), trained=bool(matrix.rows[pair[0]].recipe))
        found[pair] = own if own[0]["status"] == "done" else kept.get(pair, own)
    cells = {pair: cell for pair, (cell, _) in found.items()}
    trainings: Trainings = {pair: of_cell for pair, (_, of_cell) in found.items() if of_cell}
    trainings = with_averages(trainings, {name: columns_of_average(matrix, name) for name in matrix.averages})
    for pair, of in trainings.items():
        if pair not in cells:  # an average
            means = {name: round(mean(mean(one[name].values()) for one in of), DIGITS) for name in of[0]}
            cells[pair] = _EMPTY | {"status": "done", "scores": means}
    provenance = distinct(record for cell in cells.values() for record in cell["provenance"])
    columns = [*matrix.columns, *matrix.averages]
    content = {
        "matrix": plan.name,
        "title": matrix.title,
        "about": matrix.about,
        "command": command,
        "versions": _versions(provenance),
        "processor": processors(provenance),
        "provenance": provenance,
        "baseline": matrix.baseline,
        "columns": [_column(plan, name, cells, trainings) for name in columns],
        "rows": [_row(plan, name, cells) for name in matrix.rows],
        "cells": [
            _cell(plan, row, column, cells.get((row, column), _EMPTY), provenance)
            for column in columns
            for row in matrix.rows
        ],
    }
    return content | judged(content, matrix.claims, trainings), trainings


def with_averages(trainings: Trainings, averages: Mapping[str, Mapping[str, float]]) -> Trainings:
    """``trainings``, and those of each row with all columns of an average; ``averages`` are weights of columns."""
    added: dict[tuple[str, str], Sequence[PerQuery]] = dict(trainings)
    for name, weights in averages.items():
        for row in dict.fromkeys(row for row, _ in trainings):
            if all((row, column) in trainings for column in weights):
                added[row, name] = average_of_trainings({at: trainings[row, at] for at in weights}, weights)
    return added


def judged(content: Json, claims: Sequence[Claim], trainings: Trainings) -> dict[str, Any]:
    """The cells with their differences from the baseline, and the verdicts on ``claims``, as members of ``content``.

    In each column and measure, the p-values of the differences are corrected for the number of rows. An upper bound
    (``best_of``) is no system and is not tested.
    """
    bounds = {row["name"] for row in content["rows"] if row["kind"] == "best_of"}
    compared: dict[tuple[str, str], dict[str, Any]] = {}
    for name in (column["name"] for column in content["columns"]):
        systems = {row: of for (row, at), of in trainings.items() if at == name and row not in bounds}
        if content["baseline"] in systems:
            for row, of_measure in comparisons(systems, content["baseline"]).items():
                compared[row, name] = {
                    "difference": {measure: round(one.difference, DIGITS) for measure, one in of_measure.items()},
                    "p": {measure: round(one.p_value, DIGITS) for measure, one in of_measure.items()},
                }
    nothing: dict[str, Any] = {"difference": {}, "p": {}}
    return {
        "cells": [cell | compared.get((cell["row"], cell["column"]), nothing) for cell in content["cells"]],
        "claims": judged_claims(content, claims, trainings),
    }


def score_verdict(score: float, expected: float, tolerance: float) -> str:
    """A score compared with the expected one: equal to four decimals, within the tolerance, or on which side.

    >>> [score_verdict(score, 0.5, 0.001) for score in (0.50004, 0.501, 0.4985, 0.5015)]
    ['equal', 'within tolerance', 'worse', 'better']
    """
    if round(score, 4) == round(expected, 4):
        return "equal"
    if abs(score - expected) <= tolerance + _ROUNDING:
        return "within tolerance"
    return "worse" if score < expected else "better"


def _column(plan: Plan, name: str, cells: Mapping[tuple[str, str], Json], trainings: Trainings) -> dict[str, Any]:
    column = plan.matrix.columns.get(name, Column(collection="", split=""))
    runs = next((trainings[pair] for pair in cells if pair[1] == name and pair in trainings), [{}])
    per_query, queries = runs[0], {query for run in runs for query in next(iter(run.values()), ())}
    documents = (cell["documents"] for (_, where), cell in cells.items() if where == name)
    return {
        "name": name,
        "collection": _without_data_folder(plan, column.collection),
        "split": column.split,
        "measures": list(column.measures or per_query),
        "documents": next((number for number in documents if number is not None), None),
        "queries": len(queries),
        "sample": None if column.sample is None else dataclasses.asdict(column.sample),
        "overlap": column.overlap,
        "published_queries": column.queries,
        "average": list(plan.matrix.averages.get(name, ())),
        "weights": columns_of_average(plan.matrix, name) if name in plan.matrix.averages else {},
    }


def _row(plan: Plan, name: str, cells: Mapping[tuple[str, str], Json]) -> dict[str, Any]:
    row = plan.matrix.rows[name]
    budgets = (cell["training"] for (of, _), cell in cells.items() if of == name)
    return {
        "name": name,
        "kind": row.kind,
        "source": _without_data_folder(plan, row.source),
        "curve": row.curve,
        "note": row.note,
        "training": next(filter(None, budgets), None),
        "seeds": list(seeds_of(plan.matrix, name)),
    }


def _without_data_folder(plan: Plan, path: str) -> str:
    return path.removeprefix(f"{plan.data or data_root()}/")


def _cell(plan: Plan, name: str, column: str, cell: Json, provenance: Sequence[Json]) -> dict[str, Any]:
    """A cell as ``results.json`` has it, with its commands, each once, in order, without paths of this machine."""
    row = plan.matrix.rows[name]
    status, scores, expected = cell["status"], cell["scores"], row.expected.get(column)
    if column in row.scores:
        status, scores = "published", row.scores[column]
    elif not plan.matrix.runs_on(name, column):
        status = "left out"
    steps = [step for one in planned(plan, name, column) for step in one.steps]
    return {
        **{key: value for key, value in cell.items() if key not in {"documents", "training"}},
        "row": name,
        "column": column,
        "status": status,
        "scores": scores,
        "expected": expected,
        "verdicts": {
            measure: score_verdict(cell["scores"][measure], value, row.tolerance)
            for measure, value in (expected or {}).items()
            if measure in cell["scores"]
        },
        "commands": list(dict.fromkeys(step.neutral(step.command).replace(HOME, _HOME) for step in steps)),
        "provenance": sorted(provenance.index(record) for record in cell["provenance"]),
    }


def _versions(provenance: Sequence[Json]) -> dict[str, str]:
    """Each version, or all of them if steps were run with different ones; commits are a version too."""
    known = [{"commit": one["commit"] or "", **one["versions"]} for one in provenance]
    names = dict.fromkeys(name for one in known for name in one)
    values = {name: list(dict.fromkeys(one[name] for one in known if one.get(name))) for name in names}
    return {name: " and ".join(several) for name, several in values.items() if several}


def write_leaderboard(plan: Plan, folder: Path, command: str, kept: Cells | None = None) -> dict[str, Any]:
    """Write the results of the whole matrix; returns the content of ``results.json``.

    Cells that are not done here are taken from ``kept``. ``values.csv.gz`` is one table of the value of each query: a
    line for each column, training (1, 2, ...), measure and query, with a column for each row of the matrix.
    """
    results, trainings = leaderboard(plan, command, kept)
    rows = sorted({row for row, _ in trainings})
    lines: dict[tuple[str, int, str, str], dict[str, float]] = {}
    for (row, column), of_cell in sorted(trainings.items()):
        if column in plan.matrix.columns:
            for number, training in enumerate(of_cell, start=1):
                for measure, of_query in training.items():
                    for query, value in sorted(of_query.items()):
                        lines.setdefault((column, number, measure, query), {})[row] = value
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow([*_KEYS, *rows])
    writer.writerows([*key, *(of_row.get(row, "") for row in rows)] for key, of_row in lines.items())
    with new_file(folder / VALUES) as temporary:
        temporary.write_bytes(gzip.compress(table.getvalue().encode(), mtime=0))
    write_json(folder / RESULTS, results)
    return results


def read_leaderboard(folder: Path) -> tuple[dict[str, Any], Trainings]:
    """The content of ``results.json``, and the scores of each training by row and column, averages left out."""
    content = read_json(folder / RESULTS)
    missing = [key for key in _MEMBERS if not isinstance(content, dict) or key not in content]
    if missing:
        raise LearnedSparseError(f"{folder / RESULTS}: no {missing[0]!r}; python -m eval.reproduce writes it")
    if not (folder / VALUES).is_file():
        raise LearnedSparseError(
            f"{folder / VALUES}: not found; run python -m eval.reproduce again: it repeats no finished step"
        )
    trainings: dict[tuple[str, str], list[dict[str, dict[str, float]]]] = {}
    with gzip.open(folder / VALUES, "rt", encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        keys, rows = (names := next(lines, []))[:4], names[4:]
        if keys != _KEYS:
            raise LearnedSparseError(
                f"{folder / VALUES}: not a table of this version; name another folder with --output"
            )
        for column, number, measure, query, *values in lines:
            for row, value in zip(rows, values, strict=True):
                if value:
                    of_cell = trainings.setdefault((row, column), [])
                    of_cell += [{}] if len(of_cell) < int(number) else []
                    of_cell[int(number) - 1].setdefault(measure, {})[query] = float(value)
    return content, dict(sorted(trainings.items()))


def judge_again(folder: Path) -> tuple[dict[str, Any], Trainings]:
    """Compute the comparisons and verdicts of results from their stored values, and write them if they differ."""
    content, stored = read_leaderboard(folder)
    weights = {column["name"]: column["weights"] for column in content["columns"] if column.get("weights")}
    trainings, known = with_averages(stored, weights), {field.name for field in dataclasses.fields(Claim)}
    claims = [
        Claim(**{key: value for key, value in claim.items() if key in known}, columns=(claim["column"],))
        for claim in content["claims"]
    ]
    again = content | judged(content, claims, trainings)
    if again != content:
        write_json(folder / RESULTS, again)
    return again, trainings


def kept_cells(plan: Plan, folder: Path, chosen: Set[tuple[str, str]], *, drop: bool) -> Cells:
    """The measured cells of the results in ``folder`` whose steps have the inputs and settings of ``plan``.

    Raise if ``folder`` has files of somebody else, or if writing ``plan`` to it would lose measured cells: those that
    are neither kept nor ``chosen`` (row and column), which are run first, nor done. ``drop``: lose all.
    """
    way_out = "name another folder with --output"
    if not (folder / RESULTS).is_file():
        # a killed writer leaves hidden files and the values, which are written first
        if folder.exists() and not (
            folder.is_dir() and all(p.name[0] == "." or p.name == VALUES for p in folder.iterdir())
        ):
            raise LearnedSparseError(f"{folder}: neither empty nor the results of a leaderboard; {way_out}")
        return {}
    if (name := read_json(folder / RESULTS)["matrix"]) != plan.name:
        raise LearnedSparseError(f"{folder}: has the results of the matrix {name!r}; {way_out}")
    if drop:
        return {}
    results, trainings = read_leaderboard(folder)
    budgets = {row["name"]: row["training"] for row in results["rows"]}
    documents = {column["name"]: column["documents"] for column in results["columns"] if not column["average"]}
    kept, lost = dict[tuple[str, str], Measured](), list[str]()
    for cell in results["cells"]:
        row, column = cell["row"], cell["column"]
        if cell["status"] != "done" or column not in documents:
            continue
        cells = planned(plan, row, column)
        if cell["key"] and cell["key"] == key_of(cells):
            known = {key: cell[key] for key in _EMPTY if key in cell}
            provenance = [results["provenance"][number] for number in cell["provenance"]]
            added = {"documents": documents[column], "training": budgets[row], "provenance": provenance}
            kept[row, column] = known | added, trainings[row, column]
        elif (row, column) not in chosen and not (cells and all(status_of(one.steps)[0] for one in cells)):
            lost.append(f"{row}, {column}")
    if lost:
        raise LearnedSparseError(
            f"{folder}: measured cells that are neither chosen, nor done in {home()}, nor of the same inputs and "
            f"settings: {len(lost)} (the first: {min(lost)}); {way_out}, run the whole matrix, or lose them (--drop)"
        )
    return kept
