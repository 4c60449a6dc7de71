"""The parts of a leaderboard's definition: columns (what is measured), rows (systems) and claims of papers."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from eval.measures import parse_measure
from eval.reproduce.claims import Claim
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

DATA = "{data}"
"""Placeholder for the folder of ``--data`` in the paths of a matrix."""
PUBLISHED_COSTS = ("PISA ms/query", "PISA index GB", "published ms/query with encoding")
"""Costs of published rows alone: SpaDE's mean times without encoding of queries and index sizes in PISA (Tables 2 and
6), and UHD-BERT's mean times with it, from engines and machines of several papers (Table 3)."""
COSTS_OF_PUBLISHED = ("FLOPS", "terms/document", "terms/query", *PUBLISHED_COSTS)
"""What a published row can have among its ``scores``: nothing published stands in a column that is measured here."""

Scores = dict[str, dict[str, float]]
"""``{column: {measure: score}}``."""


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

    def __post_init__(self) -> None:
        if self.pool is not None and self.pool < 1:
            raise LearnedSparseError(f"pool {self.pool}; give at least 1, or omit it for the whole collection")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system of a leaderboard. Each kind of row is a class, which is found by the key named ``kind``."""

    kind: ClassVar[str]
    """The key that all rows of the kind have, and no others: the source of their runs."""
    curve: str | None = None
    """Line of the trade-off figure that the row is a point of."""
    note: str = ""

    @property
    def source(self) -> str:
        """Value of the key ``kind``."""
        value = getattr(self, self.kind)
        return value if isinstance(value, str) else ", ".join(value)

    def runs_on(self, column: str) -> bool:
        """Whether the row is run on a column; nothing is run of a published row."""
        return isinstance(self, SystemRow) and (not self.columns or column in self.columns)


@dataclass(frozen=True, kw_only=True)
class PublishedRow(Row):
    """Published scores; nothing is run."""

    kind = "published"
    published: str
    """Source of the scores, such as ``SPLADE, Table 1``."""
    scores: Scores
    """Measures and, if the source has them, costs (``COSTS_OF_PUBLISHED``)."""


@dataclass(frozen=True, kw_only=True)
class SystemRow(Row):
    """A row that is run."""

    columns: tuple[str, ...] = ()
    """Columns on which the row is run; empty: all."""
    expected: Scores = field(default_factory=dict)
    """Scores that our own scores are compared with."""
    tolerance: float = 0.0005
    """Accepted difference from ``expected``; the default is what rounding to three decimals hides."""

    def __post_init__(self) -> None:
        if self.tolerance < 0:
            raise LearnedSparseError(f"tolerance {self.tolerance}; give 0 or more")


@dataclass(frozen=True, kw_only=True)
class GivenRow(SystemRow):
    """A run file in TREC's format."""

    kind = "run"
    run: str
    """``{data}``, ``{collection}`` and ``{split}`` are filled in."""


