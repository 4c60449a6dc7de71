"""The parts of a leaderboard's definition: columns (what is measured), rows (systems) and claims of papers."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from eval.reproduce.claims import Claim
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError

DATA = "{data}"
"""Placeholder for the folder of ``--data`` in the paths of a matrix."""
PUBLISHED_COSTS = ("PISA ms/query", "PISA index GB", "published ms/query with encoding")
"""Costs of published rows alone: SpaDE's mean times without encoding of queries and index sizes in PISA (Tables 2 and
6), and UHD-BERT's mean times with it, from engines and machines of several papers (Table 3)."""
_ANY_ENGINE = ("FLOPS", "terms/document", "terms/query")
COSTS_OF_PUBLISHED = (*_ANY_ENGINE, *PUBLISHED_COSTS)
"""What a published row can have among its ``scores``: nothing published stands in a column that is measured here."""

Scores = dict[str, dict[str, float]]
"""``{column: {measure: score}}``."""

Kind = Literal["bm25", "recipe", "model", "checkpoint", "cross_encoder", "best_of", "fusion", "run", "published"]
KINDS: tuple[Kind, ...] = (
    "bm25", "recipe", "model", "checkpoint", "cross_encoder", "best_of", "fusion", "run", "published",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A seeded random sample of a collection: some of its queries and documents.

    The queries are drawn from those with a relevant document. The documents are the relevant ones of these queries,
    those of the column's ``pool``, and others drawn at random up to ``documents``.
    """

    queries: int | None = None
    """None: all queries."""
    documents: int | None = None
    """None: all documents, or those of the pool if the column has one."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.queries is None and self.documents is None:
            raise LearnedSparseError("a sample needs a number of queries or of documents")
        for name in ("queries", "documents"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise LearnedSparseError(f"{name} {number}; give at least 1")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One split of one collection, on which rows are measured."""

    collection: str
    """As ``--collection`` takes it; ``{data}/scifact`` is a folder below ``--data``."""
    split: str
    measures: tuple[str, ...] = ()
    """Empty: the measures of the split."""
    pool: int | None = None
    """Reduce the collection to its relevant documents and the top ``pool`` documents of BM25 for each query."""
    sample: Sample | None = None
    """Reduce the collection to a sample, whose documents include those of ``pool``."""
    overlap: Literal["Match <= 1", "Match > 1", "Match all"] | None = None
    """Measure only the queries of one class of SpaDE's Table 4 (see ``eval.runs``)."""
    queries: int | None = None
    """Published number of queries, shown beside ours."""
    rows: tuple[str, ...] = ()
    """Rows that are run on the column; empty: all that do not name other columns."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system: exactly one of ``KINDS`` names the source of its runs, the other keys change its settings."""

    bm25: Literal["text", "word-pieces", "expanded"] | None = None
    """``text``: words as Lucene stems them. ``expanded``: text and docT5query's queries, from file ``expanded``."""
    recipe: str | None = None
    """Recipe to train, as ``encoders.train --recipe`` takes it."""
    model: str | None = None
    """Name of another row whose checkpoint is used without further training."""
    checkpoint: str | None = None
    """A folder, a name on the Hub, or that of a model in the home folder or of a published one.

    The scores that a published model is known for are ``expected`` of it, unless the row says others.
    """
    run: str | None = None
    """A run file in TREC's format; ``{data}``, ``{collection}`` and ``{split}`` are filled in."""
    cross_encoder: str | None = None
    """A sequence classifier of transformers, a folder or a name on the Hub; it re-ranks row ``rerank``."""
    best_of: tuple[str, ...] | None = None
    """Rows of which each query takes the run with its highest score in ``best_by``: an upper bound, not a system."""
    fusion: tuple[str, ...] | None = None
    """Rows whose runs are joined by reciprocal rank fusion, as stock Pyserini does it (k = 60)."""
    published: str | None = None
    """Source of published ``scores``, such as ``SPLADE, Table 1``; nothing is run."""

    rerank: str | None = None
    """Row whose run is re-ranked by the exact dot products of this row's model; no index is made and searched."""
    depth: int | None = None
    """Number of documents of each query that are re-ranked; the others keep their order below them."""
    best_by: str | None = None
    """Measure of ``best_of``."""
    k1: float | None = None
    """Parameters of BM25; None: Pyserini's defaults, 0.9 and 0.4."""
    b: float | None = None

    columns: tuple[str, ...] = ()
    """Columns on which the row is run; empty: all."""
    changes: tuple[str, ...] = ()
    """``KEY=VALUE`` changes of the recipe, as ``encoders.train --set`` takes them."""
    seeds: tuple[int, ...] = ()
    """One training for each seed; empty: one training with the seed of the recipe."""
    encode: dict[str, Any] = field(default_factory=dict)
    """Changed settings of the model, for documents and queries."""
    queries: dict[str, Any] = field(default_factory=dict)
    """Changed settings of the model, for queries only; a row with ``rerank`` has them in ``encode``."""
    index_of: str | None = None
    """Row whose index is searched: only queries differ, so both rows have the same ``encode``."""
    options: tuple[str, ...] = ()
    """Further arguments of ``learned_sparse.encode``, such as ``--bits 4``, or of ``eval.rerank``."""
    prune: tuple[str, ...] = ()
    """Arguments of ``learned_sparse.jsonvector prune`` that cut the encoded documents."""
    expanded: str | None = None
    """docT5query's queries by document id (JSONL or TSV), for BM25, or for the training and encoding of a model.

    ``{data}`` and ``{collection}`` are filled in. A row of another row's ``model`` has its file.
    """
    backend: Literal["lucene", "exact"] = "lucene"
    curve: str | None = None
    """Line of the trade-off figure that the row is a point of."""

    scores: Scores = field(default_factory=dict)
    """Published scores: measures and, if the source has them, costs (``COSTS_OF_PUBLISHED``)."""
    expected: Scores = field(default_factory=dict)
    """Scores that our own scores are compared with."""
    tolerance: float = 0.0005
    """Accepted difference from ``expected``; the default is what rounding to three decimals hides."""
    note: str = ""

    def runs_on(self, column: str) -> bool:
        """Whether the row is run on a column."""
        return self.published is None and (not self.columns or column in self.columns)

    @property
    def bm25_words(self) -> tuple[str, ...]:
        """``--k1`` and ``--b`` of ``learned_sparse.search`` and of stock search, where the row has them."""
        given = (("--k1", self.k1), ("--b", self.b))
        return tuple(word for option, value in given if value is not None for word in (option, str(value)))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The keys of ``KINDS`` that have a value: exactly one in a matrix that was loaded."""
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def kind(self) -> Kind:
        """The source of the row's runs."""
        (kind,) = self.kinds
        return kind


@dataclass(frozen=True, kw_only=True)
class Training:
    """Training data of all rows with a recipe; replaces the data of the recipes."""

    data: tuple[str, ...]
    """As ``encoders.train --data`` takes it: ``{data}/msmarco-mini:train``."""
    negatives: int | None = None
    """Length of the BM25 runs that hard negatives are drawn from; None: as the recipe says."""
    validation: str | None = None
    """Collection of the recipes that validate."""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A leaderboard: every row is measured on every column, unless the row names its columns."""

    title: str
    columns: dict[str, Column]
    rows: dict[str, Row]
    about: str = ""
    averages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Further columns: unweighted means over columns, or over earlier averages."""
    training: Training | None = None
    baseline: str | None = None
    """Row that every other row is compared with."""
    hits: int = 1000
    """Documents per query of a run."""
    verify: int = 0
    """Documents of each index whose postings are compared with the encoded vectors."""
    dtype: str | None = None
    """Number type of encoding, as ``learned_sparse.encode --dtype`` takes it."""
    plain_names: bool = False
    """Name outputs by their row alone, as ``make demo`` does, and not by a digest of what they are made of as well."""
    on_bad_line: OnBadLine = "error"
    """What all steps that read documents do with malformed lines, as their ``--on-bad-line`` takes it."""
    claims: tuple[Claim, ...] = ()


def slug(row: str) -> str:
    """Name of a row in paths.

    >>> slug("UHD separate, tuned"), slug("SpaDE k=10")
    ('uhd-separate-tuned', 'spade-k-10')
    """
    return re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-")


def columns_of_average(matrix: Matrix, name: str) -> dict[str, float]:
    """The columns of an average and their weights, which add up to 1; an average of averages weighs each equally."""
    if name in matrix.columns:
        return {name: 1.0}
    weights: dict[str, float] = {}
    for part in matrix.averages[name]:
        for column, weight in columns_of_average(matrix, part).items():
            weights[column] = weights.get(column, 0.0) + weight / len(matrix.averages[name])
    return weights


def only_rows(matrix: Matrix) -> Matrix:
    """``matrix`` with the columns of each row written out as its columns' ``rows`` want them."""
    open_to = {name: column.rows for name, column in matrix.columns.items() if column.rows}

    def of_row(name: str, row: Row) -> Row:
        if row.published is not None or not open_to:
            return row
        named = row.columns or tuple(column for column in matrix.columns if column not in open_to)
        added = (column for column, rows in open_to.items() if name in rows and column not in named)
        return dataclasses.replace(row, columns=(*named, *added))

    return dataclasses.replace(matrix, rows={name: of_row(name, row) for name, row in matrix.rows.items()})


def seeds_of(matrix: Matrix, name: str) -> tuple[int, ...]:
    """The seeds of a row's trainings: its own or its model's, or else those of the row that it re-ranks."""
    row = matrix.rows[name]
    if row.model is not None:
        return matrix.rows[row.model].seeds
    return row.seeds or (seeds_of(matrix, row.rerank) if row.rerank is not None else ())
