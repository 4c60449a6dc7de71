"""What a matrix must be beyond its types: every name in it is known, every setting belongs to its kind of row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from encoders.training.recipe_file import load_recipe
from eval.measures import parse_measure
from eval.reproduce.claims import COSTS, Claim
from eval.reproduce.matrix import DATA, KINDS, Column, Kind, Matrix, Row, Scores
from learned_sparse.collections import load_collection
from learned_sparse.core import LearnedSparseError, did_you_mean

_TRAINED: tuple[Kind, ...] = ("recipe", "checkpoint")
_LEARNED: tuple[Kind, ...] = (*_TRAINED, "model")
_FITS: dict[str, tuple[Kind, ...]] = {
    "columns": ("bm25", *_LEARNED, "run"),
    "changes": ("recipe",),
    "seeds": ("recipe",),
    "encode": _LEARNED,
    "queries": _LEARNED,
    "index_of": _LEARNED,
    "options": ("bm25", *_LEARNED),
    "expanded": ("bm25",),
    "backend": ("bm25", *_LEARNED),
    "scores": ("published",),
    "expected": ("bm25", *_LEARNED, "run"),
}
"""The kinds of rows that each setting means something for."""
_EMPTY = Row()

Measures = Mapping[str, tuple[str, ...] | None]
"""What is measured on each column; None where that is not known yet."""


def check_matrix(matrix: Matrix, where: str, slug: Callable[[str], str]) -> None:
    """Raise at the first mistake, naming its place (after ``where``) and what was probably meant."""
    if not matrix.columns or not matrix.rows:
        raise LearnedSparseError(f"{where}: a matrix needs at least one row and one column")
    for names, what in ((matrix.rows, "rows"), (matrix.columns, "columns")):
        _check_names(names, f"{where}: {what}", slug)
    for name, column in matrix.columns.items():
        _check_column(column, matrix.hits, f"{where}: columns: {name}")
    measures = {name: column_measures(column) for name, column in matrix.columns.items()}
    for name, row in matrix.rows.items():
        _check_row(name, row, matrix, f"{where}: rows: {name}")
        _check_scores(row.scores, measures, f"{where}: rows: {name}: scores", COSTS)
        _check_scores(row.expected, measures, f"{where}: rows: {name}: expected", ())
    if matrix.baseline is not None:
        _check_run(matrix.baseline, matrix, f"{where}: baseline")
    for number, claim in enumerate(matrix.claims):
        _check_claim(claim, matrix, measures, f"{where}: claims[{number}]")


def column_measures(column: Column) -> tuple[str, ...] | None:
    """The measures of a column: its own, else its split's; None where that takes data that are not named yet."""
    if column.measures:
        return column.measures
    if DATA in column.collection:
        return None
    return tuple(load_collection(column.collection).split(column.split).measures)


