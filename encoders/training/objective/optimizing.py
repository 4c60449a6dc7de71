"""Which parameters of a model a stage moves, and how fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from encoders.models import TermWeighers
from encoders.training.objective.parts import components_of, part_of, trained_components
from encoders.training.objective.schedules import linear_warm_up_decay
from encoders.training.recipe import Stage
from learned_sparse.core import LearnedSparseError, did_you_mean

GATE = "gate"
"""The tower Eq. 8 trains; a ranking stage leaves every tower alone whose name ends so."""

_KINDS: Mapping[str, type[torch.optim.Adam]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def freeze(stage: Stage, weighers: TermWeighers, towers: Mapping[str, nn.Module]) -> None:
    """Let just the parameters that ``stage`` trains have gradients."""
    gates = _ids(parameter for name in towers if name.endswith(GATE) for parameter in towers[name].parameters())
    trains_gate = stage.objective == "gate" or stage.joint
    trained_gate = _ids(towers[GATE].parameters()) if trains_gate else set()
    parts = [part_of(weighers, component) for component in trained_components(stage)]
    ranked = _ids(parameter for part in parts for parameter in part.parameters()) - gates
    for parameter in weighers.parameters():
        ranks = stage.objective == "rank" and id(parameter) in ranked
        parameter.requires_grad_(ranks or id(parameter) in trained_gate)


def make_optimizer(
    stage: Stage, weighers: TermWeighers, towers: Mapping[str, Any], parameters: Sequence[nn.Parameter]
) -> torch.optim.Optimizer:
    """A fresh optimizer over ``parameters``, each with the learning rate that ``stage`` gives it."""
    rates = _learning_rates(stage, weighers, towers)
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter in parameters:
        # as usual with BERT, biases and LayerNorm (the one-dimensional parameters) do not decay
        key = (rates.get(id(parameter), stage.learning_rate), parameter.ndim > 1)
        groups.setdefault(key, []).append(parameter)
    described = [
        {"params": group, "lr": rate, "full_rate": rate, "weight_decay": stage.weight_decay if decays else 0.0}
        for (rate, decays), group in groups.items()
    ]
    # fused: one pass over each parameter, and no copies of all of them
    return _KINDS[stage.optimizer](described, lr=stage.learning_rate, fused=True)


def learning_rate_share(stage: Stage, step: int) -> float:
    """What part of every learning rate is in force at ``step``."""
    return linear_warm_up_decay(step, stage.warm_up_steps, stage.steps, decay=stage.decay)


def set_learning_rates(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Give every parameter ``share`` of its learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_rate"] * share


def _learning_rates(stage: Stage, weighers: TermWeighers, towers: Mapping[str, Any]) -> dict[int, float]:
    """By the id of the parameter, where it is not the stage's own: heads come before components."""
    known = components_of(weighers.document)
    rates: dict[int, float] = {}
    for component, rate in stage.learning_rates.items():
        if component not in known:
            hint = did_you_mean(component, known)
            raise LearnedSparseError(f"stage {stage.name}: learning_rates: no component {component!r}{hint}")
        rates |= dict.fromkeys(_ids(part_of(weighers, component).parameters()), rate)
    if stage.head_learning_rate is not None:
        new = _ids(parameter for tower in towers.values() for parameter in tower.new_parameters())
        if not new:
            raise LearnedSparseError(f"stage {stage.name}: head_learning_rate: no tower has a head of its own")
        rates |= dict.fromkeys(new, stage.head_learning_rate)
    return rates


def _ids(parameters: Iterable[nn.Parameter]) -> set[int]:
    return {id(parameter) for parameter in parameters}
