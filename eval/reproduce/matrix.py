"""A leaderboard: columns (what is measured), rows (systems) and claims of papers, read from YAML and checked."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from encoders.checkpoints.notes import NOTES, read_notes
from encoders.training.recipe import Recipe, load_recipe, recipe_splits
from eval.measures import parse_measure
from eval.reproduce.claims import COSTS, SHOWN_COSTS, Claim
from learned_sparse.collections.collection import data_root, load_collection, split_names, split_parts
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.encoder import resolve_checkpoint
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, wrong_path
from learned_sparse.core.settings import parse, refuse
from learned_sparse.core.yaml_files import read_yaml

DATA = "{data}"
"""Placeholder for the folder of ``--data`` in the paths of a matrix."""
SEED = "{seed}"
"""Placeholder for the seed of a training in the names of splits."""
COSTS_OF_PUBLISHED = (*COSTS[:3], *(cost for cost in SHOWN_COSTS if cost not in COSTS))
"""What a published row can have among its ``scores``: nothing published stands in a column that is measured here."""

Scores = dict[str, dict[str, float]]
"""``{column: {measure: score}}``."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A part of a collection: some of its queries and documents.

    The queries are a seeded random sample of those with a relevant document. The documents are the relevant ones of
    these queries, the top ``pool`` documents of BM25 for each, and others drawn at random up to ``documents``.
    """

    queries: int | None = None
    """None: all judged queries."""
    documents: int | None = None
    """None: all documents, or with a ``pool`` no others."""
    pool: int | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        numbers = {"queries": self.queries, "documents": self.documents, "pool": self.pool}
        if wrong := [f"{key} {number}" for key, number in numbers.items() if number is not None and number < 1]:
            raise LearnedSparseError(f"{wrong[0]}; give at least 1")
        if not any(numbers.values()):
            raise LearnedSparseError(f"a sample needs a number of {', '.join(numbers)}")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One split of one collection, on which rows are measured."""

    collection: str
    """As ``--collection`` takes it; ``{data}/scifact`` is a folder below ``--data``."""
    split: str
    """With ``{seed}`` in it (``train@{seed}of5``), each training is measured on the queries of its own fold."""
    measures: tuple[str, ...] = ()
    """Empty: the measures of the split."""
    sample: Sample | None = None
    """The part of the collection that is searched; None: all of it."""
    overlap: Literal["Match <= 1", "Match > 1", "Match all"] | None = None
    """Measure only the queries of one class of SpaDE's Table 4 (see ``eval.runs``)."""
    queries: int | None = None
    """Published number of queries, shown beside ours."""
    flops_queries: str = ""
    """Topics that FLOPS are estimated from (``{data}`` is filled in); empty: those of the split."""
    rows: tuple[str, ...] = ()
    """Rows that are run on the column; empty: all that do not name other columns."""

    @property
    def folds(self) -> tuple[int, ...]:
        """The seeds of the trainings that are each measured on a fold of their own; empty: on all queries."""
        return tuple(range(1, split_parts(self.split_of())[2] + 1)) if SEED in self.split else ()

    def split_of(self, seed: int | None = None) -> str:
        """The split that the training with ``seed`` is measured on; None: with the first one."""
        return self.split.replace(SEED, str(seed or 1))


