"""Verdicts on claims: by hand, against SciPy's permutation test, and the rows they name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from eval.ablation_rows import CLAIMS, ROWS, TRAINED
from eval.ablations import COSTS, MEASURES, slug
from eval.claims import Claim, judge, judge_cost, randomization_test

HIGHER = Claim(source="", better="a", worse="b", quantity="MRR@10")
NOT_LOWER = Claim(source="", better="a", worse="b", quantity="MRR@10", kind="not lower")


def scores(*values: float) -> dict[str, float]:
    return {f"q{place}": value for place, value in enumerate(values)}


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([0.0, 0.0], 1.0),
        ([1.0], 1.0),  # +1 and -1 are as far from 0
        ([1.0, 1.0, 1.0], 2 / 8),
        ([2.0, -1.0, 0.0], 1.0),  # of +-2 +-1 all four are at least 1 away from 0
        ([3.0, 2.0, -1.0], 4 / 8),  # 4 or more away from 0: 6, 4 and their negatives
    ],
)
def test_the_exact_test_by_hand(differences: list[float], p: float) -> None:
    assert randomization_test(np.array(differences)) == p


def test_resampling_agrees_with_scipy() -> None:
    differences = np.random.default_rng(1).normal(0.25, 1.0, size=60)
    expected = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=50_000, rng=np.random.default_rng(2)
    ).pvalue
    assert 0.02 < expected < 0.5
    assert randomization_test(differences) == pytest.approx(expected, abs=0.015)


def test_a_verdict_needs_a_difference_in_the_right_direction_and_no_chance() -> None:
    more, less = scores(*[1.0] * 8), scores(*[0.5] * 8)
    assert judge(HIGHER, more, less).holds == "holds"
    assert judge(HIGHER, less, more).holds == "does not hold"
    assert judge(HIGHER, scores(1.0, 0.5), scores(0.5, 0.5)).holds == "not significant"
    assert judge(HIGHER, more, less).difference == 0.5


def test_not_lower_fails_only_where_it_is_surely_lower() -> None:
    more, less = scores(*[1.0] * 8), scores(*[0.5] * 8)
    assert judge(NOT_LOWER, more, less).holds == "holds"
    assert judge(NOT_LOWER, less, more).holds == "does not hold"
    assert judge(NOT_LOWER, scores(0.5, 0.5), scores(1.0, 0.5)).holds == "holds"


def test_a_cost_is_one_number() -> None:
    assert judge_cost(1.0, 2.0).holds == "holds"
    assert judge_cost(2.0, 2.0).holds == "does not hold"


def test_claims_and_rows_name_what_is_there() -> None:
    for claim in CLAIMS:
        assert {claim.better, claim.worse} <= set(ROWS)
        assert claim.quantity in (COSTS if claim.kind == "less" else MEASURES)
    for row in ROWS.values():
        assert row.model in TRAINED
        assert row.index_of is None or ROWS[row.index_of].index_of is None
        assert row.index_of is None or ROWS[row.index_of].model == row.model
    assert {row.model for row in ROWS.values()} == set(TRAINED)
    assert len({slug(name) for name in ROWS}) == len(ROWS) == 15