def _check_names(names: Iterable[str], where: str, slug: Callable[[str], str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        short = slug(name)
        if not short:
            raise LearnedSparseError(f"{where}: {name!r} has no letter and no digit to name files by")
        if short in seen:
            raise LearnedSparseError(f"{where}: {name!r} and {seen[short]!r} would both be {short!r} in file names")
        seen[short] = name


def _check_column(column: Column, hits: int, where: str) -> None:
    if column.pool is not None and column.pool < 1:
        raise LearnedSparseError(
            f"{where}: pool {column.pool}; give at least 1, or leave it out for the whole collection"
        )
    if DATA not in column.collection:
        _check_split(column, where)
    for measure in column.measures:
        _check_measure(measure, where)
    for measure in column_measures(column) or ():
        _, _, cutoff = measure.partition("@")
        if cutoff and int(cutoff) > hits:
            raise LearnedSparseError(
                f"{where}: {measure} looks at {cutoff} results, a run has {hits}; set hits: {cutoff}"
            )


def _check_split(column: Column, where: str) -> None:
    try:
        load_collection(column.collection).split(column.split)
    except LearnedSparseError as error:
        raise LearnedSparseError(f"{where}: {error}") from error


def _check_measure(measure: str, where: str) -> None:
    try:
        parse_measure(measure)
    except LearnedSparseError as error:
        raise LearnedSparseError(f"{where}: {error}") from error


def _check_row(name: str, row: Row, matrix: Matrix, where: str) -> None:
    if len(row.kinds) != 1:
        given = " and ".join(row.kinds) or "none"
        raise LearnedSparseError(f"{where}: give exactly one of {', '.join(KINDS)}; there is {given}")
    for column in row.columns:
        _check_known(column, matrix.columns, f"{where}: columns: no column {column!r}")
    for key, kinds in _FITS.items():
        if getattr(row, key) != getattr(_EMPTY, key) and row.kind not in kinds:
            raise LearnedSparseError(
                f"{where}: {key!r} means nothing in a row of {row.kind!r}, only of {', '.join(kinds)}"
            )
    if (row.bm25 == "expanded") != (row.expanded is not None):
        raise LearnedSparseError(f"{where}: 'bm25: expanded' and 'expanded: FILE' belong together")
    if row.published is not None and not row.scores:
        raise LearnedSparseError(f"{where}: a published row needs 'scores'")
    if row.tolerance < 0:
        raise LearnedSparseError(f"{where}: tolerance {row.tolerance}; give 0 or more")
    if row.recipe is not None:
        _check_recipe(row, where)
    if row.model is not None:
        _check_model(row.model, matrix, f"{where}: model")
    if row.index_of is not None:
        _check_index(name, row, matrix, f"{where}: index_of")


def _check_recipe(row: Row, where: str) -> None:
    try:
        load_recipe(str(row.recipe), changes=row.changes)
    except LearnedSparseError as error:
        raise LearnedSparseError(f"{where}: {error}") from error


def _check_model(model: str, matrix: Matrix, where: str) -> None:
    with_checkpoint = [name for name, row in matrix.rows.items() if set(row.kinds) & set(_TRAINED)]
    if model not in with_checkpoint:
        raise LearnedSparseError(
            f"{where}: no row {model!r} with a recipe or a checkpoint{_hint(model, with_checkpoint)}"
        )


def _check_index(name: str, row: Row, matrix: Matrix, where: str) -> None:
    indexed = [
        other
        for other, its in matrix.rows.items()
        if other != name and its.index_of is None and set(its.kinds) & set(_LEARNED)
    ]
    if row.index_of not in indexed:
        raise LearnedSparseError(
            f"{where}: no row {row.index_of!r} with an index of its own{_hint(row.index_of, indexed)}"
        )
    other = matrix.rows[row.index_of]
    if _weights(name, row) != _weights(row.index_of, other):
        raise LearnedSparseError(
            f"{where}: {row.index_of!r} has other weights; write model: {other.model or row.index_of} in this row"
        )
    if (row.encode, row.options) != (other.encode, other.options):
        raise LearnedSparseError(
            f"{where}: the documents are those of {row.index_of!r}: give this row the same encode and options, "
            "and put what changes queries under 'queries'"
        )


def _weights(name: str, row: Row) -> tuple[str, str]:
    """What tells whether two rows have the same checkpoint."""
    return ("checkpoint", row.checkpoint) if row.checkpoint is not None else ("row", row.model or name)


def _check_scores(scores: Scores, measures: Measures, where: str, more: tuple[str, ...]) -> None:
    for column, of_column in scores.items():
        _check_known(column, measures, f"{where}: no column {column!r}")
        for measure in of_column:
            if measure not in more:
                _check_measured(measure, measures[column], f"{where}: {column}", more)


def _check_measured(measure: str, known: tuple[str, ...] | None, where: str, more: tuple[str, ...]) -> None:
    if known is None:
        _check_measure(measure, where)
    else:
        _check_known(measure, (*known, *more), f"{where}: {measure!r} is not measured there")


def _check_run(name: str, matrix: Matrix, where: str) -> None:
    """Raise unless ``name`` is a row with runs."""
    _check_known(name, matrix.rows, f"{where}: no row {name!r}")
    if matrix.rows[name].published is not None:
        raise LearnedSparseError(
            f"{where}: {name!r} is a published row: there are no scores of single queries to compare"
        )


def _check_claim(claim: Claim, matrix: Matrix, measures: Measures, where: str) -> None:
    for side in (claim.better, claim.worse):
        _check_run(side, matrix, where)
    if claim.better == claim.worse:
        raise LearnedSparseError(f"{where}: {claim.better!r} is compared with itself")
    for column in claim.columns or matrix.columns:
        _check_known(column, matrix.columns, f"{where}: no column {column!r}")
        for side in (claim.better, claim.worse):
            if not matrix.rows[side].runs_on(column):
                raise LearnedSparseError(f"{where}: {side!r} is not run on {column!r}; name the claim's columns")
        if claim.quantity not in COSTS:
            _check_measured(claim.quantity, measures[column], f"{where}: {column}", COSTS)


def _check_known(name: str, known: Iterable[str] | Mapping[str, Any], message: str) -> None:
    if name not in known:
        raise LearnedSparseError(f"{message}{_hint(name, known)}")


def _hint(name: str | None, known: Iterable[str] | Mapping[str, Any]) -> str:
    return did_you_mean(str(name), known)
