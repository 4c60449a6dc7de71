"""Differences of two systems over trainings and queries: interval, p-value, detectable difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
"""Scores ``(trainings, queries)``."""
POWER = 0.8
"""Probability with which a detectable difference is found by a test at the level of 5 %."""
_LEVEL = 0.05
_ROUNDING = 1e-12  # of means of scores; smaller numbers count as 0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean difference, its standard error, and the degrees of freedom of that error."""

    value: float
    error: float
    """Infinite if nothing can be resampled: a single query."""
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval by Student's t; infinite for a single query."""
        half_width = self._quantile(1 - _LEVEL / 2) * self.error
        return self.value - half_width, self.value + half_width

    @property
    def detectable(self) -> float:
        """Smallest true difference that a two-sided test at 5 % finds with a probability of 80 %."""
        return (self._quantile(1 - _LEVEL / 2) + self._quantile(POWER)) * self.error

    def p_value(self, reference: float = 0.0) -> float:
        """Two-sided p-value of the difference from ``reference``; 1 if the two are equal."""
        distance = abs(self.value - reference)
        if distance < _ROUNDING or math.isinf(self.error):
            return 1.0
        if self.error < _ROUNDING:
            return 0.0
        from scipy import stats

        return float(2 * stats.t.sf(distance / self.error, self.freedom))

    def _quantile(self, probability: float) -> float:
        from scipy import stats

        return float(stats.t.ppf(probability, self.freedom))


def estimate_difference(better: Values, worse: Values) -> Estimate:
    """The mean of ``better`` minus that of ``worse``, with the standard error of a hierarchical bootstrap.

    Both have the same queries in the same order. The bootstrap draws queries with replacement, the same for both, and
    trainings of each system with replacement. It draws one fewer than there are, which makes the variance of the draws
    that of the mean (Rao and Wu 1988): with three trainings the usual bootstrap has a variance a third too small. That
    variance is computed exactly, without drawing. The trainings are few, so interval and p-value take Student's t with
    Satterthwaite's degrees of freedom. A system with one training counts as if it had no variance between trainings;
    with one training of each system, this is the paired t-test.

    >>> estimate_difference(np.array([[0.5, 0.75, 1.0]]), np.array([[0.5, 0.5, 0.5]])).value
    0.25
    """
    queries = better.shape[1]
    value = float(better.mean() - worse.mean())
    if queries < 2:
        return Estimate(value=value, error=math.inf, freedom=math.inf)
    of_queries = float((better.mean(axis=0) - worse.mean(axis=0)).var(ddof=1)) / queries
    parts = []
    for values in (better, worse):
        trainings = len(values)
        if trainings > 1:
            parts.append((float(values.mean(axis=1).var(ddof=1)) / trainings, trainings - 1))
            apart = values - values.mean(axis=0)  # trainings differ, and by other amounts on each query
            of_queries += float(apart.var(axis=1).sum()) / (trainings * (trainings - 1) * (queries - 1))
    parts.append((of_queries, queries - 1))
    variance = sum(part for part, _ in parts)
    squares = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / squares if squares else queries - 1.0
    return Estimate(value=value, error=math.sqrt(variance), freedom=freedom)


def query_weights(queries: int, draws: int, rng: np.random.Generator) -> Values:
    """Weights ``(queries, draws)`` of ``queries - 1`` queries drawn with replacement; each draw adds up to 1."""
    drawn = rng.integers(0, queries, size=(queries - 1, draws)) * draws + np.arange(draws)  # multinomial() is slower
    weights: Values = np.bincount(drawn.ravel(), minlength=queries * draws).reshape(queries, draws) / (queries - 1)
    return weights
