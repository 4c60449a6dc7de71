"""The cells of a leaderboard: what was measured of a row on a column, over its seeds, and how it compares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any, Literal

from eval.measures import Test, p_values
from eval.reproduce.claims import COSTS
from eval.reproduce.plan import CellPlan
from eval.reproduce.step_marker import marker_of, status
from learned_sparse.core import read_json

Verdict = Literal["equal", "within tolerance", "worse", "better"]
DIGITS = 6
"""Of what is written; trec_eval gives four."""
_NOISE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One row on one column; everything is a mean over its seeds."""

    status: Literal["done", "failed", "absent"]
    error: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] | None = None
    """Standard deviation over the seeds (of a sample: divided by their number less one); None for a single one."""
    per_query: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    costs: Mapping[str, float | None] | None = None
    documents: int | None = None


Cells = Mapping[tuple[str, str], Measured]
"""By row and column."""


def measured(cells: Sequence[CellPlan]) -> Measured:
    """What the files of a cell say, one for each seed; nothing unless all are done."""
    states = [status(cell) for cell in cells]
    errors = [error for word, error in states if word == "failed"]
    if errors:
        return Measured(status="failed", error=cells[0].steps[0].neutral(str(errors[0])))
    if not cells or any(word != "done" for word, _ in states):
        return Measured(status="absent")
    (runs, costs) = ([_run(cell) for cell in cells], [_costs(cell) for cell in cells if cell.costs])
    scores = [run["scores"] for run in runs]
    return Measured(
        status="done",
        scores=_means(scores),
        spread={name: round(stdev(of[name] for of in scores), DIGITS) for name in scores[0]}
        if len(cells) > 1
        else None,
        per_query={name: _means([run["per_query"][name] for run in runs]) for name in scores[0]},
        costs={name: _mean(of["costs"].get(name) for of in costs) for name in COSTS} if costs else None,
        documents=costs[0]["documents"] if costs else None,
    )


def verdict(found: float, expected: float, tolerance: float) -> Verdict:
    """What a score is beside the one expected: equal to four decimals, near enough, or on which side.

    >>> [verdict(found, 0.5, 0.001) for found in (0.50004, 0.501, 0.4985, 0.5015)]
    ['equal', 'within tolerance', 'worse', 'better']
    """
    if round(found, 4) == round(expected, 4):
        return "equal"
    if abs(found - expected) <= tolerance + _NOISE:
        return "within tolerance"
    return "worse" if found < expected else "better"


def compared(cells: Cells, column: str, baseline: str, test: Test) -> dict[str, dict[str, dict[str, float]]]:
    """``{row: {"difference": {measure: ...}, "p": {measure: ...}}}`` of a column's rows from its baseline.

    Each p is corrected for the number of rows compared. Empty where the baseline is not measured.
    """
    here = {row: cell for (row, where), cell in cells.items() if where == column and cell.status == "done"}
    if baseline not in here:
        return {}
    found = p_values({row: cell.per_query for row, cell in here.items()}, baseline, test)
    of_baseline = here[baseline].scores
    return {
        row: {
            "difference": {name: round(here[row].scores[name] - of_baseline[name], DIGITS) for name in of_baseline},
            "p": {name: round(p, DIGITS) for name, p in of_row.items()},
        }
        for row, of_row in found.items()
    }


def _run(cell: CellPlan) -> dict[str, Any]:
    (run,) = read_json(cell.evaluated)["runs"]
    found: dict[str, Any] = run
    return found


def _costs(cell: CellPlan) -> dict[str, Any]:
    """What ``eval.costs`` wrote, and how fast the documents were encoded, if that was done in one go."""
    found: dict[str, Any] = read_json(str(cell.costs))
    encodings = [marker_of(step) for step in cell.steps if step.kind == "encode"]
    marker = encodings[-1] if encodings else None
    if marker and marker.fresh and marker.seconds > 0:
        found["costs"]["documents/s"] = round(found["documents"] / marker.seconds, 2)
    return found


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(mean(of[name] for of in found), DIGITS) for name in found[0]}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(mean(known), DIGITS) if known else None