@dataclass(frozen=True, kw_only=True)
class BestOfRow(SystemRow):
    """For each query, the run of several rows with the highest score: an upper bound, not a system."""

    kind = "best_of"
    best_of: tuple[str, ...]
    best_by: str
    """Measure."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_measure(self.best_by)
        if len(self.best_of) < 2:
            raise LearnedSparseError("best_of: name two or more rows")


@dataclass(frozen=True, kw_only=True)
class FusionRow(SystemRow):
    """The runs of several rows, joined by reciprocal rank fusion as stock Pyserini does it (k = 60)."""

    kind = "fusion"
    fusion: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.fusion) < 2:
            raise LearnedSparseError("fusion: name two or more rows")


@dataclass(frozen=True, kw_only=True)
class BM25Row(SystemRow):
    """BM25 over words as Lucene stems them (``text``), over word pieces, or over text with docT5query's queries."""

    kind = "bm25"
    bm25: Literal["text", "word-pieces", "expanded"]
    expanded: str | None = None
    """The file of ``bm25: expanded``: predicted queries by document id (JSONL or TSV); see ``ModelRow``."""
    k1: float | None = None
    """Parameters of BM25; None: Pyserini's defaults, 0.9 and 0.4."""
    b: float | None = None
    options: tuple[str, ...] = ()
    """Further arguments of ``learned_sparse.encode`` for ``bm25: word-pieces``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.options and self.bm25 != "word-pieces":
            raise LearnedSparseError(f"'options' are of encoding, and 'bm25: {self.bm25}' encodes nothing")
        if (self.bm25 == "expanded") != (self.expanded is not None):
            raise LearnedSparseError("'bm25: expanded' and 'expanded: FILE' belong together")
        if not 0 <= (self.k1 or 0.0) < math.inf or not 0 <= (self.b or 0.0) <= 1:
            raise LearnedSparseError(f"k1 {self.k1}, b {self.b}; k1 is 0 or more, and b from 0 to 1")

    @property
    def words(self) -> tuple[str, ...]:
        """``--k1`` and ``--b`` of ``learned_sparse.search``, where the row has them."""
        given = (("--k1", self.k1), ("--b", self.b))
        return tuple(word for option, value in given if value is not None for word in (option, str(value)))


@dataclass(frozen=True, kw_only=True)
class CrossEncoderRow(SystemRow):
    """A sequence classifier of transformers that re-ranks the run of another row."""

    kind = "cross_encoder"
    cross_encoder: str
    """A folder, or a name on the Hub."""
    rerank: str
    """Row whose run is re-ranked."""
    depth: int
    """Number of documents of each query that are re-ranked; the others keep their order below them."""
    options: tuple[str, ...] = ()
    """Further arguments of ``eval.rerank``."""


@dataclass(frozen=True, kw_only=True)
class ModelRow(SystemRow):
    """A learned sparse model; its classes below differ in where the weights come from."""

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
    """docT5query's queries by document id (JSONL or TSV), for training and encoding.

    ``{data}`` and ``{collection}`` are filled in. A row of another row's ``model`` has its file and ``expansion``.
    """
    expansion: Literal["new-unique", "queries", "none"] | None = None
    """What of ``expanded`` is read: its terms that are not in the text, each once; the queries as they are; or, in a
    row of another row's ``model``, nothing.

    None: new terms, as in the published data of DeepImpact, uniCOIL and SpaDE. BM25 always reads the queries.
    """
    backend: Literal["lucene", "exact", "pisa"] = "lucene"
    """What searches; other engines than Lucene read the vectors themselves. ``pisa`` is an extra of this package."""
    rerank: str | None = None
    """Row whose run is re-ranked by the exact dot products of this row's model; no index is made and searched."""
    depth: int | None = None
    """As that of ``CrossEncoderRow``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expansion is not None and (self.expanded is None) == (self.expansion != "none"):
            raise LearnedSparseError("'expansion' needs 'expanded: FILE', and 'expansion: none' excludes it")
        if (self.rerank is None) != (self.depth is None):
            raise LearnedSparseError("'rerank: ROW' and 'depth: DOCUMENTS' belong together")
        if self.rerank and (self.queries or self.index_of or self.prune or self.backend != "lucene"):
            raise LearnedSparseError("'queries', 'index_of', 'prune' and 'backend' mean nothing in a row that re-ranks")


@dataclass(frozen=True, kw_only=True)
class RecipeRow(ModelRow):
    """A model that is trained."""

    kind = "recipe"
    recipe: str
    """As ``encoders.train --recipe`` takes it."""
    changes: tuple[str, ...] = ()
    """Changed settings of the recipe, as ``encoders.train --set`` takes them."""
    seeds: tuple[int, ...] = ()
    """A training for each; empty: one training with the seed of the recipe."""


@dataclass(frozen=True, kw_only=True)
class CheckpointRow(ModelRow):
    """A model that is trained already.

    The scores that a published model is known for are ``expected`` of it, unless the row says others.
    """

    kind = "checkpoint"
    checkpoint: str
    """A folder, a name on the Hub, or that of a model in the home folder or of a published one."""


@dataclass(frozen=True, kw_only=True)
class OtherModelRow(ModelRow):
    """The model of another row, without further training."""

    kind = "model"
    model: str
    """Row with a recipe or a checkpoint."""


KINDS: dict[str, type[Row]] = {
    one.kind: one
    for one in (
        BM25Row, RecipeRow, OtherModelRow, CheckpointRow, CrossEncoderRow, BestOfRow, FusionRow, GivenRow,
        PublishedRow,
    )
}  # fmt: skip


def read_row(values: Mapping[str, Any], where: str) -> Row:
    """The row of these YAML values, whose kind is that of the one key of ``KINDS`` that it has."""
    kinds = [kind for kind in KINDS if kind in values]
    if len(kinds) != 1:
        given = " and ".join(kinds) or "none"
        raise LearnedSparseError(f"{where}: give exactly one of {', '.join(KINDS)}; there is {given}")
    return parse(KINDS[kinds[0]], values, where)


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
    rows: Mapping[str, Row]
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
        if not isinstance(row, SystemRow) or not open_to:
            return row
        named = row.columns or tuple(column for column in matrix.columns if column not in open_to)
        added = (column for column, rows in open_to.items() if name in rows and column not in named)
        return dataclasses.replace(row, columns=(*named, *added))

    return dataclasses.replace(matrix, rows={name: of_row(name, row) for name, row in matrix.rows.items()})


def weights_of(matrix: Matrix, row: Row) -> Row:
    """The row that names the weights of ``row``: its own or that of its ``model``."""
    return matrix.rows[row.model] if isinstance(row, OtherModelRow) else row


def seeds_of(matrix: Matrix, name: str) -> tuple[int, ...]:
    """The seeds of a row's trainings: its own or its model's, or else those of the row that it re-ranks."""
    row = weights_of(matrix, matrix.rows[name])
    if isinstance(row, RecipeRow) and row.seeds:
        return row.seeds
    first = row.rerank if row is matrix.rows[name] and isinstance(row, ModelRow | CrossEncoderRow) else None
    return () if first is None else seeds_of(matrix, first)
