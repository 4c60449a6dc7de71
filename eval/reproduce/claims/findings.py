"""Our numbers for a claim: difference, interval, and the smallest difference that the data can show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eval.measures import Estimate, Values, estimate_difference, values_of
from eval.reproduce.claims.claim import Claim


@dataclass(frozen=True, kw_only=True)
class Side:
    """Results of one row on one column, as claims compare them."""

    done: bool = True
    scores: Mapping[str, float] = field(default_factory=dict)
    """Mean of each measure; all that a published row has."""
    trainings: Sequence[Mapping[str, Mapping[str, float]]] = ()
    """Measure → query → value of each training, or of the only run; empty for a published row."""
    costs: Mapping[str, float | None] = field(default_factory=dict)
    timed_on: str = ""
    """Processors that the costs were measured on."""

    def values(self, measure: str, queries: Sequence[str]) -> Values:
        """Scores ``(trainings, queries)``; a published mean stands for every query."""
        published = [{measure: dict.fromkeys(queries, self.scores.get(measure, math.nan))}]
        return values_of(self.trainings or published, measure, queries)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Our numbers for a claim; differences in the unit of a measure, of costs as fractions of the cost of ``worse``."""

    difference: float | None
    """``better`` minus ``worse``; None if there is a ``problem``."""
    asked: float
    """See ``Claim.asked``."""
    estimate: Estimate | None = None
    """Uncertainty of the difference; None for costs of single rows."""
    ratios: bool = False
    """Whether the estimate is of the logarithm of a ratio of costs."""
    problem: str = ""
    """Why the claim cannot be judged."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the difference, not corrected for other claims; None without or for a single query."""
        if self.estimate is None or math.isinf(self.estimate.error):
            return None
        low, high = self.estimate.interval
        return (math.expm1(low), math.expm1(high)) if self.ratios else (low, high)

    @property
    def detectable(self) -> float | None:
        """Smallest difference found at 80 % power; None without an interval."""
        if self.estimate is None or self.interval is None:
            return None
        return -math.expm1(-self.estimate.detectable) if self.ratios else self.estimate.detectable


def find_measure(claim: Claim, better: Values, worse: Values) -> Finding:
    """Our numbers for a claim about a measure, from the scores ``(trainings, queries)`` of both rows.

    >>> import numpy as np
    >>> claim = Claim(source="", better="a", worse="b", quantity="MRR@10", published=(0.6, 0.5))
    >>> round(find_measure(claim, np.array([[1.0, 0.5]]), np.array([[1.0, 0.25]])).asked, 4)  # odds 5/3 → 5/3 √1.5
    0.0462
    """
    estimate = estimate_difference(better, worse)
    return Finding(difference=estimate.value, asked=claim.asked(float(worse.mean())), estimate=estimate)


def find_cost(claim: Claim, better: float, worse: float) -> Finding:
    """Our numbers for a claim about a cost, one value for each row."""
    difference = (better - worse) / worse if worse else math.copysign(1.0, better) * (better != 0)
    return Finding(difference=difference, asked=claim.asked(worse))
