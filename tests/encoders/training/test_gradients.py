"""What does not change when a batch is cut into micro-batches, and what does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from encoders.training.data.batches import Batches
from encoders.training.data.sampler import Sampler
from encoders.training.data.sources import load
from encoders.training.learner import Learner
from encoders.training.recipe import Negatives, Recipe
from encoders.training.session import Session


class Alone:
    num_processes, process_index, device = 1, 0, torch.device("cpu")

    def gather(self, tensor: Tensor) -> Tensor:
        return tensor

    def reduce(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        raise AssertionError(reduction)


def gradients(recipe: Recipe) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The gradients of the first step, and its log."""
    session = Session(recipe, "cpu")
    stage, model = recipe.stages[0], session.model
    learner = Learner(
        stage,
        model.weighers,
        model.towers,
        special_ids=model.tokenizer.all_special_ids,
        processes=Alone(),
        autocast=nullcontext,
    )
    examples = load(recipe.data[0], Negatives()).examples
    made = Batches(
        [examples],
        Sampler([len(examples)], seed=0),
        model.tokenizer,
        recipe.max_length,
        batch_size=stage.batch_size,
        micro_batch_size=session.micro_batch_size(stage),
        seed=[0],
    )
    torch.manual_seed(5)
    logs = learner.step(made.batch(0))
    found = {name: p.grad for name, p in model.weighers.named_parameters() if p.grad is not None}
    return found, logs


PAIRWISE = {"loss": "pairwise"}
L1 = {"kind": "l1", "lambda_query": 0.01, "lambda_document": 0.02, "ramp_steps": 0}
FLOPS = {**L1, "kind": "flops"}
SPARTERM = {"architecture": "sparterm", "settings": {"mode": "expansion-enhanced", "gate_pool": "raw_max"}}

Recipes = Callable[..., Recipe]


def largest_difference(recipe: Recipes, stage: dict[str, Any], changes: dict[str, Any]) -> float:
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
def test_one_times_32_is_four_times_8(tiny_recipe: Recipes, stage: dict[str, Any], changes: dict[str, Any]) -> None:
    assert largest_difference(tiny_recipe, stage, changes) < 2e-5


@pytest.mark.parametrize("stage", [{}, {"rank": PAIRWISE, "regularizer": FLOPS}])
def test_in_batch_negatives_and_flops_of_micro_batches_are_others(tiny_recipe: Recipes, stage: dict[str, Any]) -> None:
    assert largest_difference(tiny_recipe, stage, {}) > 1e-3


def test_gradient_caching_repeats_the_dropout(tiny_recipe: Recipes) -> None:
    """With one query to a micro-batch and a loss that is a mean over queries, caching must change nothing at all."""
    stage = {"batch_size": 4, "micro_batch_size": 1, "rank": PAIRWISE}
    plain, _ = gradients(tiny_recipe(stage))
    cached, _ = gradients(tiny_recipe({**stage, "scope": "batch"}))
    assert all(torch.allclose(plain[name], cached[name], atol=1e-6) for name in plain)
    without, _ = gradients(tiny_recipe({**stage, "dropout": False}))
    assert not all(torch.allclose(plain[name], without[name], atol=1e-6) for name in plain)


def test_the_log_counts_negatives_and_terms(tiny_recipe: Recipes) -> None:
    _, log = gradients(tiny_recipe({"regularizer": FLOPS}))
    assert (
        7 <= log["negatives_per_query"] <= 8
    )  # 7 other positives and a hard negative, less those known to be relevant
    assert log["terms_per_query"] > 1
    assert log["lambda_document"] == pytest.approx(0.02)
    assert log["loss"] == pytest.approx(
        log["rank_loss"] + log["query_regularizer"] + log["document_regularizer"], rel=1e-5
    )
