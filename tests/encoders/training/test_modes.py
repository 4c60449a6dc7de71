"""Training without dropout is still training: only the towers, where dropout is, behave as in evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from encoders.encoding import new_model
from encoders.training.objective.modes import begin_training, evaluating

IDS, MASK = torch.tensor([[4, 10, 11, 12, 5]]), torch.ones(1, 5, dtype=torch.long)


def uhd(backbone: Path, **settings: Any) -> Any:
    chosen = {"dimensions": 32, "k": 4, "layers": [1, 2], **settings}
    return new_model("uhd", chosen, str(backbone), seed=1)


@pytest.mark.parametrize("dropout", [True, False])
def test_vectors_to_train_on_are_not_binarised(tiny_headless: Path, dropout: bool) -> None:
    model = uhd(tiny_headless, binarize=True)
    begin_training(model.weighers, model.towers, dropout=dropout)
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
    begin_training(model.weighers, model.towers, dropout=False)
    first, second = (model.weighers.document(IDS, MASK) for _ in range(2))
    assert torch.equal(first, second)
    begin_training(model.weighers, model.towers, dropout=True)
    first, second = (model.weighers.document(IDS, MASK) for _ in range(2))
    assert not torch.equal(first, second)


def test_evaluation_puts_every_mode_back(tiny_headless: Path) -> None:
    model = uhd(tiny_headless)
    begin_training(model.weighers, model.towers, dropout=False)
    before = [module.training for module in model.weighers.modules()]
    assert any(before)
    assert not all(before)
    with pytest.raises(KeyError), evaluating(model.weighers):
        assert not any(module.training for module in model.weighers.modules())
        raise KeyError
    assert [module.training for module in model.weighers.modules()] == before
