"""Distillation: its losses against sentence-transformers, missing scores, and training by a teacher's scores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers.sparse_encoder import losses as peers
from torch import Tensor, nn

from encoders.models import ARCHITECTURES
from encoders.models.objectives import Labels, TermWeighers
from encoders.training.objective import RankingObjective, distillation_losses
from encoders.training.recipe import Distillation, Rank, Recipe
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.models.cases import SMALLEST
from tests.encoders.training.conftest import Recipes, Trained

QUERIES, NEGATIVES, DIMENSIONS = 5, 3, 11


@pytest.fixture
def batch() -> dict[str, Tensor]:
    """Weights of queries, positives and negatives, and a teacher's scores."""
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    weights = {"queries": random(5, 11), "positives": random(5, 11), "negatives": random(15, 11)}
    return {**weights, "teacher": 4 * random(5, 4) - 2}


@pytest.mark.parametrize("kind", ["margin_mse", "kl"])
def test_losses_and_gradients_are_those_of_sentence_transformers(batch: dict[str, Tensor], kind: str) -> None:
    weights = {name: batch[name].clone().requires_grad_() for name in ("queries", "positives", "negatives")}
    model: Any = nn.Identity()
    weighers = TermWeighers({"query": model, "document": model})
    objective = RankingObjective(Rank(loss="none", score_scale=0.5), weighers, (), Distillation(**{kind: 1.0}))
    known = torch.zeros(QUERIES, QUERIES * (1 + NEGATIVES), dtype=torch.bool)
    ours = objective.losses(weights, Labels(known, batch["teacher"]))[kind].mean()
    negatives = weights["negatives"].view(QUERIES, NEGATIVES, DIMENSIONS)
    columns = [0.5 * weights["queries"], weights["positives"], *negatives.unbind(dim=1)]
    theirs_of: dict[str, Any] = {
        "margin_mse": peers.SparseMarginMSELoss(model),
        "kl": peers.SparseDistillKLDivLoss(model, temperature=1.0),
    }
    theirs = theirs_of[kind].compute_loss_from_embeddings(columns, batch["teacher"])
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    for mine, other in zip(
        *(torch.autograd.grad(loss, list(weights.values())) for loss in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_documents_without_a_score_are_left_out(batch: dict[str, Tensor]) -> None:
    teacher = batch["teacher"].clone()
    teacher[0, 2], teacher[1, 0], teacher[2, 1:] = math.nan, math.nan, math.nan
    settings = Distillation(margin_mse=1.0, kl=1.0)
    student = (3 * batch["queries"][:, : 1 + NEGATIVES]).requires_grad_()  # any scores
    losses = distillation_losses(settings, student, teacher)
    left = [0, 1, 3]
    fewer = distillation_losses(settings, student[:1, left], batch["teacher"][:1, left])
    whole = distillation_losses(settings, student, batch["teacher"])
    for name, values in losses.items():
        assert values[0].item() == pytest.approx(fewer[name][0].item(), rel=1e-5)
        assert values[1:3].tolist() == [0.0, 0.0]  # no score of the positive, none of a negative
        assert torch.equal(values[3:], whole[name][3:])
    gradient = torch.autograd.grad(torch.stack(list(losses.values())).sum(), student)[0]
    assert gradient.isfinite().all()
    assert gradient[0, 2] == 0
    assert not gradient[1:3].any()


def taught(folder: Path, collection: Path) -> list[dict[str, Any]]:
    """The collection as ``data``, with a teacher's scores: 5 for the relevant document, else the negative rank."""
    run = (collection / "train.run").read_text(encoding="utf-8").splitlines()
    lines = {(f"q{row}", f"d{row}"): 5.0 for row in range(30)}
    for line in run:
        query, _, document, rank, *_ = line.split()
        lines.setdefault((query, document), -float(rank))
    scores = folder / "scores.tsv"
    scores.write_text("".join(f"{q}\t{d}\t{score}\n" for (q, d), score in lines.items()), encoding="utf-8")
    return [{"collection": str(collection), "run": str(collection / "train.run"), "scores": str(scores)}]


def test_training_moves_the_margins_to_the_teachers(
    tiny_recipe: Recipes, tiny_collection: Path, tmp_path: Path, trained: Trained
) -> None:
    stage = {"steps": 120, "rank": {"loss": "none"}, "distillation": {"margin_mse": 1.0}}
    run = trained(tiny_recipe(stage, data=taught(tmp_path, tiny_collection)))
    losses = run.logged("margin_mse")
    assert losses == run.logged("loss")
    assert sum(losses[-5:]) < 0.2 * sum(losses[:5])


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if "rank" in ARCHITECTURES[name].objectives])
def test_every_architecture_that_ranks_can_be_distilled(
    architecture: str, tiny_recipe: Recipes, tiny_collection: Path, tmp_path: Path, trained: Trained
) -> None:
    stage = {"steps": 3, "distillation": {"margin_mse": 0.05, "kl": 1.0}}
    changes = {"settings": SMALLEST.get(architecture, {}), "data": taught(tmp_path, tiny_collection)}
    recipe = tiny_recipe(stage, architecture=architecture, negatives={"per_query": 2}, **changes)
    log = trained(recipe).log()[0]
    parts = [log[name] for name in ("rank_loss", "margin_mse", "kl")]
    assert log["loss"] == pytest.approx(sum(parts), rel=1e-5)
    assert all(part > 0 for part in parts)


def test_sources_without_scores_are_refused(tiny_recipe: Recipes, trained: Trained) -> None:
    recipe: Recipe = tiny_recipe({"distillation": {"kl": 1.0}})
    with pytest.raises(LearnedSparseError, match=r"data: collection/train: no teacher's scores; give the source"):
        trained(recipe)
