"""Training: a recipe and text in, a checkpoint out, with one loop for every architecture.

Read ``recipe`` first, then ``loop``, which calls ``learner`` for each step and ``validation`` in between. Recipes are
read without torch; ``train`` is loaded when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encoders.training.options import CoTraining, Pruning, SpaDEOptions, SparTermOptions, spade_options
from encoders.training.recipe import (
    Distillation,
    Negatives,
    NegativeSource,
    Rank,
    Recipe,
    Source,
    Stage,
    Validation,
)
from encoders.training.recipe_file import (
    RECIPES,
    Changes,
    data_source,
    load_recipe,
    recipe_names,
    recipe_splits,
    recipe_values,
    stated,
    to_mapping,
)
from learned_sparse.core.lazy import lazy_names

if TYPE_CHECKING:
    from encoders.training.data.batches import examples_in_order
    from encoders.training.data.texts import TextStore
    from encoders.training.loop import run_recipe, train
    from encoders.training.state.folder import TrainingReport

_LAZY = {
    "TextStore": "data.texts",
    "TrainingReport": "state.folder",
    "examples_in_order": "data.batches",
    "run_recipe": "loop",
    "train": "loop",
}

__all__ = [
    "RECIPES",
    "Changes",
    "CoTraining",
    "Distillation",
    "NegativeSource",
    "Negatives",
    "Pruning",
    "Rank",
    "Recipe",
    "Source",
    "SpaDEOptions",
    "SparTermOptions",
    "Stage",
    "TextStore",
    "TrainingReport",
    "Validation",
    "data_source",
    "examples_in_order",
    "load_recipe",
    "recipe_names",
    "recipe_splits",
    "recipe_values",
    "run_recipe",
    "spade_options",
    "stated",
    "to_mapping",
    "train",
]


__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{module}" for name, module in _LAZY.items()})
