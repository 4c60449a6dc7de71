"""Our numbers for a claim: difference, interval, and the smallest difference that the data can show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eval.measures import Estimate, Values, estimate_difference
from eval.reproduce.claims.claim import COSTS, Claim


@dataclass(frozen=True, kw_only=True)
class Side:
    """Results of one row on one column, as claims compare them."""

    done: bool = True
    scores: Mapping[str, float] = field(default_factory=dict)
    """Mean of each measure; all that a published row has."""
    trainings: Sequence[Mapping[str, Mapping[str, float]]] = ()
    """Measure → query → value of each training, or of the only run; empty for a published row."""
    costs: Mapping[str, float | None] = field(default_factory=dict)

    def values(self, measure: str, queries: Sequence[str]) -> Values:
        """Scores ``(trainings, queries)``; a published mean stands for every query."""
        published = [{measure: dict.fromkeys(queries, self.scores.get(measure, math.nan))}]
        return np.array([[one[measure][query] for query in queries] for one in self.trainings or published])


Sides = Callable[[str, str], Side]
"""Results by row and column."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Our numbers for a claim; differences in the unit of a measure, of costs as fractions of the cost of ``worse``."""

    difference: float
    """``better`` minus ``worse``."""
    asked: float
    """See ``Claim.asked``."""
    estimate: Estimate | None = None
    """Uncertainty of the difference; None for costs."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the difference, not corrected for other claims; None without or for a single query."""
        return self.estimate.interval if self.estimate and math.isfinite(self.estimate.error) else None

    @property
    def detectable(self) -> float | None:
        """Smallest difference found at 80 % power; None without an interval."""
        return self.estimate.detectable if self.interval and self.estimate else None


def find(claim: Claim, column: str, sides: Sides) -> Finding | None:
    """Our numbers for a claim on a column; None if one is missing."""
    better, worse = sides(claim.better, column), sides(claim.worse, column)
    if not better.done or not worse.done:
        return None
    if claim.quantity not in COSTS:
        queries = sorted((better.trainings or worse.trainings)[0][claim.quantity])
        return find_measure(claim, *(side.values(claim.quantity, queries) for side in (better, worse)))
    cost, other = (side.costs.get(claim.quantity) for side in (better, worse))
    return None if cost is None or other is None else find_cost(claim, cost, other)


def find_measure(claim: Claim, better: Values, worse: Values) -> Finding:
    """Our numbers for a claim about a measure, from the scores ``(trainings, queries)`` of both rows.

    >>> import numpy as np
    >>> claim = Claim(source="", better="a", worse="b", quantity="MRR@10", published=(0.6, 0.5))
    >>> round(find_measure(claim, np.array([[1.0, 0.5]]), np.array([[1.0, 0.25]])).asked, 4)  # 10 % of 0.625
    0.0625
    """
    estimate = estimate_difference(better, worse)
    return Finding(difference=estimate.value, asked=claim.asked(float(worse.mean())), estimate=estimate)


def find_cost(claim: Claim, better: float, worse: float) -> Finding:
    """Our numbers for a claim about a cost, one value for each row."""
    difference = (better - worse) / worse if worse else math.copysign(1.0, better) * (better != 0)
    return Finding(difference=difference, asked=claim.asked(worse))
