"""Verdicts on claims, computed by hand."""

from __future__ import annotations

import pytest

from eval.measures import Test
from eval.reproduce.claims import NOT_REPRODUCED, Claim, Verdict, claim_text, judge, judge_cost
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

HIGHER = Claim(source="", better="a", worse="b", quantity="MRR@10", margin=0.0)


def scores(*values: float) -> dict[str, float]:
    return {f"q{number}": value for number, value in enumerate(values)}


def test_a_claim_needs_a_significant_difference_in_its_direction() -> None:
    high, low = scores(*[1.0] * 8), scores(*[0.5] * 8)
    assert judge(HIGHER, high, low).holds == "holds"
    assert judge(HIGHER, low, high).holds == NOT_REPRODUCED
    assert judge(HIGHER, scores(1.0, 0.5), scores(0.5, 0.5)).holds == "not significant"
    assert judge(HIGHER, high, low).difference == 0.5


def test_margins_by_default() -> None:
    """Half the paper's difference, and 0.01 for a claim of no loss."""
    assert parse(Claim, {**CONTENT, "published": 0.03}, "here").least == 0.015
    assert parse(Claim, {**CONTENT, "published": 0.03, "margin": 0.0}, "here").least == 0.0
    assert parse(Claim, {**CONTENT, "kind": "not lower"}, "here").least == 0.01


CONTENT = {"source": "", "better": "a", "worse": "b", "quantity": "MRR@10"}


def test_trainings_are_resampled_as_well() -> None:
    """A difference that one of three trainings makes alone is not significant, however many queries there are."""
    worse = scores(*[0.5] * 200)
    even = [scores(*(0.5 + 0.1 + 0.01 * (i % 2) for i in range(200))) for _ in range(3)]
    odd = [scores(*[0.5 + change] * 200) for change in (0.4, -0.02, -0.02)]
    mean = {query: sum(of_seed[query] for of_seed in odd) / 3 for query in worse}
    assert judge(HIGHER, mean, worse).holds == "holds"  # without the trainings
    found = judge(HIGHER, mean, worse, seeds=(odd, [worse]))
    # all three drawings are of the two trainings below 0 with (2/3)**3 = 0.296
    assert found.p == pytest.approx(2 * 8 / 27, abs=0.03)
    assert found.holds == "not significant"
    assert judge(HIGHER, even[0], worse, seeds=(even, [worse])).holds == "holds"
    assert judge(HIGHER, worse, even[0], seeds=([worse], even)).holds == NOT_REPRODUCED


def claim(kind: str, margin: float, quantity: str = "MRR@10") -> Claim:
    return parse(Claim, {**CONTENT, "quantity": quantity, "kind": kind, "margin": margin}, "here")


@pytest.mark.parametrize(
    ("kind", "margin", "difference", "verdict"),
    [
        ("higher", 0.1, 0.2, "holds"),
        ("higher", 0.1, 0.05, NOT_REPRODUCED),  # higher, but by less than the margin
        ("not lower", 0.1, 0.0, "holds"),
        ("not lower", 0.1, -0.05, "holds"),  # significantly within the margin
        ("not lower", 0.1, -0.2, NOT_REPRODUCED),
        ("less", 0.0, -0.2, "holds"),
        ("less", 0.1, -0.2, "holds"),
        ("less", 0.1, -0.05, NOT_REPRODUCED),
        ("less", 0.0, 0.2, NOT_REPRODUCED),
    ],
)
@pytest.mark.parametrize("test", ["randomization", "t-test"])
def test_margins_of_measures(kind: str, margin: float, difference: float, verdict: str, test: Test) -> None:
    better = scores(*(0.5 + difference + noise for noise in (-0.01, 0.01) * 4))
    result = judge(claim(kind, margin), better, scores(*[0.5] * 8), test)
    assert result.holds == verdict
    assert result.difference == pytest.approx(difference)
    assert result.p is not None
    assert result.p < 0.05


def test_non_inferiority_has_to_be_shown() -> None:
    two_queries = (scores(0.5, 0.75), scores(0.5, 0.5))
    assert judge(claim("not lower", 0.1), *two_queries).holds == "not significant"  # two queries are too few


def test_the_chosen_test_decides() -> None:
    better, worse = scores(1.0, 0.9, 0.8, 0.7), scores(0.0, 0.0, 0.0, 0.0)
    assert judge(HIGHER, better, worse).p == 2 / 2**4  # no four signs are significant
    assert judge(HIGHER, better, worse, "t-test").holds == "holds"


@pytest.mark.parametrize(
    ("kind", "margin", "better", "worse", "holds"),
    [
        ("less", 0.0, 1.0, 2.0, True),
        ("less", 0.0, 2.0, 2.0, False),
        ("less", 0.5, 0.9, 2.0, True),
        ("less", 0.5, 1.0, 2.0, False),  # half, not less than half
        ("higher", 0.0, 2.5, 2.0, True),
        ("higher", 0.5, 2.5, 2.0, False),
        ("not lower", 0.01, 2.0, 2.0, True),
        ("not lower", 0.1, 1.9, 2.0, True),
        ("not lower", 0.1, 1.7, 2.0, False),
    ],
)
def test_a_cost_is_one_number(kind: str, margin: float, better: float, worse: float, holds: bool) -> None:
    result = judge_cost(claim(kind, margin, "FLOPS"), better, worse)
    assert result == Verdict(difference=better - worse, p=None, holds="holds" if holds else NOT_REPRODUCED)


def test_claims_in_words() -> None:
    assert claim_text(HIGHER) == "a: MRR@10 higher than b"
    assert claim_text(claim("not lower", 0.005)) == "a: MRR@10 not lower than b by more than 0.005"
    assert claim_text(claim("less", 0.25, "index bytes")) == "a: index bytes less than b by more than 25 %"


def test_a_claim_is_read_strictly() -> None:
    with pytest.raises(LearnedSparseError, match="margins"):
        parse(Claim, {"source": "", "better": "a", "worse": "b", "quantity": "MAP", "margins": 1}, "here")
    with pytest.raises(LearnedSparseError, match="kind"):
        claim("lower", 0.1)
    for parts, message in (
        ({}, "'higher' needs the paper's difference, published: X, or margin: X"),
        ({"kind": "not lower", "published": 0.1}, "'not lower' tolerates a margin; leave 'published' out"),
        ({"kind": "not lower", "margin": 0}, "'not lower': published None, margin 0.*; give more than 0"),
        ({"published": -0.1}, "'higher': published -0.1, margin None; give more than 0"),
    ):
        with pytest.raises(LearnedSparseError, match=message):
            parse(Claim, {**CONTENT, **parts}, "here")
