"""The results of a leaderboard as its pages use them: rows, columns, cells, quantities, claims and verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from eval.measures import SIGNIFICANT, Values, estimate_difference, values_of
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json

Json = Mapping[str, Any]
PerQuery = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""Column → row → measure → query → value."""
Trainings = Mapping[str, Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]]]
"""Column → row with several trainings → measure → query → value of each training."""

VERDICTS = {
    "reproduced": ("✓", "good"),
    "direction only": ("△", "unsure"),
    "not reproduced at this scale": ("○", "unsure"),
    "contradicted": ("✗", "bad"),
    "cannot be judged here": ("?", "soft"),
    "not measured": ("–", "soft"),
    "equal": ("=", "good"),
    "within tolerance": ("≈", "good"),
    "worse": ("✗", "bad"),
    "better": ("+", "unsure"),
}
"""Sign and CSS class of each verdict: the sign carries the meaning where colour is not seen."""
COMBINED = ("cross_encoder", "best_of")
"""Kinds of rows that combine others: re-ranked runs and upper bounds. They are in no ranking of systems."""
_SUMMARY_COSTS = ("FLOPS", "index bytes", "ms/query")
_SYSTEM = re.compile(r"^[^\W_]+")
_KEYS = ("title", "about", "command", "versions", "processor", "baseline", "test", "columns", "rows", "cells", "claims")


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A measure or a cost, and how its values are shown."""

    key: str
    heading: str
    digits: int
    best: Literal["highest", "lowest"] | None
    scale: float = 1.0
    """Factor from the stored value to the value shown."""
    cost: bool = True

    def show(self, value: float | None) -> str:
        """Text of a value in a table; a dash for an unknown value.

        >>> COSTS[3].show(2_345_678), measure("MRR@10").show(None)
        ('2.35', '–')
        """
        return "–" if value is None else f"{value * self.scale:.{self.digits}f}"

    def best_of(self, values: Sequence[float | None]) -> str | None:
        """Text of the best value; None for fewer than two known values. Values with equal text are equally good."""
        known = [value for value in values if value is not None]
        if self.best is None or len(known) < 2:
            return None
        return self.show(max(known) if self.best == "highest" else min(known))


COSTS = (
    Quantity(key="FLOPS", heading="FLOPS", digits=3, best="lowest"),
    Quantity(key="terms/document", heading="terms/doc.", digits=1, best=None),
    Quantity(key="terms/query", heading="terms/query", digits=1, best=None),
    Quantity(key="index bytes", heading="Lucene index MB", digits=2, best="lowest", scale=1e-6),
    Quantity(key="ms/query", heading="Lucene ms/query, median", digits=2, best="lowest"),
    Quantity(key="mean ms/query", heading="Lucene ms/query, mean", digits=2, best="lowest"),
    Quantity(key="p99 ms/query", heading="Lucene ms/query, p99", digits=2, best="lowest"),
    Quantity(key="mean ms/query with encoding", heading="ms/query with encoding, mean", digits=2, best="lowest"),
    Quantity(key="documents/s", heading="documents/s", digits=1, best="highest"),
    Quantity(key="PISA ms/query", heading="PISA ms/query, mean (published)", digits=0, best=None),
    Quantity(key="PISA index GB", heading="PISA index GB (published)", digits=1, best=None),
    Quantity(key="published ms/query with encoding", heading="ms/query with encoding (published)", digits=0, best=None),
)


def measure(name: str) -> Quantity:
    """The quantity of a measure of trec_eval in the notation of the field, such as ``nDCG@10``."""
    return Quantity(key=name, heading=name, digits=4, best="highest", cost=False)


@dataclass(frozen=True, kw_only=True)
class Results:
    """The content of ``results.json``, ``per_query.json`` and ``trainings.json``."""

    content: Json
    per_query: PerQuery
    trainings: Trainings = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Results:
        """Read the files from a folder that ``python -m eval.reproduce`` has written."""
        path = folder / "results.json"
        content = read_json(path)
        missing = [key for key in _KEYS if not isinstance(content, dict) or key not in content]
        if missing:
            raise LearnedSparseError(f"{path}: no {missing[0]!r}; it is not what python -m eval.reproduce writes")
        per_query, trainings = folder / "per_query.json", folder / "trainings.json"
        if not trainings.is_file():  # earlier versions wrote none
            raise LearnedSparseError(
                f"{trainings}: not found; run python -m eval.reproduce again: it writes this file, and repeats no "
                "finished step"
            )
        return cls(content=content, per_query=read_json(per_query), trainings=read_json(trainings))

    @property
    def rows(self) -> Sequence[Json]:
        """All rows in the order of the matrix."""
        rows: Sequence[Json] = self.content["rows"]
        return rows

    @property
    def columns(self) -> Sequence[Json]:
        """All columns in the order of the matrix."""
        columns: Sequence[Json] = self.content["columns"]
        return columns

    def cell(self, row: str, column: str) -> Json:
        """The cell of a row in a column; its status is "absent" if the results do not have it."""
        return self._cells.get((row, column), {"row": row, "column": column, "status": "absent", "scores": {}})

    def quantities(self, column: Json) -> list[Quantity]:
        """Measures of the column and of its published scores, then each cost that one of its cells has."""
        return self._quantities[column["name"]]

    def _quantities_of(self, column: Json) -> list[Quantity]:
        names = [row["name"] for row in self.rows]
        known = [cost for cost in COSTS if any(self.value(name, column["name"], cost) is not None for name in names)]
        costs = {cost.key for cost in COSTS}
        scored = [key for name in names for key in self.cell(name, column["name"])["scores"] if key not in costs]
        return [*map(measure, dict.fromkeys([*column["measures"], *scored])), *known]

    def measures(self) -> list[Quantity]:
        """Every measure of any column, each once."""
        return list(dict.fromkeys(one for column in self.columns for one in self.quantities(column) if not one.cost))

    def value(self, row: str, column: str, quantity: Quantity) -> float | None:
        """Value of one cell, None if unknown. Published rows have their costs among their scores."""
        cell = self.cell(row, column)
        costs = (cell.get("costs") or {}) if quantity.cost else {}
        value: float | None = costs.get(quantity.key)
        return cell["scores"].get(quantity.key) if value is None else value

    def values(self, rows: Iterable[str], column: str, quantity: Quantity) -> dict[str, float]:
        """The known values of ``rows`` in a column."""
        found = {row: self.value(row, column, quantity) for row in rows}
        return {row: value for row, value in found.items() if value is not None}

    def by_training(self, row: str, column: str, quantity: Quantity) -> Values | None:
        """Scores ``(trainings, queries)`` of a cell, queries in the order of their ids; None if they are unknown."""
        per_query = self.per_query.get(column, {}).get(row, {})
        if not per_query.get(quantity.key):
            return None
        trainings = self.trainings.get(column, {}).get(row) or [per_query]
        return values_of(trainings, quantity.key, sorted(per_query[quantity.key]))

    def best(self, column: str, quantity: Quantity) -> str | None:
        """Text of the best value of a column; published rows do not compete."""
        ours = [row["name"] for row in self.rows if row["kind"] != "published"]
        return quantity.best_of([self.value(row, column, quantity) for row in ours])

    def is_best(self, row: Json, column: str, quantity: Quantity) -> bool:
        """Whether the value of a row is shown as the best of its column."""
        value = self.value(row["name"], column, quantity)
        best = row["kind"] != "published" and value is not None and self.best(column, quantity)
        return best == quantity.show(value)

    def has_cost(self, row: Json, column: Json, costs: Sequence[Quantity]) -> bool:
        """Whether any of ``costs`` is known for a row in a column."""
        return any(self.value(row["name"], column["name"], cost) is not None for cost in costs)

    def claims(self) -> list[Json]:
        """The judged claims, those of one paper together, in the order of their first claims."""
        papers = list(dict.fromkeys(_paper(claim) for claim in self.content["claims"]))
        return sorted(self.content["claims"], key=lambda claim: papers.index(_paper(claim)))

    def papers(self) -> list[tuple[str, Json, str]]:
        """Each paper with its first claim and the number of its claims by verdict, as text."""
        by_paper: dict[str, list[Json]] = {}
        for claim in self.claims():
            by_paper.setdefault(_paper(claim), []).append(claim)
        counts = {paper: Counter(str(claim["verdict"]) for claim in claims) for paper, claims in by_paper.items()}
        return [
            (paper, claims[0], ", ".join(f"{number} {word}" for word, number in counts[paper].items()))
            for paper, claims in by_paper.items()
        ]

    def summary_costs(self, column: str) -> list[Quantity]:
        """The costs that the first table shows, as far as a row has them."""
        names = [row["name"] for row in self.rows if row["kind"] != "published"]
        costs = [cost for cost in COSTS if cost.key in _SUMMARY_COSTS]
        return [cost for cost in costs if any(self.value(name, column, cost) is not None for name in names)]

    @cached_property
    def _quantities(self) -> dict[str, list[Quantity]]:
        return {column["name"]: self._quantities_of(column) for column in self.columns}

    @cached_property
    def _cells(self) -> dict[tuple[str, str], Json]:
        return {(cell["row"], cell["column"]): cell for cell in self.content["cells"]}


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best row of a system, and its difference from the baseline with the 95 % interval of ``Estimate``."""

    row: str
    value: float
    difference: float | None
    low: float | None
    high: float | None


