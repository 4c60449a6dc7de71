"""Reads the YAML file of a matrix, and checks the names in it and the queries that its rows learned from."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from encoders.checkpoints.hub import published
from encoders.checkpoints.notes import NOTES, read_notes
from encoders.training import Recipe, load_recipe, recipe_splits
from eval.measures import parse_measure
from eval.reproduce.claims import COSTS, Claim
from eval.reproduce.matrix import (
    COSTS_OF_PUBLISHED,
    DATA,
    BestOfRow,
    CheckpointRow,
    Column,
    CrossEncoderRow,
    FusionRow,
    Matrix,
    ModelRow,
    OtherModelRow,
    PublishedRow,
    RecipeRow,
    Row,
    Scores,
    SystemRow,
    Training,
    columns_of_average,
    only_rows,
    read_row,
    seeds_of,
    slug,
    weights_of,
)
from learned_sparse.collections.collection import data_root, load_collection, split_names
from learned_sparse.core.encoder import resolve_checkpoint
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, wrong_path
from learned_sparse.core.files import check_name
from learned_sparse.core.settings import parse, read_yaml

_log = logging.getLogger(__name__)
MATRICES = Path(__file__).parents[1] / "matrices"
WHOLE_RUN = 1000
"""Documents per query that a measure without cut-off is computed from, by TREC's convention."""
_BEIR = (
    "trec-covid", "nfcorpus", "nq", "hotpotqa", "fiqa", "arguana", "webis-touche2020", "dbpedia-entity", "scidocs",
    "fever", "climate-fever", "scifact", "quora",
)  # fmt: skip
"""The 13 collections of which published models report the mean nDCG@10."""
Measures = Mapping[str, tuple[str, ...] | None]
"""Measures of each column; None if they are unknown without the data."""


def known_matrices() -> list[str]:
    """Names of the matrices in the package."""
    return sorted(path.stem for path in MATRICES.glob("*.yaml"))


def load_matrix(name: str | Path, data: Path | None = None) -> Matrix:
    """The matrix ``name``, one of ``known_matrices()`` or a YAML file, checked.

    ``{data}`` becomes ``data``, or else the folder where ``load_collection`` looks for collections. Raises
    LearnedSparseError at the first mistake; the message names the key and suggests the nearest known name.
    """
    path = _find(str(name))
    with _located(str(path)):
        matrix = only_rows(_checked_columns(_read(read_yaml(path), str(path))))
        _check(matrix)
        filled = _with_published_models(fill_data(matrix, data or data_root()))
        for key, column in matrix.columns.items():
            folder = Path(filled.columns[key].collection)
            if data is None and DATA in column.collection and not folder.exists():
                raise LearnedSparseError(f"columns: {key}: {folder}: no such folder; name yours with --data DIR")
        _check_checkpoints(filled)
    return filled


def _read(values: Mapping[str, Any], where: str) -> Matrix:
    """The matrix of YAML values, each row with the keys of its kind."""
    given = values.get("rows")
    rows = {}
    for name, row in (given if isinstance(given, Mapping) else {}).items():
        if not isinstance(row, Mapping):
            raise LearnedSparseError(f"rows: {name}: expected a mapping, got {row!r}")
        rows[name] = read_row(row, f"rows: {name}")
    matrix = parse(Matrix, {**values, "rows": {}} if rows else values, where)
    return dataclasses.replace(matrix, rows=rows)


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


def recipe_of(row: RecipeRow, training: Training | None) -> Recipe:
    """The recipe of a row on the training data of its matrix."""
    recipe = load_recipe(row.recipe, changes=row.changes, data=training.data if training else ())
    if training is None or training.validation is None or recipe.validation is None:
        return recipe
    validation = dataclasses.replace(recipe.validation, collection=training.validation)
    return dataclasses.replace(recipe, validation=validation)


def column_measures(column: Column) -> tuple[str, ...] | None:
    """The measures of a column, or else of its split; None if the collection is below ``{data}``."""
    if column.measures:
        return column.measures
    if DATA in column.collection:
        return None
    return tuple(load_collection(column.collection).split(column.split).measures)


