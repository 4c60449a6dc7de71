"""Teachers: models that score pairs of a query and a document, and files of their scores for distillation.

Read ``scorers`` first. ``python -m encoders.teach`` scores the pairs of runs (``scoring``); ``cross_encoder`` trains a
cross-encoder on the data of a recipe, with sentence-transformers' trainer. Names are loaded at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learned_sparse.core.lazy import lazy_names

if TYPE_CHECKING:
    from encoders.teach.cross_encoder import train_cross_encoder
    from encoders.teach.recipe import CrossEncoderRecipe, load_cross_encoder_recipe
    from encoders.teach.scorers import CrossEncoder, DotProducts, Ensemble, Pair, Scorer
    from encoders.teach.scoring import teach

__all__ = [
    "CrossEncoder",
    "CrossEncoderRecipe",
    "DotProducts",
    "Ensemble",
    "Pair",
    "Scorer",
    "load_cross_encoder_recipe",
    "teach",
    "train_cross_encoder",
]

_MODULES = {
    "CrossEncoderRecipe": "recipe",
    "load_cross_encoder_recipe": "recipe",
    "teach": "scoring",
    "train_cross_encoder": "cross_encoder",
}
__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{_MODULES.get(name, 'scorers')}" for name in __all__})
