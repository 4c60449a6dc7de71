"""Costs of two curves at equal quality, such as FLOPS of two regularisers with several lambdas at equal MRR@10."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eval.measures import Estimate, Values, query_weights
from eval.reproduce.claims.claim import Claim
from eval.reproduce.claims.findings import Finding, Side

MIN_POINTS = 5
"""Rows of a curve. Ours: fewer leave most of the line to interpolation."""
_RESAMPLES = 500
_MAX_APART = 0.05
"""Share of draws without a shared range above which nothing is said. Ours."""


def find_at_equal_quality(claim: Claim, better: Sequence[Side], worse: Sequence[Side]) -> Finding | None:
    """Our numbers for a claim about two curves, each the results of its rows; None if one is missing.

    Only queries are resampled, over the mean of the trainings of each row. Costs stay as they were measured.
    """
    if any(not side.done or side.costs.get(claim.quantity) is None for side in (*better, *worse)):
        return None
    measure = str(claim.quality)
    queries = sorted(better[0].trainings[0][measure])
    curves = [
        (
            np.array([side.costs[claim.quantity] for side in sides], dtype=np.float64),
            np.array([side.values(measure, queries).mean(axis=0) for side in sides]),
        )
        for sides in (better, worse)
    ]
    asked = claim.asked(0.0)
    if min(costs.min() for costs, _ in curves) <= 0:
        return Finding(difference=None, asked=asked, problem=f"a row has no {claim.quantity}")
    ratio = log_cost_ratio(*((costs, values.mean(axis=1)) for costs, values in curves))
    if ratio is None:
        return Finding(difference=None, asked=asked, problem=f"the curves share no range of {measure}")
    if len(queries) < 2:
        return Finding(difference=math.expm1(ratio), asked=asked, problem="one query has no interval")
    weights = query_weights(len(queries), _RESAMPLES, np.random.default_rng(0))
    (first, first_means), (second, second_means) = ((costs, values @ weights) for costs, values in curves)
    draws = [log_cost_ratio((first, first_means[:, i]), (second, second_means[:, i])) for i in range(_RESAMPLES)]
    ratios = [draw for draw in draws if draw is not None]
    if len(ratios) < (1 - _MAX_APART) * _RESAMPLES:
        share = 1 - len(ratios) / _RESAMPLES
        return Finding(
            difference=math.expm1(ratio), asked=asked,
            problem=f"in {share:.0%} of the resampled sets of queries the curves share no range of {measure}",
        )  # fmt: skip
    estimate = Estimate(value=ratio, error=float(np.std(ratios)), freedom=len(queries) - 1)
    return Finding(difference=math.expm1(ratio), asked=asked, estimate=estimate, ratios=True)


def log_cost_ratio(better: tuple[Values, Values], worse: tuple[Values, Values]) -> float | None:
    """Mean logarithm of the ratio of two curves' costs over the range of quality that both reach; None without one.

    A curve is ``(costs, qualities)`` of its points, and becomes a line of rising cost and quality: points that another
    one of the same curve beats are left out, and between the others the logarithm of the cost is linear in quality.
    Nothing is extrapolated. The mean over the range is that of Bjontegaard (2001), who compares video codecs.

    >>> import numpy as np
    >>> half = np.array([1.0, 2.0]), np.array([0.1, 0.3])
    >>> whole = np.array([2.0, 4.0]), np.array([0.1, 0.3])
    >>> round(math.exp(log_cost_ratio(half, whole)), 6)
    0.5
    """
    lines = [_line(*curve) for curve in (better, worse)]
    low, high = max(qualities[0] for qualities, _ in lines), min(qualities[-1] for qualities, _ in lines)
    if high <= low:
        return None
    knots = np.unique(np.concatenate([np.clip(qualities, low, high) for qualities, _ in lines]))
    first, second = (np.interp(knots, *line) for line in lines)
    from scipy import integrate

    return float(integrate.trapezoid(first - second, knots) / (high - low))


def _line(costs: Values, qualities: Values) -> tuple[Values, Values]:
    """Qualities and logarithms of costs of the points that no cheaper or equally cheap point of the curve reaches."""
    order = np.lexsort((-qualities, costs))
    best = np.maximum.accumulate(qualities[order])
    kept = order[np.concatenate([[True], best[1:] > best[:-1]])]
    return qualities[kept], np.log(costs[kept])
