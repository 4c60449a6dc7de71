"""Masked-LM stages: what is masked, that the loss falls, a head for a backbone without one, and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.encoding.model import new_model
from encoders.models.objectives import Tokens
from encoders.training.mlm import MaskedLMObjective
from encoders.training.recipe import Stage
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import Recipes, Trained

MLM = {"objective": "mlm", "learning_rate": 5e-3, "negatives": {"kind": "random", "per_query": 3}}
FLOPS = {"kind": "flops", "lambda_document": 1e-2, "ramp_steps": 0}


def test_fifteen_per_cent_are_masked_as_in_bert(tiny_backbone: Path) -> None:
    model = new_model("splade", {}, str(tiny_backbone), seed=0)
    objective = MaskedLMObjective(Stage(name="s", steps=1, batch_size=2), model, model.weighers)
    tokenizer: Any = model.tokenizer
    torch.manual_seed(0)
    ids = torch.full((100, 402), tokenizer.convert_tokens_to_ids("w7"))
    ids[:, 0], ids[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    masked, targets = objective.masked(ids)
    chosen = targets != -100
    assert not chosen[:, [0, -1]].any()
    assert torch.equal(targets[chosen], ids[chosen])
    assert torch.equal(masked[~chosen], ids[~chosen])
    assert float(chosen[:, 1:-1].float().mean()) == pytest.approx(0.15, abs=0.01)
    kinds = masked[chosen]
    shares = [(kinds == tokenizer.mask_token_id).float().mean(), (kinds == ids[0, 1]).float().mean()]
    assert [float(share) for share in shares] == pytest.approx([0.8, 0.1], abs=0.03)


def test_the_loss_is_the_mean_over_masked_tokens(tiny_backbone: Path) -> None:
    model = new_model("splade", {}, str(tiny_backbone), seed=0)
    model.weighers.eval()
    objective = MaskedLMObjective(Stage(name="s", steps=1, batch_size=2), model, model.weighers)
    encoded: Any = model.tokenizer(["w1 w2 w3 w4 w5 w6", "w1 w9 w8"], padding=True, return_tensors="pt")
    tokens = Tokens(encoded["input_ids"], encoded["attention_mask"])
    torch.manual_seed(3)
    masked, targets = objective.masked(tokens.input_ids)
    torch.manual_seed(3)
    losses = objective.losses(objective.outputs(tokens, tokens), None)["mlm_loss"]  # type: ignore[arg-type]
    tower: Any = model.towers["document"] if "document" in model.towers else next(iter(model.towers.values()))
    logits = tower(masked, tokens.attention_mask) @ tower.decoder.weight.T + tower.decoder.bias
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    assert losses.mean().item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("stage", "changes", "names"),
    [
        ({}, {}, ["mlm_loss"]),
        ({"regularizer": FLOPS, "micro_batch_size": 3}, {}, ["mlm_loss", "document_regularizer"]),
        ({}, {"architecture": "sparterm"}, ["importance_mlm_loss", "gate_mlm_loss"]),
    ],
)
def test_the_loss_falls_and_the_next_stage_starts_from_there(
    tiny_recipe: Recipes, trained: Trained, stage: dict[str, Any], changes: dict[str, Any], names: list[str]
) -> None:
    mlm = {**MLM, "steps": 40, **stage}
    only = trained(tiny_recipe(mlm, **changes), "mlm")
    both = trained(tiny_recipe(mlm, {"steps": 2, "learning_rate": 0.0}, **changes), "both")
    for name in names:
        losses = only.logged(name)
        assert sum(losses[-5:]) < 0.9 * sum(losses[:5]), name
    assert both.moved_since(only) == set()
    assert "rank_loss" in both.log()[-1]


def test_a_backbone_without_a_head_learns_one(tiny_recipe: Recipes, tiny_headless: Path, trained: Trained) -> None:
    run = trained(tiny_recipe({**MLM, "steps": 40}, backbone=str(tiny_headless)))
    losses = run.logged("mlm_loss")
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    head = run.weights()["document/cls.predictions.transform.dense.weight"]
    assert float((head - torch.eye(len(head))).abs().max()) > 1e-3


def test_models_without_a_masked_lm_are_refused(tiny_recipe: Recipes, trained: Trained) -> None:
    settings = {"dimensions": 32, "k": 4, "layers": [1, 2]}
    with pytest.raises(LearnedSparseError, match="objective: mlm: this model has no tower with a masked-LM head"):
        trained(tiny_recipe({**MLM, "steps": 1}, architecture="uhd", settings=settings))
