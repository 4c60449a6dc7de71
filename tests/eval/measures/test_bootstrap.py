"""The bootstrap over trainings and queries: its level and power in simulations, compared with SciPy and statsmodels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.power import TTestPower

from eval.measures import Estimate, Values, estimate_difference, query_weights

SIMULATIONS, QUERIES = 300, 60


class Simulated(NamedTuple):
    covered: float
    """Share of intervals that hold the true difference."""
    significant: float
    detectable: float


def simulate(effect: float, between: float, trainings: tuple[int, int] = (3, 3)) -> Simulated:
    """Results of tests on made-up scores whose true difference is ``effect``.

    ``between``: standard deviation of trainings. That of the queries' differences is 0.3, of a training on a query 0.1.
    """
    rng = np.random.default_rng(1)

    def scores(queries: Values, number: int) -> Values:
        of_training = rng.normal(0, between if number > 1 else 0.0, size=(number, 1))
        return queries + of_training + rng.normal(0, 0.1, size=(number, QUERIES))

    estimates = []
    for _ in range(SIMULATIONS):
        queries = rng.normal(0.5, 0.3, QUERIES)
        better = scores(queries + rng.normal(effect, 0.3, QUERIES), trainings[0])
        estimates.append(estimate_difference(better, scores(queries, trainings[1])))
    return Simulated(
        float(np.mean([one.interval[0] <= effect <= one.interval[1] for one in estimates])),
        float(np.mean([one.p_value() < 0.05 for one in estimates])),
        float(np.mean([one.detectable for one in estimates])),
    )


@pytest.mark.parametrize(
    ("between", "trainings"),
    [(0.01, (3, 3)), (0.01, (3, 1)), (0.05, (3, 3)), (0.2, (3, 1))],  # 0.2: almost nothing but the trainings counts
)
def test_no_effect_is_found_in_a_twentieth_of_the_cases(between: float, trainings: tuple[int, int]) -> None:
    found = simulate(0.0, between, trainings)
    tolerance = 3 * math.sqrt(0.05 * 0.95 / SIMULATIONS)  # three standard errors: 0.038
    assert found.significant == pytest.approx(0.05, abs=tolerance)
    assert found.covered == pytest.approx(0.95, abs=tolerance)


def test_an_effect_of_the_detectable_size_is_found_in_four_of_five_cases() -> None:
    detectable = simulate(0.0, 0.01).detectable
    found = simulate(detectable, 0.01)
    assert found.significant == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / SIMULATIONS))
    assert found.covered == pytest.approx(0.95, abs=0.038)


def test_one_training_each_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(2)
    better, worse = rng.normal(0.53, 0.3, (1, 400)), rng.normal(0.5, 0.3, (1, 400))
    expected = scipy.stats.ttest_rel(better[0], worse[0])
    found = estimate_difference(better, worse)
    assert found.freedom == pytest.approx(399)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_value() == pytest.approx(expected.pvalue)
    assert found.p_value(-0.02) == pytest.approx(scipy.stats.ttest_1samp(better[0] - worse[0], -0.02).pvalue)


@pytest.mark.parametrize("trainings", [(3, 1), (2, 3), (4, 4)])
def test_the_error_is_that_of_drawing(trainings: tuple[int, int]) -> None:
    """Of queries and trainings, one fewer than there are; the error of 20,000 draws is known to half a percent."""
    rng = np.random.default_rng(6)
    queries = rng.normal(0.5, 0.3, 25)
    better, worse = (
        queries + rng.normal(0, 0.1, (number, 1)) + rng.normal(0, 0.2, (number, 25)) for number in trainings
    )
    draws = []
    for _ in range(20_000):
        drawn = rng.integers(25, size=24)
        means = [of[rng.integers(len(of), size=max(1, len(of) - 1))][:, drawn].mean() for of in (better, worse)]
        draws.append(means[0] - means[1])
    assert estimate_difference(better, worse).error == pytest.approx(np.std(draws), rel=0.02)


@pytest.mark.parametrize("queries", [50, 500])
def test_the_detectable_difference_is_near_that_of_statsmodels(queries: int) -> None:
    differences = np.random.default_rng(5).normal(0.0, 0.3, (1, queries))
    of_one_deviation = TTestPower().solve_power(nobs=queries, alpha=0.05, power=0.8)
    found = estimate_difference(differences, np.zeros((1, queries)))
    assert found.detectable == pytest.approx(of_one_deviation * differences.std(ddof=1), rel=0.06)


def test_the_interval_is_near_scipys_bootstrap() -> None:
    rng = np.random.default_rng(3)
    values = np.asarray(rng.choice([0.0, 0.0, 0.5, 1.0], 300), np.float64)
    expected = scipy.stats.bootstrap((values,), np.mean, rng=np.random.default_rng(4)).confidence_interval
    found = estimate_difference(values[None, :], np.zeros((1, 300)))
    assert found.interval == pytest.approx(tuple(expected), abs=0.005)


def test_trainings_alone_by_hand() -> None:
    """Every query is equal, so that the error is that of the mean of three trainings, with two degrees of freedom."""
    better = np.repeat([[0.5], [0.6], [0.7]], 50, axis=1)
    found = estimate_difference(better, np.zeros((1, 50)))
    error = 0.1 / math.sqrt(3)
    assert found.value == pytest.approx(0.6)
    assert found.error == pytest.approx(error)
    assert found.freedom == pytest.approx(2.0)


def test_quantiles_of_an_estimate_by_hand() -> None:
    """Of 1.96 and 1.96 + 0.84 standard errors."""
    found = Estimate(value=0.1, error=0.05, freedom=math.inf)
    assert found.interval == pytest.approx((0.1 - 0.05 * 1.959964, 0.1 + 0.05 * 1.959964))
    assert found.detectable == pytest.approx(0.05 * (1.959964 + 0.841621), abs=1e-6)
    assert found.p_value() == pytest.approx(2 * scipy.stats.norm.sf(2.0))
    assert found.p_value(0.1) == 1.0


def test_a_single_query_says_nothing() -> None:
    found = estimate_difference(np.array([[1.0]]), np.array([[0.5]]))
    assert (found.value, found.error, found.p_value()) == (0.5, math.inf, 1.0)
    assert found.interval == (-math.inf, math.inf)
    assert estimate_difference(np.ones((1, 8)), np.zeros((1, 8))).p_value() == 0.0  # no query differs from another


def test_weights_are_of_one_query_fewer() -> None:
    weights = query_weights(5, 2000, np.random.default_rng(0))
    assert weights.sum(axis=0) == pytest.approx(np.ones(2000))
    assert set(np.unique(weights * 4)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert weights.mean(axis=1) == pytest.approx(np.full(5, 0.2), abs=0.02)