def _paper(claim: Json) -> str:
    return str(claim["source"]).partition(",")[0]


def summary(results: Results) -> tuple[Json, Quantity, list[Best]] | None:
    """The best row of each system in the first measure of the first column that is measured, best first.

    Published and ``COMBINED`` rows do not take part. None if nothing is measured.
    """
    own = [row["name"] for row in results.rows if row["kind"] not in {"published", *COMBINED}]
    for column in results.columns:
        quantity = next((one for one in results.quantities(column) if not one.cost), None)
        values = quantity and results.values(own, column["name"], quantity)
        if quantity and values:
            return column, quantity, [_best(row, results, column["name"], quantity) for row in best_of_systems(values)]
    return None


def best_of_systems(values: Mapping[str, float]) -> list[str]:
    """The row with the largest value of each system, largest first. Rows of a system begin with the same word.

    >>> best_of_systems({"BM25": 0.2, "SpaDE k=5": 0.3, "SpaDE k=10": 0.4})
    ['SpaDE k=10', 'BM25']
    """
    best: dict[str, str] = {}
    for row in sorted(values, key=values.__getitem__, reverse=True):
        best.setdefault(_SYSTEM.findall(row)[0] if _SYSTEM.findall(row) else row, row)
    return list(best.values())


def _best(row: str, results: Results, column: str, quantity: Quantity) -> Best:
    value = results.values([row], column, quantity)[row]
    baseline = results.content["baseline"]
    scores, reference = (results.by_training(name, column, quantity) for name in (row, baseline))
    if row == baseline or scores is None or reference is None:
        return Best(row=row, value=value, difference=None, low=None, high=None)
    estimate = estimate_difference(scores, reference)
    low, high = estimate.interval
    return Best(row=row, value=value, difference=estimate.value, low=low, high=high)