_SHARED = {"columns", "expected", "tolerance", "curve", "note"}
_RERANK = {"rerank", "depth"}
_OF_MODELS = {"encode", "queries", "options", "prune", "expanded", "expansion", "segments", "backend", *_RERANK}
KINDS: dict[str, set[str]] = {
    "bm25": {"expanded", "k1", "b", "options"},
    "recipe": {*_OF_MODELS, "changes", "seeds", "start"},
    "model": _OF_MODELS,
    "checkpoint": _OF_MODELS,
    "cross_encoder": {"options", *_RERANK},
    "best_of": {"best_by"},
    "fusion": set(),
    "run": set(),
    "published": {"scores"},
}
"""The other keys of each kind of row, besides ``_SHARED``."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system of a leaderboard. It has one of the keys of ``KINDS``, the source of its runs, which is its kind."""

    bm25: Literal["text", "word-pieces", "expanded"] | None = None
    """BM25 over words as Lucene stems them (``text``), over word pieces, or over text with docT5query's queries."""
    recipe: str = ""
    """A model that is trained, as ``encoders.train --recipe`` takes it."""
    model: str = ""
    """The model of another row with a recipe or a checkpoint, without further training."""
    checkpoint: str = ""
    """A folder, a name on the Hub, or that of a model in the home folder or of a published one."""
    cross_encoder: str = ""
    """A sequence classifier of transformers that re-ranks: a folder, or a name on the Hub."""
    best_of: tuple[str, ...] = ()
    """For each query, the run of these rows with the highest score: an upper bound, not a system."""
    fusion: tuple[str, ...] = ()
    """The runs of these rows, joined by reciprocal rank fusion as stock Pyserini does it (k = 60)."""
    run: str = ""
    """A run file in TREC's format; ``{data}``, ``{collection}`` and ``{split}`` are filled in."""
    published: str = ""
    """Source of published scores, such as ``SPLADE, Table 1``; nothing is run."""
    columns: tuple[str, ...] = ()
    """Columns on which the row is run; empty: all."""
    expected: Scores = field(default_factory=dict)
    """Scores that our own scores are compared with."""
    tolerance: float = 0.0005
    """Accepted difference from ``expected``; the default is what rounding to three decimals hides."""
    curve: str | None = None
    """Line of the trade-off figure that the row is a point of."""
    note: str = ""
    scores: Scores = field(default_factory=dict)
    """Published measures and, if the source has them, costs (``COSTS_OF_PUBLISHED``)."""
    best_by: str = ""
    """Measure of ``best_of``."""
    k1: float | None = None
    """Parameters of BM25; None: Pyserini's defaults, 0.9 and 0.4."""
    b: float | None = None
    changes: tuple[str, ...] = ()
    """Changed settings of the recipe, as ``encoders.train --set`` takes them."""
    start: str = ""
    """Row with a recipe whose first training is the backbone, for example a masked-LM stage that several rows share."""
    seeds: tuple[int, ...] = ()
    """A training for each; empty: one training with the seed of the recipe."""
    encode: dict[str, Any] = field(default_factory=dict)
    """Changed settings of the model, for documents and queries."""
    queries: dict[str, Any] = field(default_factory=dict)
    """Changed settings of the model, for queries only, so that rows which differ in them share their index.

    A row with ``rerank`` has them in ``encode``.
    """
    options: tuple[str, ...] = ()
    """Further arguments of ``learned_sparse.encode``, such as ``--bits 4``, or of ``eval.rerank``."""
    prune: tuple[str, ...] = ()
    """Arguments of ``learned_sparse.jsonvector prune`` that cut the encoded documents."""
    expanded: str = ""
    """docT5query's queries by document id (JSONL or TSV), for training and encoding, or for ``bm25: expanded``.

    ``{data}`` and ``{collection}`` are filled in. A row of another row's ``model`` has its file and ``expansion``.
    """
    expansion: Literal["new-unique", "queries", "none"] | None = None
    """What of ``expanded`` is read: its terms that are not in the text, each once; the queries as they are; or, in a
    row of another row's ``model``, nothing.

    None: new terms, as in the published data of DeepImpact, uniCOIL and SpaDE. BM25 always reads the queries.
    """
    segments: str = ""
    """A collection of segments of the column's documents, with ids such as ``D1#0``, that is encoded in their place.

    ``expanded`` is then of its segments. A document has the score of its best segment, among ten times ``hits``.
    """
    backend: Literal["lucene", "exact", "pisa"] = "lucene"
    """What searches; other engines than Lucene read the vectors themselves. ``pisa`` is an extra of this package."""
    rerank: str = ""
    """Row whose run is re-ranked, by a cross-encoder or by the exact dot products of this row's model."""
    depth: int = 0
    """Number of documents of each query that are re-ranked; the others keep their order below them."""

    def __post_init__(self) -> None:
        given = [one.name for one in fields(self) if getattr(self, one.name) not in (one.default, {})]
        kinds = [kind for kind in KINDS if kind in given]
        if len(kinds) != 1:
            raise LearnedSparseError(
                f"give exactly one of {', '.join(KINDS)}; there is {' and '.join(kinds) or 'none'}"
            )
        if unknown := [name for name in given if name not in {*kinds, *KINDS[kinds[0]], *_SHARED}]:
            raise LearnedSparseError(f"unknown key {unknown[0]!r} in a row with {kinds[0]!r}")
        if self.best_of:
            parse_measure(self.best_by)
        refuse(
            (self.tolerance < 0, f"tolerance {self.tolerance}; give 0 or more"),
            (len(self.best_of or self.fusion) == 1, f"{kinds[0]}: name two or more rows"),
            (self.published and not self.scores, "'published: SOURCE' needs 'scores'"),
            (self.bm25 in ("text", "expanded") and self.options, f"'options': 'bm25: {self.bm25}' encodes nothing"),
            (self.bm25 and (self.bm25 == "expanded") != bool(self.expanded), "'bm25: expanded' needs 'expanded: FILE'"),
            ((self.k1 or 0) < 0 or not 0 <= (self.b or 0) <= 1, f"k1 {self.k1}, b {self.b}; give 0 or more, 0 to 1"),
            (
                self.expansion and bool(self.expanded) == (self.expansion == "none"),
                "'expansion' needs 'expanded: FILE', and 'expansion: none' excludes it",
            ),
            (
                bool(self.rerank) != bool(self.depth) or (self.cross_encoder and not self.rerank),
                "'rerank: ROW' and 'depth: DOCUMENTS' belong together",
            ),
            (
                self.rerank and (self.queries or self.prune or self.segments or self.backend != "lucene"),
                "'queries', 'prune', 'segments' and 'backend' mean nothing in a row that re-ranks",
            ),
            (self.segments and self.backend != "lucene", "'segments' are searched by Lucene; omit 'backend'"),
        )

    @property
    def kind(self) -> str:
        """The key of ``KINDS`` that the row has."""
        return next(kind for kind in KINDS if getattr(self, kind))

    @property
    def source(self) -> str:
        """Value of the key ``kind``."""
        value = getattr(self, self.kind)
        return value if isinstance(value, str) else ", ".join(value)

    @property
    def bm25_words(self) -> tuple[str, ...]:
        """``--k1`` and ``--b`` of ``learned_sparse.search``, where the row has them."""
        given = (("--k1", self.k1), ("--b", self.b))
        return tuple(word for option, value in given if value is not None for word in (option, str(value)))


