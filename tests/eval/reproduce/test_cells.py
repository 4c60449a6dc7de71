"""Numbers of single cells: trainings of an average, and scores compared with expected ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from eval.reproduce.leaderboard import Measured, averaged, score_verdict


def test_an_average_has_the_trainings_of_its_columns() -> None:
    def of(*values: float) -> Measured:
        return Measured(
            status="done", scores={"P@1": float(np.mean(values))}, per_query={"P@1": {"q": float(np.mean(values))}},
            by_seed=[{"P@1": {"q": value}} for value in values],
        )  # fmt: skip

    cells = {"toy": of(0.2, 0.4), "other": of(0.6, 1.0)}
    found = averaged(cells, {"toy": 0.5, "other": 0.5})
    assert [one["P@1"] for one in found.by_seed] == [{"toy/q": 0.2, "other/q": 0.6}, {"toy/q": 0.4, "other/q": 1.0}]
    assert not averaged(
        {**cells, "other": dataclasses.replace(cells["other"], by_seed=())}, {"toy": 0.5, "other": 0.5}
    ).by_seed


@pytest.mark.parametrize(
    ("score", "tolerance", "verdict"),
    [
        (0.67890, 0.0, "equal"),
        (0.67894, 0.0, "equal"),  # to four decimals
        (0.67896, 0.0, "better"),
        (0.6784, 0.0005, "within tolerance"),  # 0.0005 less, in floats a little more
        (0.6794, 0.0005, "within tolerance"),
        (0.6783, 0.0005, "worse"),
        (0.6795, 0.0005, "better"),
    ],
)
def test_score_verdicts(score: float, tolerance: float, verdict: str) -> None:
    assert score_verdict(score, 0.6789, tolerance) == verdict
