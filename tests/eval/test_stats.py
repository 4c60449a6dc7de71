"""Estimates of differences: their level in simulations, compared with SciPy and statsmodels, and Holm's correction."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from eval.stats import Values, average_of_trainings, compare, comparisons, difference, estimate_difference, holm

SIMULATIONS, QUERIES = 600, 60


class Simulated(NamedTuple):
    variance: float
    """Mean of the estimated variances, as a share of that of the estimated differences."""
    covered: float
    """Share of intervals that hold the true difference."""
    significant: float
    detectable: float


def simulate(effect: float, between: float, trainings: tuple[int, int] = (3, 3), interaction: float = 0.1) -> Simulated:
    """Results of tests on made-up scores whose true difference is ``effect``.

    Standard deviations: ``between`` trainings, ``interaction`` of a training and a query, 0.3 of the queries'
    differences.
    """
    rng = np.random.default_rng(1)

    def scores(queries: Values, number: int) -> Values:
        of_training = rng.normal(0, between if number > 1 else 0.0, size=(number, 1))
        return queries + of_training + rng.normal(0, interaction, size=(number, QUERIES))

    estimates = []
    for _ in range(SIMULATIONS):
        queries = rng.normal(0.5, 0.3, QUERIES)
        better = scores(queries + rng.normal(effect, 0.3, QUERIES), trainings[0])
        estimates.append(estimate_difference(better, scores(queries, trainings[1])))
    return Simulated(
        float(np.mean([one.error**2 for one in estimates]) / np.var([one.value for one in estimates])),
        float(np.mean([one.interval[0] <= effect <= one.interval[1] for one in estimates])),
        float(np.mean([one.p_value() < 0.05 for one in estimates])),
        float(np.mean([one.detectable() for one in estimates])),
    )


@pytest.mark.parametrize(
    ("between", "trainings", "interaction", "variance"),
    [
        (0.01, (3, 3), 0.1, 1.0),
        (0.05, (3, 1), 0.1, 1.0),
        (0.03, (3, 3), 0.3, 1.05),
        (0.0, (3, 3), 0.9, 1.25),  # not less than its parts; adding the interaction instead of subtracting it: 2.7
    ],
)
def test_the_variance_is_that_of_the_mean_and_the_level_is_a_twentieth(
    between: float, trainings: tuple[int, int], interaction: float, variance: float
) -> None:
    found = simulate(0.0, between, trainings, interaction)
    assert found.variance == pytest.approx(variance, abs=0.18)  # three standard errors: 3 * sqrt(2 / 600)
    assert found.significant == pytest.approx(0.04, abs=0.027)  # three standard errors
    assert found.covered == pytest.approx(0.96, abs=0.027)


def test_an_effect_of_the_detectable_size_is_found_in_four_of_five_cases() -> None:
    detectable = simulate(0.0, 0.01).detectable
    found = simulate(detectable, 0.01)
    assert found.significant == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / SIMULATIONS))


@pytest.mark.parametrize("level", [0.05, 0.005])
@pytest.mark.parametrize("queries", [50, 500])
def test_the_detectable_difference_is_near_that_of_statsmodels(queries: int, level: float) -> None:
    differences = np.random.default_rng(5).normal(0.0, 0.3, (1, queries))
    of_one_deviation = TTestPower().solve_power(nobs=queries, alpha=level, power=0.8)
    found = estimate_difference(differences, np.zeros((1, queries)))
    assert found.detectable(level) == pytest.approx(of_one_deviation * differences.std(ddof=1), rel=0.06)


def test_one_training_each_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(2)
    better, worse = rng.normal(0.53, 0.3, (1, 400)), rng.normal(0.5, 0.3, (1, 400))
    expected = scipy.stats.ttest_rel(better[0], worse[0])
    found = estimate_difference(better, worse)
    assert found.freedom == pytest.approx(399)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_value() == pytest.approx(expected.pvalue)
    assert found.p_value(-0.02) == pytest.approx(scipy.stats.ttest_1samp(better[0] - worse[0], -0.02).pvalue)


def test_two_ways_by_hand() -> None:
    """Three trainings, two queries: query means .4 and .6, training means .4, .5 and .6, no residual but +-.1."""
    better = np.array([[0.4, 0.4], [0.3, 0.7], [0.5, 0.7]])
    queries = ((0.4 - 0.6) ** 2 / 2) / 2
    trainings = 0.1**2 / 3
    residual = (2 * 0.1**2 + 2 * 0.1**2 + 0.0) / (2 * 1)
    found = estimate_difference(better, np.zeros((1, 2)))
    assert found.error**2 == pytest.approx(queries + max(0.0, trainings - residual / (3 * 2)))


def test_an_average_over_collections_has_the_errors_within_them() -> None:
    """Two collections of 50 and 4 queries: the small one decides the error and its degrees of freedom."""
    rng = np.random.default_rng(0)
    large, small = rng.normal(0.2, 0.1, (1, 50)), rng.normal(0.6, 0.1, (1, 4))
    columns = {
        at: [{"P@1": {str(i): value for i, value in enumerate(of[0].tolist())}}]
        for at, of in (("large", large), ("small", small))
    }
    average = average_of_trainings(columns, dict.fromkeys(columns, 0.5))
    found = difference(average, [{"P@1": dict.fromkeys(average[0]["P@1"], 0.0)}], "P@1")
    variances = [float(of.var(ddof=1)) / of.shape[1] / 4 for of in (large, small)]
    assert found.value == pytest.approx((large.mean() + small.mean()) / 2)
    assert found.error == pytest.approx(math.sqrt(sum(variances)))
    assert found.freedom == pytest.approx(sum(variances) ** 2 / (variances[0] ** 2 / 49 + variances[1] ** 2 / 3))


def test_what_cannot_be_estimated() -> None:
    single = estimate_difference(np.array([[1.0]]), np.array([[0.5]]))
    assert (single.value, single.error, single.p_value(), single.interval) == (
        0.5, math.inf, 1.0, (-math.inf, math.inf),
    )  # fmt: skip
    equal = estimate_difference(np.ones((1, 8)), np.zeros((1, 8)))  # no query differs from another: the sign test
    assert (equal.p_value(), equal.p_value(1.0)) == (2 / 2**8, 1.0)


@pytest.mark.parametrize("number", [1, 7, 40])
def test_holm_equals_that_of_statsmodels(number: int) -> None:
    raw = {str(i): float(value) for i, value in enumerate(np.random.default_rng(number).beta(0.3, 2.0, number))}
    expected = multipletests(list(raw.values()), method="holm")[1]
    assert list(holm(raw).values()) == pytest.approx(list(expected), abs=1e-12)


def test_p_values_are_corrected_for_each_measure() -> None:
    values = {"a": [0.0] * 8, "b": [1.0] * 8, "c": [1.0] * 8, "d": [0.5] * 4 + [-0.5] * 4}
    systems = {
        name: [{measure: {str(i): value for i, value in enumerate(of)} for measure in ("MAP", "P@1")}]
        for name, of in values.items()
    }
    systems["c"][0]["P@1"] = systems["a"][0]["P@1"]
    p = {name: {measure: one.p_value for measure, one in of.items()} for name, of in comparisons(systems, "a").items()}
    smallest = 2 / 2**8
    assert p == {
        "b": {"MAP": 3 * smallest, "P@1": 3 * smallest},
        "c": {"MAP": 3 * smallest, "P@1": 1.0},  # tied with b in MAP: never smaller than the smaller p-value
        "d": {"MAP": 1.0, "P@1": 1.0},
    }


@pytest.mark.jvm
def test_two_runs_are_compared_over_all_judged_queries() -> None:
    qrels = {f"q{i}": {"d1": 1} for i in range(4)}
    run_a = {query: [("d2", 2.0), ("d1", 1.0)] for query in qrels}
    run_b = {query: [("d1", 1.0)] for query in ("q0", "q1", "q2", "unjudged")}
    comparison = compare(run_a, run_b, qrels, "MRR@10")
    assert (comparison.mean_a, comparison.mean_b, comparison.difference) == (0.5, 0.75, 0.25)
    expected = scipy.stats.ttest_1samp([0.5, 0.5, 0.5, -0.5], 0.0)
    assert comparison.p_value == pytest.approx(expected.pvalue)
    assert comparison.confidence_interval == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_cross_fitting_is_a_t_test_over_folds() -> None:
    """The folds' means vary more than queries explain, or else the error is that of the paired test over queries."""
    rng = np.random.default_rng(3)
    for between in (0.3, 0.0):
        noise = [values - values.mean() for values in rng.normal(0, 0.2, (5, 40))]
        apart = [values + 0.1 + shift for values, shift in zip(noise, (-between, between, 0, between, 0), strict=True)]
        better = [{"P@1": {f"{n}-{q}": float(v) for q, v in enumerate(fold)}} for n, fold in enumerate(apart)]
        worse = [{"P@1": dict.fromkeys(fold["P@1"], 0.0)} for fold in better]
        estimate, means = difference(better, worse, "P@1"), [fold.mean() for fold in apart]
        of_queries = math.sqrt(np.mean([fold.var(ddof=1) / 40 for fold in apart]) / 5)
        between_folds = scipy.stats.sem(means)
        assert (between_folds > of_queries) == (between > 0)
        assert estimate.value == pytest.approx(np.mean(means))
        assert estimate.error == pytest.approx(max(between_folds, of_queries))
        assert estimate.freedom == 4
        if between:
            assert estimate.p_value() == pytest.approx(scipy.stats.ttest_1samp(means, 0).pvalue)
        compared = comparisons({"a": better, "b": worse}, "b")["a"]["P@1"]
        assert (compared.difference, compared.wins[1]) == (estimate.value, 200)
