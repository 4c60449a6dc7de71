"""The architectures by name. Read ``architecture`` first, then ``splade``, the shortest one.

A new architecture is one file here, one line of ``ARCHITECTURES``, a recipe, and tests; or a package of its own that
names it as an entry point of the group ``learned_sparse.architectures``. A module is imported when its architecture is
looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learned_sparse.core.encoder import Side
from learned_sparse.core.lazy import Register

if TYPE_CHECKING:
    from encoders.models.architecture import Architecture

SIDES: tuple[Side, Side] = ("query", "document")

ARCHITECTURES: Register[type[Architecture]] = Register(
    "learned_sparse.architectures",
    {
        "deepct": "encoders.models.term_weighting:DeepCTSettings",
        "deepimpact": "encoders.models.term_weighting:DeepImpactSettings",
        "spade": "encoders.models.spade:SpaDESettings",
        "sparterm": "encoders.models.sparterm:SparTermSettings",
        "splade": "encoders.models.splade:SpladeSettings",
        "tildev2": "encoders.models.term_weighting:TildeV2Settings",
        "uhd": "encoders.models.uhd:UHDSettings",
        "unicoil": "encoders.models.term_weighting:UniCoilSettings",
    },
)

__all__ = [
    "ARCHITECTURES",
    "SIDES",
    "architecture",
    "bags",
    "objectives",
    "spade",
    "sparterm",
    "splade",
    "term_weighting",
    "token_weights",
    "uhd",
]