def _with_published_models(matrix: Matrix) -> Matrix:
    """``matrix`` with checkpoints in place of names of models, and the published scores of such models expected."""
    rows = dict(matrix.rows)
    for name, row in matrix.rows.items():
        if isinstance(row, CheckpointRow):
            found = dataclasses.replace(row, checkpoint=resolve_checkpoint(row.checkpoint))
            rows[name] = dataclasses.replace(found, expected=row.expected or _published_scores(matrix, found))
    return dataclasses.replace(matrix, rows=rows)


def _published_scores(matrix: Matrix, row: CheckpointRow) -> Scores:
    """What the catalogue says of a row's checkpoint, on MS MARCO passage dev and on the mean of 13 BEIR collections.

    Nothing if the row changes the model, or ranks only some documents.
    """
    entry = published(row.checkpoint)
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


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if name not in known_matrices():
        if Path(name).name != name or os.path.lexists(name):
            raise wrong_path(Path(name), "a matrix", "name a matrix of the package, or a .yaml file", "matrix")
        raise LearnedSparseError(f"no matrix {name!r}{did_you_mean(name, known_matrices())} (files end in .yaml)")
    return MATRICES / f"{name}.yaml"


def _checked_columns(matrix: Matrix) -> Matrix:
    """``matrix``; raise if a column names a collection, split, measure or row that does not exist."""
    if not matrix.columns or not matrix.rows:
        raise LearnedSparseError("a matrix needs at least one row and one column")
    _check_names(matrix.rows, "rows")
    _check_names([*matrix.columns, *matrix.averages], "columns")
    runnable = [name for name, row in matrix.rows.items() if isinstance(row, SystemRow)]
    for name, column in matrix.columns.items():
        with _located(f"columns: {name}"):
            if DATA not in column.collection:
                load_collection(column.collection).split(column.split)
            for measure in map(parse_measure, column_measures(column) or ()):
                if (depth := measure.cutoff or WHOLE_RUN) > matrix.hits:
                    looks = f"looks at {depth} results" if measure.cutoff else "looks at whole runs"
                    raise LearnedSparseError(f"{measure.text} {looks}, a run has {matrix.hits}; set hits: {depth}")
            for row in column.rows:
                _check_known(row, runnable, f"no row {row!r} to run")
    for name, parts in matrix.averages.items():
        earlier = [*matrix.columns, *list(matrix.averages)[: list(matrix.averages).index(name)]]
        with _located(f"averages: {name}"):
            if name in matrix.columns or len(parts) < 2 or len(set(parts)) < len(parts):
                raise LearnedSparseError("an average has a name of its own, and is over two or more different columns")
            for part in parts:
                _check_known(part, earlier, f"no column and no earlier average {part!r}")
    return matrix


def _check_names(names: Iterable[str], where: str) -> None:
    """Raise unless the names in paths (``slug``) are not empty and all different."""
    seen: dict[str, str] = {}
    for name in names:
        short = slug(name)
        if not short:
            raise LearnedSparseError(f"{where}: {name!r} has no letter and no digit to name files by")
        check_name(short, where)
        if (other := seen.setdefault(short, name)) != name:
            raise LearnedSparseError(f"{where}: {name!r} and {other!r} would both be {short!r} in file names")


def _check(matrix: Matrix) -> None:
    measures = _all_measures(matrix)
    for name, row in matrix.rows.items():
        with _located(f"rows: {name}"):
            if isinstance(row, SystemRow):
                _check_row(name, row, matrix)
                _check_scores(row.expected, measures, ())
            elif isinstance(row, PublishedRow):
                _check_scores(row.scores, measures, COSTS_OF_PUBLISHED)
    if matrix.baseline is not None:
        systems = [name for name, row in matrix.rows.items() if isinstance(row, SystemRow)]
        _check_known(matrix.baseline, systems, f"baseline: no row {matrix.baseline!r} that is run")
    for number, claim in enumerate(matrix.claims):
        with _located(f"claims[{number}]"):
            _check_claim(claim, matrix, measures)


