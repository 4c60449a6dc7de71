"""The parts of a leaderboard's definition: columns (what is measured), rows (systems) and claims of papers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from learned_sparse.collections import OnBadLine

DATA = "{data}"
"""Placeholder for the folder of ``--data`` in the paths of a matrix."""
COSTS = ("FLOPS", "terms/document", "terms/query", "index bytes", "ms/query", "p99 ms/query", "documents/s")
"""Costs that a claim can compare, besides measures: one number per row instead of one per query."""

Scores = dict[str, dict[str, float]]
"""``{column: {measure: score}}``."""

Kind = Literal["bm25", "recipe", "model", "checkpoint", "run", "published"]
KINDS: tuple[Kind, ...] = ("bm25", "recipe", "model", "checkpoint", "run", "published")


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
    """A folder or a name on the Hub."""
    run: str | None = None
    """A run file in TREC's format; ``{data}``, ``{collection}`` and ``{split}`` are filled in."""
    published: str | None = None
    """Source of published ``scores``, such as ``SPLADE, Table 1``; nothing is run."""

    columns: tuple[str, ...] = ()
    """Columns on which the row is run; empty: all."""
    changes: tuple[str, ...] = ()
    """``KEY=VALUE`` changes of the recipe, as ``encoders.train --set`` takes them."""
    seeds: tuple[int, ...] = ()
    """One training for each seed; empty: one training with the seed of the recipe."""
    encode: dict[str, Any] = field(default_factory=dict)
    """Changed settings of the model, for documents and queries."""
    queries: dict[str, Any] = field(default_factory=dict)
    """Changed settings of the model, for queries only."""
    index_of: str | None = None
    """Row whose index is searched: only queries differ, so both rows have the same ``encode``."""
    options: tuple[str, ...] = ()
    """Further arguments of ``python -m learned_sparse.encode``, such as ``--bits 4``."""
    expanded: str | None = None
    """File of documents with docT5query's queries; ``{data}`` and ``{collection}`` are filled in."""
    backend: Literal["lucene", "exact"] = "lucene"
    curve: str | None = None
    """Line of the trade-off figure that the row is a point of."""

    scores: Scores = field(default_factory=dict)
    """Published scores: measures and, if the source has them, costs (``COSTS``)."""
    expected: Scores = field(default_factory=dict)
    """Scores that our own scores are compared with."""
    tolerance: float = 0.0005
    """Accepted difference from ``expected``; the default is what rounding to three decimals hides."""
    note: str = ""

    def runs_on(self, column: str) -> bool:
        """Whether the row is run on a column."""
        return self.published is None and (not self.columns or column in self.columns)

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
class Claim:
    """A claim of a paper: row ``better`` against row ``worse`` in ``quantity``, a measure or one of ``COSTS``.

    ``higher`` and ``less``: ``better`` has more of the quantity, or less. ``not lower``: it has no less. "Less cost at
    equal quality" is two claims: ``less`` of the cost and ``not lower`` in the measure.
    """

    source: str
    """Paper and table."""
    better: str
    worse: str
    quantity: str
    kind: Literal["higher", "not lower", "less"] = "higher"
    columns: tuple[str, ...] = ()
    """Columns the claim is about; empty: all."""
    margin: float = 0.0
    """Least difference for ``higher`` and ``less``; greatest tolerated loss for ``not lower``.

    In the unit of a measure (0.01: a point of MRR); for a cost a fraction of the cost of ``worse`` (0.5: less than
    half of it).
    """


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A leaderboard: every row is measured on every column, unless the row names its columns."""

    title: str
    columns: dict[str, Column]
    rows: dict[str, Row]
    about: str = ""
    training: Training | None = None
    baseline: str | None = None
    """Row that every other row is compared with."""
    test: Literal["randomization", "t-test"] = "randomization"
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


def claim_text(claim: Claim) -> str:
    """The claim in words.

    >>> claim_text(Claim(source="", better="a", worse="b", quantity="FLOPS", kind="less", margin=0.5))
    'a: FLOPS less than b by more than 50 %'
    """
    margin = f"{100 * claim.margin:g} %" if claim.quantity in COSTS else f"{claim.margin:g}"
    text = f"{claim.better}: {claim.quantity} {claim.kind} than {claim.worse}"
    return f"{text} by more than {margin}" if claim.margin else text


def slug(row: str) -> str:
    """Name of a row in paths.

    >>> slug("UHD separate, tuned"), slug("SpaDE k=10")
    ('uhd-separate-tuned', 'spade-k-10')
    """
    return re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-")
