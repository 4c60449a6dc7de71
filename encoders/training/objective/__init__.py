"""Room encoders.training.objective.objective."""

from __future__ import annotations

from encoders.training.objective.gradients import over_batch, per_micro_batch
from encoders.training.objective.modes import begin_training, evaluating
from encoders.training.objective.objective import Outputs, example_losses, negatives_per_query, objective
from encoders.training.objective.optimizing import GATE, freeze, learning_rate_share, make_optimizer, set_learning_rates
from encoders.training.objective.parts import part_of
from encoders.training.objective.pruning import Pruner, load_pruning, save_pruning
from encoders.training.objective.schedules import quadratic_ramp

__all__ = [
    "GATE",
    "Outputs",
    "Pruner",
    "begin_training",
    "evaluating",
    "example_losses",
    "freeze",
    "learning_rate_share",
    "load_pruning",
    "make_optimizer",
    "negatives_per_query",
    "objective",
    "over_batch",
    "part_of",
    "per_micro_batch",
    "quadratic_ramp",
    "save_pruning",
    "set_learning_rates",
]
