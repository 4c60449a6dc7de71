"""The gradients of one step: how they depend on micro-batches, dropout, and the mode of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from encoders.encoding import new_model
from encoders.training import Recipe
from encoders.training.objective.optimizing import begin_training, evaluating

Recipes = Callable[..., Recipe]
Gradients = Callable[[Recipe], tuple[dict[str, Tensor], dict[str, float]]]


@pytest.fixture
def gradients(begun: Callable[..., Any]) -> Gradients:
    """``gradients(recipe)``: the gradients of the first step, and its log."""

    def make(recipe: Recipe) -> tuple[dict[str, Tensor], dict[str, float]]:
        session, learner, batches = begun(recipe)
        torch.manual_seed(5)
        logs = learner.step(batches.batch(0))
        named = session.model.weighers.named_parameters()
        return {name: parameter.grad for name, parameter in named if parameter.grad is not None}, logs

    return make


PAIRWISE = {"loss": "pairwise"}
L1 = {"kind": "l1", "lambda_query": 0.01, "lambda_document": 0.02, "ramp_steps": 0}
FLOPS = {**L1, "kind": "flops"}
SPARTERM = {"architecture": "sparterm", "settings": {"mode": "expansion-enhanced", "gate_pool": "raw_max"}}


def largest_difference(gradients: Gradients, recipe: Recipes, stage: dict[str, Any], changes: dict[str, Any]) -> float:
    """Between the gradients of 1 x 32 and 4 x 8, relative to the largest gradient."""
    sizes = {"batch_size": 32, "dropout": False}
    whole, log = gradients(recipe({**stage, **sizes}, **changes))
    cut, cut_log = gradients(recipe({**stage, **sizes, "micro_batch_size": 8}, **changes))
    assert whole.keys() == cut.keys()
    assert len(whole) > 10
    scale = max(float(gradient.abs().max()) for gradient in whole.values())
    assert scale > 0
    differences = [float((whole[name] - cut[name]).abs().max()) / scale for name in whole]
    return max([*differences, abs(log["loss"] - cut_log["loss"]) / log["loss"]])


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ({"rank": PAIRWISE, "regularizer": L1}, {}),
        ({"objective": "gate"}, SPARTERM),
        ({"rank": PAIRWISE, "joint": True}, SPARTERM),
        ({"scope": "batch", "regularizer": FLOPS}, {}),
        ({"scope": "batch", "regularizer": FLOPS, "rank": {"others_hard_negatives": True}}, {}),
        ({"scope": "batch", "rank": PAIRWISE, "joint": True}, SPARTERM),
    ],
)
def test_one_times_32_is_four_times_8(
    gradients: Gradients, tiny_recipe: Recipes, stage: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert largest_difference(gradients, tiny_recipe, stage, changes) < 2e-5


@pytest.mark.parametrize("stage", [{}, {"rank": PAIRWISE, "regularizer": FLOPS}])
def test_in_batch_negatives_and_flops_of_micro_batches_are_others(
    gradients: Gradients, tiny_recipe: Recipes, stage: dict[str, Any]
) -> None:
    assert largest_difference(gradients, tiny_recipe, stage, {}) > 1e-3


def test_gradient_caching_repeats_the_dropout(gradients: Gradients, tiny_recipe: Recipes) -> None:
    """With one query to a micro-batch and a loss that is a mean over queries, caching must change nothing at all."""
    stage = {"batch_size": 4, "micro_batch_size": 1, "rank": PAIRWISE}
    plain, _ = gradients(tiny_recipe(stage))
    cached, _ = gradients(tiny_recipe({**stage, "scope": "batch"}))
    assert all(torch.allclose(plain[name], cached[name], atol=1e-6) for name in plain)
    without, _ = gradients(tiny_recipe({**stage, "dropout": False}))
    assert not all(torch.allclose(plain[name], without[name], atol=1e-6) for name in plain)


def test_the_log_counts_negatives_and_terms(gradients: Gradients, tiny_recipe: Recipes) -> None:
    _, log = gradients(tiny_recipe({"regularizer": FLOPS}))
    assert (
        7 <= log["negatives_per_query"] <= 8
    )  # 7 other positives and a hard negative, less those known to be relevant
    assert log["terms_per_query"] > 1
    assert log["lambda_document"] == pytest.approx(0.02)
    assert log["loss"] == pytest.approx(
        log["rank_loss"] + log["query_regularizer"] + log["document_regularizer"], rel=1e-5
    )


IDS, MASK = torch.tensor([[4, 10, 11, 12, 5]]), torch.ones(1, 5, dtype=torch.long)


def uhd(backbone: Path, **settings: Any) -> Any:
    chosen = {"dimensions": 32, "k": 4, "layers": [1, 2], **settings}
    return new_model("uhd", chosen, str(backbone), seed=1)


@pytest.mark.parametrize("dropout", [True, False])
def test_vectors_to_train_on_are_not_binarised(tiny_headless: Path, dropout: bool) -> None:
    model = uhd(tiny_headless, binarize=True)
    begin_training(model, dropout=dropout)
    weights = model.weighers.document(IDS, MASK)
    assert weights.requires_grad
    assert len(set(weights[weights > 0].tolist())) > 2
    with evaluating(model.weighers):
        assert set(model.weighers.document(IDS, MASK).tolist()[0]) == {0.0, 1.0}


def test_dropout_is_in_the_towers_alone(tiny_headless: Path) -> None:
    model = uhd(tiny_headless)
    for tower in model.towers.values():
        for module in tower.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.5
    begin_training(model, dropout=False)
    first, second = (model.weighers.document(IDS, MASK) for _ in range(2))
    assert torch.equal(first, second)
    begin_training(model, dropout=True)
    first, second = (model.weighers.document(IDS, MASK) for _ in range(2))
    assert not torch.equal(first, second)


def test_evaluation_puts_every_mode_back(tiny_headless: Path) -> None:
    model = uhd(tiny_headless)
    begin_training(model, dropout=False)
    before = [module.training for module in model.weighers.modules()]
    assert any(before)
    assert not all(before)
    with pytest.raises(KeyError), evaluating(model.weighers):
        assert not any(module.training for module in model.weighers.modules())
        raise KeyError
    assert [module.training for module in model.weighers.modules()] == before