@dataclass(frozen=True, kw_only=True)
class Training:
    """Training data of all rows with a recipe; replaces the data of the recipes."""

    data: tuple[str, ...]
    """As ``encoders.train --data`` takes it: ``{data}/msmarco-mini:train``, or ``…:train@not{seed}of5`` for folds."""
    negatives: int | None = None
    """Length of the BM25 runs that hard negatives are drawn from; None: as the recipe says."""
    validation: str | None = None
    """Collection of the recipes that validate."""

    def data_of(self, seed: int | None = None) -> tuple[str, ...]:
        """``data`` of the training with ``seed``; None: with the first one."""
        return tuple(part.replace(SEED, str(seed or 1)) for part in self.data)


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A leaderboard: every row is measured on every column, unless the row names its columns."""

    title: str
    columns: dict[str, Column]
    rows: Mapping[str, Row]
    about: str = ""
    averages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Further columns: unweighted means over columns, or over earlier averages."""
    training: Training | None = None
    baseline: str | None = None
    """Row that every other row is compared with."""
    hits: int = 1000
    """Documents per query of a run."""
    dtype: str | None = None
    """Number type of encoding, as ``learned_sparse.encode --dtype`` takes it."""
    plain_names: bool = False
    """Name outputs by their row alone, as ``make demo`` does, and not by a digest of what they are made of as well."""
    on_bad_line: OnBadLine = "error"
    """What all steps that read documents do with malformed lines, as their ``--on-bad-line`` takes it."""
    claims: tuple[Claim, ...] = ()

    def runs_on(self, row: str, name: str) -> bool:
        """Whether a row is run on a column, or on all columns of an average; nothing is run of a published row."""
        if name in self.averages:
            return all(self.runs_on(row, part) for part in self.averages[name])
        named, rows = self.rows[row].columns, self.columns[name].rows
        return not self.rows[row].published and (name in named or row in rows or not (named or rows))