def mark(cell: Json, key: str) -> str:
    """``▲`` or ``▼`` if a measure differs significantly from the baseline's, else an empty text.

    >>> mark({"difference": {"P@1": -0.2}, "p": {"P@1": 0.001}}, "P@1")
    '▼'
    """
    p, difference = (cell.get("p") or {}).get(key), (cell.get("difference") or {}).get(key)
    if p is None or not difference or p >= SIGNIFICANT:
        return ""
    return "▲" if difference > 0 else "▼"


def verdict(word: str) -> str:
    """A verdict with its sign.

    >>> verdict("direction only")
    '△ direction only'
    """
    return f"{VERDICTS[word][0]} {word}"


def p_value(p: float | None) -> str:
    """Text of a p-value.

    >>> p_value(0.00005), p_value(0.0312), p_value(None)
    ('< 0.001', '0.031', '–')
    """
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def published_difference(claim: Json) -> str:
    """The paper's difference as text, also relative to its score of the worse row.

    >>> published_difference({"published": [0.352, 0.32]}), published_difference({"published": None})
    ('+0.0320 (+10 %)', '–')
    """
    if not claim.get("published"):
        return "–"
    better, worse = claim["published"]
    return f"{signed(better - worse)} ({percent((better - worse) / worse)})"


def difference(claim: Json, key: str = "difference") -> str:
    """A difference of a claim as text: of costs in percent.

    >>> difference({"difference": -0.881, "relative": True}), difference({"difference": 0.01, "relative": False})
    ('−88 %', '+0.0100')
    """
    return (percent if claim.get("relative") else signed)(claim[key])


def interval(claim: Json) -> str:
    """The 95 % interval of a claim's difference as text.

    >>> interval({"interval": [-0.01, 0.02], "relative": False})
    '−0.0100 to +0.0200'
    """
    show = percent if claim.get("relative") else signed
    return " to ".join(show(end) for end in claim["interval"])


def size(claim: Json, key: str) -> str:
    """``asked`` or ``detectable`` of a claim as text, without a sign.

    >>> size({"asked": 0.25, "relative": True}, "asked"), size({}, "detectable")
    ('25 %', '–')
    """
    value = claim.get(key)
    return "–" if value is None else (percent if claim.get("relative") else signed)(value).lstrip("+")


def percent(fraction: float | None) -> str:
    """A fraction as a signed percentage, with a decimal below 10 %."""
    return "–" if fraction is None else f"{100 * fraction:+.{0 if abs(fraction) >= 0.0995 else 1}f} %".replace("-", "−")


def signed(value: float | None) -> str:
    """Text of a difference of measures or costs, with about four significant digits and a minus sign (U+2212).

    >>> signed(0.01234), signed(-12.5), signed(-2_345_678.9), signed(None)
    ('+0.0123', '−12.5', '−2,345,679', '–')
    """
    if value is None:
        return "–"
    digits = 4 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:+,.{digits}f}".replace("-", "−")
