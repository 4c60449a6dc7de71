"""A new architecture with its own loss needs a settings class, a module, an objective and one line in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import load_checkpoint
from encoders.models import ARCHITECTURES
from encoders.models.architecture import Architecture, Labels, Objective, TermWeighers, Tokens
from encoders.training import Recipe, Stage
from learned_sparse.core.encoder import Side


@dataclass(frozen=True, kw_only=True)
class MeanSettings:
    """Mean-pooled logits; ``temperature`` of the loss that pulls queries to their positives."""

    temperature: float = 2.0


class Mean(nn.Module):
    """One side: ReLU of the mean logits of a text."""

    def __init__(self, settings: MeanSettings, tower: LanguageModel) -> None:
        super().__init__()
        self.settings, self.tower = settings, tower

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits = self.tower(input_ids, attention_mask) @ self.tower.decoder_weight.T + self.tower.decoder_bias
        mask = attention_mask.unsqueeze(2)
        weights: Tensor = (logits * mask).sum(dim=1).relu() / mask.sum(dim=1)
        return weights


class Agreement(Objective):
    """Ranks like any other model, and pulls the term distributions of a query and its positive together."""

    def __init__(self, ranking: Objective, temperature: float) -> None:
        self.towers, self.ranks = ranking.towers, True
        self._ranking, self._temperature = ranking, temperature

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        outputs = self._ranking.outputs(queries, documents)
        return {**outputs, "lengths": queries.attention_mask.sum(dim=1).float()}

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:
        query, positive = ((outputs[name] / self._temperature).log_softmax(dim=1) for name in ("queries", "positives"))
        divergence = (positive.exp() * (positive - query)).sum(dim=1) / outputs["lengths"]
        return {**self._ranking.losses(outputs, labels), "agreement_loss": divergence}


class MeanArchitecture(Architecture[MeanSettings]):
    settings = MeanSettings

    def networks(self, settings: MeanSettings, side: Side) -> tuple[str, ...]:
        return ("both",)

    def network_side(
        self, settings: MeanSettings, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary
    ) -> nn.Module:
        return Mean(settings, towers["both"])

    def shared(self, settings: MeanSettings) -> bool:
        return True

    def objective(self, ranking: Objective, stage: Stage, weighers: TermWeighers) -> Objective:
        assert isinstance(weighers.document, Mean)
        return Agreement(ranking, weighers.document.settings.temperature) if stage.objective == "agree" else ranking


def test_a_new_architecture_is_trained_validated_and_encoded(
    tiny_recipe: Callable[..., Recipe],
    trained: Callable[..., Any],
    tiny_collection: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ARCHITECTURES, "mean", MeanArchitecture())
    regularizer = {"kind": "l1", "lambda_document": 1e-3, "ramp_steps": 0}
    stage = {"objective": "agree", "steps": 6, "micro_batch_size": 4, "regularizer": regularizer}
    validation = {"collection": str(tiny_collection), "every": 3, "queries": None}
    changes = {"architecture": "mean", "settings": {"temperature": 4.0}, "validation": validation}
    run = trained(tiny_recipe(stage, **changes))
    parts = [run.logged(name) for name in ("rank_loss", "agreement_loss", "document_regularizer")]
    assert run.logged("loss") == pytest.approx([sum(values) for values in zip(*parts, strict=True)], rel=1e-5)
    assert run.logged("agreement_loss")[-1] < run.logged("agreement_loss")[0]
    assert len(run.logged("MRR@10")) == 2
    model = load_checkpoint(run.folder)
    assert model.settings == MeanSettings(temperature=4.0)
    tokens = model.tokenizer(["w1 w2"], return_tensors="pt")
    with torch.no_grad():
        weights = model.weighers.eval().document(tokens["input_ids"], tokens["attention_mask"])[0]
    row = load_encoder(str(run.folder), "document", dtype="fp32", device="cpu").encode(["w1 w2"]).row(0)
    assert len(row) > 3
    assert sum(row.values()) == pytest.approx(float(weights.sum()), rel=1e-4)