def slug(row: str) -> str:
    """Readable name of a row in paths, which cannot leave a folder; several rows may have the same.

    >>> slug("UHD separate, tuned"), slug("SpaDE k=10"), slug("../..")
    ('uhd-separate-tuned', 'spade-k-10', 'row')
    """
    return re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-") or "row"


def columns_of_average(matrix: Matrix, name: str) -> dict[str, float]:
    """The columns of an average and their weights, which add up to 1; an average of averages weighs each equally."""
    if name in matrix.columns:
        return {name: 1.0}
    weights: dict[str, float] = {}
    for part in matrix.averages[name]:
        for column, weight in columns_of_average(matrix, part).items():
            weights[column] = weights.get(column, 0.0) + weight / len(matrix.averages[name])
    return weights


def weights_of(matrix: Matrix, row: Row) -> Row:
    """The row that names the weights of ``row``: its own or that of its ``model``."""
    return matrix.rows[row.model] if row.model else row


def expanded_of(matrix: Matrix, row: Row) -> Row:
    """The row whose ``expanded`` and ``expansion`` hold for ``row``: itself if it has any, or that of its weights."""
    return row if row.expanded or row.expansion else weights_of(matrix, row)


def seeds_of(matrix: Matrix, name: str) -> tuple[int, ...]:
    """The seeds of a row's trainings: its own or its model's, or else those of the row that it re-ranks."""
    row = weights_of(matrix, matrix.rows[name])
    if row.seeds or row is not matrix.rows[name] or not row.rerank:
        return row.seeds
    return seeds_of(matrix, row.rerank)


_log = logging.getLogger(__name__)
MATRICES = Path(__file__).parents[1] / "matrices"
WHOLE_RUN = 1000
"""Documents per query that a measure without cut-off is computed from, by TREC's convention."""
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
    path, folder = _find(str(name)), data or data_root()
    with _located(str(path)):
        matrix = parse(Matrix, _filled(read_yaml(path), folder), str(path))
        rows = {
            name: dataclasses.replace(row, checkpoint=row.checkpoint and resolve_checkpoint(row.checkpoint))
            for name, row in matrix.rows.items()
        }
        matrix = dataclasses.replace(matrix, rows=rows)
        below = {key for key, column in matrix.columns.items() if column.collection.startswith(f"{folder}/")}
        measures = _checked_columns(matrix, below)
        for name, row in matrix.rows.items():
            with _located(f"rows: {name}"):
                _check_row(name, row, matrix, measures)
        if matrix.baseline is not None:
            systems = [name for name, row in matrix.rows.items() if not row.published]
            _check_known(matrix.baseline, systems, f"baseline: no row {matrix.baseline!r} that is run")
        for number, claim in enumerate(matrix.claims):
            with _located(f"claims[{number}]"):
                _check_claim(claim, matrix, measures)
        for key in sorted(below) if data is None else ():
            if not Path(where := matrix.columns[key].collection).exists():
                raise LearnedSparseError(f"columns: {key}: {where}: no such folder; name yours with --data DIR")
    return matrix


def _filled(value: Any, folder: Path) -> Any:
    """YAML values with ``folder`` in place of every ``{data}``."""
    if isinstance(value, Mapping):
        return {key: _filled(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, folder) for item in value]
    return value.replace(DATA, str(folder)) if isinstance(value, str) else value


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if name not in known_matrices():
        if Path(name).name != name or os.path.lexists(name):
            raise wrong_path(Path(name), "a matrix", "name a matrix of the package, or a .yaml file", "matrix")
        raise LearnedSparseError(f"no matrix {name!r}{did_you_mean(name, known_matrices())} (files end in .yaml)")
    return MATRICES / f"{name}.yaml"


