"""What a step minimises and how: losses, the objective of a stage, optimizer and gradients, pruning.

Read ``objective`` first. Losses of a single architecture are in its file in ``encoders.models``.
"""

from __future__ import annotations

from encoders.training.objective.objective import make_objective, negatives_per_query, total_loss
from encoders.training.objective.optimizing import (
    begin_stage,
    evaluating,
    learning_rate_share,
    over_batch,
    per_micro_batch,
    quadratic_ramp,
    set_learning_rates,
    trained_parameters,
)
from encoders.training.objective.pruning import Pruner, load_pruning, save_pruning

__all__ = [
    "Pruner",
    "begin_stage",
    "evaluating",
    "learning_rate_share",
    "load_pruning",
    "make_objective",
    "negatives_per_query",
    "over_batch",
    "per_micro_batch",
    "quadratic_ramp",
    "save_pruning",
    "set_learning_rates",
    "total_loss",
    "trained_parameters",
]