def _all_measures(matrix: Matrix) -> Measures:
    """The measures of every column, and of every average those that all its columns have."""
    measures = {name: column_measures(column) for name, column in matrix.columns.items()}
    for name, parts in matrix.averages.items():
        lists = [of_part for part in parts if (of_part := measures[part]) is not None]
        known = len(lists) == len(parts)
        measures[name] = tuple(one for one in lists[0] if all(one in other for other in lists)) if known else None
    return measures


def _check_row(name: str, row: SystemRow, matrix: Matrix) -> None:
    for column in row.columns:
        _check_known(column, matrix.columns, f"columns: no column {column!r}")
    if isinstance(row, OtherModelRow):
        trained = [other for other, its in matrix.rows.items() if isinstance(its, RecipeRow | CheckpointRow)]
        _check_known(row.model, trained, f"model: no row {row.model!r} with a recipe or a checkpoint")
    learned = weights_of(matrix, row)
    if isinstance(learned, RecipeRow):
        recipe = recipe_of(learned, matrix.training)
        if isinstance(row, ModelRow) and row.expanded and not any(source.collection for source in recipe.data):
            raise LearnedSparseError("'expanded' needs training data of a collection: triples of texts have no ids")
        _check_splits(row, matrix, recipe_splits(recipe))
    if isinstance(row, ModelRow) and row.index_of is not None:
        _check_index_of(name, row, row.index_of, matrix)
    _check_runs(name, row, matrix)


