"""Losses, regularisers and schedules by hand; gradients with micro-batches, dropout and training modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from encoders.models.objectives import Labels
from encoders.training.examples import labels_of
from encoders.training.objective import (
    flops,
    in_batch_hinge,
    in_batch_nll,
    l1,
    make_objective,
    masked,
    pairwise_nll,
    rank_losses,
    total_loss,
)
from encoders.training.recipe import REGULARIZERS, Rank, Recipe, Regularizer, Stage
from encoders.training.session import evaluating
from tests.encoders.training.conftest import Recipes


def test_pairwise_nll_is_the_mean_over_pairs_without_overflow() -> None:
    # Eq. 7: -log(e^1 / (e^1 + e^1)) = log 2, -log(e^1 / (e^1 + e^0)) = log(1 + e^-1)
    losses = pairwise_nll(torch.tensor([1.0, 0.0]), torch.tensor([[1.0, 0.0], [500.0, 500.0]]))
    assert losses.tolist() == pytest.approx([(math.log(2) + math.log(1 + math.exp(-1))) / 2, 500.0])


def test_in_batch_nll() -> None:
    # Scores are logarithms of powers of two: query 0 has 8 / (8 + 4 + 2), query 1 has 4 / (1 + 4 + 16).
    in_batch = torch.log(torch.tensor([[8.0, 4.0], [1.0, 4.0]]))
    hard = torch.log(torch.tensor([[2.0], [16.0]]))
    excluded = torch.tensor([[False, True, False], [False, False, True]])
    losses = in_batch_nll(in_batch, hard, torch.zeros_like(excluded)).tolist()
    assert losses == pytest.approx([math.log(14 / 8), math.log(21 / 4)])
    assert in_batch_nll(in_batch, hard, excluded).tolist() == pytest.approx([math.log(10 / 8), math.log(5 / 4)])
    assert in_batch_nll(in_batch, hard[:, :0], excluded[:, :2]).tolist() == pytest.approx([0.0, math.log(5 / 4)])


def test_in_batch_hinge_is_eq_8() -> None:
    # query 0: positive 2.0, negatives 1.5 and 0.0: max(0, 1 - 2 + 1.5) + max(0, 1 - 2 + 0) = 0.5
    # query 1: positive 0.5, negatives 0.25 and 3.0: 0.75 + 3.5; query 2: positive 4.0, margin met
    scores = torch.tensor([[2.0, 1.5, 0.0], [0.25, 0.5, 3.0], [0.0, 1.0, 4.0]])
    no_mask = torch.zeros(3, 3, dtype=torch.bool)
    assert in_batch_hinge(scores, no_mask).tolist() == [0.5, 4.25, 0.0]
    excluded = no_mask.clone()
    excluded[1, 2] = True
    assert in_batch_hinge(scores, excluded).tolist() == [0.5, 0.75, 0.0]
    # the scores of rank_losses, and hard negatives, which the hinge loss ignores
    known, hard = torch.cat([excluded, excluded], dim=1), torch.full((3, 3), 100.0)
    losses = rank_losses(Rank(loss="hinge", score_scale=0.5), torch.eye(3), 2 * scores.T, hard, known)
    assert losses.tolist() == [0.5, 0.75, 0.0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("flops", 1 + 4),  # positives and negatives are one batch
        ("l1", 3),
        ("df_flops", (1 + 4) / (1 + (0.5 ** (math.log(2) / math.log(0.1)) - 1) ** 10) ** 2),  # in half of the texts
    ],
)
def test_regularizers_of_documents_by_hand(kind: str, expected: float) -> None:
    outputs = {"queries": torch.tensor([[1.0, 1.0]]), "positives": torch.tensor([[2.0, 0.0]])}
    outputs["negatives"] = torch.tensor([[0.0, 4.0]])
    settings = Regularizer(kind={"query": "l1", "document": kind}, lambda_query=3.0, lambda_document=2.0)
    stage = Stage(name="s", steps=1, batch_size=1, regularizer=settings)
    objective: Any = SimpleNamespace(losses=lambda *_: {"rank": torch.ones(1)})
    total, parts = total_loss(objective, Labels(torch.ones(0)), stage, {"query": 1.0, "document": 0.25}, outputs)
    assert parts["document_regularizer"].item() == pytest.approx(2 * 0.25 * expected)
    assert parts["query_regularizer"].item() == pytest.approx(3 * 2)
    assert total.item() == pytest.approx(1 + 6 + 0.5 * expected)
    assert (parts["terms_per_query"].item(), parts["terms_per_document"].item()) == (2, 1)


@pytest.mark.parametrize("threshold", [None, 0, 40, 60])
def test_flops_and_the_l0_mask_equal_sentence_transformers(threshold: int | None) -> None:
    losses: Any = pytest.importorskip("sentence_transformers.sparse_encoder.losses")
    peer = losses.FlopsLoss(None, threshold=threshold)
    found, expected = (torch.rand(32, 100, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    density = torch.linspace(0.2, 0.9, 32).unsqueeze(1)
    keep = torch.rand(32, 100, generator=torch.Generator().manual_seed(4)) < density
    found, expected = ((weights * keep).requires_grad_() for weights in (found, expected))
    regularized = found if threshold is None else masked(found, threshold)
    value, peer_value = flops(regularized), peer.compute_loss_from_embeddings(expected)
    value.backward()
    peer_value.backward()
    assert value.item() == pytest.approx(peer_value.item(), abs=1e-6)
    assert torch.allclose(found.grad, expected.grad, atol=1e-6)  # type: ignore[arg-type]
    assert l1(found).item() == pytest.approx(float(expected.detach().abs().sum(dim=1).mean()), abs=1e-6)


@pytest.mark.parametrize("loss", ["in_batch", "hinge"])
@pytest.mark.parametrize("others", [False, True])
def test_negatives_from_a_group_give_the_losses_of_the_group_alone(loss: Any, others: bool) -> None:
    rng = torch.Generator().manual_seed(0)
    queries, positives, negatives = (torch.rand(rows, 5, generator=rng) for rows in (6, 6, 12))
    rank = Rank(loss=loss, others_hard_negatives=others)
    alone = [
        rank_losses(
            rank, queries[two], positives[two], negatives[2 * two.start : 2 * two.stop], torch.zeros(2, 6).bool()
        )
        for two in (slice(0, 2), slice(2, 4), slice(4, 6))
    ]
    known = torch.zeros(6, 18, dtype=torch.bool)
    grouped = rank_losses(replace(rank, negatives_from=2), queries, positives, negatives, known)
    torch.testing.assert_close(grouped, torch.cat(alone))
    assert not torch.allclose(grouped, rank_losses(rank, queries, positives, negatives, known))


def test_rank_loss_scores_the_right_pairs() -> None:
    rng = torch.Generator().manual_seed(0)
    queries, positives = torch.rand(3, 5, generator=rng), torch.rand(3, 5, generator=rng)
    negatives = torch.rand(6, 5, generator=rng)
    known = torch.zeros(3, 9, dtype=torch.bool)
    plain, all_negatives, pairs = 0.0, 0.0, 0.0
    for i in range(3):
        scores = [float(queries[i] @ positive) * 2 for positive in positives]
        hard = [float(queries[i] @ negatives[2 * i + j]) * 2 for j in range(2)]
        all_hard = [float(queries[i] @ negative) * 2 for negative in negatives]
        plain -= scores[i] - np.log(np.exp([*scores, *hard]).sum())
        all_negatives -= scores[i] - np.log(np.exp([*scores, *all_hard]).sum())
        pairs -= sum(scores[i] - np.log(np.exp([scores[i], score]).sum()) for score in hard) / 2
    for rank, expected in [
        (Rank(score_scale=2.0), plain),
        (Rank(score_scale=2.0, others_hard_negatives=True), all_negatives),
        (Rank(score_scale=2.0, loss="pairwise"), pairs),
    ]:
        assert rank_losses(rank, queries, positives, negatives, known).mean().item() == pytest.approx(expected / 3)


Gradients = Callable[[Recipe], tuple[dict[str, Tensor], dict[str, float]]]


@pytest.fixture
def gradients(first_stage: Callable[..., Any]) -> Gradients:
    """``gradients(recipe)`` returns the gradients and the log of the first step."""

    def make(recipe: Recipe) -> tuple[dict[str, Tensor], dict[str, float]]:
        session, learner = first_stage(recipe)
        torch.manual_seed(5)
        logs = learner.update(0, learner.batch(0)[0], None)
        named = session.model.weighers.named_parameters()
        return {name: parameter.grad for name, parameter in named if parameter.grad is not None}, logs

    return make


PAIRWISE = {"loss": "pairwise"}
L1 = {"kind": "l1", "lambda_query": 0.01, "lambda_document": 0.02, "ramp_steps": 0}
FLOPS = {**L1, "kind": "flops"}
SPARTERM = {"architecture": "sparterm", "settings": {"mode": "expansion-enhanced", "gate_pool": "raw_max"}}


IN_BATCH = {"others_hard_negatives": True, "negatives_from": 16}


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        *(({"regularizer": {**L1, "kind": kind}}, {}) for kind in REGULARIZERS),
        ({"regularizer": {**FLOPS, "kind": {"query": "l1", "document": "flops"}, "threshold": 47}}, {}),
        ({"regularizer": FLOPS, "rank": PAIRWISE}, {}),
        ({"regularizer": FLOPS, "rank": IN_BATCH}, {}),
        ({"objective": "gate"}, SPARTERM),
        ({"rank": PAIRWISE, "options": {"joint": True}}, SPARTERM),
        ({"objective": "term_recall"}, {"architecture": "deepct"}),
    ],
)
def test_the_gradient_does_not_depend_on_micro_batches(
    gradients: Gradients, tiny_recipe: Recipes, stage: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Every regulariser, and every kind of objective: four of 8, eight of 4, and five of at most 7 equal one of 32."""
    whole, exact = {**stage, "batch_size": 32, "dropout": False}, {"precision": "fp32-strict", **changes}
    full, log = gradients(tiny_recipe(whole, **exact))
    assert len(full) > 10
    scale = max(float(gradient.abs().max()) for gradient in full.values())
    for size in (8, 4, 7):
        micro, micro_log = gradients(tiny_recipe({**whole, "micro_batch_size": size}, **exact))
        assert full.keys() == micro.keys()
        assert max(float((full[name] - micro[name]).abs().max()) for name in full) < 2e-5 * scale
        assert micro_log["loss"] == pytest.approx(log["loss"], rel=2e-5)


