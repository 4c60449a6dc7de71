"""Each loss against numbers worked out with a pencil."""

from __future__ import annotations

import math

import pytest
import torch

from encoders.training.objective.losses import gate_bce, in_batch_hinge, in_batch_nll, pairwise_nll, query_nll


def test_pairwise_nll_is_eq_7() -> None:
    # -log(e^2 / (e^2 + e^1)) = log(1 + e^-1); -log(e^0 / (e^0 + e^3)) = log(1 + e^3)
    expected = (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(3))) / 2
    loss = pairwise_nll(torch.tensor([2.0, 0.0]), torch.tensor([[1.0], [3.0]])).mean()
    assert loss.item() == pytest.approx(expected)


def test_pairwise_nll_of_several_negatives_is_the_mean_over_pairs() -> None:
    loss = pairwise_nll(torch.tensor([1.0]), torch.tensor([[1.0, 0.0]]))
    assert loss.item() == pytest.approx((math.log(2) + math.log(1 + math.exp(-1))) / 2)


def test_pairwise_nll_survives_scores_in_the_hundreds() -> None:
    assert pairwise_nll(torch.tensor([0.0]), torch.tensor([[500.0]])).item() == pytest.approx(500.0)


def test_in_batch_nll_ranks_against_others_positives_and_the_own_hard_negative() -> None:
    # powers of two, so that the fractions can be read off: query 0: 8 / (8 + 4 + 2), query 1: 4 / (1 + 4 + 16)
    in_batch = torch.log(torch.tensor([[8.0, 4.0], [1.0, 4.0]]))
    hard = torch.log(torch.tensor([[2.0], [16.0]]))
    loss = in_batch_nll(in_batch, hard, torch.zeros(2, 3, dtype=torch.bool)).mean()
    assert loss.item() == pytest.approx((math.log(14 / 8) + math.log(21 / 4)) / 2)


def test_in_batch_nll_leaves_out_what_is_excluded() -> None:
    in_batch = torch.log(torch.tensor([[8.0, 4.0], [1.0, 4.0]]))
    hard = torch.log(torch.tensor([[2.0], [16.0]]))
    excluded = torch.tensor([[False, True, False], [False, False, True]])
    loss = in_batch_nll(in_batch, hard, excluded).mean()
    assert loss.item() == pytest.approx((math.log(10 / 8) + math.log(5 / 4)) / 2)


def test_in_batch_nll_without_hard_negatives() -> None:
    loss = in_batch_nll(torch.zeros(4, 4), torch.zeros(4, 0), torch.zeros(4, 4, dtype=torch.bool)).mean()
    assert loss.item() == pytest.approx(math.log(4))


def test_gate_bce_is_eq_8_in_sums() -> None:
    # G = 0.75, 0.5, 0.9; the query holds the third term: -0.001 (log 0.25 + log 0.5) - 1 log 0.9
    logits = torch.tensor([[math.log(3), 0.0, math.log(9)]])
    target = torch.tensor([[0.0, 0.0, 1.0]])
    assert gate_bce(logits, target).item() == pytest.approx(-0.001 * math.log(0.125) - math.log(0.9))
    heavier = gate_bce(logits, target, negative_weight=2.0, positive_weight=0.5).item()
    assert heavier == pytest.approx(-2 * math.log(0.125) - 0.5 * math.log(0.9))


def test_gate_bce_averages_over_passages_and_is_finite_for_any_logit() -> None:
    logits = torch.tensor([[1000.0], [-1000.0]], requires_grad=True)
    loss = gate_bce(logits, torch.tensor([[0.0], [1.0]]))
    assert loss.item() == pytest.approx((0.001 * 1000 + 1000) / 2)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.flatten().tolist() == pytest.approx([0.0005, -0.5])


def test_in_batch_hinge_is_eq_8() -> None:
    # query 0: own 2.0, others 1.5 and 0.0: max(0, 1 - 2 + 1.5) + max(0, 1 - 2 + 0) = 0.5
    # query 1: own 0.5, others 0.25 and 3.0: 0.75 + 3.5; query 2: own 4.0 wins by more than 1
    scores = torch.tensor([[2.0, 1.5, 0.0], [0.25, 0.5, 3.0], [0.0, 1.0, 4.0]])
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    assert in_batch_hinge(scores, nothing).tolist() == [0.5, 4.25, 0.0]
    assert in_batch_hinge(scores, nothing, margin=2.0).tolist() == [1.5, 6.25, 0.0]
    excluded = nothing.clone()
    excluded[1, 2] = True
    assert in_batch_hinge(scores, excluded).tolist() == [0.5, 0.75, 0.0]


def test_query_nll_is_the_end_of_eq_12() -> None:
    # softmax of log 1, log 2, log 5 is 1/8, 2/8, 5/8; the query has the first and last term, the last one twice
    positives = torch.log(torch.tensor([[1.0, 2.0, 5.0], [4.0, 2.0, 2.0]]))
    queries = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    found = query_nll(queries, positives).tolist()
    assert found == pytest.approx([math.log(8) + 2 * math.log(8 / 5), 0.0])
