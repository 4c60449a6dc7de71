"""Tests of differences: by hand, against SciPy, and what Holm and Bonferroni's correction promises."""

from __future__ import annotations

from math import erfc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from eval.measures.significance import chance, chances, differences, holm, randomization_test, said, t_test

CHANCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12).map(
    lambda found: {f"run {place}": p for place, p in enumerate(found)}
)


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([0.0, 0.0], 1.0),
        ([1.0], 1.0),  # +1 and -1 are as far from 0
        ([1.0, 1.0, 1.0], 2 / 8),
        ([2.0, -1.0, 0.0], 1.0),  # of +-2 +-1 all four are at least 1 away from 0
        ([3.0, 2.0, -1.0], 4 / 8),  # 4 or more away from 0: 6, 4 and their negatives
        ([0.1, 0.2, -0.3], 1.0),  # a sum of 5e-17, not 0, in floats
    ],
)
def test_the_exact_test_by_hand(values: list[float], p: float) -> None:
    assert randomization_test(np.array(values)) == p


@pytest.mark.parametrize("pairs", [14, 60])
def test_random_signs_agree_with_scipy(pairs: int) -> None:
    values = np.random.default_rng(1).normal(0.25, 1.0, size=pairs)
    expected = scipy.stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=50_000, rng=np.random.default_rng(2)
    ).pvalue
    assert 0.02 < expected < 0.9
    assert randomization_test(values) == pytest.approx(expected, abs=1e-9 if pairs <= 14 else 0.015)


def test_resampling_is_near_the_normal_law() -> None:
    """Half a million sign patterns of equal sizes: the sum of 200 signs is +28 or more, or -28 or less."""
    values = np.array([1.0] * 114 + [-1.0] * 86)
    expected = erfc(27 / np.sqrt(2 * 200))  # half a step of 2 between the values taken
    assert randomization_test(values) == pytest.approx(expected, abs=0.01)
    assert randomization_test(np.ones(200)) == 1 / 20_001  # no pattern drawn is as far


def test_the_same_values_give_the_same_chance() -> None:
    values = np.random.default_rng(3).normal(0.2, 1.0, size=40)
    assert randomization_test(values) == randomization_test(values.copy())
    assert randomization_test(values) != randomization_test(values, seed=1)


@given(st.lists(st.integers(-40, 40), min_size=2, max_size=30))
def test_the_t_test_is_scipys(values: list[int]) -> None:
    better = np.array(values, dtype=np.float64) / 8
    found = t_test(better)
    if len(set(values)) == 1:
        assert found == (1.0 if values[0] == 0 else 0.0)
    else:
        expected = scipy.stats.ttest_rel(better + 1, np.ones(len(values))).pvalue
        assert found == pytest.approx(expected, abs=1e-12)


def test_a_single_query_proves_nothing() -> None:
    assert t_test(np.array([1.0])) == 1.0
    assert chance(np.array([1.0]), "t-test") == chance(np.array([1.0])) == 1.0


def test_the_test_asked_for_is_made() -> None:
    values = np.random.default_rng(4).exponential(1.0, size=12) - 0.5
    assert chance(values, "t-test") == t_test(values) != randomization_test(values) == chance(values)


@pytest.mark.parametrize(
    ("found", "corrected"),
    [
        ({}, {}),
        ({"a": 0.02}, {"a": 0.02}),
        ({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}, {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}),  # 4, 3, 2, 1
        ({"a": 0.5, "b": 0.6}, {"a": 1.0, "b": 1.0}),
        ({"a": 0.02, "b": 0.02}, {"a": 0.04, "b": 0.04}),
    ],
)
def test_holm_by_hand(found: dict[str, float], corrected: dict[str, float]) -> None:
    assert holm(found) == pytest.approx(corrected)
    assert list(holm(found)) == list(found)


@given(CHANCES)
def test_holm_keeps_the_order_between_the_raw_chance_and_bonferronis(found: dict[str, float]) -> None:
    corrected = holm(found)
    for name, p in found.items():
        assert p <= corrected[name] <= min(1.0, len(found) * p)
        assert all(corrected[name] <= corrected[other] for other in found if p <= found[other])
    least = min(found, key=found.__getitem__)
    assert corrected[least] == min(1.0, len(found) * found[least])


@given(CHANCES, st.floats(0.001, 0.5))
def test_holm_rejects_step_by_step(found: dict[str, float], level: float) -> None:
    """As Holm puts it: go up from the smallest, and stop at the first that is not below level / (those left)."""
    rejected = set()
    for place, (name, p) in enumerate(sorted(found.items(), key=lambda item: item[1])):
        if p * (len(found) - place) >= level:
            break
        rejected.add(name)
    assert {name for name, p in holm(found).items() if p < level} == rejected


def test_chances_are_corrected_for_each_measure_by_itself() -> None:
    runs = {
        name: {measure: {str(i): value for i, value in enumerate(values)} for measure in ("MAP", "P@1")}
        for name, values in {"a": [0.0] * 8, "b": [1.0] * 8, "c": [1.0] * 8, "d": [0.5] * 4 + [-0.5] * 4}.items()
    }
    runs["c"]["P@1"] = runs["a"]["P@1"]
    least = 2 / 2**8
    expected = {
        "b": {"MAP": 3 * least, "P@1": 3 * least},
        "c": {"MAP": 3 * least, "P@1": 1.0},  # the tied one, not twice its own
        "d": {"MAP": 1.0, "P@1": 1.0},
    }
    assert chances(runs, "a") == expected
    assert said(chances(runs, "a"), "a") == "significantly different from a (p < 0.05): MAP: b, c; P@1: b"


def test_chances_by_the_t_test() -> None:
    values = np.random.default_rng(5).normal(0.4, 1.0, size=(2, 20))
    runs = {
        name: {"MAP": {f"q{i}": float(value) for i, value in enumerate(row)}}
        for name, row in zip("ab", values, strict=True)
    }
    expected = scipy.stats.ttest_rel(values[1], values[0]).pvalue
    assert chances(runs, "a", "t-test")["b"]["MAP"] == pytest.approx(expected)


def test_differences_are_paired_by_query() -> None:
    assert differences({"q2": 1.0, "q1": 0.5}, {"q1": 0.25, "q2": 0.0}).tolist() == [0.25, 1.0]