def _checked_columns(matrix: Matrix, below: Container[str]) -> Measures:
    """The measures of every column, and of every average those that all its columns have.

    Raise if a column names a collection, split, measure or row that does not exist. Columns ``below`` the folder of
    ``--data`` need not exist; their measures are unknown if the matrix does not name them.
    """
    if not matrix.columns or not matrix.rows:
        raise LearnedSparseError("a matrix needs at least one row and one column")
    runnable = [name for name, row in matrix.rows.items() if not row.published]
    measures: dict[str, tuple[str, ...] | None] = {}
    for name, column in matrix.columns.items():
        with _located(f"columns: {name}"):
            known = None if name in below else load_collection(column.collection).split(column.split_of())
            measures[name] = column.measures or (known.measures if known else None)
            for measure in map(parse_measure, measures[name] or ()):
                if (depth := measure.cutoff or WHOLE_RUN) > matrix.hits:
                    looks = f"looks at {depth} results" if measure.cutoff else "looks at whole runs"
                    raise LearnedSparseError(f"{measure.text} {looks}, a run has {matrix.hits}; set hits: {depth}")
            for row in column.rows:
                _check_known(row, runnable, f"no row {row!r} to run")
    for name, parts in matrix.averages.items():
        with _located(f"averages: {name}"):
            if name in matrix.columns or len(parts) < 2 or len(set(parts)) < len(parts):
                raise LearnedSparseError("an average has a name of its own, and is over two or more different columns")
            for part in parts:
                _check_known(part, measures, f"no column and no earlier average {part!r}")
            lists = [of_part for part in parts if (of_part := measures[part]) is not None]
            shared = [one for one in lists[0] if all(one in of_part for of_part in lists)] if lists else []
            measures[name] = tuple(shared) if len(lists) == len(parts) else None
    return measures


def _check_row(name: str, row: Row, matrix: Matrix, measures: Measures) -> None:
    """Raise if a row names what does not exist, or if a column reports queries that the row learned from."""
    _check_scores(row.scores, measures, COSTS_OF_PUBLISHED)
    if row.published:
        return
    for column in row.columns:
        _check_known(column, matrix.columns, f"columns: no column {column!r}")
    if row.model:
        trained = [other for other, its in matrix.rows.items() if its.recipe or its.checkpoint]
        _check_known(row.model, trained, f"model: no row {row.model!r} with a recipe or a checkpoint")
    if row.start:
        starts = [other for other, its in matrix.rows.items() if its.recipe and not its.start]
        _check_known(row.start, starts, f"start: no row {row.start!r} with a recipe and without 'start'")
    learned = weights_of(matrix, row)
    start = matrix.rows[learned.start] if learned.start else None
    if start and (recipe := _recipe(learned.start, start, matrix.training)):
        if recipe_splits(recipe)["trained"] and start.seeds != learned.seeds:
            raise LearnedSparseError(f"start: {learned.start!r} learns from queries; give both rows the same seeds")
        _check_splits(name, row, matrix, recipe_splits(recipe))
    if recipe := _recipe(name, learned, matrix.training):
        if learned.recipe and row.expanded and not any(source.collection for source in recipe.data):
            raise LearnedSparseError("'expanded' needs training data of a collection: triples of texts have no ids")
        _check_splits(name, row, matrix, recipe_splits(recipe))
    _check_runs(name, row, matrix)
    _check_scores(row.expected, measures, ())


def _recipe(name: str, row: Row, training: Training | None) -> Recipe | None:
    """The recipe of a row on the training data of its matrix, or the one that its checkpoint folder records."""
    if row.recipe:
        recipe = load_recipe(row.recipe, changes=row.changes, data=training.data_of() if training else ())
        if training is None or training.validation is None or recipe.validation is None:
            return recipe
        validation = dataclasses.replace(recipe.validation, collection=training.validation)
        return dataclasses.replace(recipe, validation=validation)
    if not row.checkpoint or not (Path(row.checkpoint) / NOTES).is_file():
        return None
    try:
        recorded = read_notes(Path(row.checkpoint)).recipe
        return parse(Recipe, recorded, f"{row.checkpoint}/{NOTES}: recipe") if recorded else None
    except LearnedSparseError as error:  # a damaged file, which a step reports; or a recipe of another version
        _log.warning("row %r: it is unknown on which queries its checkpoint was trained: %s", name, error)
        return None