def _check_splits(row: SystemRow, matrix: Matrix, splits: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
    """Raise if a column of ``row`` reports queries that the row learned from (``splits``: see ``recipe_splits``)."""
    for name, column in matrix.columns.items():
        if not row.runs_on(name):
            continue
        reported, *parents = split_names(column.collection, column.split)
        for use, learned in splits.items():
            for split, its_parents in learned.items():
                if reported == split or reported in its_parents or split in parents:
                    raise LearnedSparseError(
                        f"column {name!r} reports {reported}, and the row is {use} on {split}, which have queries in "
                        "common; give the recipe other data, or a validation with holdout, or leave the column out of "
                        "the row's columns"
                    )


def _check_checkpoints(matrix: Matrix) -> None:
    """``_check_splits`` for the rows of a checkpoint folder that records the recipe of its training."""
    for name, row in matrix.rows.items():
        learned = weights_of(matrix, row)
        if not (isinstance(row, SystemRow) and isinstance(learned, CheckpointRow)):
            continue
        folder = Path(learned.checkpoint)
        if not (folder / NOTES).is_file():
            continue
        try:
            recorded = read_notes(folder).recipe
            recipe = parse(Recipe, recorded, f"{folder}/{NOTES}: recipe") if recorded else None
        except LearnedSparseError as error:  # a damaged file, which a step reports; or a recipe of another version
            _log.warning("row %r: it is unknown on which queries its checkpoint was trained: %s", name, error)
            continue
        if recipe is not None:
            with _located(f"rows: {name}"):
                _check_splits(row, matrix, recipe_splits(recipe))


def _check_runs(name: str, row: SystemRow, matrix: Matrix) -> None:
    """Check the rows whose runs this row re-ranks, joins, or chooses from."""
    made_of_runs = BestOfRow | FusionRow
    usable = {
        one for one, its in matrix.rows.items() if isinstance(its, SystemRow) and not isinstance(its, made_of_runs)
    }
    others = row.best_of if isinstance(row, BestOfRow) else row.fusion if isinstance(row, FusionRow) else ()
    if isinstance(row, ModelRow | CrossEncoderRow) and row.rerank is not None:
        others = (row.rerank,)
        usable -= {
            one for one, its in matrix.rows.items() if isinstance(its, ModelRow | CrossEncoderRow) and its.rerank
        }
        if not 1 <= (row.depth or 0) <= matrix.hits:
            raise LearnedSparseError(f"depth {row.depth}; give 1 to {matrix.hits}, the documents of a run")
    for other in others:
        _check_known(other, usable, f"no row {other!r} with a run to use here")
        if left_out := [c for c in matrix.columns if row.runs_on(c) and not matrix.rows[other].runs_on(c)]:
            raise LearnedSparseError(f"{other!r} is not run on {left_out[0]!r}; name this row's columns")
        if seeds_of(matrix, other) not in ((), seeds_of(matrix, name)):
            raise LearnedSparseError(f"{other!r} has trainings with seeds that this row has not")


def _re_ranks(row: Row) -> bool:
    return isinstance(row, CrossEncoderRow) or (isinstance(row, ModelRow) and row.rerank is not None)


def _check_index_of(name: str, row: ModelRow, index_of: str, matrix: Matrix) -> None:
    indexed = {
        other: its
        for other, its in matrix.rows.items()
        if other != name and isinstance(its, ModelRow) and its.index_of is None and its.rerank is None
    }
    _check_known(index_of, indexed, f"index_of: no row {index_of!r} with an index of its own")
    other = indexed[index_of]
    first, second = weights_of(matrix, row), weights_of(matrix, other)
    same = (
        isinstance(first, CheckpointRow) and isinstance(second, CheckpointRow) and first.checkpoint == second.checkpoint
    )
    if first is not second and not same:
        raise LearnedSparseError(f"index_of: {index_of!r} has other weights; write its model: in this row")
    own = (row.encode, row.options, row.prune, row.expanded or other.expanded, row.expansion or other.expansion)
    if own != (other.encode, other.options, other.prune, other.expanded, other.expansion):
        raise LearnedSparseError(
            f"index_of: the documents are those of {index_of!r}: give this row the same encode, options, prune and "
            "expanded, and put what changes queries under 'queries'"
        )


def _check_scores(scores: Scores, measures: Measures, costs: tuple[str, ...]) -> None:
    for column, column_scores in scores.items():
        _check_known(column, measures, f"scores: no column {column!r}")
        for measure in column_scores:
            _check_measured(measure, measures[column], column, costs)


def _check_measured(measure: str, known: tuple[str, ...] | None, column: str, costs: tuple[str, ...]) -> None:
    """Raise if a column does not measure ``measure``; ``known`` is None where that is unknown without the data."""
    if known is not None or measure in costs:
        _check_known(measure, (*(known or ()), *costs), f"{column}: {measure!r} is not measured there")
    else:
        parse_measure(measure)


def _check_claim(claim: Claim, matrix: Matrix, measures: Measures) -> None:
    """Raise unless both sides have results of the quantity on the columns of the claim."""
    sides = (claim.better, claim.worse)
    for name in sides:
        _check_known(name, matrix.rows, f"no row {name!r}")
    frozen = [row for row in sides if isinstance(matrix.rows[row], PublishedRow)]
    if claim.better == claim.worse or len(frozen) == len(sides):
        raise LearnedSparseError(f"{claim.better!r} and {claim.worse!r}: name two rows, one of them ours")
    for column in claim.columns or matrix.columns:
        _check_known(column, measures, f"no column {column!r}")
        for name in sides:
            row = matrix.rows[name]
            if isinstance(row, PublishedRow) and claim.quantity not in row.scores.get(column, {}):
                raise LearnedSparseError(f"{name!r} has no {claim.quantity} on {column!r}")
            if isinstance(row, SystemRow) and not all(map(row.runs_on, columns_of_average(matrix, column))):
                raise LearnedSparseError(f"{name!r} is not run on {column!r}; name the claim's columns")
        _check_measured(claim.quantity, measures[column], column, COSTS)


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put ``where`` before the message of an error, unless it begins with it."""
    try:
        yield
    except LearnedSparseError as error:
        message = str(error)
        raise LearnedSparseError(message if message.startswith(where) else f"{where}: {message}") from error


def _check_known(name: str, known: Iterable[str], message: str) -> None:
    """Raise with ``message`` and a suggestion if ``name`` is not one of ``known``."""
    if name not in known:
        raise LearnedSparseError(f"{message}{did_you_mean(name, known)}")
