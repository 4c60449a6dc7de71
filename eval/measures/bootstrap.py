"""Differences of two systems, resampled over trainings and queries: interval, p-value, detectable difference."""

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
_RESAMPLES, _BATCH = 2_000, 250  # the standard error of 2,000 draws is known to about 2 %


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

    Both have the same queries in the same order. Each draw takes queries with replacement, the same for both, and
    trainings of each system with replacement. It takes one fewer than there are, which makes the variance of the draws
    that of the mean (Rao and Wu 1988): with three trainings the usual bootstrap has a variance a third too small. The
    trainings are few, so interval and p-value take Student's t with Satterthwaite's degrees of freedom instead of
    percentiles of the draws. A system with one training counts as if it had no variance between trainings.

    >>> estimate_difference(np.array([[0.5, 0.75, 1.0]]), np.array([[0.5, 0.5, 0.5]])).value
    0.25
    """
    queries = better.shape[1]
    value = float(better.mean() - worse.mean())
    if queries < 2:
        return Estimate(value=value, error=math.inf, freedom=math.inf)
    variance = float(np.concatenate(_draws(better, worse)).var())
    between = [
        (float(values.mean(axis=1).var(ddof=1)) / len(values), len(values) - 1)
        for values in (better, worse)
        if len(values) > 1
    ]
    parts = [*between, (max(0.0, variance - sum(part for part, _ in between)), queries - 1)]
    squares = sum(part**2 / freedom for part, freedom in parts)
    freedom = sum(part for part, _ in parts) ** 2 / squares if squares else queries - 1.0
    return Estimate(value=value, error=math.sqrt(variance), freedom=freedom)


def query_weights(queries: int, draws: int, rng: np.random.Generator) -> Values:
    """Weights ``(queries, draws)`` of ``queries - 1`` queries drawn with replacement; each draw adds up to 1."""
    drawn = rng.integers(0, queries, size=(queries - 1, draws)) * draws + np.arange(draws)  # multinomial() is slower
    weights: Values = np.bincount(drawn.ravel(), minlength=queries * draws).reshape(queries, draws) / (queries - 1)
    return weights


def _draws(better: Values, worse: Values) -> list[Values]:
    """Resampled differences, in parts of ``_BATCH``."""
    rng, draws = np.random.default_rng(0), []
    for _ in range(_RESAMPLES // _BATCH):
        weights = query_weights(better.shape[1], _BATCH, rng)
        means = []
        for values in (better, worse):
            drawn = rng.integers(0, len(values), size=(max(1, len(values) - 1), _BATCH))
            means.append(np.take_along_axis(values @ weights, drawn, axis=0).mean(axis=0))
        draws.append(means[0] - means[1])
    return draws