def _check_splits(row_name: str, row: Row, matrix: Matrix, splits: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
    """Raise if a column of ``row`` reports queries that the row learned from (``splits``: see ``recipe_splits``)."""
    for name, column in matrix.columns.items():
        if not matrix.runs_on(row_name, name):
            continue
        if column.folds and weights_of(matrix, row).recipe and seeds_of(matrix, row_name) != column.folds:
            raise LearnedSparseError(f"column {name!r} measures each training on its fold: seeds: {[*column.folds]}")
        reported, *parents = split_names(column.collection, column.split_of())
        for use, learned in splits.items():
            for split, its_parents in learned.items():
                folds, own = "@" in reported and "@" in split, f"{reported.rpartition(':')[0]}:"
                parts = {one for one in parents if one.startswith(own) and ("@" in one or not folds)}
                if reported == split or reported in its_parents or split in parents or parts.intersection(its_parents):
                    raise LearnedSparseError(
                        f"column {name!r} reports {reported}, and the row is {use} on {split}, which have queries in "
                        "common; give the recipe other data, or a validation with holdout, or leave the column out of "
                        "the row's columns"
                    )


def _check_runs(name: str, row: Row, matrix: Matrix) -> None:
    """Check the rows whose runs this row re-ranks, joins, or chooses from."""
    usable = {one for one, its in matrix.rows.items() if not (its.published or its.best_of or its.fusion)}
    others = row.best_of or row.fusion
    if row.rerank:
        others = (row.rerank,)
        usable -= {one for one, its in matrix.rows.items() if its.rerank}
        if not 1 <= row.depth <= matrix.hits:
            raise LearnedSparseError(f"depth {row.depth}; give 1 to {matrix.hits}, the documents of a run")
    for other in others:
        _check_known(other, usable, f"no row {other!r} with a run to use here")
        if left_out := [c for c in matrix.columns if matrix.runs_on(name, c) and not matrix.runs_on(other, c)]:
            raise LearnedSparseError(f"{other!r} is not run on {left_out[0]!r}; name this row's columns")
        if seeds_of(matrix, other) not in ((), seeds_of(matrix, name)):
            raise LearnedSparseError(f"{other!r} has trainings with seeds that this row has not")


def _check_scores(scores: Scores, measures: Measures, costs: tuple[str, ...]) -> None:
    """Raise if a column does not measure one of its scores, which can also be one of ``costs``."""
    for column, of_column in scores.items():
        _check_known(column, measures, f"no column {column!r}")
        known = measures[column]
        for measure in of_column:
            if known is None and measure not in costs:
                parse_measure(measure)
            else:
                _check_known(measure, (*(known or ()), *costs), f"{column}: {measure!r} is not measured there")


def _check_claim(claim: Claim, matrix: Matrix, measures: Measures) -> None:
    """Raise unless both sides have results of the quantity on the columns of the claim."""
    sides = (claim.better, claim.worse)
    for name in sides:
        _check_known(name, matrix.rows, f"no row {name!r}")
    frozen = [row for row in sides if matrix.rows[row].published]
    if claim.better == claim.worse or len(frozen) == len(sides):
        raise LearnedSparseError(f"{claim.better!r} and {claim.worse!r}: name two rows, one of them ours")
    for column in claim.columns or matrix.columns:
        _check_known(column, measures, f"no column {column!r}")
        for name in sides:
            row = matrix.rows[name]
            if row.published and claim.quantity not in row.scores.get(column, {}):
                raise LearnedSparseError(f"{name!r} has no {claim.quantity} on {column!r}")
            if not row.published and not matrix.runs_on(name, column):
                raise LearnedSparseError(f"{name!r} is not run on {column!r}; name the claim's columns")
        _check_scores({column: {claim.quantity: 0.0}}, measures, COSTS)


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put ``where`` before the message of an error, unless it begins with it."""
    try:
        yield
    except LearnedSparseError as error:
        message = str(error)
        raise LearnedSparseError(message if message.startswith(where) else f"{where}: {message}") from error
    except OSError as error:  # a name that is too long for a file
        raise LearnedSparseError(f"{where}: {error.strerror}: {str(error.filename)[:99]!r}") from error


def _check_known(name: str, known: Iterable[str], message: str) -> None:
    """Raise with ``message`` and a suggestion if ``name`` is not one of ``known``."""
    if name not in known:
        raise LearnedSparseError(f"{message}{did_you_mean(name, known)}")
