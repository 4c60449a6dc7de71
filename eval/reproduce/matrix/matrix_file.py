"""Reads the YAML file of a matrix and checks it: known names only, settings that fit the kind of the row."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from encoders.checkpoints import NOTES, published, read_notes
from encoders.training import Recipe, recipe_splits
from eval.measures import parse_measure
from eval.reproduce.matrix.budgets import Budgets, recipe_of
from eval.reproduce.matrix.checks import Measures, check_claim, check_known, check_measured, located
from eval.reproduce.matrix.definition import (
    COSTS_OF_PUBLISHED,
    DATA,
    KINDS,
    Column,
    Kind,
    Matrix,
    Row,
    Scores,
    columns_of_average,
    only_rows,
    seeds_of,
    slug,
)
from learned_sparse.collections.collection import data_root, load_collection, split_names
from learned_sparse.core.encoder import resolve_checkpoint
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, wrong_path
from learned_sparse.core.files import check_name
from learned_sparse.core.settings import parse, read_yaml

_log = logging.getLogger(__name__)
MATRICES = Path(__file__).parents[2] / "matrices"
_TRAINED: tuple[Kind, ...] = ("recipe", "checkpoint")
_LEARNED: tuple[Kind, ...] = (*_TRAINED, "model")
_OURS: tuple[Kind, ...] = ("bm25", *_LEARNED, "cross_encoder", "best_of", "fusion", "run")
_KINDS_OF_SETTING: dict[str, tuple[Kind, ...]] = {
    "columns": _OURS,
    "changes": ("recipe",),
    "seeds": ("recipe",),
    "encode": _LEARNED,
    "queries": _LEARNED,
    "index_of": _LEARNED,
    "options": ("bm25", *_LEARNED, "cross_encoder"),
    "prune": _LEARNED,
    "expanded": ("bm25", *_LEARNED),
    "k1": ("bm25",),
    "b": ("bm25",),
    "backend": _LEARNED,
    "rerank": (*_LEARNED, "cross_encoder"),
    "depth": (*_LEARNED, "cross_encoder"),
    "best_by": ("best_of",),
    "scores": ("published",),
    "expected": _OURS,
    "tolerance": _OURS,
}
"""The kinds of rows that a setting applies to."""
_OF_SEARCHES = ("queries", "index_of", "backend", "prune")
"""Settings that a row with ``rerank`` cannot have."""
_EMPTY = Row()
_BEIR = (
    "trec-covid", "nfcorpus", "nq", "hotpotqa", "fiqa", "arguana", "webis-touche2020", "dbpedia-entity", "scidocs",
    "fever", "climate-fever", "scifact", "quora",
)  # fmt: skip
"""The 13 collections of which published models report the mean nDCG@10."""


def known_matrices() -> list[str]:
    """Names of the matrices in the package."""
    return sorted(path.stem for path in MATRICES.glob("*.yaml"))


def load_matrix(name: str | Path, data: Path | None = None) -> Matrix:
    """The matrix ``name``, one of ``known_matrices()`` or a YAML file, checked.

    ``{data}`` becomes ``data``, or else the folder where ``load_collection`` looks for collections. Raises
    LearnedSparseError at the first mistake; the message names the key and suggests the nearest known name.
    """
    path = _find(str(name))
    values = read_yaml(path)
    matrix = only_rows(_with_known_rows(parse(Matrix, values, str(path)), str(path)))
    _check_matrix(matrix, str(path))
    filled = _with_published_models(fill_data(matrix, data or data_root()))
    if data is None:
        _check_folders(matrix, filled, str(path))
    _check_checkpoints(filled, str(path))
    return filled


def fill_data(matrix: Matrix, folder: Path) -> Matrix:
    """``matrix`` with ``folder`` in place of every ``{data}``."""

    def fill(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {field.name: fill(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return dataclasses.replace(value, **parts)
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(fill(item) for item in value)
        return value.replace(DATA, str(folder)) if isinstance(value, str) else value

    filled: Matrix = fill(matrix)
    return filled


def _with_published_models(matrix: Matrix) -> Matrix:
    """``matrix`` with checkpoints in place of names of models, and the published scores of such models expected."""
    rows = dict(matrix.rows)
    for name, row in matrix.rows.items():
        if row.checkpoint is not None:
            checkpoint = resolve_checkpoint(row.checkpoint)
            scores = {} if row.expected else _published_scores(matrix, dataclasses.replace(row, checkpoint=checkpoint))
            rows[name] = dataclasses.replace(row, checkpoint=checkpoint, expected=row.expected or scores)
    return dataclasses.replace(matrix, rows=rows)


def _published_scores(matrix: Matrix, row: Row) -> Scores:
    """What the catalogue says of a row's checkpoint, on MS MARCO passage dev and on the mean of 13 BEIR collections.

    Nothing if the row changes the model, or ranks only some documents.
    """
    entry = published(row.checkpoint or "")
    if entry is None or row.rerank or row.encode or row.queries or row.options or row.index_of:
        return {}
    scores: Scores = {}
    for name in (*matrix.columns, *matrix.averages):
        weights = columns_of_average(matrix, name)
        columns = [matrix.columns[column] for column in weights]
        sets = {(column.collection, column.split) for column in columns}
        reduced = any(column.pool or column.sample or column.overlap for column in columns)
        if reduced or not all(map(row.runs_on, weights)):
            continue
        if sets == {("msmarco-v1-passage", "dev")} and entry.msmarco is not None:
            scores[name] = {"MRR@10": entry.msmarco}
        elif sets == {(one, "test") for one in _BEIR} and len(set(weights.values())) == 1 and entry.beir is not None:
            scores[name] = {"nDCG@10": entry.beir}
    return scores


def column_measures(column: Column) -> tuple[str, ...] | None:
    """The measures of a column, or else of its split; None if the collection is below ``{data}``."""
    if column.measures:
        return column.measures
    if DATA in column.collection:
        return None
    return tuple(load_collection(column.collection).split(column.split).measures)


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if name not in known_matrices():
        if Path(name).name != name or os.path.lexists(name):
            raise wrong_path(Path(name), "a matrix", "name a matrix of the package, or a .yaml file", "matrix")
        raise LearnedSparseError(f"no matrix {name!r}{did_you_mean(name, known_matrices())} (files end in .yaml)")
    return MATRICES / f"{name}.yaml"


def _with_known_rows(matrix: Matrix, where: str) -> Matrix:
    """``matrix``; raise if a column names a row that it has not, or that is not run."""
    runnable = [name for name, row in matrix.rows.items() if row.published is None]
    for name, column in matrix.columns.items():
        for row in column.rows:
            check_known(row, runnable, f"{where}: columns: {name}: no row {row!r} to run")
    return matrix


def _check_folders(matrix: Matrix, filled: Matrix, where: str) -> None:
    """Raise if a collection below ``{data}`` is not in the default folder."""
    for name, column in matrix.columns.items():
        folder = Path(filled.columns[name].collection)
        if DATA in column.collection and not folder.exists():
            raise LearnedSparseError(f"{where}: columns: {name}: {folder}: no such folder; name yours with --data DIR")


def _check_matrix(matrix: Matrix, where: str) -> None:
    if not matrix.columns or not matrix.rows:
        raise LearnedSparseError(f"{where}: a matrix needs at least one row and one column")
    for names, part in ((matrix.rows, "rows"), (matrix.columns, "columns")):
        _check_names(names, f"{where}: {part}")
    for name, column in matrix.columns.items():
        _check_column(column, matrix.hits, f"{where}: columns: {name}")
    _check_averages(matrix, f"{where}: averages")
    measures = _all_measures(matrix)
    for name, row in matrix.rows.items():
        _check_row(name, row, matrix, f"{where}: rows: {name}")
    for name, row in matrix.rows.items():
        _check_other_rows(name, row, matrix, f"{where}: rows: {name}")
        _check_scores(row.scores, measures, f"{where}: rows: {name}: scores", COSTS_OF_PUBLISHED)
        _check_scores(row.expected, measures, f"{where}: rows: {name}: expected", ())
    if matrix.baseline is not None:
        _check_has_runs(matrix.baseline, matrix, f"{where}: baseline")
    budgets = Budgets(matrix)
    for number, claim in enumerate(matrix.claims):
        check_claim(claim, matrix, measures, budgets, f"{where}: claims[{number}]")


def _check_averages(matrix: Matrix, where: str) -> None:
    _check_names([*matrix.columns, *matrix.averages], where)
    known = list(matrix.columns)
    for name, parts in matrix.averages.items():
        if len(parts) < 2 or len(set(parts)) < len(parts):
            raise LearnedSparseError(f"{where}: {name}: an average is over two or more different columns")
        for part in parts:
            check_known(part, known, f"{where}: {name}: no column and no earlier average {part!r}")
        known.append(name)


def _all_measures(matrix: Matrix) -> dict[str, tuple[str, ...] | None]:
    """The measures of every column, and of every average those that all its columns have."""
    measures = {name: column_measures(column) for name, column in matrix.columns.items()}
    for name, parts in matrix.averages.items():
        lists = [of_part for part in parts if (of_part := measures[part]) is not None]
        known = len(lists) == len(parts)
        measures[name] = tuple(one for one in lists[0] if all(one in other for other in lists)) if known else None
    return measures


def _check_names(names: Iterable[str], where: str) -> None:
    """Raise unless the names in paths (``slug``) are not empty and all different."""
    seen: dict[str, str] = {}
    for name in names:
        short = slug(name)
        if not short:
            raise LearnedSparseError(f"{where}: {name!r} has no letter and no digit to name files by")
        check_name(short, where)
        if short in seen:
            raise LearnedSparseError(f"{where}: {name!r} and {seen[short]!r} would both be {short!r} in file names")
        seen[short] = name


def _check_column(column: Column, hits: int, where: str) -> None:
    if column.pool is not None and column.pool < 1:
        raise LearnedSparseError(f"{where}: pool {column.pool}; give at least 1, or omit it for the whole collection")
    with located(where):
        if DATA not in column.collection:
            load_collection(column.collection).split(column.split)
        for measure in column.measures:
            parse_measure(measure)
    for measure in column_measures(column) or ():
        _, _, cutoff = measure.partition("@")
        if cutoff and int(cutoff) > hits:
            raise LearnedSparseError(
                f"{where}: {measure} looks at {cutoff} results, a run has {hits}; set hits: {cutoff}"
            )


def _check_row(name: str, row: Row, matrix: Matrix, where: str) -> None:
    if len(row.kinds) != 1:
        kinds = " and ".join(row.kinds) or "none"
        raise LearnedSparseError(f"{where}: give exactly one of {', '.join(KINDS)}; there is {kinds}")
    for column in row.columns:
        check_known(column, matrix.columns, f"{where}: columns: no column {column!r}")
    for key, kinds_of_setting in _KINDS_OF_SETTING.items():
        if getattr(row, key) != getattr(_EMPTY, key) and row.kind not in kinds_of_setting:
            raise LearnedSparseError(
                f"{where}: {key!r} means nothing in a row of {row.kind!r}, only of {', '.join(kinds_of_setting)}"
            )
    if row.bm25 is not None and (row.bm25 == "expanded") != (row.expanded is not None):
        raise LearnedSparseError(f"{where}: 'bm25: expanded' and 'expanded: FILE' belong together")
    if row.published is not None and not row.scores:
        raise LearnedSparseError(f"{where}: a published row needs 'scores'")
    if row.tolerance < 0:
        raise LearnedSparseError(f"{where}: tolerance {row.tolerance}; give 0 or more")
    if row.options and row.bm25 in {"text", "expanded"}:
        raise LearnedSparseError(f"{where}: 'options' are of encoding, and 'bm25: {row.bm25}' encodes nothing")
    if not 0 <= (row.k1 or 0.0) < float("inf") or not 0 <= (row.b or 0.0) <= 1:
        raise LearnedSparseError(f"{where}: k1 {row.k1}, b {row.b}; k1 is 0 or more, and b from 0 to 1")
    if row.model is not None:
        trained = [other for other, its in matrix.rows.items() if set(its.kinds) & set(_TRAINED)]
        check_known(row.model, trained, f"{where}: model: no row {row.model!r} with a recipe or a checkpoint")
    learned = row if row.model is None else matrix.rows[row.model]
    if learned.recipe is not None:
        with located(where):
            recipe = recipe_of(learned, matrix.training)
            if row.expanded is not None and not any(source.collection for source in recipe.data):
                raise LearnedSparseError("'expanded' needs training data of a collection: triples of texts have no ids")
        _check_splits(row, matrix, recipe_splits(recipe), where)
    if row.index_of is not None:
        _check_index_of(name, row, row.index_of, matrix, f"{where}: index_of")


def _check_splits(row: Row, matrix: Matrix, splits: Mapping[str, Mapping[str, tuple[str, ...]]], where: str) -> None:
    """Raise if a column of ``row`` reports queries that the row learned from (``splits``: see ``recipe_splits``)."""
    for name, column in matrix.columns.items():
        if not row.runs_on(name):
            continue
        reported, *parents = split_names(column.collection, column.split)
        for use, learned in splits.items():
            for split, its_parents in learned.items():
                if reported == split or reported in its_parents or split in parents:
                    raise LearnedSparseError(
                        f"{where}: column {name!r} reports {reported}, and the row is {use} on {split}, which have "
                        "queries in common; give the recipe other data, or a validation with holdout, or leave the "
                        "column out of the row's columns"
                    )


def _check_checkpoints(matrix: Matrix, where: str) -> None:
    """``_check_splits`` for the rows of a checkpoint folder that records the recipe of its training."""
    for name, row in matrix.rows.items():
        folder = (row if row.model is None else matrix.rows[row.model]).checkpoint
        if folder is None or not (Path(folder) / NOTES).is_file():
            continue
        try:
            recorded = read_notes(Path(folder)).recipe
            recipe = parse(Recipe, recorded, f"{folder}/{NOTES}: recipe") if recorded else None
        except LearnedSparseError as error:  # a damaged file, which a step reports; or a recipe of another version
            _log.warning("row %r: it is unknown on which queries its checkpoint was trained: %s", name, error)
            continue
        if recipe is not None:
            _check_splits(row, matrix, recipe_splits(recipe), f"{where}: rows: {name}")


def _check_other_rows(name: str, row: Row, matrix: Matrix, where: str) -> None:
    """Check the rows whose runs this row re-ranks, or chooses from."""
    if (row.cross_encoder is not None or row.depth is not None) and row.rerank is None:
        raise LearnedSparseError(f"{where}: name the row that is re-ranked: rerank: ROW")
    if (row.best_of is None) != (row.best_by is None) or len(row.best_of or ("", "")) < 2:
        raise LearnedSparseError(f"{where}: 'best_of: [ROW, ROW, ...]' and 'best_by: MEASURE' belong together")
    if len(row.fusion or ("", "")) < 2:
        raise LearnedSparseError(f"{where}: a fusion is of two or more rows")
    run_by = [one for one, its in matrix.rows.items() if its.kind not in {"published", "best_of", "fusion"}]
    usable = [one for one in run_by if matrix.rows[one].rerank is None] if row.rerank else run_by
    for other in row.best_of or row.fusion or ((row.rerank,) if row.rerank is not None else ()):
        check_known(other, usable, f"{where}: no row {other!r} with a run to use here")
        if left_out := [c for c in matrix.columns if row.runs_on(c) and not matrix.rows[other].runs_on(c)]:
            raise LearnedSparseError(f"{where}: {other!r} is not run on {left_out[0]!r}; name this row's columns")
        if seeds_of(matrix, other) not in ((), seeds_of(matrix, name)):
            raise LearnedSparseError(f"{where}: {other!r} has trainings with seeds that this row has not")
    if row.best_by is not None:
        with located(where):
            parse_measure(row.best_by)
    if row.rerank is not None:
        if row.depth is None or not 1 <= row.depth <= matrix.hits:
            raise LearnedSparseError(f"{where}: depth {row.depth}; give 1 to {matrix.hits}, the documents of a run")
        for key in _OF_SEARCHES:
            if getattr(row, key) != getattr(_EMPTY, key):
                raise LearnedSparseError(f"{where}: {key!r} means nothing in a row that re-ranks: it searches no index")


def _check_index_of(name: str, row: Row, index_of: str, matrix: Matrix, where: str) -> None:
    indexed = [
        other
        for other, its in matrix.rows.items()
        if other != name and its.index_of is None and its.rerank is None and set(its.kinds) & set(_LEARNED)
    ]
    check_known(index_of, indexed, f"{where}: no row {index_of!r} with an index of its own")
    other = matrix.rows[index_of]
    if _checkpoint_of(name, row) != _checkpoint_of(index_of, other):
        raise LearnedSparseError(
            f"{where}: {index_of!r} has other weights; write model: {other.model or index_of} in this row"
        )
    own = (row.encode, row.options, row.prune, row.expanded or other.expanded)
    if own != (other.encode, other.options, other.prune, other.expanded):
        raise LearnedSparseError(
            f"{where}: the documents are those of {index_of!r}: give this row the same encode, options, prune and "
            "expanded, and put what changes queries under 'queries'"
        )


def _checkpoint_of(name: str, row: Row) -> tuple[str, str]:
    """Equal for two rows if and only if they have the same checkpoint."""
    return ("checkpoint", row.checkpoint) if row.checkpoint is not None else ("row", row.model or name)


def _check_scores(scores: Scores, measures: Measures, where: str, costs: tuple[str, ...]) -> None:
    for column, column_scores in scores.items():
        check_known(column, measures, f"{where}: no column {column!r}")
        for measure in column_scores:
            if measure not in costs:
                check_measured(measure, measures[column], f"{where}: {column}", costs)


def _check_has_runs(name: str, matrix: Matrix, where: str) -> None:
    check_known(name, matrix.rows, f"{where}: no row {name!r}")
    if matrix.rows[name].published is not None:
        raise LearnedSparseError(
            f"{where}: {name!r} is a published row: there are no scores of single queries to compare"
        )
