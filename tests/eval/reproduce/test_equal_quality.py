"""Costs of two curves at equal quality: by hand, in a simulation, and in the file of a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from eval.measures import Values
from eval.reproduce.claims import Claim, Finding, Side, find_at_equal_quality, judge, judged_claims, log_cost_ratio
from eval.reproduce.matrix import load_matrix
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

CONTENT = {
    "source": "", "better": "flops", "worse": "l1", "quantity": "FLOPS", "kind": "less at equal", "quality": "MRR@10",
    "published": [0.5, 1.0],
}  # fmt: skip
CLAIM = parse(Claim, CONTENT, "here")
COSTS = [0.25, 0.5, 1.0, 2.0, 4.0]
QUALITIES = [0.3, 0.4, 0.5, 0.55, 0.6]


def points(costs: Sequence[float], qualities: Sequence[float]) -> tuple[Values, Values]:
    return np.array(costs), np.array(qualities)


def test_a_curve_of_half_the_cost_by_hand() -> None:
    whole = points([2 * cost for cost in COSTS], QUALITIES)
    assert log_cost_ratio(points(COSTS, QUALITIES), whole) == pytest.approx(math.log(0.5))
    assert log_cost_ratio(whole, points(COSTS, QUALITIES)) == pytest.approx(math.log(2))


def test_the_mean_over_the_shared_range_by_hand() -> None:
    """From 0.2 to 0.4, the cost of the first rises from 2 to 4 (log: 1.5 of 2), that of the second is 4 to 4 * 4."""
    first, second = points([1, 4], [0.0, 0.4]), points([4, 64], [0.2, 0.6])
    # at 0.2: 2 against 4, at 0.4: 4 against 16; in powers of two -1 and -2
    assert log_cost_ratio(first, second) == pytest.approx(-1.5 * math.log(2))


def test_points_that_another_one_beats_are_left_out() -> None:
    bent = points([0.25, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0], [0.3, 0.2, 0.4, 0.5, 0.55, 0.6, 0.6])
    assert log_cost_ratio(bent, points(COSTS, QUALITIES)) == pytest.approx(0.0)


def test_nothing_is_extrapolated() -> None:
    assert log_cost_ratio(points([1, 2], [0.1, 0.2]), points([1, 2], [0.3, 0.4])) is None
    assert log_cost_ratio(points([1, 2], [0.2, 0.1]), points([1, 2], [0.1, 0.2])) is None  # one point is left


def sides(costs: Sequence[float], qualities: Sequence[float], noise: Values) -> list[Side]:
    """Rows whose scores of queries have these means and this common noise."""
    return [
        Side(scores={"MRR@10": quality}, costs={"FLOPS": cost}, trainings=[{"MRR@10": by_query(quality + noise)}])
        for cost, quality in zip(costs, qualities, strict=True)
    ]


def by_query(values: Values) -> dict[str, float]:
    return {str(number): float(value) for number, value in enumerate(values)}


def test_the_verdicts_of_curves() -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, 400)
    noise -= noise.mean()
    worse = sides(COSTS, QUALITIES, noise)

    def verdict(factor: float, claim: Claim = CLAIM) -> tuple[str, Finding]:
        found = find_at_equal_quality(claim, sides([factor * c for c in COSTS], QUALITIES, noise[::-1]), worse)
        assert found is not None
        assert found.difference == pytest.approx(factor - 1)
        return judge([(claim, found)])[0].word, found

    word, found = verdict(0.5)
    assert word == "reproduced"
    assert found.asked == 0.25  # half of the paper's half
    assert found.interval is not None
    assert found.interval[0] < -0.5 < found.interval[1] < -0.25
    assert found.detectable is not None
    assert 0 < found.detectable < 0.25
    assert verdict(0.85)[0] == "direction only"
    assert verdict(1.0)[0] == "not reproduced at this scale"
    assert verdict(1.3)[0] == "contradicted"


def test_curves_without_a_shared_range_cannot_be_judged() -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, 100)
    noise -= noise.mean()
    for lift, problem in ((1.0, "the curves share no range of MRR@10"), (0.298, "of the resampled sets of queries")):
        found = find_at_equal_quality(
            CLAIM, sides(COSTS, [q + lift for q in QUALITIES], noise), sides(COSTS, QUALITIES, -noise)
        )
        assert found is not None
        (verdict,) = judge([(CLAIM, found)])
        assert verdict.word == "cannot be judged here"
        assert problem in verdict.reason
        assert verdict.p is None
    missing = [Side(done=False)] * 5
    assert find_at_equal_quality(CLAIM, missing, missing) is None


def test_intervals_of_curves_hold_the_true_ratio() -> None:
    """In 95 % of 60 simulated cases, less three standard errors."""
    rng, covered = np.random.default_rng(5), 0
    for _ in range(60):
        pair = []
        for factor in (0.7, 1.0):
            values = rng.normal(0, 0.1, (5, 150))
            pair.append([
                Side(costs={"FLOPS": factor * cost}, trainings=[{"MRR@10": by_query(quality + noise)}])
                for cost, quality, noise in zip(COSTS, QUALITIES, values, strict=True)
            ])  # fmt: skip
        found = find_at_equal_quality(CLAIM, *pair)
        assert found is not None
        assert found.interval is not None
        covered += found.interval[0] <= -0.3 <= found.interval[1]
    assert covered >= 52


def test_a_claim_on_curves_takes_their_rows() -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, 50)
    rows = dict(zip("abcdefghij", sides([*(0.5 * c for c in COSTS), *COSTS], QUALITIES * 2, noise), strict=True))
    (judged,) = judged_claims([CLAIM], ["toy"], lambda row, column: rows[row], {"flops": "abcde", "l1": "fghij"})
    assert judged["difference"] == pytest.approx(-0.5)
    assert judged["relative"] is True
    assert judged["claim"] == "flops: FLOPS less at equal MRR@10 than l1"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"quality": None}, "kind: less at equal and quality: MEASURE belong together"),
        ({"kind": "less"}, "kind: less at equal and quality: MEASURE belong together"),
        ({"quantity": "R@100"}, "kind: less at equal: 'R@100' is not a cost; give one of FLOPS"),
    ],
)
def test_a_claim_at_equal_quality_is_read_strictly(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        parse(Claim, {**CONTENT, **parts}, "here")


@pytest.mark.parametrize(
    ("rows", "parts", "message"),
    [
        (5, {}, None),
        (4, {}, "the curve 'l1' has 4 rows; a claim at equal quality needs 5 or more, all of them run"),
        (5, {"better": "flop"}, "no curve 'flop'; did you mean 'flops'?"),
        (5, {"better": "l1"}, "'l1' is compared with itself"),
        (5, {"quality": "MAP"}, "'MAP' is not measured there"),
    ],
)
def test_curves_of_a_matrix(rows: int, parts: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    recipes = {
        f"{curve} {number}": {"recipe": "small-splade", "changes": [f"seed={number}"], "curve": curve}
        for curve, count in (("flops", 5), ("l1", rows))
        for number in range(count)
    }
    content = {
        "title": "Mine", "columns": {"pydoc": {"collection": "pydoc", "split": "test", "measures": ["MRR@10"]}},
        "rows": recipes, "claims": [{**CONTENT, **parts}],
    }  # fmt: skip
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    if message is None:
        assert len(load_matrix(path, tmp_path).claims) == 1
    else:
        with pytest.raises(LearnedSparseError, match=message):
            load_matrix(path, tmp_path)
