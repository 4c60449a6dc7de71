"""Regularisers and schedules against numbers worked out with a pencil."""

from __future__ import annotations

import pytest
import torch

from encoders.training.objective.regularizers import document_regularizer, flops, l1
from encoders.training.objective.schedules import linear_warm_up_decay, quadratic_ramp

WEIGHTS = torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0]])


def test_flops_squares_the_mean_activation_of_each_term() -> None:
    assert flops(WEIGHTS).item() == pytest.approx(2.0**2 + 0 + 1.0**2)


def test_l1_is_the_mean_sum_of_weights() -> None:
    assert l1(WEIGHTS).item() == pytest.approx((3 + 3) / 2)


def test_concatenated_and_averaged_documents() -> None:
    positives, negatives = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 4.0]])
    assert document_regularizer("flops", positives, negatives, "concatenated").item() == pytest.approx(1 + 4)
    assert document_regularizer("flops", positives, negatives, "averaged").item() == pytest.approx((4 + 16) / 2)
    assert document_regularizer("l1", positives, negatives, "concatenated").item() == pytest.approx(3)
    assert document_regularizer("l1", positives, negatives, "averaged").item() == pytest.approx(3)
    assert document_regularizer("flops", positives, negatives[:0], "averaged").item() == pytest.approx(4)


def test_quadratic_ramp_reaches_one_at_step_t_and_stays() -> None:
    # step numbers from 0, so step 24,999 is the 25,000th: half of T, a quarter of lambda
    assert [quadratic_ramp(step, 50_000) for step in (24_999, 49_999, 120_000)] == [0.25, 1.0, 1.0]
    assert quadratic_ramp(0, 0) == 1.0


def test_linear_warm_up_and_decay() -> None:
    shares = [linear_warm_up_decay(step, 4, 12) for step in range(12)]
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    assert linear_warm_up_decay(11, 4, 12, decay=False) == 1.0
    assert linear_warm_up_decay(0, 0, 10) == 1.0
