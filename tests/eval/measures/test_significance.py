"""P-values by hand and compared with SciPy, Holm's correction with statsmodels, and the comparison of two runs."""

from __future__ import annotations

import math
from math import erfc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from eval.measures import compare, confidence_interval, differences, estimate_difference, p_value, p_values
from eval.measures.significance import holm


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([0.0, 0.0], 1.0),
        ([1.0], 1.0),  # one query
        ([0.0, 0.5], 1.0),  # one query with a difference
        ([1.0, 1.0, 1.0], 2 / 8),
        ([2.0, -1.0, 0.0], 1.0),  # all four sums of +-2 and +-1 are at least 1 away from 0
        ([3.0, 2.0, -1.0], 4 / 8),  # sums at least 4 away from 0: 6, 4 and their negatives
        ([0.1, 0.2, -0.3], 1.0),  # the sum is 5e-17 instead of 0 in floats
        ([0.1] * 14, 2 / 2**14),  # the largest exact test
    ],
)
def test_exact_randomisation_by_hand(values: list[float], p: float) -> None:
    assert p_value(np.array(values)) == pytest.approx(p, abs=1e-12)


def test_random_signs_agree_with_scipys_permutations() -> None:
    values = np.random.default_rng(1).normal(0.25, 1.0, size=60)
    expected = scipy.stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=20_000, batch=1000, rng=np.random.default_rng(2)
    ).pvalue
    assert 0.02 < expected < 0.9
    assert p_value(values) == pytest.approx(expected, abs=0.02)  # five standard errors of 20,000 resamples


def test_random_signs_are_near_the_normal_distribution() -> None:
    """The sum of 200 signs is at least 28 away from 0."""
    values = np.array([1.0] * 114 + [-1.0] * 86)
    expected = erfc(27 / np.sqrt(2 * 200))  # 27: the sums are even, so half a step below 28
    assert p_value(values) == pytest.approx(expected, abs=0.01)
    assert p_value(np.ones(200)) == pytest.approx(2 / 20_001)  # no random signs are as extreme; each tail counts one


@given(st.lists(st.integers(-40, 40), min_size=2, max_size=30))
def test_t_test_and_interval_equal_scipys(values: list[int]) -> None:
    better = np.array(values, dtype=np.float64) / 8
    if len(set(values)) == 1:
        assert p_value(better, "t-test") == (1.0 if values[0] == 0 else 0.0)
        assert confidence_interval(better) == (better[0], better[0])
    else:
        expected = scipy.stats.ttest_rel(better + 1, np.ones(len(values)))
        assert p_value(better, "t-test") == pytest.approx(expected.pvalue, abs=1e-12)
        assert confidence_interval(better) == pytest.approx(tuple(expected.confidence_interval(0.95)), abs=1e-9)


def test_one_query_has_no_interval() -> None:
    assert p_value(np.array([1.0]), "t-test") == 1.0
    assert confidence_interval(np.array([1.0])) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("raw", "corrected"),
    [
        ({}, {}),
        ({"a": 0.02}, {"a": 0.02}),
        ({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}, {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}),  # 4, 3, 2, 1
        ({"a": 0.5, "b": 0.6}, {"a": 1.0, "b": 1.0}),
        ({"a": 0.02, "b": 0.02}, {"a": 0.04, "b": 0.04}),
    ],
)
def test_holm_by_hand(raw: dict[str, float], corrected: dict[str, float]) -> None:
    assert holm(raw) == pytest.approx(corrected)
    assert list(holm(raw)) == list(raw)


@pytest.mark.parametrize("number", [1, 2, 7, 40])
def test_holm_equals_that_of_statsmodels(number: int) -> None:
    raw = {str(i): float(value) for i, value in enumerate(np.random.default_rng(number).beta(0.3, 2.0, number))}
    expected = multipletests(list(raw.values()), method="holm")[1]
    assert list(holm(raw).values()) == pytest.approx(list(expected), abs=1e-12)


def test_p_values_are_corrected_for_each_measure() -> None:
    runs = {
        name: {measure: {str(i): value for i, value in enumerate(values)} for measure in ("MAP", "P@1")}
        for name, values in {"a": [0.0] * 8, "b": [1.0] * 8, "c": [1.0] * 8, "d": [0.5] * 4 + [-0.5] * 4}.items()
    }
    runs["c"]["P@1"] = runs["a"]["P@1"]
    smallest = 2 / 2**8
    assert p_values({name: [run] for name, run in runs.items()}, "a") == {
        "b": {"MAP": 3 * smallest, "P@1": 3 * smallest},
        "c": {
            "MAP": 3 * smallest,
            "P@1": 1.0,
        },  # tied with b in MAP; Holm's correction does not double the p-value of the second
        "d": {"MAP": 1.0, "P@1": 1.0},
    }
    by_t = p_values({name: [runs[name]] for name in "ad"}, "a", "t-test")
    expected = scipy.stats.ttest_rel(list(runs["d"]["MAP"].values()), [0.0] * 8).pvalue
    assert by_t["d"]["MAP"] == pytest.approx(expected)


def test_a_system_with_several_trainings_is_tested_over_trainings_too() -> None:
    rng = np.random.default_rng(0)
    one, two, other = ({"MAP": {str(i): float(value) for i, value in enumerate(rng.random(8))}} for _ in range(3))
    scores = [np.array([list(run["MAP"].values()) for run in runs]) for runs in ([one, two], [other])]
    expected = estimate_difference(*scores).p_value()
    assert p_values({"a": [other], "b": [one, two]}, "a") == {"b": {"MAP": expected}}
    assert p_values({"a": [one, two], "b": [other]}, "a") == {"b": {"MAP": pytest.approx(expected)}}


def test_differences_are_paired_by_query() -> None:
    assert differences({"q2": 1.0, "q1": 0.5}, {"q1": 0.25, "q2": 0.0}).tolist() == [0.25, 1.0]


@pytest.mark.jvm
def test_two_runs_are_compared_over_all_judged_queries() -> None:
    qrels = {f"q{i}": {"d1": 1} for i in range(4)}
    run_a = {query: [("d2", 2.0), ("d1", 1.0)] for query in qrels}
    run_b = {query: [("d1", 1.0)] for query in ("q0", "q1", "q2", "unjudged")}
    comparison = compare(run_a, run_b, qrels, "MRR@10", test="t-test")
    assert (comparison.mean_a, comparison.mean_b, comparison.difference) == (0.5, 0.75, 0.25)
    expected = scipy.stats.ttest_1samp([0.5, 0.5, 0.5, -0.5], 0.0)
    assert comparison.p_value == pytest.approx(expected.pvalue)
    assert comparison.confidence_interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    exact = compare(run_a, run_b, qrels, "MRR@10")
    assert exact.p_value == pytest.approx(10 / 16)  # +-0.5 four times: sums of at least 1 in absolute value
