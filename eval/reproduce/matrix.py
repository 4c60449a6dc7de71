"""The parts of a leaderboard: rows of systems, columns of tests, claims to hold against what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from eval.reproduce.claims import Claim

DATA = "{data}"
"""Stands for the folder that the option ``--data`` names, where a matrix names files."""

Scores = dict[str, dict[str, float]]
"""``{column: {measure: score}}``."""

Kind = Literal["bm25", "recipe", "model", "checkpoint", "run", "published"]
KINDS: tuple[Kind, ...] = ("bm25", "recipe", "model", "checkpoint", "run", "published")


@dataclass(frozen=True, kw_only=True)
class Column:
    """What every row is measured on: one split of one collection."""

    collection: str
    """As ``--collection`` takes it; ``{data}/scifact`` is a folder below ``--data``."""
    split: str
    measures: tuple[str, ...] = ()
    """Empty: the split's own."""
    pool: int | None = None
    """Cut the collection down to what is relevant and this many documents that BM25 ranks first for each query."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system: exactly one of ``KINDS`` says where its runs come from, the rest what is changed on the way."""

    bm25: Literal["text", "word-pieces", "expanded"] | None = None
    """``text``: words as Lucene stems them. ``expanded``: with docT5query's queries, from the file ``expanded``."""
    recipe: str | None = None
    """Trained by this recipe, as ``encoders.train --recipe`` takes it."""
    model: str | None = None
    """The row whose checkpoint is used: nothing is trained a second time."""
    checkpoint: str | None = None
    """A folder or a name on the Hub."""
    run: str | None = None
    """A run in TREC's format; ``{data}``, ``{collection}`` and ``{split}`` are filled in."""
    published: str | None = None
    """The source of ``scores``, such as ``SPLADE, Table 1``: nothing is run."""

    columns: tuple[str, ...] = ()
    """Run only on these; empty: on all."""
    changes: tuple[str, ...] = ()
    """``KEY=VALUE`` for the recipe, as ``encoders.train --set`` takes it."""
    seeds: tuple[int, ...] = ()
    """One training each; empty: one training with the recipe's own seed."""
    encode: dict[str, Any] = field(default_factory=dict)
    """Settings of the model changed for documents and queries."""
    queries: dict[str, Any] = field(default_factory=dict)
    """Settings of the model changed for queries only."""
    index_of: str | None = None
    """The row whose index is searched: only queries differ, so both rows have the same ``encode``."""
    options: tuple[str, ...] = ()
    """More words for ``python -m learned_sparse.encode``, such as ``--bits 4``."""
    expanded: str | None = None
    """The file of documents with docT5query's queries; may hold ``{data}`` and ``{collection}``."""
    backend: Literal["lucene", "exact"] = "lucene"
    curve: str | None = None
    """The line of the trade-off figure that this row is a point of."""

    scores: Scores = field(default_factory=dict)
    """Of a published row: measures and, where the source has them, costs (``eval.reproduce.claims.COSTS``)."""
    expected: Scores = field(default_factory=dict)
    """What our own numbers are held against."""
    tolerance: float = 0.0005
    """How far from ``expected`` a score may be: by default what rounding to three decimals hides."""
    note: str = ""

    def runs_on(self, column: str) -> bool:
        """Whether there is a cell to measure."""
        return self.published is None and (not self.columns or column in self.columns)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Which of ``KINDS`` are given: exactly one in a matrix that was loaded."""
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def kind(self) -> Kind:
        """Where the runs come from."""
        (kind,) = self.kinds
        return kind


@dataclass(frozen=True, kw_only=True)
class Training:
    """The data of every row with a recipe, instead of what the recipe names."""

    data: tuple[str, ...]
    """As ``encoders.train --data`` takes it: ``{data}/msmarco-mini:train``."""
    negatives: int | None = None
    """How many of BM25's documents for each training query hard negatives are taken from; None: as the recipe says."""
    validation: str | None = None
    """The collection of recipes that validate."""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A leaderboard to be: every row is measured on every column, unless it names its own."""

    title: str
    columns: dict[str, Column]
    rows: dict[str, Row]
    about: str = ""
    training: Training | None = None
    baseline: str | None = None
    """The row that every other is compared with."""
    test: Literal["randomization", "t-test"] = "randomization"
    hits: int = 1000
    """Documents of a run for each query."""
    verify: int = 0
    """Documents of each index whose postings are compared with what was encoded."""
    dtype: str | None = None
    """The numbers that texts are encoded in, as ``learned_sparse.encode --dtype`` takes it."""
    claims: tuple[Claim, ...] = ()