def test_repeated_forward_passes_have_the_same_dropout(
    gradients: Gradients, tiny_recipe: Recipes, first_stage: Callable[..., Any]
) -> None:
    """The gradient of a cut batch is the mean over its parts, each passed forward once."""
    stage = {"batch_size": 4, "micro_batch_size": 1, "rank": PAIRWISE}
    cut, _ = gradients(tiny_recipe(stage))
    session, learner = first_stage(tiny_recipe(stage))
    objective, update = make_objective(learner.stage, session.model), learner.batch(0)[0]
    torch.manual_seed(5)
    for micro, example in zip(*reversed(update), strict=True):
        outputs = objective.outputs(*micro)
        (objective.losses(outputs, labels_of([example]))["rank_loss"].sum() / 4).backward()
    for name, parameter in session.model.weighers.named_parameters():
        assert name not in cut or torch.allclose(cut[name], parameter.grad, atol=1e-6)
    no_dropout, _ = gradients(tiny_recipe({**stage, "dropout": False}))
    assert not all(torch.allclose(cut[name], no_dropout[name], atol=1e-6) for name in cut)


IDS, MASK = torch.tensor([[4, 10, 11, 12, 5]]), torch.ones(1, 5, dtype=torch.long)


@pytest.mark.parametrize("dropout", [True, False])
def test_only_evaluation_binarises_and_it_restores_the_mode_of_every_module(
    tiny_recipe: Recipes, first_stage: Callable[..., Any], dropout: bool
) -> None:
    settings = {"dimensions": 32, "k": 4, "layers": [1, 2], "binarize": True}
    model = first_stage(tiny_recipe({"dropout": dropout}, architecture="uhd", settings=settings))[0].model
    weights = model.weighers.document(IDS, MASK)
    assert weights.requires_grad
    assert len(set(weights[weights > 0].tolist())) > 2
    before = [module.training for module in model.weighers.modules()]
    assert any(before)
    assert all(before) == dropout
    with pytest.raises(KeyError), evaluating(model.weighers):
        assert not any(module.training for module in model.weighers.modules())
        assert set(model.weighers.document(IDS, MASK).tolist()[0]) == {0.0, 1.0}
        raise KeyError
    assert [module.training for module in model.weighers.modules()] == before
