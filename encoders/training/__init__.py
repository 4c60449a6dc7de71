"""Training: a recipe and text in, a checkpoint out, with one loop for every architecture.

Read ``recipe`` first, then ``loop``, which calls ``learner`` for each step and ``validation`` in between. Recipes are
read without torch; ``train`` is loaded when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encoders.training.recipe import (
    Changes,
    CoTraining,
    Negatives,
    Recipe,
    Source,
    SpaDEOptions,
    SparTermOptions,
    Stage,
    Validation,
    data_source,
    load_recipe,
    recipe_names,
    recipe_splits,
    recipe_values,
    spade_options,
    stated,
    to_mapping,
)
from learned_sparse.core.lazy import lazy_names

if TYPE_CHECKING:
    from encoders.training.data.batches import examples_in_order
    from encoders.training.data.texts import TextStore
    from encoders.training.loop import run_recipe, train

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "TextStore": "encoders.training.data.texts",
        "examples_in_order": "encoders.training.data.batches",
        "run_recipe": "encoders.training.loop",
        "train": "encoders.training.loop",
    },
)
